package backtest

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/sloengine/sloengine/alerts"
	"github.com/sloengine/sloengine/alerts/incident"
	"github.com/sloengine/sloengine/reliability/retained"
	"github.com/sloengine/sloengine/slo/spec"
)

// The bounds of what an engine replays for those who ask it.
const (
	runnerShare   = 0.5              // of a core
	abandonedFrom = 30 * time.Second // after it was asked for last
	runnerBytes   = 512 << 20        // of counts
	maxResults    = 8                // that are remembered
	resultAge     = 10 * time.Minute
)

var (
	// ErrTooLong means that a replay took longer than Request.Within.
	ErrTooLong = errors.New("the replay took too long")
	// ErrTooLarge means that the counts of the specs took more than Options.MaxBytes.
	ErrTooLarge = errors.New("the counts of the specs are too large")
)

// RunnerOptions are the engine that a Runner is in.
type RunnerOptions struct {
	Source    *retained.Source
	Interval  time.Duration
	Alerts    alerts.Options
	InForce   func() *spec.Spec
	Incidents func() *incident.View
	Now       func() time.Time
	LogError  func(msg string, err error) // takes what is not the fault of a candidate
}

// Request asks for a replay of the last time before now.
type Request struct {
	Key    string // requests with the same key are one
	After  *spec.Spec
	Before *spec.Spec // nil: the spec in force
	Last   time.Duration
	Zone   *time.Location
	Given  []Incident    // nil: those of the engine
	Own    bool          // see Options.Own
	Within time.Duration // on the clock
}

// Status is how far a replay is. With neither Result nor Err it is not over.
type Status struct {
	Result   *Result
	Err      error // wraps ErrTooLong, or says what a candidate or the log lacks
	Progress float64
	Busy     bool // another one is replayed: ask again
	Began    bool // by this request
}

// Runner replays the log of the engine that it is in, for one request at a time and with half a core. Callers
// repeat a request until it is answered. One that is not repeated makes room for others. It is safe for concurrent use.
type Runner struct {
	opt  RunnerOptions
	wake chan struct{}

	mu   sync.Mutex
	job  *job   // waits for Run or is replayed; nil: nothing is
	done []*job // the oldest first
}

type job struct {
	Request
	asked    time.Time
	progress float64
	cancel   context.CancelFunc // nil before it is replayed

	over   time.Time
	result *Result
	err    error
}

// NewRunner makes one, which works in Run.
func NewRunner(o RunnerOptions) *Runner { return &Runner{opt: o, wake: make(chan struct{}, 1)} }

// Try begins a replay, or says how far it is.
func (r *Runner) Try(q Request) Status {
	now := r.opt.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := len(r.done) - 1; i >= 0; i-- {
		if j := r.done[i]; j.Key == q.Key && now.Sub(j.over) < resultAge {
			return Status{Result: j.result, Err: j.err, Progress: 1}
		}
	}
	switch j := r.job; {
	case j == nil:
		r.job = &job{Request: q, asked: now}
		r.wake <- struct{}{} // room for one: Run has taken that of the job before
	case j.Key == q.Key:
		j.asked = now
		return Status{Progress: j.progress}
	default:
		if j.cancel != nil && now.Sub(j.asked) > abandonedFrom {
			j.cancel()
		}
		return Status{Busy: true, Progress: j.progress}
	}
	return Status{Began: true}
}

// Run replays until ctx ends.
func (r *Runner) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-r.wake:
		}
		r.mu.Lock()
		j := r.job
		limited, cancel := context.WithTimeoutCause(ctx, j.Within, ErrTooLong)
		j.cancel = cancel
		r.mu.Unlock()
		result, err := r.replay(limited, j)
		if err != nil && errors.Is(context.Cause(limited), ErrTooLong) {
			err = fmt.Errorf("%w: more than %s with half a core (replay a shorter time, or run sloengine backtest "+
				"--data-dir)", ErrTooLong, j.Within)
		}
		abandoned := limited.Err() != nil && !errors.Is(context.Cause(limited), ErrTooLong)
		cancel()
		r.mu.Lock()
		j.over, j.result, j.err = r.opt.Now(), result, err
		if j.After, j.Before = nil, nil; !abandoned {
			r.done = append(r.done, j)
			r.done = r.done[max(0, len(r.done)-maxResults):]
		}
		r.job = nil
		r.mu.Unlock()
	}
}

func (r *Runner) replay(ctx context.Context, j *job) (out *Result, err error) {
	defer func() {
		if v := recover(); v != nil { // a candidate must not end the engine
			out, err = nil, fmt.Errorf("replay failed: %v", v)
			r.opt.LogError("replay of a candidate spec panicked", fmt.Errorf("%v\n%s", v, debug.Stack()))
		}
	}()
	o := Options{Source: r.opt.Source, Interval: r.opt.Interval, Alerts: r.opt.Alerts, Zone: j.Zone, Before: j.Before,
		After: j.After, Given: j.Given, CPU: runnerShare, MaxBytes: runnerBytes, Own: j.Own}
	if o.Before == nil {
		o.Before = r.opt.InForce()
	}
	o.To = r.opt.Now().UTC()
	o.From = o.To.Add(-j.Last)
	o.Book.View = r.opt.Incidents()
	o.Progress = func(share float64) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if j.progress = share; r.opt.Now().Sub(j.asked) > abandonedFrom {
			j.cancel()
		}
	}
	return Run(ctx, o)
}
