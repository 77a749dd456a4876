package engine

import (
	"time"
)

// This file holds the published state of the engine. Every figure is an atomic or is guarded by a lock that is
// held for a few instructions, so Health stays quick while the disk hangs. Figures of one Health may be a moment
// apart.

// Status is the state of the engine as a whole.
type Status string

// The statuses. Commit takes events in StatusReady only.
const (
	StatusStarting   Status = "starting"
	StatusRecovering Status = "recovering" // reading the log after a start
	StatusReady      Status = "ready"
	StatusDiskLow    Status = "disk_low"   // nothing is accepted until there is room
	StatusClockJump  Status = "clock_jump" // nothing is accepted until the clock is back, or a restart
	StatusStopping   Status = "stopping"
	StatusStopped    Status = "stopped"
	StatusPoisoned   Status = "poisoned" // a write failed for good; Run returns an error
)

// Health is the condition of the engine at one moment. Positions are record numbers of the log.
type Health struct {
	Status   Status
	Reason   string  // a sentence, if Status is not ready
	Progress float64 // of recovery, 0 to 1

	Watermark time.Time // receive time of the last durable record
	Recovered uint64    // records folded again at the start
	StartedAt uint64    // log position of the checkpoint it started from

	Queue       QueueHealth
	Log         LogHealth
	Checkpoint  CheckpointHealth
	IDs         IDHealth
	Disk        DiskHealth
	DeadLetters uint64 // events ever refused by the fold

	Troubles []Trouble // parts that fail and are retried
}

// QueueHealth is about the requests that wait for the log.
type QueueHealth struct {
	Requests int
	Bytes    int64
}

// LogHealth is about the write-ahead log.
type LogHealth struct {
	Bytes    int64
	Segments int
	Durable  uint64 // last record on disk
	Folded   uint64 // last record counted
	Lag      uint64 // records between the two
}

// CheckpointHealth is about the newest checkpoint.
type CheckpointHealth struct {
	Position uint64    // last record in it
	At       time.Time // zero before the first
	Age      time.Duration
	Written  int64  // by this checkpoint alone
	State    int64  // everything that it refers to
	Failures uint64 // since the start
	// Fallbacks counts the newer checkpoints that the start could not use.
	Fallbacks int
}

// IDHealth is about the deduplication table.
type IDHealth struct {
	Count int
	Bytes int64
	// Window is the dedup window: how long an id is recognised at the present rate. A duplicate after that is counted
	// again.
	Window time.Duration
	// Short is how far back the ids of spans are known if that is less than IDs.MaxAge and spans come; else 0.
	Short time.Duration
}

// DiskHealth is about the disk that holds the data folder.
type DiskHealth struct {
	Free     uint64
	LowWater int64 // negative: not guarded
	Reserved bool  // the reserve file is in place
}

// Health returns the current health. It takes no lock that is held during I/O, so it may be called often, at any time.
func (e *Engine) Health() Health {
	now := e.opt.Now()
	h := Health{
		Recovered:   e.recovered.Load(),
		StartedAt:   e.startedAt.Load(),
		Progress:    e.progress(),
		DeadLetters: e.dead.count(),
		Disk: DiskHealth{
			Free: e.disk.free.Load(), LowWater: e.opt.Disk.LowWater, Reserved: e.disk.reserved.Load(),
		},
		Checkpoint: *e.checkpointHealth.Load(),
		Troubles:   e.listTroubles(),
	}
	h.Status, h.Reason = e.status()
	if at := e.watermark.Load(); at > 0 {
		h.Watermark = time.Unix(0, at).UTC()
	}
	h.Queue.Requests, h.Queue.Bytes = e.queue.size()
	h.Log.Durable, h.Log.Folded = e.durable.Load(), e.folded.Load()
	h.Log.Lag = h.Log.Durable - min(h.Log.Durable, h.Log.Folded)
	h.Log.Bytes, h.Log.Segments = e.log.Size()
	if !h.Checkpoint.At.IsZero() {
		h.Checkpoint.Age = max(0, now.Sub(h.Checkpoint.At))
	}
	ids := *e.idStats.Load()
	h.IDs = IDHealth{Count: ids.Count, Bytes: ids.Bytes, Window: ids.Window, Short: ids.Short}
	return h
}

// ClockJumped reports whether nothing is accepted because the clock jumped ahead.
func (e *Engine) ClockJumped() bool { return e.clock.Jumped() }

// status derives the state of the engine from its parts, the most serious first.
func (e *Engine) status() (Status, string) {
	phase := *e.phase.Load()
	switch {
	case phase == StatusPoisoned:
		return phase, "the log or a checkpoint cannot be written: " + e.failure()
	case phase == StatusStarting:
		return phase, "the data folder is being opened"
	case phase == StatusRecovering:
		return phase, "the log is being read"
	case phase == StatusStopping, phase == StatusStopped:
		return phase, "the engine is shut down"
	case e.disk.low.Load():
		return StatusDiskLow, "the disk is full or below its low-water mark: events are refused, everything else continues"
	case e.clock.Jumped():
		return StatusClockJump,
			"the clock jumped ahead of the log: events are refused until the clock is corrected or a restart confirms it"
	}
	return StatusReady, ""
}

// progress is the share of the log that recovery has read.
//
// Both replays count, the one for the State and the one for the ids, so it is a share of records to be read and
// not of time.
func (e *Engine) progress() float64 {
	switch *e.phase.Load() {
	case StatusStarting:
		return 0
	case StatusRecovering:
		todo, done := e.replayTodo.Load(), e.replayDone.Load()
		if todo == 0 {
			return 0
		}
		return min(1, float64(done)/float64(todo))
	}
	return 1
}
