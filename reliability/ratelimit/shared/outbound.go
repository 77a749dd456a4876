package shared

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/sloengine/sloengine/reliability/dispatch"
	"github.com/sloengine/sloengine/reliability/redisconn"
	"github.com/sloengine/sloengine/reliability/retry"
)

// OutboundOptions of an Outbound.
type OutboundOptions struct {
	Link *Link // required; its Run brings Redis back
	// Name of the target: [a-z0-9_-][a-z0-9._-]*, at most 64 bytes. Instances with the same name and
	// prefix share the limit. It is a label of metrics.
	Name   string
	N      int           // turns in any Window, for all instances together. Required, at most 1,000,000.
	Window time.Duration // default 1 s, at least 100 ms, at most an hour
	// MaxWait is how long Wait may take, 5 s, at most a minute. Negative: not at all.
	MaxWait time.Duration
	// Guard is added to the window, so that calls that take unequal times on their way
	// do not meet at the other end. Default a twentieth of the window, at most 50 ms;
	// negative: none. A turn taken later than that after its time is given up.
	Guard time.Duration
	// Alone is how many turns a second this instance gives itself while Redis is not reachable,
	// by default 1.
	Alone float64
}

// Outbound gives turns for calls to a service that handles only so many from all instances
// together. It implements dispatch.Limiter.
//
// Turns are reserved in Redis in the order of asking, so that no caller starves and a wait
// is one round trip. A turn whose caller goes away is lost.
type Outbound struct {
	o      OutboundOptions
	key    string
	script *redisconn.Script
	fixed  []any // first arguments of the script
	alone  *dispatch.LocalLimit
	m      outboundSeries
}

var _ dispatch.Limiter = (*Outbound)(nil)

var namePattern = regexp.MustCompile(`^[a-z0-9_-][a-z0-9._-]{0,63}$`)

// NewOutbound checks the options. It does not talk to Redis yet.
func NewOutbound(o OutboundOptions) (*Outbound, error) {
	o.Window = cmp.Or(o.Window, time.Second)
	o.MaxWait = max(cmp.Or(o.MaxWait, 5*time.Second), 0)
	o.Guard = max(cmp.Or(o.Guard, min(o.Window/20, 50*time.Millisecond)), 0)
	o.Alone = cmp.Or(o.Alone, 1)
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("outbound rate limit %q: "+format, append([]any{o.Name}, args...)...))
	}
	if o.Link == nil {
		bad("Link is required")
	}
	if !namePattern.MatchString(o.Name) {
		bad("invalid name (1 to 64 of a-z, 0-9, '.', '_' and '-', not starting with '.')")
	}
	if o.N < 1 || o.N > 1_000_000 {
		bad("invalid limit %d (want 1 to 1,000,000)", o.N)
	}
	if o.Window < 100*time.Millisecond || o.Window > time.Hour {
		bad("invalid window %s (want 100ms to 1h)", o.Window)
	}
	if o.MaxWait > time.Minute {
		bad("invalid maximum wait %s (want at most 1m)", o.MaxWait)
	}
	if o.Guard > o.Window {
		bad("guard %s is longer than the window", o.Guard)
	}
	alone, err := dispatch.NewLocalLimit(o.Alone, 1, max(o.MaxWait, time.Microsecond))
	if err != nil {
		bad("without Redis: %w", err)
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	width, span := o.cut()
	keep := time.Minute + o.Window + o.Guard // of any instance's reservations
	return &Outbound{
		o: o, script: turnScript, alone: alone, m: o.Link.m.outbound.Of(o.Name),
		key: fmt.Sprintf("%s:o:%s:%dx%d", o.Link.o.Prefix, o.Name, span, width),
		fixed: []any{
			o.N, width, span, keep.Microseconds()/width + 1,
			(keep + o.MaxWait + margin).Milliseconds(),
		},
	}, nil
}

// cut says how finely times are kept, in microseconds: to the millisecond while there are
// few turns, and never so that more than some hundred entries are kept.
func (o *OutboundOptions) cut() (width, span int64) {
	const entries, millisecond = 512, 1000
	window, all := (o.Window + o.Guard).Microseconds(), (o.Window + o.Guard + o.MaxWait).Microseconds()
	width = millisecond
	if windows := all/window + 2; int64(o.N)*windows > entries {
		width = max(ceilDiv(window, 2*slots), ceilDiv(all, entries), millisecond)
	}
	return width, ceilDiv(window, width)
}

// Most is how many turns a single Wait can get at most.
func (o *Outbound) Most() int {
	return o.o.N * (1 + int(o.o.MaxWait/(o.o.Window+o.o.Guard)))
}

// Wait implements dispatch.Limiter: it returns when n calls may be made. If that would be
// later than MaxWait, it returns a *dispatch.LimitedError, at once if Redis says so. While
// Redis is not reachable the instance's own limit takes its place. The only other error is that
// ctx has ended.
func (o *Outbound) Wait(ctx context.Context, n int) error {
	if n < 1 {
		return nil
	}
	start := time.Now()
	err := o.wait(ctx, n, start.Add(o.o.MaxWait))
	var limited *dispatch.LimitedError
	switch {
	case err == nil:
		o.m.allowed.Inc()
		o.m.wait.Update(time.Since(start).Seconds())
	case errors.As(err, &limited):
		o.m.refused.Inc()
	}
	return err
}

func (o *Outbound) wait(ctx context.Context, n int, deadline time.Time) error {
	for {
		if ctx.Err() != nil {
			return fmt.Errorf("wait for the rate limit: %w", context.Cause(ctx))
		}
		wait, err := o.reserve(ctx, n, max(time.Until(deadline), 0))
		if ctx.Err() != nil {
			return fmt.Errorf("wait for the rate limit: %w", context.Cause(ctx))
		}
		if err != nil {
			o.o.Link.without()
			o.m.fallback.Inc()
			return o.alone.Wait(ctx, n)
		}
		if wait < 0 {
			return &dispatch.LimitedError{MaxWait: o.o.MaxWait}
		}
		if wait == 0 {
			return nil
		}
		turn := time.Now().Add(wait)
		if !retry.Sleep(ctx, wait) {
			return fmt.Errorf("wait for the rate limit: %w", context.Cause(ctx))
		}
		// Overslept: the time belongs to another turn by now.
		if o.o.Guard == 0 || time.Since(turn) <= o.o.Guard {
			return nil
		}
	}
}

// reserve takes n turns and says how long to wait for them. A negative wait means that it
// would be too long.
func (o *Outbound) reserve(ctx context.Context, n int, most time.Duration) (wait time.Duration, err error) {
	l := o.o.Link
	args := append(append(make([]any, 0, 7), o.fixed...), n, most.Microseconds())
	err = l.call(ctx, 0, func(ctx context.Context) error {
		got, err := o.script.Run(ctx, l.client, []string{o.key}, args...)
		micros, _ := got.(int64)
		wait = time.Duration(micros) * time.Microsecond
		return err
	})
	return wait, err
}
