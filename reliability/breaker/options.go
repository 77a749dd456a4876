package breaker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sloengine/sloengine/reliability/retry"
)

// Consecutive is the rule about a run of failures.
type Consecutive struct {
	Off      bool
	Failures int           `yaml:"failures" min:"1" max:"1000000"` // in a row, that open the breaker. Default 5.
	Open     time.Duration `yaml:"open" min:"1ms" max:"1d"`        // how long it stays open. Default 60 s.
	Probes   int           `yaml:"probes" min:"1" max:"1000"`      // calls let through then; all must succeed. Default 3.
}

// Rate is the rule about the share of failures.
type Rate struct {
	Off bool
	// share of failures that opens the breaker, (0,1]; compared after rounding to 1/100. Default 0.5.
	Threshold float64 `yaml:"threshold" min:"0.01" max:"1"`
	// in the window, below which nothing is judged. Default 10.
	MinCalls  int           `yaml:"min_calls" min:"1" max:"1000000"`
	Window    time.Duration `yaml:"window" min:"10ms" max:"1d"`   // rolling, in steps of a tenth. Default 60 s.
	Open      time.Duration `yaml:"open" min:"1ms" max:"1d"`      // how long it stays open. Default 30 s.
	Probes    int           `yaml:"probes" min:"1" max:"1000"`    // calls let through then. Default 3.
	Successes int           `yaml:"successes" min:"1" max:"1000"` // of them that close it again. Default 2.
}

// Options of a Breaker. The zero value, but for the name, is the project's default.
type Options struct {
	Name        string // label of its metrics and part of its errors
	Off         bool   // it lets every call through
	Consecutive Consecutive
	Rate        Rate
	// ProbeTimeout ends a probe: its context does, and if it has not come back by
	// then, it counts as a failure. Default 5 s.
	ProbeTimeout time.Duration `yaml:"probe_timeout" min:"1ms" max:"1h"`
	// Health, if not nil, is called by Run while the breaker is not closed. A success
	// ends the open time early.
	Health func(context.Context) error
	// HealthCloses makes health checks count as probes, so that a breaker without
	// traffic closes too. Only right if the check exercises everything that the calls need; one that
	// merely connects would close on a target that hangs.
	HealthCloses bool
	// HealthInterval is the time between two checks. Default 5 s.
	HealthInterval time.Duration `yaml:"health_interval" min:"10ms" max:"1h"`
	// OnChange is called for every transition, in order, with no lock held that a method of the
	// breaker needs; it must not block. It may be nil.
	OnChange func(from, to State, reason string)
	Metrics  *Metrics // nil: counted, but not exported
}

func (o *Options) applyDefaults() {
	o.Consecutive.Failures = cmp.Or(o.Consecutive.Failures, 5)
	o.Consecutive.Open = cmp.Or(o.Consecutive.Open, time.Minute)
	o.Consecutive.Probes = cmp.Or(o.Consecutive.Probes, 3)
	o.Rate.Threshold = cmp.Or(o.Rate.Threshold, 0.5)
	o.Rate.MinCalls = cmp.Or(o.Rate.MinCalls, 10)
	o.Rate.Window = cmp.Or(o.Rate.Window, time.Minute)
	o.Rate.Open = cmp.Or(o.Rate.Open, 30*time.Second)
	o.Rate.Probes = cmp.Or(o.Rate.Probes, 3)
	o.Rate.Successes = cmp.Or(o.Rate.Successes, min(2, o.Rate.Probes))
	o.ProbeTimeout = cmp.Or(o.ProbeTimeout, 5*time.Second)
	o.HealthInterval = cmp.Or(o.HealthInterval, 5*time.Second)
	o.Metrics = cmp.Or(o.Metrics, NewMetrics(metrics.NewSet()))
}

func (o *Options) validate() error {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("breaker %q: "+format, append([]any{o.Name}, args...)...))
	}
	c, r := &o.Consecutive, &o.Rate
	if o.Name == "" {
		bad("Name is required")
	}
	if c.Off && r.Off && !o.Off {
		bad("both rules are off, so it would never open")
	}
	if c.Failures < 1 || c.Probes < 1 {
		bad("failures (%d) and probes (%d) must be at least 1", c.Failures, c.Probes)
	}
	if !(r.Threshold > 0 && r.Threshold <= 1) {
		bad("failure rate %v is outside (0,1]", r.Threshold)
	}
	if r.MinCalls < 1 {
		bad("minimum calls %d must be at least 1", r.MinCalls)
	}
	if r.Probes < 1 || r.Successes < 1 || r.Successes > r.Probes {
		bad("%d of %d probes cannot succeed", r.Successes, r.Probes)
	}
	if c.Open < 0 || r.Open < 0 || r.Window < 0 || o.ProbeTimeout < 0 || o.HealthInterval < 0 {
		bad("durations must not be negative")
	}
	if r.Window > 0 && r.Window < 10*time.Millisecond {
		bad("window %s is below 10 ms", r.Window)
	}
	return errors.Join(errs...)
}

// Judge returns the evidence of a call's error about its target. Transient failures, timeouts and blocked calls are
// failures. Any other answer comes from a target that works. A call that its caller gave up, or that never left this
// process, says nothing.
func Judge(err error) Outcome {
	if err == nil {
		return Success
	}
	if errors.Is(err, context.Canceled) {
		return Ignored
	}
	switch c := retry.ClassOf(err); {
	case c.Trips():
		return Failure
	case c == retry.ClassBreakerOpen || c == retry.ClassUnknown:
		return Ignored
	default:
		return Success
	}
}
