package state

import (
	"time"

	"github.com/sloengine/sloengine/alerts"
	"github.com/sloengine/sloengine/slo"
)

// Measured is what an alert compares, for who reads the counts behind it.
type Measured struct {
	SLO   *slo.SLO
	Ratio float64       // the error ratio above which the alert fires, in [0,1]
	Over  time.Duration // the longest window that it looks at
}

// Measured returns what the alert compares. ok is false if it compares no error ratio of an SLO, or if its definition
// is not known any more.
func (a *Alert) Measured() (m Measured, ok bool) {
	if a.live == nil || a.live.SLO == nil {
		return m, false
	}
	m.SLO = a.live.SLO
	switch a.live.Kind {
	case alerts.LiveBurn:
		m.Ratio, m.Over = a.live.Tier.Threshold, a.live.Tier.Long
	case alerts.LiveRatio:
		m.Ratio, m.Over = a.live.Above, a.live.Window
	case alerts.LiveExhausted:
		m.Ratio, m.Over = m.SLO.Objective.Budget(), m.SLO.Window.Nominal()
	default:
		return m, false
	}
	return m, true
}

// Definition is the alert as the spec has it; nil if that is not known any more. It must not be changed.
func (a *Alert) Definition() *alerts.Live { return a.live }

// Annotation is one of the texts of Annotations; "" if there is none of this name.
func (a *Alert) Annotation(name string) string {
	if a.live == nil {
		return ""
	}
	labels := make(map[string]string, len(a.Labels))
	for _, l := range a.Labels {
		labels[l.Name] = l.Value
	}
	return a.live.Texts.One(name, labels, a.Value)
}

// Owner is the value of a label of the alert or of the SLO that it is about, such as its team; "" if there is none.
func (a *Alert) Owner(label string) string {
	switch {
	case a.Label(label) != "":
		return a.Label(label)
	case a.live != nil && a.live.SLO != nil:
		return a.live.SLO.Labels[label]
	}
	return ""
}
