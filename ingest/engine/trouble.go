package engine

import (
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/sloengine/sloengine/ingest/clock"
	"github.com/sloengine/sloengine/reliability/fsys"
)

// Trouble is a part of the engine that fails and is retried automatically.
type Trouble struct {
	Part   string // log, log_marker, fold, checkpoint, dead_letters or clock
	Reason string // a sentence, without the text of the error
	Since  time.Time
}

// trouble logs once when a part begins to fail and once when it works again. Each part is used by the goroutine that
// owns it, and read by Health.
//
// at is replaced as a whole, so Health sees a consistent Trouble without a lock.
type trouble struct {
	part string
	now  func() time.Time
	log  *slog.Logger
	at   atomic.Pointer[Trouble] // nil while the part works
}

// The parts of the engine that may be in trouble, in the order in which they are shown.
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

// failed notes a failure. The same reason again is not logged, another one is, and Since stays that of the first.
func (t *trouble) failed(err error) {
	before := t.at.Load()
	found := &Trouble{Part: t.part, Reason: reasonOf(err), Since: t.now()}
	if before != nil {
		if before.Reason == found.Reason {
			return
		}
		found.Since = before.Since
	}
	t.at.Store(found)
	t.log.Error("part of the engine fails, retrying", "part", t.part, "err", err)
}

// works is called on the hot path: while there is no trouble it is one load.
func (t *trouble) works() {
	if t.at.Load() == nil {
		return
	}
	if before := t.at.Swap(nil); before != nil {
		t.log.Info("part of the engine works again", "part", t.part, "after", t.now().Sub(before.Since).Round(time.Millisecond))
	}
}

// reasonOf leaves out the text of the error, which may name paths: pages show the reason.
func reasonOf(err error) string {
	if wrong, ok := errors.AsType[*clock.Error](err); ok {
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
		if t := e.troubles[i].at.Load(); t != nil {
			out = append(out, *t)
		}
	}
	return out
}
