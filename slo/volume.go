package slo

import "time"

// VolumeSeen is the share of a period that must have been observed for it to be bad. It leaves room for a restart: 14
// minutes of a day.
const VolumeSeen = 0.99

// Periods lists the periods of an indicator of KindVolume that begin within a span, oldest first: days, weeks or months
// of its zone, or the open hours of the days that During is open on. The last one may reach beyond the span.
func (i *Indicator) Periods(within Span) []Span {
	w := Window{Calendar: i.Calendar, Location: i.Location}
	var out []Span
	for at := w.Start(within.From); at.Before(within.To); {
		p := Span{From: at, To: w.End(at)}
		at = p.To
		if !i.During.Always() {
			open, ok := i.During.On(p.From)
			if !ok {
				continue
			}
			p = open
		}
		if !p.From.Before(within.From) && p.From.Before(within.To) {
			out = append(out, p)
		}
	}
	return out
}

// Period is the one that now is in, or the last one before now if During is closed at present; ok is false if there is
// none within two weeks.
func (i *Indicator) Period(now time.Time) (p Span, ok bool) {
	w := Window{Calendar: i.Calendar, Location: i.Location}
	if i.During.Always() {
		return Span{From: w.Start(now), To: w.End(now)}, true
	}
	all := i.Periods(Span{From: now.Add(-14 * 24 * time.Hour), To: now})
	if len(all) == 0 {
		return Span{}, false
	}
	return all[len(all)-1], true
}

// Usual lists the periods that tell how the events of p are usually spread over it, latest first: the same day of the
// last four weeks, the last four weeks, or the last four months.
func (i *Indicator) Usual(p Span) []Span {
	t := p.From.In(i.Location)
	var out []Span
	for k := 1; k <= 4; k++ {
		at := t.AddDate(0, 0, -7*k)
		if i.Calendar == Month {
			at = t.AddDate(0, -k, 0)
		}
		if q, ok := i.Period(at.Add(1)); ok && !q.To.After(p.From) {
			out = append(out, q)
		}
	}
	return out
}

// JudgeVolume judges a period that is over, by its valid events and the share of it that was observed. It is good if it
// reached AtLeast. It is bad if it did not, though nearly all of it was observed and no planned maintenance excuses it.
// Else nothing is known of it.
func (i *Indicator) JudgeVolume(events uint64, seen float64, excused bool) Counts {
	switch {
	case events >= i.AtLeast:
		return Counts{Good: 1}
	case seen >= VolumeSeen && !excused:
		return Counts{Bad: 1}
	}
	return Counts{}
}
