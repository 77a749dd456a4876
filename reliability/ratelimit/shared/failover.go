package shared

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/sloengine/sloengine/reliability/ratelimit"
)

// FailoverOptions of a Failover.
type FailoverOptions struct {
	Link *Link // required; its Run brings Redis back
	// Shared is asked while Redis is there: a Store. Its Take must return when its
	// context ends.
	Shared ratelimit.Store
	// Local answers otherwise. It should be stricter, since it counts for this instance
	// alone: a ratelimit.Table with a Scale of one by the number of instances, or less.
	// nil: everything passes.
	Local  ratelimit.Store
	Logger *slog.Logger // nil: discarded
}

// Failover asks shared limits, and local ones while Redis is not reachable. It goes to the local
// ones because of errors only, never because a limit is exceeded.
//
// The local limits do not include the shared counts, nor the other way round: in the window in
// which Redis is lost or returns both may be used up.
type Failover struct{ o FailoverOptions }

var _ ratelimit.Store = (*Failover)(nil)

// NewFailover checks the options.
func NewFailover(o FailoverOptions) (*Failover, error) {
	if o.Link == nil || o.Shared == nil {
		return nil, errors.New("rate limits with a fallback: Link and Shared are required")
	}
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	return &Failover{o}, nil
}

// perEvent is added to the link's timeout for each event, many times the time that an event needs,
// so that load alone does not look like a Redis that hangs.
const perEvent = 20 * time.Microsecond

// Take implements ratelimit.Store. It takes at most the link's timeout, and 20 us for each
// event, longer than the local store, and returns no error: if even the local store fails, everything passes.
func (f *Failover) Take(ctx context.Context, now time.Time, batches []*ratelimit.Tickets) error {
	l := f.o.Link
	var events time.Duration
	for _, t := range batches {
		events += time.Duration(len(t.List))
	}
	err := l.call(ctx, events*perEvent, func(ctx context.Context) error { return f.o.Shared.Take(ctx, now, batches) })
	if err == nil {
		return nil
	}
	l.without()
	if f.o.Local == nil {
		pass(batches)
		return nil
	}
	// The events are there and must be judged, even if the caller has given up meanwhile.
	if err := f.o.Local.Take(context.WithoutCancel(ctx), now, batches); err != nil {
		l.m.lost.Inc()
		f.o.Logger.Error("local rate limits failed, admitting all events", "error", err)
		pass(batches)
	}
	return nil
}

// pass lets everything through.
func pass(batches []*ratelimit.Tickets) {
	for _, t := range batches {
		for i := range t.List {
			t.List[i].Over, t.List[i].Wait = 0, 0
		}
	}
}

// Peek implements ratelimit.Store.
func (f *Failover) Peek(ctx context.Context, now time.Time, t *ratelimit.Tickets) error {
	more := time.Duration(len(t.List)) * perEvent
	err := f.o.Link.call(ctx, more, func(ctx context.Context) error { return f.o.Shared.Peek(ctx, now, t) })
	switch {
	case err == nil:
		return nil
	case f.o.Local == nil:
		pass([]*ratelimit.Tickets{t})
		return nil
	}
	return f.o.Local.Peek(context.WithoutCancel(ctx), now, t)
}
