package ingest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/sloengine/sloengine/ingest/deadletter"
	"github.com/sloengine/sloengine/ingest/engine"
	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/reliability/dlq"
	"github.com/sloengine/sloengine/reliability/ratelimit"
)

// The codes of events that a limit kept out.
const (
	// CodeRateLimited: try again after Retry-After.
	CodeRateLimited event.Code = "rate_limited"
	// CodeRateLimitDropped: the policy is to drop it, and that is final.
	CodeRateLimitDropped event.Code = "rate_limit_dropped"
	// CodeForgotten: it may be counted already, and has become a dead letter.
	CodeForgotten event.Code = dlq.ReasonForgotten
)

const problemRateLimited = "rate_limited"

// maxThrottled is how many requests may be held back at a time. Each holds its
// events in memory.
const maxThrottled = 1024

// admission holds the state of a request's rate limits.
type admission struct {
	caller  ratelimit.Caller
	view    event.View
	tickets *ratelimit.Tickets // nil if nothing is limited
	spare   *ratelimit.Tickets // that memory

	retryAfter time.Duration // for the retryable events; 0: there are none
}

// ticket makes a ticket for each good event, from its content before redaction.
func (h *Handler) ticket(req *http.Request, s *requestState) {
	if h.o.Limiter == nil {
		return
	}
	policy := h.o.Limiter.Policy()
	if policy == nil {
		return
	}
	if s.limits.spare == nil {
		s.limits.spare = &ratelimit.Tickets{}
	}
	t := s.limits.spare
	t.Reset()
	s.limits.tickets = t
	c := &s.limits.caller
	*c = ratelimit.Caller{Authenticated: s.token != nil, IP: clientIP(req), Header: req.Header.Get}
	if s.token != nil {
		c.Token = s.token.Name
	}
	view := &s.limits.view
	for i := range s.batch.Events {
		item := &s.batch.Events[i]
		if _, err := view.Parse(s.batch.Event(i)); err != nil {
			panic(fmt.Sprintf("decoded event is unreadable: %v", err)) // a bug
		}
		subject := ratelimit.Subject{Service: view.Service, Type: view.Type, Severity: view.Severity,
			Attrs: view, Sample: item.Key.Lo}
		if !item.HasKey {
			subject.Sample = xxh3.Hash(view.ID)
		}
		policy.Add(c, &subject, t)
	}
}

// clientIP is the address of the connection. Behind a proxy that is the proxy: limits by
// address take a header there.
func clientIP(req *http.Request) string {
	host, _, err := net.SplitHostPort(req.RemoteAddr)
	if err != nil {
		return req.RemoteAddr
	}
	return host
}

// admit stores the good events. Throttled ones are held back and tried
// again, as long as their rule and the deadline allow. The batch may still be in use
// after an error.
func (h *Handler) admit(ctx context.Context, s *requestState) (engine.Result, error) {
	t := s.limits.tickets
	result, err := h.store(ctx, s, nil)
	if err != nil || len(result.Throttled) == 0 {
		return result, err
	}
	if h.throttled.Add(1) > maxThrottled {
		h.throttled.Add(-1)
		return result, nil
	}
	defer h.throttled.Add(-1)
	waited := time.Duration(0)
	for len(result.Throttled) > 0 {
		step, most := t.List[result.Throttled[0]].Throttle()
		if waited+step > most || !s.deadline.IsZero() && h.o.Now().Add(step).After(s.deadline.Time) ||
			h.sleep(ctx, step) != nil {
			break
		}
		waited += step
		more, err := h.store(ctx, s, result.Throttled)
		if err != nil {
			// Events that were admitted before count; the sender must resend the rest. The tickets still
			// name the limits.
			s.batch, s.limits.spare = nil, nil
			return result, nil
		}
		result.Accepted += more.Accepted
		result.Duplicates += more.Duplicates
		result.Merged += more.Merged
		result.Sampled += more.Sampled
		result.Dropped += more.Dropped
		result.Critical = append(result.Critical, more.Critical...)
		result.Forgotten = append(result.Forgotten, more.Forgotten...)
		result.KnownSince = max(result.KnownSince, more.KnownSince)
		result.Throttled = more.Throttled
	}
	return result, nil
}

// leave gives up the memory that a committer may still use after an error.
func (s *requestState) leave() {
	s.batch, s.limits.tickets, s.limits.spare = nil, nil, nil
}

// rehearse reports how the limits would treat the events now, and charges nothing. It does not
// recognise duplicates, which are not limited: only storing an event finds those.
func (h *Handler) rehearse(ctx context.Context, s *requestState) (engine.Result, error) {
	b, t := s.batch, s.limits.tickets
	if t == nil {
		return engine.Result{Accepted: len(b.Events)}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, engine.DecideTimeout)
	defer cancel()
	if err := h.o.Limiter.Judge(ctx, h.o.Now(), t); err != nil {
		return engine.Result{}, err
	}
	var result engine.Result
	for i := range t.List {
		action := t.List[i].Verdict.Action
		critical := false
		if h.o.Critical != nil && action != ratelimit.Pass && action != ratelimit.Throttle && action != ratelimit.Aggregate {
			_, err := s.limits.view.Parse(b.Event(i))
			critical = err == nil && h.o.Critical(&s.limits.view)
		}
		switch {
		case critical:
			result.Critical = append(result.Critical, int32(i))
		case action == ratelimit.Throttle:
			result.Throttled = append(result.Throttled, int32(i))
		case action == ratelimit.SampleOut:
			result.Sampled++
		case action == ratelimit.Drop:
			result.Dropped++
		default:
			result.Accepted++
		}
	}
	return result, nil
}

// sleep waits for d, unless ctx or the time of the server ends first.
func (h *Handler) sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-h.drain.begun:
		return engine.ErrStopping
	case <-ctx.Done():
		return ctx.Err()
	}
}

// keepCritical turns critical events that exceed their limit into dead letters. It returns how many
// are stored; on a failure, 0.
func (h *Handler) keepCritical(ctx context.Context, s *requestState, b *event.Batch, t *ratelimit.Tickets,
	places []int32) int {
	err := h.deadLetters(ctx, s, b, places, func(e *dlq.Entry, place int32) {
		e.Reason, e.Class, e.Error = dlq.ReasonRateLimited, "overload", "exceeds rate limit "+t.List[place].RuleName()
	})
	if err != nil {
		h.log.warn("failed to save critical events as dead letters, throttling their sender", "err", err, "events",
			len(places))
		return 0
	}
	for _, place := range places {
		h.o.Limiter.CountCritical(&t.List[place])
	}
	return len(places)
}

// keepForgotten turns events whose ids may have been forgotten into dead letters, and lists them in the answer.
func (h *Handler) keepForgotten(ctx context.Context, s *requestState, b *event.Batch, r *engine.Result) *refusal {
	since := time.Unix(0, r.KnownSince).UTC().Format(time.RFC3339)
	err := h.deadLetters(ctx, s, b, r.Forgotten, func(e *dlq.Entry, _ int32) {
		e.Reason, e.Class = dlq.ReasonForgotten, "late"
		e.Error = "may be counted already: ids are known since " + since + " only"
	})
	if err != nil {
		h.log.warn("failed to save events as dead letters, their sender resends them", "err", err, "events",
			len(r.Forgotten))
		return &refusal{status: http.StatusServiceUnavailable, code: problemInternal, retryAfter: time.Second,
			detail: "events that may be counted already could not be saved as dead letters (it is safe to resend them)"}
	}
	s.answer.DeadLettered += len(r.Forgotten)
	for _, place := range r.Forgotten {
		h.listError(&s.answer, event.ItemError{
			Index: b.Events[place].Index, ID: h.idOf(s, b, int(place)), Code: CodeForgotten,
			Detail: "Ids are known since " + since + " only, so it may be counted already. It is a dead letter.",
		})
	}
	return nil
}

// deadLetters saves events of a batch as dead letters. say fills in why.
func (h *Handler) deadLetters(ctx context.Context, s *requestState, b *event.Batch, places []int32,
	say func(e *dlq.Entry, place int32)) error {
	if len(places) == 0 {
		return nil
	}
	if h.o.SaveCritical == nil {
		return errors.New("no store for dead letters")
	}
	entries := make([]dlq.Entry, len(places))
	now := h.o.Now()
	view := &s.limits.view
	for i, place := range places {
		if _, err := view.Parse(b.Event(int(place))); err != nil {
			return fmt.Errorf("parse event: %w", err)
		}
		e := &entries[i]
		*e = dlq.Entry{Origin: dlq.Admission, First: now, Last: now}
		say(e, place)
		if !view.Assigned { // resends of the event give the same dead letter
			e.ID = deadletter.AdmissionID(view)
		}
		deadletter.Describe(e, view)
	}
	if !s.deadline.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, s.deadline.Time)
		defer cancel()
	}
	return h.o.SaveCritical(ctx, entries)
}

// explainLimits adds the outcome of events over their limit to the answer, and returns the wait
// after which the throttled ones should be sent again.
func (h *Handler) explainLimits(s *requestState, b *event.Batch, t *ratelimit.Tickets, result *engine.Result,
	saved int) (wait time.Duration) {
	a := &s.answer
	again := result.Throttled
	if saved == 0 {
		again = append(again, result.Critical...)
	}
	a.Sampled, a.DeadLettered = result.Sampled, a.DeadLettered+saved
	a.Limited = len(again) + result.Dropped
	if a.Limited == 0 {
		return 0
	}
	for _, place := range again {
		wait = max(wait, time.Duration(t.List[place].RetryAfter())*time.Second)
		item := &b.Events[place]
		h.listError(a, event.ItemError{
			Index: item.Index, Line: item.Line, ID: h.idOf(s, b, int(place)), Code: CodeRateLimited, Retryable: true,
			Detail: fmt.Sprintf("exceeds rate limit %s (resend it after Retry-After)", t.List[place].RuleName()),
		})
	}
	if result.Dropped == 0 {
		return wait
	}
	for i := range t.List {
		// A duplicate has no verdict, and a throttled event that was tried again has its last one.
		if k := &t.List[i]; k.Verdict.Action == ratelimit.Drop && !contains(result.Critical, i) {
			item := &b.Events[i]
			if !s.query.dryRun {
				h.o.Limiter.CountDropped(k)
			}
			h.listError(a, event.ItemError{
				Index: item.Index, Line: item.Line, ID: h.idOf(s, b, i), Code: CodeRateLimitDropped,
				Detail: fmt.Sprintf("exceeds rate limit %s, whose strategy is drop, so it is not counted", k.RuleName()),
			})
		}
	}
	return wait
}

// idOf is the id that the sender gave, as long as errors are listed.
func (h *Handler) idOf(s *requestState, b *event.Batch, i int) string {
	if len(s.answer.Errors) >= maxListedErrors || !b.Events[i].HasKey {
		return ""
	}
	if _, err := s.limits.view.Parse(b.Event(i)); err != nil {
		return ""
	}
	return string(s.limits.view.ID)
}

func contains(places []int32, i int) bool {
	for _, p := range places {
		if int(p) == i {
			return true
		}
	}
	return false
}

// listError lists an error unless there are enough already.
func (h *Handler) listError(a *Answer, e event.ItemError) {
	if len(a.Errors) >= maxListedErrors {
		a.ErrorsTruncated = true
		return
	}
	a.Errors = append(a.Errors, e)
}

// maxListedErrors is how many errors an answer lists, as in event.SizeLimits.
const maxListedErrors = 100

// limitHeaders sets the headers that show how much of the sender's tightest limit is used.
func (h *Handler) limitHeaders(header http.Header, t *ratelimit.Tickets) (q ratelimit.Quota, ok bool) {
	if t == nil {
		return q, false
	}
	if q, ok = t.Quota(h.o.Now()); ok {
		header["Ratelimit-Policy"] = []string{q.PolicyHeader()}
		header["Ratelimit"] = []string{q.Header()}
	}
	return q, ok
}
