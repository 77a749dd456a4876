package engine

import (
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/sloengine/sloengine/reliability/fsys"
)

// Trouble is a part of the engine that does not work now and is tried again by itself.
type Trouble struct {
	Part   string    `json:"part"`   // log, log_marker, fold, checkpoint or dead_letters
	Reason string    `json:"reason"` // for people, without the text of the error
	Since  time.Time `json:"since"`
}

// trouble tells when a part stops to work and when it works again, once each.
type trouble struct {
	part string
	now  func() time.Time
	log  *slog.Logger
	at   atomic.Pointer[Trouble]
}

// The parts of the engine that may be in trouble, in the order in which they are shown.
const (
	troubleLog    = iota
	troubleMarker // of the log's end: a loss there would not be noticed at the next start
	troubleFold
	troubleCheckpoint
	troubleLetters
	troubleParts
)

var troubleNames = [troubleParts]string{"log", "log_marker", "fold", "checkpoint", "dead_letters"}

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
	t.log.Error("part of the engine does not work, it is tried again", "part", t.part, "err", err)
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

func reasonOf(err error) string {
	switch fsys.Classify(err) {
	case fsys.NoFiles:
		return "no file descriptor is left; raise the limit of open files or lower web.max_connections"
	case fsys.NoSpace:
		return "the disk is full"
	}
	return "the disk refuses to read or write; the log of the engine says more"
}

// troubles lists what is in trouble now.
func (e *Engine) listTroubles() (out []Trouble) {
	for i := range e.troubles {
		if t := e.troubles[i].at.Load(); t != nil {
			out = append(out, *t)
		}
	}
	return out
}
