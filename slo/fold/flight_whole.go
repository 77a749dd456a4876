package fold

import (
	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/slo"
)

// Whole knows the events that rate limits must not sample or merge, by service: each starts or ends some work, and no other
// event can stand for it.
type Whole map[string][]slo.Selector

// Whole gives the events that start or end work. It fails where SetConfig fails.
func (c *Config) Whole() (Whole, error) {
	out := Whole{}
	for i := range c.Indicators {
		ind := &c.Indicators[i]
		if ind.Work == nil {
			continue
		}
		for _, ms := range [][]Matcher{ind.Work.Started, ind.Work.Finished, ind.Work.Failed} {
			if len(ms) == 0 {
				continue
			}
			sel, err := matchers(ms)
			if err != nil {
				return nil, err
			}
			out[ind.Service] = append(out[ind.Service], sel)
		}
	}
	return out, nil
}

// Has reports whether an event is one of them.
func (w Whole) Has(v *event.View) bool {
	all := w[string(v.Service)]
	if len(all) == 0 {
		return false
	}
	get := func(name string) string {
		switch name {
		case labelService:
			return string(v.Service)
		case labelType:
			return string(v.Type)
		case labelOutcome:
			return v.Outcome.String()
		case labelSeverity:
			return string(v.Severity)
		}
		value, _ := v.Attr(name)
		return string(value)
	}
	for _, sel := range all {
		if sel.Matches(get) {
			return true
		}
	}
	return false
}
