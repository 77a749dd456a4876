package forecast

import "math"

const (
	// usualHours are the last hours that tell how the usual bad ratio has changed. usualEvents is how many bad events as
	// before are added to theirs, so that few events change little.
	usualHours  = 24
	usualEvents = 5

	// usualSpread is the standard deviation of the logarithm of the usual bad ratio within a week.
	usualSpread = 0.25
)

// usual is the bad ratio without incidents.
type usual struct {
	ratio float64 // of the last weeks
	shift float64 // logarithm of how that of the last day compares with it
}

// usualRatio takes the hours from first on together that belong to no incident.
func (p *Past) usualRatio(m *model, first int) usual {
	var all, last Hour
	for i := first; i < m.base; i++ {
		h := &p.hours[i]
		if h.above(m.threshold) {
			continue
		}
		all.Valid, all.Bad = all.Valid+h.Valid, all.Bad+h.Bad
		if i >= m.base-usualHours {
			last.Valid, last.Bad = last.Valid+h.Valid, last.Bad+h.Bad
		}
	}
	ratio := ratioOf(all.Bad, all.Valid)
	return usual{ratio: ratio, shift: math.Log((last.Bad + usualEvents) / (ratio*last.Valid + usualEvents))}
}

// change is what becomes of a usual bad ratio of the past: ratio*factor + more.
type change struct {
	factor, more float64
	stays        bool // at a level that has changed, which hours since then have
}

// later draws how the usual bad ratio will be. The last day's may stay, or come back by up to seven tenths to that of
// the last weeks. A ratio that went up is added, since hours without a bad event do not multiply.
func (u usual) later(r *random) change {
	shift := u.shift * (0.3 + 0.7*r.float())
	c := change{factor: math.Exp(usualSpread * r.normal())}
	if shift > 0 {
		c.more = u.ratio * (math.Exp(shift) - 1)
	} else {
		c.factor *= math.Exp(shift)
	}
	return c
}
