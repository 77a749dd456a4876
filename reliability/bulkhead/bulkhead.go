package bulkhead

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sloengine/sloengine/reliability/metric"
	"github.com/sloengine/sloengine/reliability/retry"
)

// Options of a Bulkhead.
type Options struct {
	Name string // label of its metrics and part of its errors
	// Concurrency is how many calls may run at once. Default 10.
	Concurrency int `yaml:"concurrency" min:"1" max:"1000"`
	// Queue is how many more may wait, at least 1. Default 20.
	Queue int
	// MaxWait bounds the wait, besides the caller's context. Default: no bound.
	MaxWait time.Duration `yaml:"max_wait" max:"1h"`
	Metrics *Metrics      // nil: counted, but not exported
}

func (o *Options) applyDefaults() {
	if o.Concurrency == 0 {
		o.Concurrency = 10
	}
	if o.Queue == 0 {
		o.Queue = 20
	}
	o.Metrics = cmp.Or(o.Metrics, NewMetrics(metrics.NewSet()))
}

func (o *Options) validate() error {
	var errs []error
	if o.Name == "" {
		errs = append(errs, errors.New("bulkhead: Name is required"))
	}
	if o.Concurrency < 1 || o.Concurrency > 1<<20 {
		errs = append(errs, fmt.Errorf("bulkhead %q: invalid concurrency %d (1 to %d)", o.Name, o.Concurrency, 1<<20))
	}
	if o.Queue < 1 {
		errs = append(errs, fmt.Errorf("bulkhead %q: invalid queue %d (at least 1)", o.Name, o.Queue))
	}
	if o.MaxWait < 0 {
		errs = append(errs, fmt.Errorf("bulkhead %q: invalid maximum wait %s (must not be negative)", o.Name, o.MaxWait))
	}
	return errors.Join(errs...)
}

// FullError is returned for calls that find no place at once or within MaxWait. Its class is
// retry.ClassOverload: nothing was called.
type FullError struct {
	Name                string
	Concurrency, Queued int
}

func (e *FullError) Error() string {
	return fmt.Sprintf("bulkhead %q is full: %d calls at once, %d waiting", e.Name, e.Concurrency, e.Queued)
}

// RetryClass makes retry.ClassOf know it.
func (e *FullError) RetryClass() retry.Class { return retry.ClassOverload }

// Bulkhead is safe for concurrent use.
type Bulkhead struct {
	o        Options
	m        series
	permits  chan struct{} // one for each running call
	waiting  atomic.Int64
	rejected atomic.Uint64
}

// New checks the options and fills in the defaults.
func New(o Options) (*Bulkhead, error) {
	o.applyDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	return &Bulkhead{o: o, m: o.Metrics.Of(o.Name), permits: make(chan struct{}, o.Concurrency)}, nil
}

// Acquire waits for a place among the running calls; Release must follow. The error
// is a *FullError or, if ctx ended while it waited, the cause of that.
func (b *Bulkhead) Acquire(ctx context.Context) error {
	select {
	case b.permits <- struct{}{}:
		return nil
	default:
	}
	if queued := b.waiting.Add(1); queued > int64(b.o.Queue) {
		b.waiting.Add(-1)
		return b.full()
	}
	defer b.waiting.Add(-1)
	var late <-chan time.Time
	if b.o.MaxWait > 0 {
		late = time.After(b.o.MaxWait)
	}
	select {
	case b.permits <- struct{}{}:
		return nil
	case <-late:
		return b.full()
	case <-ctx.Done():
		return fmt.Errorf("wait in bulkhead %q: %w", b.o.Name, context.Cause(ctx))
	}
}

func (b *Bulkhead) full() error {
	b.rejected.Add(1)
	b.m.rejected.Inc()
	return &FullError{b.o.Name, b.o.Concurrency, b.o.Queue}
}

// Release gives the place back.
func (b *Bulkhead) Release() { <-b.permits }

// Status is a bulkhead's present state.
type Status struct {
	Name        string `json:"name"`
	Active      int    `json:"active"`
	Queued      int    `json:"queued"`
	Concurrency int    `json:"concurrency"` // the most that may be active
	Queue       int    `json:"queue"`       // the most that may wait
	Rejected    uint64 `json:"rejected"`    // so far
}

// Status returns the current state.
func (b *Bulkhead) Status() Status {
	return Status{
		Name: b.o.Name, Active: len(b.permits), Queued: int(b.waiting.Load()),
		Concurrency: b.o.Concurrency, Queue: b.o.Queue, Rejected: b.rejected.Load(),
	}
}

// Measure publishes the gauges; the owner calls it every now and then.
func (b *Bulkhead) Measure() {
	s := b.Status()
	b.m.active.Set(float64(s.Active))
	b.m.queued.Set(float64(s.Queued))
}

// Metrics are the counters of all bulkheads, by name.
type Metrics struct{ *metric.PerName[series] }

type series struct {
	rejected       *metrics.Counter
	active, queued *metrics.Gauge
}

// NewMetrics makes the counters in set.
func NewMetrics(set *metrics.Set) *Metrics {
	return &Metrics{metric.NewPerName(set, func(g *metric.Group, name string) series {
		return series{g.Counter(metric.BulkheadRejected, name), g.Gauge(metric.BulkheadActive, name),
			g.Gauge(metric.BulkheadQueued, name)}
	})}
}
