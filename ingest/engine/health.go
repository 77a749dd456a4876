package engine

import (
	"time"
)

// Status is what the engine as a whole is doing.
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

// Health is what the engine knows of itself at one moment. Bytes are bytes,
// sequence numbers are those of the log.
type Health struct {
	Status   Status  `json:"status"`
	Reason   string  `json:"reason,omitempty"` // for people, if Status is not ready
	Progress float64 `json:"progress"`         // of recovery, 0 to 1

	Watermark time.Time `json:"watermark"`  // receive time of the last durable record
	Recovered uint64    `json:"recovered"`  // records folded again at the start
	StartedAt uint64    `json:"started_at"` // log position of the checkpoint it started from

	Queue       QueueHealth      `json:"queue"`
	Log         LogHealth        `json:"log"`
	Checkpoint  CheckpointHealth `json:"checkpoint"`
	IDs         IDHealth         `json:"ids"`
	Disk        DiskHealth       `json:"disk"`
	DeadLetters uint64           `json:"dead_letters"` // events ever refused by the fold

	Troubles []Trouble `json:"troubles,omitempty"` // what does not work now
}

// QueueHealth is about the requests that wait for the log.
type QueueHealth struct {
	Requests int   `json:"requests"`
	Bytes    int64 `json:"bytes"`
	Limit    int64 `json:"limit"`
}

// LogHealth is about the write-ahead log.
type LogHealth struct {
	Bytes    int64  `json:"bytes"`
	Segments int    `json:"segments"`
	Durable  uint64 `json:"durable"` // last record on disk
	Folded   uint64 `json:"folded"`  // last record counted
	Lag      uint64 `json:"lag"`     // records between the two

	LastAppend time.Duration `json:"last_append_ns"` // write and sync of the last group
}

// CheckpointHealth is about the newest checkpoint.
type CheckpointHealth struct {
	Position uint64        `json:"position"` // last record in it
	At       time.Time     `json:"at"`       // zero before the first
	Age      time.Duration `json:"age_ns"`
	Took     time.Duration `json:"took_ns"`
	Written  int64         `json:"written_bytes"` // by this checkpoint alone
	State    int64         `json:"state_bytes"`   // all that it refers to
	Failures uint64        `json:"failures"`      // since the start
	// Fallbacks counts broken checkpoints that were passed over at the start.
	Fallbacks int `json:"fallbacks"`
}

// IDHealth is about the known ids.
type IDHealth struct {
	Count int   `json:"count"`
	Bytes int64 `json:"bytes"`
	Limit int64 `json:"limit"`
	// Since is the receive time from which every id is known; zero if none is.
	Since time.Time `json:"since"`
	// Horizon is how long an id stays known at the present rate. A repeat after
	// that is counted again.
	Horizon time.Duration `json:"horizon_ns"`
}

// DiskHealth is about the disk that holds the data folder.
type DiskHealth struct {
	Free     uint64 `json:"free"`
	LowWater int64  `json:"low_water"` // negative: not guarded
	Reserved bool   `json:"reserved"`  // the reserve file is in place
}

// Health returns the present health. It waits for nothing and may be called
// often.
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
	h.Queue.Limit = e.opt.QueueBytes
	h.Log.LastAppend = time.Duration(e.lastAppend.Load())
	h.Log.Durable, h.Log.Folded = e.durable.Load(), e.folded.Load()
	h.Log.Lag = h.Log.Durable - min(h.Log.Durable, h.Log.Folded)
	h.Log.Bytes, h.Log.Segments = e.log.Size()
	if !h.Checkpoint.At.IsZero() {
		h.Checkpoint.Age = max(0, now.Sub(h.Checkpoint.At))
	}
	ids := *e.idStats.Load()
	h.IDs = IDHealth{Count: ids.Count, Bytes: ids.Bytes, Limit: e.opt.IDs.Bytes, Horizon: ids.Horizon}
	if ids.Start > 0 {
		h.IDs.Since = time.Unix(0, ids.Start).UTC()
	}
	return h
}

// status derives what the engine is doing from its parts, the gravest first.
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
		return StatusDiskLow, "the disk is full or below its low-water mark: events are refused, everything else goes on"
	case e.clock.Jumped():
		return StatusClockJump, "the clock jumped ahead of the log: events are refused until it is back, or until a restart confirms it"
	}
	return StatusReady, ""
}

// progress is the share of the log that recovery has read.
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
