package post

import (
	"cmp"
	"context"
	"errors"
	"math"
	"net/http"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/reliability/retry"
)

// partEvents is how many events are sent at a time to learn of all their errors when an answer left some out: a server
// lists at least so many.
const partEvents = 100

// ErrSomeLater is the reason why events are left that the server wants again later.
var ErrSomeLater = retry.WithClass(errors.New("the server asked to resend some events later"), retry.ClassOverload)

// Settlement is the outcome of a delivery, as far as it is decided.
type Settlement[T any] struct {
	Tally
	Refused []Refusal[T] // the rejected ones, with the reasons

	splits int
}

// Refusal is an event that the server will not accept as it is. Its ItemError has no index and no line, since those of
// a request mean nothing to the sender of a batch.
type Refusal[T any] struct {
	event.ItemError
	From T
	JSON []byte // with its line break
}

// Refuse adds an event that is not accepted.
func (s *Settlement[T]) Refuse(b *Batch[T], i int, e event.ItemError) {
	line := append([]byte(nil), b.Line(i)...)
	e.Index, e.Line, e.ID = 0, 0, ID(line)
	s.Rejected++
	s.Refused = append(s.Refused, Refusal[T]{e, b.From(i), line})
}

// Sender brings batches to a server, until every event of them is decided or the policy gives up. It is safe for
// concurrent use.
type Sender[T any] struct {
	// Request makes one request, as Poster.Post does.
	Request func(context.Context, *Batch[T]) (*Answer, error)
	Policy  *retry.Policy
	// Divisible reports whether single events may be the cause of an answer, so that
	// sending less at a time singles them out.
	Divisible func(*StatusError) bool
	// MaxSplits bounds how often a batch is halved for that. Default: as often as it takes.
	MaxSplits int
}

// Deliver posts b. rest are the events that are not decided, nil if there are none, and err is why.
func (d *Sender[T]) Deliver(ctx context.Context, b *Batch[T], s *Settlement[T]) (rest *Batch[T], err error) {
	rest = b
	err = d.Policy.Do(ctx, func(ctx context.Context, _ int) error {
		var err error
		rest, err = d.round(ctx, rest, s)
		if err == nil && rest != nil {
			err = ErrSomeLater
		}
		return err
	})
	if rest == nil {
		return nil, nil
	}
	return rest, err
}

// round sends b once, in parts if that is needed to learn about its events. rest are those that are to be sent again,
// and err is why no more could be learned.
func (d *Sender[T]) round(ctx context.Context, b *Batch[T], s *Settlement[T]) (rest *Batch[T], err error) {
	a, err := d.Request(ctx, b)
	if err == nil {
		return d.resolve(ctx, b, a, s)
	}
	status, ok := errors.AsType[*StatusError](err)
	if !ok || !d.Divisible(status) {
		return b, err
	}
	if b.Len() > 1 && s.splits < cmp.Or(d.MaxSplits, math.MaxInt) {
		s.splits++
		return d.parts(ctx, b, (b.Len()+1)/2, s)
	}
	code := event.Code(status.Code)
	if code == "" {
		code = "bad_request"
		if status.Status == http.StatusRequestEntityTooLarge {
			code = "body_too_large"
		}
	}
	for i := range b.items {
		s.Refuse(b, i, event.ItemError{Code: code, Detail: status.Error()})
	}
	return nil, nil
}

// parts sends b in parts of n events.
func (d *Sender[T]) parts(ctx context.Context, b *Batch[T], n int, s *Settlement[T]) (rest *Batch[T], err error) {
	for i := 0; i < b.Len(); i += n {
		later, err := d.round(ctx, b.span(i, min(i+n, b.Len())), s)
		rest = joined(rest, later)
		if err != nil {
			if i+n < b.Len() {
				rest = joined(rest, b.span(i+n, b.Len()))
			}
			return rest, err
		}
	}
	return rest, nil
}

// resolve notes what the answer decides and returns the events that the server wants again later.
func (d *Sender[T]) resolve(ctx context.Context, b *Batch[T], a *Answer, s *Settlement[T]) (rest *Batch[T], err error) {
	named := make(map[int]bool, len(a.Errors))
	again := &Batch[T]{}
	for i := range a.Errors {
		e := a.Errors[i]
		if named[e.Index] {
			continue
		}
		named[e.Index] = true
		if e.Retryable {
			again.pick(b, e.Index)
			continue
		}
		s.Refuse(b, e.Index, e)
	}
	if again.Len() == 0 {
		again = nil
	}
	refuseUnlisted(b, a, named, s)
	if a.Rejected > len(named) || a.ErrorsTruncated && a.Rejected+a.Limited > len(named) {
		if b.Len() > 1 {
			return d.resolveRest(ctx, b, a, named, again, s)
		}
		s.Refuse(b, 0, event.ItemError{Code: "rejected", Detail: "the server gave no reason"})
		return nil, nil
	}
	s.Accepted += a.Accepted
	s.Duplicates += a.Duplicates
	s.Sampled += a.Sampled
	s.DeadLettered += a.DeadLettered
	s.Limited += a.Limited
	if again != nil {
		// Those that are sent again are limited or rejected in this answer. They
		// are counted once they are decided.
		s.Limited -= min(a.Limited, again.Len())
	}
	return again, nil
}

// refuseUnlisted refuses the events whose reason the server gives as a code only.
func refuseUnlisted[T any](b *Batch[T], a *Answer, named map[int]bool, s *Settlement[T]) {
	for _, run := range a.Unlisted {
		detail := "not listed by the server"
		for i := range a.Errors {
			if a.Errors[i].Code == run.Code {
				detail = "as another event: " + a.Errors[i].Detail
				break
			}
		}
		for i := run.From; i <= run.To; i++ {
			if !named[i] {
				named[i] = true
				s.Refuse(b, i, event.ItemError{Code: run.Code, Detail: detail})
			}
		}
	}
}

// resolveRest learns of the errors that an answer had no room for, by sending the events that it does not name again in
// small parts. What the first answer accepted comes back as a duplicate, and is counted as accepted.
func (d *Sender[T]) resolveRest(ctx context.Context, b *Batch[T], a *Answer, named map[int]bool, again *Batch[T],
	s *Settlement[T]) (*Batch[T], error) {
	unnamed := &Batch[T]{}
	for i := range b.items {
		if !named[i] {
			unnamed.pick(b, i)
		}
	}
	s.Accepted += a.Accepted
	s.Duplicates -= a.Accepted
	rest, err := d.parts(ctx, unnamed, max(1, min(partEvents, b.Len()/2)), s)
	return joined(again, rest), err
}
