package dispatch

import (
	"maps"
	"time"

	"github.com/sloengine/sloengine/reliability/breaker"
	"github.com/sloengine/sloengine/reliability/bulkhead"
	"github.com/sloengine/sloengine/reliability/retry"
)

// This file holds the published state of a lane: the status for the page and the API, and the gauges. Counters
// since the start of a process are in metrics.go, and failures are in trouble.go.

// Status is the present state of one sink, as the API shows it. Counts are since the start.
type Status struct {
	Name       string `json:"name"`
	Kind       string `json:"kind"` // http, file and so on; set by whoever knows it
	LagRecords uint64 `json:"lag_records"`
	LagBytes   int64  `json:"lag_bytes"`
	// beyond it the log's oldest records become a dead letter; 0 = no bound
	MaxLagBytes      int64             `json:"max_lag_bytes,omitempty"`
	OldestAgeSeconds float64           `json:"oldest_age_seconds"`     // of the oldest item in flight; 0 = there is none
	InFlight         int               `json:"in_flight"`              // batches
	Delivered        uint64            `json:"delivered"`              // items
	Retries          uint64            `json:"retries"`                // calls
	Dropped          uint64            `json:"dropped"`                // items
	DeadLetters      map[string]uint64 `json:"dead_letters,omitempty"` // items by reason
	LastDelivery     time.Time         `json:"last_delivery,omitzero"`
	LastError        string            `json:"last_error,omitempty"`
	LastErrorAt      time.Time         `json:"last_error_at,omitzero"`
	HeldSeconds      float64           `json:"held_seconds"` // left of the pause that the sink requested with Retry-After
	Recovering       bool              `json:"recovering"`   // the backlog of an outage is sent in stages
	Breaker          string            `json:"breaker"`      // closed, half_open or open; "" = it has none
	Troubles         []Trouble         `json:"troubles,omitempty"`
	Answers          map[string]uint64 `json:"answers,omitempty"` // by status code, "other" for the rest

	Next     Cursor   `json:"-"` // everything before it is delivered, dropped or a dead letter
	Saved    Cursor   `json:"-"` // the same, as it is on disk
	Overhead Overhead `json:"-"` // of the calls that were made

	CircuitBreaker breaker.Status     `json:"-"`
	Bulkhead       bulkhead.Status    `json:"-"`
	Budget         retry.BudgetStatus `json:"-"`
	RetryLimit     retry.LimitStatus  `json:"-"`
}

// tally holds the counters of a lane for its status, from the start of the lane on: a replaced sink starts at 0,
// unlike its metrics. lane.mu guards it.
type tally struct {
	delivered, retries, dropped uint64
	overhead                    Overhead
	deadLetters                 map[string]uint64
	lastDelivery                time.Time
	lastError                   string
	lastErrorAt                 time.Time
	oldest                      time.Time
}

// OverheadBounds are the upper bounds of the buckets of Overhead; the last bucket has no bound.
var OverheadBounds = [...]time.Duration{
	time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond,
	50 * time.Millisecond, 100 * time.Millisecond,
}

// Overhead counts calls by the time that the policies around them added: breaker, bulkhead and timeout, without the
// waits that a policy asked for before the call.
type Overhead [len(OverheadBounds) + 1]uint64

// overhead counts a call in the bucket of the time that the policies around it added.
func (l *lane) overhead(d time.Duration) {
	l.m.overhead.Update(d.Seconds())
	i := 0
	for i < len(OverheadBounds) && d > OverheadBounds[i] {
		i++
	}
	l.count(func(t *tally) { t.overhead[i]++ })
}

// count changes the tally under mu. change must be short and must not take other locks.
func (l *lane) count(change func(*tally)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change(&l.tally)
}

// noteError records an error for the status.
func (l *lane) noteError(err error) {
	now := time.Now()
	l.count(func(t *tally) { t.lastError, t.lastErrorAt = err.Error(), now })
}

// status may be called by any goroutine, at any time of the lane's life.
func (l *lane) status() Status {
	// One consistent copy of the fields that mu guards. Policies and the log have locks of their own, which are not
	// taken with mu held, so their numbers may be a moment newer.
	src := l.d.o.Source
	l.mu.Lock()
	t := l.tally
	s := Status{
		Name: l.o.Name, MaxLagBytes: l.o.MaxLagBytes, Next: l.next, Saved: l.durable, InFlight: l.inFlight,
		Delivered: t.delivered, Retries: t.retries, Dropped: t.dropped, Overhead: t.overhead,
		DeadLetters:  maps.Clone(t.deadLetters),
		LastDelivery: t.lastDelivery, LastError: t.lastError, LastErrorAt: t.lastErrorAt,
	}
	if !t.oldest.IsZero() {
		s.OldestAgeSeconds = time.Since(t.oldest).Seconds()
	}
	l.mu.Unlock()
	if end := src.DurableSeq() + 1; end > s.Next.Seq {
		s.LagRecords = end - s.Next.Seq
		s.LagBytes = src.SizeFrom(s.Next.Seq)
	}
	s.Troubles = l.troublesNow()
	s.Answers = l.m.answers.list()
	s.HeldSeconds = max(l.pauseLeft(), 0).Seconds()
	s.Recovering = l.stages.active(s.LagRecords)
	s.CircuitBreaker, s.Bulkhead = l.breaker.Status(), l.bulkhead.Status()
	if !s.CircuitBreaker.Off {
		s.Breaker = s.CircuitBreaker.State.String()
	}
	s.Budget, s.RetryLimit = l.budget.Status(), l.limit.Status()
	return s
}

// measure publishes the gauges. The session calls it: the oldest item is known only to its goroutine.
func (s *session) measure() {
	l := s.l
	var oldest time.Time
	switch {
	case len(s.flying) > 0 && len(s.flying[0].items) > 0:
		oldest = s.flying[0].items[0].Time
	case len(s.feed.batch) > 0:
		oldest = s.feed.batch[0].Time
	}
	l.count(func(t *tally) { t.oldest = oldest })
	now := l.status()
	if now.LagRecords == 0 && now.InFlight == 0 {
		l.idle()
	}
	l.m.lagRecords.Set(float64(now.LagRecords))
	l.m.lagBytes.Set(float64(now.LagBytes))
	l.m.oldest.Set(now.OldestAgeSeconds)
	l.m.inFlight.Set(float64(now.InFlight))
	staged := 0.0
	if now.Recovering {
		staged = 1
	}
	l.m.staged.Set(staged)
	l.bulkhead.Measure()
	l.d.mu.Lock()
	l.d.measure()
	l.d.mu.Unlock()
}
