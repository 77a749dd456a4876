package counting

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/sloengine/sloengine/ingest/record"
	"github.com/sloengine/sloengine/reliability/health"
)

// TickLog writes into the log when the engine evaluated. It is for one evaluator.
type TickLog struct {
	write   func(ctx context.Context, payload []byte) error
	health  health.Log
	began   bool
	refused uint64

	mu      sync.Mutex
	pending []record.Tick // not yet durable, oldest first
	writing bool
}

const (
	// maxPendingTicks are those of an hour that the log did not take. Older ones are lost, and a replay has no such ticks.
	maxPendingTicks = 360
	// tickWait is how long an evaluator waits for the log: a disk that hangs must not keep it from telling of it.
	tickWait = time.Second
	// tickGivesUp is how long the log may keep a record waiting that it has not begun to write.
	tickGivesUp = 10 * time.Second
)

// NewTickLog makes a log of ticks. write returns when a record is durable.
func NewTickLog(write func(ctx context.Context, payload []byte) error, log *slog.Logger) *TickLog {
	return &TickLog{write: write, health: health.Log{
		Logger: log, Level: slog.LevelWarn, Broken: "ticks cannot be logged, backtest cannot compare them",
		Works: "ticks are logged again",
	}}
}

// Refuse notes a tick that was not made, since the clock could not be believed.
func (l *TickLog) Refuse() { l.refused++ }

// Note logs a tick, and returns once it is durable, or after tickWait. before is the time of the alert states before
// it.
func (l *TickLog) Note(t record.Tick, before time.Time) {
	if !l.began {
		l.began, t.Started = true, true
		if !before.IsZero() {
			t.Restored = before.UnixNano()
		}
	}
	t.Refused, l.refused = l.refused, 0
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pending = latestTicks(append(l.pending, t)); l.writing {
		return // the disk hangs, and the next record has this tick
	}
	l.writing = true
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.flush()
	}()
	l.mu.Unlock()
	defer l.mu.Lock()
	wait := time.NewTimer(tickWait)
	defer wait.Stop()
	select {
	case <-done:
	case <-wait.C:
	}
}

// flush writes the ticks that are pending.
func (l *TickLog) flush() {
	l.mu.Lock()
	ticks := l.pending
	l.pending = nil
	l.mu.Unlock()
	var payload []byte
	for i := range ticks {
		payload = ticks[i].Append(payload)
	}
	ctx, cancel := context.WithTimeout(context.Background(), tickGivesUp)
	defer cancel()
	err := l.write(ctx, payload)
	l.health.Note(err)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.writing = false; err != nil {
		l.pending = latestTicks(append(ticks, l.pending...))
	}
}

func latestTicks(list []record.Tick) []record.Tick { return list[max(0, len(list)-maxPendingTicks):] }
