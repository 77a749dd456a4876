package source

import (
	"slices"
	"sync"
	"time"

	"github.com/sloengine/sloengine/reliability/remote"
)

// Kind is a kind of failure of a source.
type Kind string

// The kinds. While one of the first three lasts, the source is paused: it takes no more messages, and loses no
// message.
const (
	TroubleEngine      Kind = "engine"       // it is busy, recovering, or its disk is full
	TroubleRateLimit   Kind = "rate_limit"   // events exceed a rate limit that throttles
	TroubleDeadLetters Kind = "dead_letters" // they cannot be saved
	TroubleConnection  Kind = "connection"   // the broker is not reachable, or does not answer
	TroubleCredentials Kind = "credentials"  // the broker refuses them, or they may not read
	TroubleTLS         Kind = "tls"          // no connection can be trusted
	TroubleTopic       Kind = "topic"        // a topic or queue is missing, or is not as it should be
	TroublePosition    Kind = "position"     // messages were gone before they were read
	TroubleCommit      Kind = "commit"       // the broker does not take the progress
	TroubleHeldBack    Kind = "held_back"    // rows of a table wait for a transaction that is still open
)

// Kinds lists all kinds.
var Kinds = []Kind{
	TroubleEngine, TroubleRateLimit, TroubleDeadLetters, TroubleConnection, TroubleCredentials, TroubleTLS, TroubleTopic,
	TroublePosition, TroubleCommit, TroubleHeldBack,
}

// KindOf classifies an error of a broker or database.
func KindOf(err *remote.BrokerError) Kind {
	switch err.Kind {
	case remote.KindCredentials:
		return TroubleCredentials
	case remote.KindTLS:
		return TroubleTLS
	case remote.KindTopology:
		return TroubleTopic
	}
	return TroubleConnection
}

// Pauses reports whether a source takes no messages during this failure.
func (k Kind) Pauses() bool {
	return k == TroubleEngine || k == TroubleRateLimit || k == TroubleDeadLetters
}

// Trouble is a failure, until the source works again, and the time at which it began.
type Trouble struct {
	Kind   Kind      `json:"kind"`
	Name   string    `json:"name,omitempty"` // of the topic, partition or queue; "": all of the source
	Brief  string    `json:"brief"`          // without text from outside
	Reason string    `json:"cause"`          // the last error, for people; may quote a broker
	Since  time.Time `json:"since"`
	Count  uint64    `json:"failures"`
}

// Topic is how far a source is in one topic, or queue.
type Topic struct {
	Name       string `json:"name"`
	Partitions int    `json:"partitions"`
	Owned      int    `json:"owned"`        // that this engine reads
	Lag        int64  `json:"lag_messages"` // messages that are not durable here
}

// state is how a source is. It is safe for concurrent use.
type state struct {
	o      *Options
	counts *counts

	mu       sync.Mutex
	troubles []Trouble
	taken    time.Time // when the last batch was durable
	waits    map[Kind]int

	paused map[Kind]*meter
}

func (s *state) init(o *Options, c *counts) {
	s.o, s.counts, s.waits, s.paused = o, c, map[Kind]int{}, map[Kind]*meter{}
	for kind, seconds := range c.paused {
		s.paused[kind] = &meter{now: o.Now, seconds: seconds}
	}
}

// Fails notes that something does not work. It is logged once, until it works again.
func (in *Intake) Fails(kind Kind, name, brief, reason string) {
	s := &in.state
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts.failures[kind].Inc()
	if i := s.find(kind, name); i >= 0 {
		s.troubles[i].Reason, s.troubles[i].Brief = reason, brief
		s.troubles[i].Count++
		return
	}
	if len(s.troubles) >= maxTroubles {
		return
	}
	s.troubles = append(
		s.troubles, Trouble{Kind: kind, Name: name, Reason: reason, Brief: brief, Since: s.o.Now(), Count: 1})
	s.counts.trouble[kind].Set(1)
	s.o.Logger.Warn("source fails", "source", s.o.Name, "kind", string(kind), "name", name,
		"reason", brief, "err", reason)
}

// maxTroubles bounds the list: a broker can have any number of topics.
const maxTroubles = 100

// Works notes that something works.
func (in *Intake) Works(kind Kind, name string) {
	s := &in.state
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.find(kind, name)
	if i < 0 {
		return
	}
	t := s.troubles[i]
	s.troubles = slices.Delete(s.troubles, i, i+1)
	if !slices.ContainsFunc(s.troubles, func(t Trouble) bool { return t.Kind == kind }) {
		s.counts.trouble[kind].Set(0)
	}
	s.o.Logger.Info("source works again", "source", s.o.Name, "kind", string(kind), "name", name, "failed_for",
		s.o.Now().Sub(t.Since), "failures", t.Count)
}

func (s *state) find(kind Kind, name string) int {
	return slices.IndexFunc(s.troubles, func(t Trouble) bool { return t.Kind == kind && t.Name == name })
}

// Troubles lists the current failures, the oldest first.
func (in *Intake) Troubles() []Trouble {
	in.state.mu.Lock()
	defer in.state.mu.Unlock()
	return slices.Clone(in.state.troubles)
}

// pause records that a batch begins to wait, and returns a function that ends the wait.
func (in *Intake) pause(kind Kind, brief, reason string) (resume func()) {
	in.Fails(kind, "", brief, reason)
	s := &in.state
	s.mu.Lock()
	s.waits[kind]++
	s.mu.Unlock()
	s.paused[kind].begin()
	return func() {
		s.paused[kind].end()
		s.mu.Lock()
		s.waits[kind]--
		last := s.waits[kind] == 0
		s.mu.Unlock()
		if last {
			in.Works(kind, "")
		}
	}
}

// Took counts messages that were counted without a Batch, and the events that were made of them. Those that were cut
// exceed all that there can be.
func (in *Intake) Took(messages, bytes, accepted, rejected int, cut uint64) {
	in.Counted(accepted, rejected, cut)
	in.counts.messages.Add(messages)
	in.counts.bytes.Add(bytes)
	in.state.mu.Lock()
	in.state.taken = in.o.Now()
	in.state.mu.Unlock()
}

// Counted counts events as Took does, of messages that it counts.
func (in *Intake) Counted(accepted, rejected int, cut uint64) {
	in.counts.cut.AddInt64(int64(cut))
	in.counts.accepted.Add(accepted)
	in.counts.rejected.Add(rejected)
}

// Totals are the counts of a source since its start.
type Totals struct {
	Messages, Bytes, Accepted, Duplicates, Rejected, Expired, Sampled, Dropped, DeadLetters uint64
	LastBatch                                                                               time.Time
}

// Totals returns the counts.
func (in *Intake) Totals() Totals {
	c := in.counts
	t := Totals{
		Messages: c.messages.Get(), Bytes: c.bytes.Get(), Accepted: c.accepted.Get(), Duplicates: c.duplicate.Get(),
		Rejected: c.rejected.Get(),
		Expired:  c.expired.Get(), Sampled: c.sampled.Get(), Dropped: c.dropped.Get(),
	}
	for _, reason := range deadReasons {
		t.DeadLetters += in.counts.dead[reason].Get()
	}
	in.state.mu.Lock()
	t.LastBatch = in.state.taken
	in.state.mu.Unlock()
	return t
}
