package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/sloengine/sloengine/ingest/deadletter"
	"github.com/sloengine/sloengine/reliability/dispatch"
	"github.com/sloengine/sloengine/reliability/dlq"
	"github.com/sloengine/sloengine/reliability/logrange"
)

// reasonLagging is the reason of a log range that a sink was too far behind for.
const reasonLagging = "lagging"

// sinkDeadLetters makes dead letters of what sinks did not get.
type sinkDeadLetters struct {
	store    *logrange.Store
	instance string // of this engine
	filter   *dlq.Filter
	metrics  *dlq.Metrics
	log      *slog.Logger
}

// undelivered saves items that a sink did not get, as far as the filter wants them.
func (l *sinkDeadLetters) undelivered(ctx context.Context, list []dispatch.DeadLetter) error {
	entries := make([]dlq.Entry, 0, len(list))
	for i := range list {
		entry := deadletter.Undelivered(&list[i])
		entry.ID = deadletter.ID(l.instance, &entry)
		if l.filter.ShouldSave(dlq.SubjectOf(&entry)) {
			entries = append(entries, entry)
		}
	}
	if len(entries) == 0 {
		return nil
	}
	return l.store.Save(ctx, entries)
}

// lagging archives a log range that a sink was too far behind for.
func (l *sinkDeadLetters) lagging(ctx context.Context, sink string, from, to uint64) error {
	now := time.Now()
	entry := dlq.Entry{
		Origin: dlq.Sink, Sink: sink, Reason: reasonLagging, First: now, Last: now, Seq: from, SeqEnd: to, Index: -1,
		Error: fmt.Sprintf("the sink lagged by more than max_lag_bytes and did not receive the events of log records %d to %d", from, to),
	}
	entry.ID = deadletter.ID(l.instance, &entry)
	err := l.store.Archive(ctx, entry)
	if !errors.Is(err, logrange.ErrFull) {
		return err
	}
	// A sink that is gone for good must not fill the disk: better that it lacks events, and
	// everybody is told, than that none are accepted any more.
	l.metrics.Dropped(dlq.DropFull, 1)
	l.log.Error("sink fell behind and dead-letter storage is full, events dropped", "sink", sink, "from", from, "to", to, "err", err)
	return nil
}
