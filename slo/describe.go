package slo

import "fmt"

// Measure says in one line what an indicator of this engine measures, as its spec does: "latency {type=\"order\"}
// within 15m". It is empty for one on series of Prometheus.
func (i *Indicator) Measure() string {
	switch i.Kind {
	case KindEvents:
		return "events " + i.Valid.String() + " bad " + i.Bad.String()
	case KindLatency:
		return "latency " + i.Valid.String() + " within " + FormatDuration(i.Threshold)
	case KindThroughput:
		return fmt.Sprintf("throughput %s at least %d per %s", i.Valid, i.AtLeast, FormatDuration(i.Per)) +
			spaced(i.During.String())
	case KindRatio:
		return "ratio " + i.Numerator.String() + " over " + i.Valid.String()
	case KindApdex:
		return fmt.Sprintf("apdex %s satisfied within %s, tolerating up to %s", i.Valid, FormatDuration(i.Satisfied),
			FormatDuration(i.Tolerating))
	case KindVolume:
		if i.During.Always() {
			return fmt.Sprintf("volume %s at least %d per %s of %s", i.Valid, i.AtLeast, i.Calendar, i.Location)
		}
		return fmt.Sprintf("volume %s at least %d per %s", i.Valid, i.AtLeast, i.Calendar) + spaced(i.During.String())
	case KindCompletion:
		c := &i.Completion
		text := fmt.Sprintf("completion by %s from %s to %s within %s", c.Key, c.Started, c.Finished,
			FormatDuration(c.Within))
		if len(c.Failed) > 0 {
			text += " failed " + c.Failed.String()
		}
		if c.Stage != "" {
			text += " stage " + c.Stage
		}
		return fmt.Sprintf("%s at most %d", text, c.MaxInFlight)
	}
	return ""
}

func spaced(s string) string {
	if s == "" {
		return ""
	}
	return " " + s
}
