package source

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/sloengine/sloengine/ingest/engine"
	"github.com/sloengine/sloengine/ingest/record"
	"github.com/sloengine/sloengine/reliability/retry"
)

// ReasonLost is the reason of messages that were gone before they were read.
const ReasonLost = "lost_in_broker"

// seen remembers the kinds of the recent events of a topic. It is safe for concurrent use.
type seen struct {
	mu     sync.Mutex
	topics map[string]map[ServiceType]bool
}

// The bounds of seen.
const (
	maxSeenTopics = 1000
	maxSeenKinds  = 100
)

// note looks at a few events of a batch.
func (s *seen) note(b *Batch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.topics == nil {
		s.topics = map[string]map[ServiceType]bool{}
	}
	step := max(1, len(b.events.Events)/8)
	for i := 0; i < len(b.events.Events); i += step {
		m, _ := b.of(int32(i))
		if _, err := b.view.Parse(b.events.Event(i)); err != nil {
			continue
		}
		kinds := s.topics[m.topic]
		if kinds == nil {
			if len(s.topics) >= maxSeenTopics {
				continue
			}
			kinds = map[ServiceType]bool{}
			s.topics[m.topic] = kinds
		}
		kind := ServiceType{string(b.view.Service), string(b.view.Type)}
		if !kinds[kind] && len(kinds) < maxSeenKinds {
			kinds[kind] = true
		}
	}
}

// Lose records that messages of a topic are lost: at covers them, so the source does not wait for them, and
// coverage falls. Their kinds are unknown, so n events are missing of each kind that came from the topic, or of
// each kind that may occur.
func (in *Intake) Lose(ctx context.Context, at engine.Position, topic string, n int64) error {
	var lost []record.Dropped
	in.seen.mu.Lock()
	for kind := range in.seen.topics[topic] {
		lost = append(
			lost, record.Dropped{Service: []byte(kind.Service), Type: []byte(kind.Type), Reason: []byte(ReasonLost)})
	}
	in.seen.mu.Unlock()
	if len(lost) == 0 && in.o.Kinds != nil {
		for _, kind := range in.o.Kinds() {
			lost = append(
				lost, record.Dropped{Service: []byte(kind.Service), Type: []byte(kind.Type), Reason: []byte(ReasonLost)})
		}
	}
	for i := range lost {
		lost[i].Time, lost[i].N = in.o.Now().UnixNano(), uint64(n)
	}
	for {
		err := in.o.Lose(ctx, at, lost)
		var unavailable *engine.UnavailableError
		if err == nil || !errors.As(err, &unavailable) || unavailable == engine.ErrPoisoned ||
			unavailable == engine.ErrStopping {
			return err
		}
		if !retry.Sleep(ctx, max(unavailable.RetryAfter, 100*time.Millisecond)) {
			return ctx.Err()
		}
	}
}
