package shared

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sloengine/sloengine/internal/every"
	"github.com/sloengine/sloengine/reliability/breaker"
	"github.com/sloengine/sloengine/reliability/redisconn"
)

// LinkOptions of a Link.
type LinkOptions struct {
	Client *redisconn.Client // required, see Tune; the link does not close it
	Prefix string            // as of the Store
	// Timeout is how long a call may take, 100 ms; a group of events has 20 us more for
	// each. A call that takes longer opens the breaker.
	Timeout time.Duration
	// Interval is the time between probes while Redis is not reachable, 500 ms. While nothing
	// else is asked of Redis, it is probed too, so that the status is true.
	Interval time.Duration
	Logger   *slog.Logger     // nil: discarded
	Metrics  *Metrics         // nil: counted, but not exported
	Breakers *breaker.Metrics // of the breaker "redis"; nil: not exported
}

// maxHold bounds how long a Redis that answers probes but fails calls is left alone.
const maxHold = 30 * time.Second

// Link knows whether Redis is there. The first call that fails, or takes too long, opens
// its breaker: all others go without Redis until a probe in the background succeeds.
type Link struct {
	client  *redisconn.Client
	o       LinkOptions
	breaker *breaker.Breaker
	m       *Metrics

	reached   atomic.Bool
	roundTrip atomic.Int64
	lastOK    atomic.Int64 // Unix ns
	fallbacks atomic.Uint64

	mu        sync.Mutex
	lastError string
	since     time.Time
	flaps     int
	hold      time.Time
}

// Status of a Link.
type Status struct {
	Connected        bool      `json:"connected"` // Redis has answered, and calls go to it
	Since            time.Time `json:"since,omitzero"`
	LastError        string    `json:"last_error,omitempty"` // the last, however long ago
	RoundTripSeconds float64   `json:"round_trip_seconds"`   // of the last call that succeeded; 0: none yet
	Fallbacks        uint64    `json:"fallbacks"`            // calls that were answered without Redis
}

// NewLink makes a link. It does not talk to Redis before its first call or Run.
func NewLink(o LinkOptions) (*Link, error) {
	if o.Client == nil {
		return nil, fmt.Errorf("link to Redis: %w", errNoClient)
	}
	var err error
	if o.Prefix, err = checkPrefix(o.Prefix); err != nil {
		return nil, fmt.Errorf("link to Redis: %w", err)
	}
	o.Timeout = cmp.Or(o.Timeout, defaultTimeout)
	o.Interval = cmp.Or(o.Interval, 500*time.Millisecond)
	if o.Timeout < time.Millisecond || o.Interval < time.Millisecond {
		return nil, fmt.Errorf("link to Redis: timeout %s and interval %s must be at least 1ms", o.Timeout, o.Interval)
	}
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	o.Metrics = cmp.Or(o.Metrics, NewMetrics(metrics.NewSet()))
	l := &Link{client: o.Client, o: o, m: o.Metrics, since: time.Now()}
	l.m.up.Set(0)
	l.m.fallback.Set(0)
	l.breaker, err = breaker.New(breaker.Options{
		Name: "redis",
		// One failure is enough, since each may hold up a commit for the whole timeout,
		// and only a probe closes it again: an event is nothing to try Redis out with.
		Consecutive:    breaker.Consecutive{Failures: 1, Open: 10 * 365 * 24 * time.Hour, Probes: 1},
		Rate:           breaker.Rate{Off: true},
		ProbeTimeout:   o.Timeout,
		Health:         l.health,
		HealthCloses:   true,
		HealthInterval: o.Interval,
		OnChange:       l.changed,
		Metrics:        o.Breakers,
	})
	if err != nil {
		return nil, fmt.Errorf("link to Redis: %w", err)
	}
	return l, nil
}

// Run probes Redis until ctx ends. Without it a Redis that was unreachable once is never asked
// again. It always returns nil.
func (l *Link) Run(ctx context.Context) error {
	var wait sync.WaitGroup
	wait.Go(func() { _ = l.breaker.Run(ctx) })
	defer wait.Wait()
	for range every.Tick(ctx, l.o.Interval) {
		if time.Since(time.Unix(0, l.lastOK.Load())).Abs() >= l.o.Interval { // negative: the clock was set back
			_ = l.call(ctx, 0, func(ctx context.Context) error { return ping(ctx, l.client, l.o.Prefix) })
		}
	}
	return nil
}

// Status returns the current state.
func (l *Link) Status() Status {
	connected := l.reached.Load() && l.breaker.State() == breaker.Closed
	l.mu.Lock()
	defer l.mu.Unlock()
	return Status{
		Connected: connected, Since: l.since, LastError: l.lastError,
		RoundTripSeconds: time.Duration(l.roundTrip.Load()).Seconds(), Fallbacks: l.fallbacks.Load(),
	}
}

// call makes a call to Redis that ends within the timeout plus the given extra time, unless the
// breaker is open. f must return when its context ends.
func (l *Link) call(ctx context.Context, more time.Duration, f func(context.Context) error) error {
	permit, err := l.breaker.Acquire()
	if err != nil {
		return err
	}
	outcome := breaker.Failure // of a panic
	defer func() { permit.Done(outcome) }()
	err = l.measured(ctx, more, f)
	switch {
	case err == nil:
		outcome = breaker.Success
	case ctx.Err() != nil: // the caller has gone: that says nothing of Redis
		outcome = breaker.Ignored
	}
	return err
}

func (l *Link) measured(ctx context.Context, more time.Duration, f func(context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, l.o.Timeout+more)
	defer cancel()
	start := time.Now()
	err := f(limited)
	took := time.Since(start)
	if err != nil {
		if ctx.Err() == nil {
			l.failed(err)
		}
		return err
	}
	l.m.roundTrip.Update(took.Seconds())
	l.roundTrip.Store(int64(took))
	l.lastOK.Store(time.Now().UnixNano())
	if l.reached.CompareAndSwap(false, true) {
		l.mu.Lock()
		l.since = time.Now()
		l.mu.Unlock()
		if l.breaker.State() == breaker.Closed {
			l.m.up.Set(1)
		}
	}
	return nil
}

func (l *Link) failed(err error) {
	l.m.errors[reasonOf(err)].Inc()
	l.mu.Lock()
	l.lastError = err.Error()
	l.mu.Unlock()
}

var errHeld = errors.New("suspended: redis answers probes, but calls fail soon afterwards")

// health is a probe of the open breaker.
func (l *Link) health(ctx context.Context) error {
	l.mu.Lock()
	held := time.Now().Before(l.hold)
	l.mu.Unlock()
	if held {
		return errHeld
	}
	return l.measured(ctx, 0, func(ctx context.Context) error { return ping(ctx, l.client, l.o.Prefix) })
}

// changed is called by the breaker, in order.
func (l *Link) changed(_, to breaker.State, _ string) {
	l.mu.Lock()
	now := time.Now()
	for_, last := now.Sub(l.since), l.lastError
	if to == breaker.HalfOpen {
		l.mu.Unlock()
		return
	}
	if to == breaker.Open {
		// If the connection repeatedly recovers and fails again within seconds, each failure costs a
		// caller a timeout, so the pauses grow.
		if l.reached.Load() && for_ < 10*time.Second {
			l.hold = now.Add(min(l.o.Interval<<min(l.flaps, 16), maxHold))
			l.flaps++
		} else {
			l.flaps = 0
		}
	}
	l.since = now
	l.mu.Unlock()

	if to == breaker.Open {
		l.m.up.Set(0)
		l.m.fallback.Set(1)
		l.o.Logger.Warn("redis unreachable, falling back to limits.shared.fallback", "error", last)
		return
	}
	l.m.up.Set(1)
	l.m.fallback.Set(0)
	l.o.Logger.Warn("redis reachable again, rate limits are shared", "unreachable_for", for_.Round(time.Millisecond))
}

// without counts a call that is answered without Redis.
func (l *Link) without() {
	l.fallbacks.Add(1)
	l.m.fallbacks.Inc()
}
