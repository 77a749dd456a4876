package engine

import (
	"errors"
	"time"

	"github.com/sloengine/sloengine/ingest/record"
	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/reliability/health"
)

// Trouble is a part of the engine that fails and is retried automatically.
type Trouble struct {
	Part   string // log, log_marker, fold, checkpoint, dead_letters or clock
	Reason string // a sentence, without the text of the error
	Since  time.Time
}

// The parts of the engine that may fail, in the order in which they are shown.
const (
	troubleLog    = iota
	troubleMarker // the marker of the log's end: without it the next start would not notice a loss there
	troubleFold
	troubleCheckpoint
	troubleDeadLetters
	troubleClock
	troubleParts
)

var troubleNames = [troubleParts]string{"log", "log_marker", "fold", "checkpoint", "dead_letters", "clock"}

// track follows the parts: each is used by the goroutine that owns it, and read by Health.
func (e *Engine) track() {
	for i := range e.troubles {
		e.troubles[i] = health.Log{
			Tracker: health.Tracker{Now: e.opt.Now, Cause: reasonOf}, Logger: e.opt.Logger.With("part", troubleNames[i]),
			Broken: "part of the engine fails, retrying", Works: "part of the engine works again",
		}
	}
}

// reasonOf leaves out the text of the error, which may name paths: pages show the reason.
func reasonOf(err error) string {
	if wrong, ok := errors.AsType[*record.ClockError](err); ok {
		if wrong.Ahead < 0 {
			return "the clock was set back: receive times stand still until it has caught up with the log"
		}
		return "the clock jumped ahead: nothing is accepted until it is corrected, or a restart confirms it"
	}
	switch fsys.Classify(err) {
	case fsys.NoFiles:
		return "no file descriptors left (raise the limit of open files or lower web.max_connections)"
	case fsys.NoSpace:
		return "the disk is full"
	}
	return "the disk refuses to read or write (the engine's log has the error)"
}

// listTroubles lists the parts that fail now.
func (e *Engine) listTroubles() (out []Trouble) {
	for i := range e.troubles {
		if f := e.troubles[i].Failure(); f.Count > 0 {
			out = append(out, Trouble{troubleNames[i], f.Cause, f.Since})
		}
	}
	return out
}
