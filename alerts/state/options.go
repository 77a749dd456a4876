package state

import (
	"cmp"
	"fmt"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sloengine/sloengine/alerts"
	"github.com/sloengine/sloengine/reliability/metric"
	"github.com/sloengine/sloengine/slo"
)

// Options configure a Machine. The zero value works.
type Options struct {
	// Alerts are the options that the rules are generated with, as far as they
	// decide times and thresholds.
	Alerts alerts.Options

	// Grace is the longest gap between two reports over which a condition counts
	// as having held. A longer one, as after a restart, makes pending alerts wait
	// again. Default 2m.
	Grace time.Duration

	// Resolved alerts are kept for KeepResolved, default 24h, and no more than
	// MaxResolved of them, default 10,000.
	KeepResolved time.Duration
	MaxResolved  int

	// Traces are links to the last failing traces of a group of an SLO, the newest first, or of all its groups with nil.
	// Nil: they are not known.
	Traces func(id slo.ID, group slo.Group) []string

	// Why says what is different about the bad events of a group of an SLO, or of all its groups with nil; "" if it is not
	// known yet. It must not wait. Nil: it is never known.
	Why func(id slo.ID, group slo.Group) string

	Sending Sending

	Metrics *Metrics // default: unregistered
}

func (o *Options) fill() error {
	if o.Grace == 0 {
		o.Grace = 2 * time.Minute
	}
	if o.KeepResolved == 0 {
		o.KeepResolved = 24 * time.Hour
	}
	if o.MaxResolved == 0 {
		o.MaxResolved = 10_000
	}
	o.Metrics = cmp.Or(o.Metrics, NewMetrics(metrics.NewSet()))
	if o.Grace < 0 || o.KeepResolved < 0 || o.MaxResolved < 0 {
		return fmt.Errorf("alert states: Grace, KeepResolved and MaxResolved must not be negative")
	}
	return nil
}

// Metrics are the machine's own figures.
type Metrics struct {
	transitions map[State]*metrics.Counter
	alerts      map[State]*metrics.Gauge
	detection   *metrics.PrometheusHistogram
	gaps        *metrics.Counter // reports that came too late for pending alerts to go on
}

// NewMetrics registers the sloengine_alert_* metrics in a set.
func NewMetrics(set *metrics.Set) *Metrics {
	m := &Metrics{
		transitions: map[State]*metrics.Counter{},
		alerts:      map[State]*metrics.Gauge{},
		detection:   metric.AlertDetectionSeconds.Histogram(set),
		gaps:        metric.AlertGaps.Counter(set),
	}
	for _, s := range []State{Inactive, Pending, Firing, Resolved} {
		m.transitions[s] = metric.AlertTransitions.Counter(set, string(s))
	}
	for _, s := range []State{Pending, Firing, Resolved} {
		m.alerts[s] = metric.Alerts.Gauge(set, string(s))
	}
	return m
}
