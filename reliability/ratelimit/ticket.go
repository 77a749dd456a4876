package ratelimit

import (
	"context"
	"time"
)

// Algorithm says how a limit counts.
type Algorithm uint8

// The algorithms. SlidingWindow is the default.
const (
	SlidingWindow Algorithm = iota // never more than N in any span of Window
	TokenBucket                    // Burst at once, N per Window in the long run
	FixedWindow                    // N per Window, counted from the epoch: up to 2N around an edge
)

// Limit is how much may pass. N, Window and Burst are above 0 once compiled.
type Limit struct {
	N         int64
	Window    time.Duration
	Algorithm Algorithm
	Burst     int64 // of a token bucket
}

// Layer is a kind of limit. All layers that apply to an event must have room.
type Layer uint8

// The layers.
const (
	Global  Layer = iota // all events together
	Type                 // events of one type, or of one pattern
	Context              // events of one user, address, tenant, session
)

// Key names one counter: a hash of layer, rule and, for a context, its value.
type Key struct{ Hi, Lo uint64 }

// Charge is one counter that an event is counted against.
type Charge struct {
	Key   Key
	Limit *Limit // one pointer per rule
	Layer Layer
	Rule  uint16 // of the policy

	// Left of Cap events are still free in the counter after the ticket was decided.
	// A Store that knows sets both; Cap is 0 if it is unknown. Quota and Status are made from them.
	Left, Cap uint32

	value uint32 // of a context: where its value begins in Tickets.values
}

// Ticket lists the counters that one event will be charged to, made before it is known whether the
// event is a duplicate, and later holds the decision about it.
type Ticket struct {
	// Skip leaves the ticket out of Decide: a duplicate is not charged.
	Skip bool
	// Exempt is set for events that are never limited: audit types and bypasses.
	Exempt bool

	// Over has a bit for each charge (by its place in the ticket's charges) that had no room; then no
	// counter was charged. Wait is when there may be room again. Both are set by a Store.
	Over uint16
	Wait time.Duration

	Verdict Verdict // set by Decide

	sample     uint64
	first, end int32  // in Tickets.charges
	rule       uint16 // of the event's type
	reason     reason // of Exempt
	policy     *Policy
}

// Action is the treatment of an event.
type Action uint8

// The actions.
const (
	Pass      Action = iota
	Keep             // over the limit, kept by sampling: stands for Weight events
	SampleOut        // over the limit, and another event stands for it
	Drop             // over the limit, lost; lowers coverage
	Throttle         // over the limit, to be tried again after Wait
	Aggregate        // over the limit, to be merged with its like
)

// Verdict is the decision about one event.
type Verdict struct {
	Action Action
	Weight uint32 // of Keep; else 1
	Layer  Layer  // that decided, unless Pass
	Rule   uint16 // likewise
}

// Tickets are those of one request. They can be reused.
type Tickets struct {
	List    []Ticket
	charges []Charge
	policy  *Policy

	caller *Caller       // that sources holds the keys of
	origin []callerValue // by Source.slot, of caller
	recent []recentValue // by context rule: the value before
	values []byte        // of contexts, see Tickets.keep
}

// Reset empties t and keeps its memory.
func (t *Tickets) Reset() {
	t.List, t.charges, t.policy = t.List[:0], t.charges[:0], nil
	t.caller, t.values = nil, t.values[:0]
}

// Charges are those of the i-th ticket.
func (t *Tickets) Charges(i int) []Charge {
	k := &t.List[i]
	return t.charges[k.first:k.end]
}

// Store keeps counters: a Table in this process, or one shared with others.
type Store interface {
	// Take charges each ticket, in order, that is neither Skip nor Exempt to all of its
	// charges, or, if one of them has no room, to none of them, and sets Over and Wait. After an error
	// the charges are unknown, and Over is 0 throughout.
	Take(ctx context.Context, now time.Time, batches []*Tickets) error
	// Peek sets the same fields as Take would for these tickets, and charges nothing.
	Peek(ctx context.Context, now time.Time, tickets *Tickets) error
}

// Status is the present state of one rule, for a page.
type Status struct {
	Layer     string  `json:"layer"`      // global, type or context
	Rule      string  `json:"rule"`       // its name: "global", a type or pattern, the name of a context
	PerSecond float64 `json:"per_second"` // events that it admits
	Current   float64 `json:"current"`    // events per second admitted recently; of a context: of the busiest counter
	Hits      uint64  `json:"hits"`       // events over it so far
}

// Offender is a context value that goes over its limit often.
type Offender struct {
	Context string `json:"context"` // name of the context rule
	Value   string `json:"value"`   // hostile text
	Hits    uint64 `json:"hits"`    // at least Hits-Error, at most Hits
	Error   uint64 `json:"error,omitempty"`
}
