package forecast

// LeadNames name what a forecast is given for, in the order of Forecast.Points.
var LeadNames = [...]string{"1h", "1d", "3d", "7d", "window_end"}

// Record says how past forecasts did, by lead time.
type Record [len(LeadNames)]Score

// Score counts forecasts of one lead time whose time has come. Made are those that were noted, and no more than one of
// a group at a time: it is either checked, or missed because the engine was not there at its time, or the SLO had
// changed.
type Score struct {
	Made    uint64 `json:"made"`
	Checked uint64 `json:"checked"` // what truly remained was compared with the range
	Inside  uint64 `json:"inside"`  // it was in the range
	Below   uint64 `json:"below"`   // it was less than the low end
	Missed  uint64 `json:"missed"`
}

// Check notes what truly remained of a budget for which a range was given.
func (s *Score) Check(low, high, truth float64) {
	const rounding = 1e-9
	s.Checked++
	switch {
	case truth < low-rounding:
		s.Below++
	case truth <= high+rounding:
		s.Inside++
	}
}

// Share is the part of the checked ranges that held the truth, to compare with Probability. ok is false if there is
// none.
func (s *Score) Share() (share float64, ok bool) {
	if s.Checked == 0 {
		return 0, false
	}
	return float64(s.Inside) / float64(s.Checked), true
}

// Add sums up two scores.
func (s Score) Add(t Score) Score {
	return Score{s.Made + t.Made, s.Checked + t.Checked, s.Inside + t.Inside, s.Below + t.Below, s.Missed + t.Missed}
}

// Add sums up two records.
func (r Record) Add(s Record) Record {
	for i := range r {
		r[i] = r[i].Add(s[i])
	}
	return r
}

// Total sums up all lead times.
func (r Record) Total() Score {
	var out Score
	for _, s := range r {
		out = out.Add(s)
	}
	return out
}

// LeadName is the name of a point.
func (p *Point) LeadName() string {
	if p.WindowEnd {
		return LeadNames[len(LeadNames)-1]
	}
	for i, ahead := range LeadTimes {
		if ahead == p.Ahead {
			return LeadNames[i]
		}
	}
	return ""
}
