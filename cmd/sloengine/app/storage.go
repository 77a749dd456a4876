package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/sloengine/sloengine/alerts/incident"
	"github.com/sloengine/sloengine/cmd/sloengine/app/config"
	"github.com/sloengine/sloengine/cmd/sloengine/app/sources"
	"github.com/sloengine/sloengine/ingest/counter"
	"github.com/sloengine/sloengine/ingest/counting"
	"github.com/sloengine/sloengine/ingest/engine"
	"github.com/sloengine/sloengine/ingest/position"
	"github.com/sloengine/sloengine/ingest/trace"
	"github.com/sloengine/sloengine/reliability/dlq"
	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/reliability/retained"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/fold"
	"github.com/sloengine/sloengine/slo/traces"
	"github.com/sloengine/sloengine/web/format"
)

// storage is the data directory: the log with what the engine makes of it, and what has files of its own.
type storage struct {
	engine      *engine.Engine
	fold        *fold.Fold
	book        *incident.Book // changed by the engine's reader only
	positions   *sources.Positions
	counters    *counter.Table
	traces      *traces.Store
	requests    *trace.Table // trace ids on their way to traces
	instance    string       // of this engine
	links       *ackLinks
	trail       *auditTrail
	deadLetters *dlq.RangeStore
	bounds      retained.Bounds // of the history
	events      *counting.EventLog
	reasons     *counting.Reasons // of pages
	rebuilds    *counting.Rebuilds
	rebuilder   *counting.Rebuilder // set once the counts are built, before the engine runs
}

// storage locks the data directory first: what follows may write to it.
func (b *builder) storage(in *intake) (s *storage, err error) {
	c := &b.config
	s = &storage{book: incident.NewBook(), counters: counter.NewTable(), traces: traces.NewStore()}
	s.requests = new(trace.Table)
	tracing := counting.NewTracing(s.traces, s.requests)
	if s.fold, err = fold.New(fold.Options{Witness: tracing}); err != nil {
		return nil, fmt.Errorf("create fold: %w", err)
	}
	s.rebuilds = counting.NewRebuilds(fsys.OS(), b.DataDir)
	positions := position.NewBook()
	s.engine, err = engine.Open(engine.Options{
		Dir: b.DataDir,
		State: counting.FoldState{Fold: s.fold, Incidents: s.book, Positions: positions, Counters: s.counters,
			Tracing: tracing, Rebuilds: s.rebuilds, Uncounted: counting.NewUncounted(in.rejects.Stored)},
		Config:       func() []byte { return b.startConfig(s) },
		Metrics:      engine.NewMetrics(b.set),
		Logger:       b.Log,
		AcceptLoss:   b.AcceptLoss,
		Locked:       b.Standby,
		SegmentBytes: c.Log.Segment,
		QueueBytes:   c.Ingest.Queue,
		IDs:          c.Dedup,
		Checkpoint:   c.Checkpoint,
		Disk:         c.Disk,
		CrashPoint:   b.Crash,
		Limiter:      in.rates.Limiter,
		Critical:     in.rates.Critical,
		Whole:        b.specs.Whole,
		MergeBy:      b.specs.MergeBy,
		MergeWindow:  in.rates.MergeWindow,
	})
	if err != nil {
		return nil, err
	}
	b.group.addCloser("data directory", s.engine)
	file := filepath.Join(b.DataDir, RejectsFile)
	if err := in.rejects.Open(fsys.OS(), file, s.engine.Log().NextSeq()-1, b.set, b.Log); err != nil {
		return nil, err
	}
	s.engine.RedactHistory(in.redaction.Append)
	source := s.engine.History().Source()
	if err := s.rebuilds.Open(source); err != nil {
		return nil, err
	}
	s.events = counting.NewEventLog(source, b.specs)
	s.reasons = counting.NewReasons(s.events, b.Log)
	disk, err := fsys.Size(b.DataDir)
	if err != nil {
		return nil, err
	}
	if wanted := c.Log.RetainBytes; wanted != nil && *wanted > int64(min(disk, math.MaxInt64)) {
		return nil, fmt.Errorf("log.retain_bytes is %d bytes, and the disk of %s has %d (lower it, "+
			"or move the data directory)", *wanted, b.DataDir, disk)
	}
	s.bounds = historyBounds(c, Known(b.first.Spec).LongestWindow, disk)
	if s.trail, err = openAuditTrail(b.DataDir, in.auth, b.set, b.Log); err != nil {
		return nil, err
	}
	b.group.addCloser("audit log", s.trail.file)
	if s.positions, err = sources.NewPositions(s.engine, positions, b.DataDir, b.Log); err != nil {
		return nil, err
	}
	if s.instance, err = instanceName(fsys.OS(), b.DataDir); err != nil {
		return nil, err
	}
	if s.links, err = newAckLinks(fsys.OS(), b.DataDir); err != nil {
		return nil, err
	}
	s.deadLetters, err = b.openDeadLetters(in, s.engine.Log(), s.instance)
	return s, err
}

// startConfig puts the first spec in force, with earlier definitions of SLOs that wait to be rebuilt. The engine calls
// it once it has recovered.
func (b *builder) startConfig(s *storage) []byte {
	first := s.rebuilder.AtStart(b.first, s.fold, b.Log)
	b.specs.Use(first)
	return first.Encoded
}

// historyBounds are the bounds of the retained log for the longest window of a spec and the size of the disk.
func historyBounds(c *config.Config, longest time.Duration, disk uint64) retained.Bounds {
	b := retained.Bounds{Age: c.RetainFor(longest), Bytes: int64(min(disk/10, math.MaxInt64))}
	if c.Log.RetainBytes != nil {
		b.Bytes = *c.Log.RetainBytes
	}
	if b.Bytes == 0 {
		b.Age = 0
	}
	return b
}

// spaceFor is how much a history may take: as much as the settings say, unless the disk has less.
func spaceFor(kept *retained.Stats, most int64, free uint64, lowWater int64) int64 {
	if lowWater < 0 {
		return most
	}
	return min(most, kept.Bytes+max(0, int64(min(free, math.MaxInt64/2))-2*lowWater))
}

// ShortHistory says that a history cannot reach back as far as a spec needs; "": it can, or that is not known.
func ShortHistory(kept *retained.Stats, b retained.Bounds, now time.Time, known *config.Known) string {
	need := known.LongestWindow
	of := func(reach time.Duration) string {
		const day = 24 * time.Hour
		if need >= 2*day { // a month may be an hour longer
			return fmt.Sprintf("%d of the %d days that %s needs", reach/day, (need+day/2)/day, known.Longest)
		}
		return fmt.Sprintf("%s of the %s that %s needs", format.Duration(reach), format.Duration(need), known.Longest)
	}
	if b.Age > 0 && b.Age < need {
		return "history reaches back at most " + of(b.Age) + "; raise log.retain"
	}
	r := kept.Reach(now, b)
	missing := r.Missing(need)
	switch {
	case missing == 0:
		return ""
	case r.Full():
		return fmt.Sprintf("history reaches back %s; %s more would do", of(r.Limit), format.Bytes(missing))
	}
	return fmt.Sprintf("history will reach back %s at the rate so far; %s more would do", of(r.Limit),
		format.Bytes(missing))
}

// CheckHistory is the same for the data directory of an engine, running or not, with its settings.
func CheckHistory(dir string, c *config.Config, known *config.Known) (string, error) {
	source, err := engine.OpenLog(fsys.OS(), dir)
	if err != nil {
		return "", err
	}
	kept, err := source.Reach()
	if err != nil {
		return "", err
	}
	disk, err := fsys.Size(dir)
	if err != nil {
		return "", err
	}
	free, err := fsys.OS().Free(dir)
	if err != nil {
		return "", err
	}
	b := historyBounds(c, known.LongestWindow, disk)
	b.Bytes = spaceFor(&kept, b.Bytes, free, c.Disk.LowWater)
	return ShortHistory(&kept, b, time.Now(), known), nil
}

// growHistory retains more of the log where a reloaded spec needs it. It never retains less: a start does, so that a
// window that was mistyped for a minute costs nothing.
func (s *storage) growHistory(c *config.Config, longest time.Duration) {
	b := s.engine.History().Bounds()
	if age := c.RetainFor(longest); b.Age > 0 && age > b.Age {
		b.Age = age
		s.engine.History().SetBounds(b)
	}
}

// neededFrom is the first record of the log that a sink needs, or a start for rebuilt counts.
func (s *storage) neededFrom(sinks func() (uint64, bool)) func() (uint64, bool) {
	return func() (seq uint64, ok bool) {
		seq, ok = sinks()
		if from, needed := s.rebuilds.Lowest(); needed && (!ok || from < seq) {
			return from, true
		}
		return seq, ok
	}
}

// standbyEvery is how often a standby tries to lock the data directory.
const standbyEvery = 100 * time.Millisecond

// standBy waits until no other engine uses the data directory, and returns its lock. The directory must hold the data
// of an engine: one that is not mounted is empty, and an engine that began with it would lack everything.
//
// It swallows SIGHUP, since the files are read again once the lock is held.
func standBy(ctx context.Context, dir string, log *slog.Logger) (io.Closer, error) {
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)
	tick := time.NewTicker(standbyEvery)
	defer tick.Stop()
	for began, told := time.Now(), false; ; {
		if _, err := os.Stat(filepath.Join(dir, fsys.FormatFile)); err != nil {
			return nil, fmt.Errorf(
				"standby: %s holds no data of an engine (is it mounted? start the first engine without --standby): %w", dir, err)
		}
		lock, err := fsys.OS().Lock(filepath.Join(dir, engine.LockFile))
		if err == nil {
			if told {
				log.Info("standby takes over", "dir", dir, "waited", time.Since(began).Round(time.Millisecond))
			}
			return lock, nil
		}
		if !errors.Is(err, fsys.ErrLocked) {
			return nil, fmt.Errorf("standby: %w", err)
		}
		if !told {
			log.Info("standing by while another engine uses the data directory", "dir", dir)
			told = true
		}
		select {
		case <-tick.C:
		case <-hup:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// observedSpans is what a source of counters observed.
func (s *storage) observedSpans(ctx context.Context, stream string) (spans []slo.Span, err error) {
	err = s.engine.Do(ctx, func() { spans = s.fold.Observed(stream) })
	return spans, err
}

// observedUntil is the end of what a source of counters observed last.
func (s *storage) observedUntil(ctx context.Context, stream string) (until time.Time, err error) {
	err = s.engine.Do(ctx, func() { until = s.fold.ObservedUntil(stream) })
	return until, err
}
