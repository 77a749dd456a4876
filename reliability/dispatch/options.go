package dispatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sloengine/sloengine/reliability/breaker"
	"github.com/sloengine/sloengine/reliability/bulkhead"
	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/reliability/retry"
)

// This file holds the settings of the dispatcher and of each sink, with defaults and bounds. Options are copied
// when a sink is added, and a change needs Replace.

// Options of a Dispatcher.
//
// The functions are called by many lanes at the same time and must be safe for that.
type Options struct {
	FS     fsys.FS
	Dir    string // of the cursors; created if missing
	Source Source
	Split  Split
	// DeadLetter stores items that were not delivered. It must return nil only when they are durable. After an error it
	// is called again, and the sink waits. After a crash it may get the same items again.
	DeadLetter func(ctx context.Context, list []DeadLetter) error
	// OnLag retains the records from..to, both included, which a sink that lags too far skips. It must return nil only
	// when they are safe. It is required with MaxLagBytes, and is called again with the same records after a crash.
	OnLag func(ctx context.Context, sink string, from, to uint64) error
	// SaveInterval is how often cursors are saved. Default 1 s.
	SaveInterval time.Duration
	// DrainTimeout is how long calls in flight may take once Run's context has ended. Default 5 s.
	DrainTimeout time.Duration
	Logger       *slog.Logger // nil: discarded
	Metrics      *Metrics     // nil: counted, but not exported
}

func (o *Options) applyDefaults() {
	o.SaveInterval = cmp.Or(o.SaveInterval, time.Second)
	o.DrainTimeout = cmp.Or(o.DrainTimeout, 5*time.Second)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	o.Metrics = cmp.Or(o.Metrics, NewMetrics(metrics.NewSet()))
}

// validate refuses values that no default can repair.
func (o *Options) validate() error {
	switch {
	case o.FS == nil || o.Dir == "":
		return errors.New("dispatch: FS and Dir are required")
	case o.Source == nil || o.Split == nil:
		return errors.New("dispatch: Source and Split are required")
	case o.DeadLetter == nil:
		return errors.New("dispatch: DeadLetter is required")
	case o.SaveInterval < 0 || o.DrainTimeout < 0:
		return errors.New("dispatch: SaveInterval and DrainTimeout must not be negative")
	}
	return nil
}

// Start is where a sink without a cursor starts.
type Start int

const (
	// Oldest is the oldest record that is still in the log.
	Oldest Start = iota
	// Newest is the first record after the sink was added.
	Newest
)

// Staged bounds the traffic to a sink after an outage, when its breaker lets calls through again and a backlog waits:
// Items in any span of Interval, and Growth times as many after each span without a failure, until the backlog is
// gone.
type Staged struct {
	Off      bool
	Items    int           `yaml:"items" min:"1" max:"1000000"` // 1 to 1,000,000; default 100
	Interval time.Duration `yaml:"interval" min:"1ms" max:"1d"` // default 1 s
	Growth   float64       `yaml:"growth" min:"1" max:"1000"`   // at least 1, which keeps the rate; default 2
}

// SinkOptions of one sink. Zero fields get the defaults of their packages.
//
// A default is stated with its field. Items and calls are different units: a batch of many items is one call.
type SinkOptions struct {
	Name string // [a-z0-9._-]+, at most 64 bytes: file name and label
	Sink Sink
	// Open opens the Sink when its lane starts, instead of Sink: for one that locks something which the lane before it
	// must release first, or which may be missing for a while. Until it succeeds, the sink is blocked and its events wait.
	Open  func() (Sink, error)
	Start Start

	BatchItems int           // largest number of items in a call. Default 500.
	BatchBytes int           // largest payload of a call, unless one item alone is larger. Default 1 MiB.
	BatchWait  time.Duration // how long an item waits for others. Default 100 ms; negative: no wait.

	Retry      retry.Options        // MaxRetries, MaxElapsed, delays and jitter
	Budget     *retry.BudgetOptions // calls; nil: the default of 20 %
	RetryLimit *retry.LimitOptions  // items; nil: the default of 100/s, delayed
	RetryOn    *RetryOn             // nil: all classes but permanent
	Staged     Staged
	Breaker    breaker.Options  // Name and metrics are filled in; Health from a Checker
	Bulkhead   bulkhead.Options // Name and metrics are filled in. Concurrency defaults to 4, here.
	Timeout    time.Duration    // of one call. Default 5 s.

	// TTL is the age at which an item is no longer sent and becomes a dead letter. 0: unlimited.
	TTL time.Duration
	// MaxLagBytes is how far the sink may lag behind. Beyond it, the sink skips to half of it. 0: no bound but the log.
	MaxLagBytes int64
	// RateLimit, if not nil, is asked before every call: for 1 unit, or with LimitItems for one per item.
	RateLimit  Limiter
	LimitItems bool
	// Sharing, if not nil, makes Breaker and Budget those of several engines.
	Sharing Sharing
}

// RetryOn selects the failures that are retried. Items that fail in any other way become dead letters immediately.
type RetryOn struct {
	Classes [retry.Classes]bool
	Codes   []int // of errors with a method StatusCode() int, regardless of their class
}

// retries reports whether an item that failed with err is sent again.
func (l *lane) retries(err error) bool {
	class, on := retry.ClassOf(err), l.o.RetryOn
	if on == nil {
		return class != retry.ClassPermanent
	}
	var answer interface{ StatusCode() int }
	return on.Classes[class] || errors.As(err, &answer) && slices.Contains(on.Codes, answer.StatusCode())
}

// namePattern keeps names usable as file names on any file system. A leading dot would hide the cursor.
var namePattern = regexp.MustCompile(`^[a-z0-9_-][a-z0-9._-]{0,63}$`)

func (o *SinkOptions) applyDefaults() {
	o.BatchItems = cmp.Or(o.BatchItems, 500)
	o.BatchBytes = cmp.Or(o.BatchBytes, 1<<20)
	o.BatchWait = cmp.Or(o.BatchWait, 100*time.Millisecond)
	o.Timeout = cmp.Or(o.Timeout, 5*time.Second)
	o.Bulkhead.Concurrency = cmp.Or(o.Bulkhead.Concurrency, 4)
	o.Staged.Items = cmp.Or(o.Staged.Items, 100)
	o.Staged.Interval = cmp.Or(o.Staged.Interval, time.Second)
	o.Staged.Growth = cmp.Or(o.Staged.Growth, 2)
	o.BatchWait = max(o.BatchWait, 0)
}

// validate reports everything that is wrong, and wraps Open into a Sink.
func (o *SinkOptions) validate() error {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("sink %q: "+format, append([]any{o.Name}, args...)...))
	}
	if !namePattern.MatchString(o.Name) {
		bad("invalid name (1 to 64 of a-z, 0-9, '.', '_' and '-', not starting with '.')")
	}
	if o.Open != nil && o.Sink == nil {
		o.Sink = &opening{open: o.Open}
	}
	if o.Sink == nil {
		bad("Sink or Open is required")
	}
	if o.Start != Oldest && o.Start != Newest {
		bad("invalid start %d", o.Start)
	}
	if o.BatchItems < 1 || o.BatchBytes < 1 {
		bad("invalid batch of %d items and %d bytes (both at least 1)", o.BatchItems, o.BatchBytes)
	}
	if o.Timeout < 0 || o.TTL < 0 || o.MaxLagBytes < 0 {
		bad("timeout, ttl and max_lag_bytes must not be negative")
	}
	if !(o.Staged.Growth >= 1) {
		bad("invalid staged growth %v (at least 1)", o.Staged.Growth)
	}
	return errors.Join(errs...)
}
