package dispatch

import (
	"errors"
	"syscall"
	"time"

	"github.com/sloengine/sloengine/reliability/retry"
)

// What a lane can have trouble with.
const (
	TroubleDelivery = "delivery"     // calls to the sink fail, or it refuses all it gets
	TroubleFlush    = "flush"        // what was delivered cannot be made durable: it is sent again
	TroubleRead     = "log"          // the log cannot be read
	TroubleLetters  = "dead_letters" // what it refuses cannot be kept, so the lane waits
	TroubleCursor   = "cursor"       // its place cannot be saved: a crash sends events again
	TroubleLag      = "lag"          // it is too far behind, and what it should skip cannot be kept
)

// Trouble is what fails in a lane, from the first failure until it works again.
type Trouble struct {
	Kind  string
	Since time.Time
	Cause string // the last error, with what the sink wrote
	// Brief is the cause without foreign text.
	Brief    string
	Failures uint64
	// Blocked says that somebody must change something first, and that events wait.
	Blocked bool
}

// trouble is a Trouble while it lasts, and when it was last told.
type trouble struct {
	Trouble
	told time.Time // zero: never
	open bool      // its beginning was told, so its end will be
}

// tellAgain is how long a lane keeps to itself that the same thing fails once more: a
// sink that comes and goes must not fill the log.
const tellAgain = time.Minute

// ail notes that something failed. The first failure is told at once.
func (l *lane) ail(kind string, err error) {
	now := time.Now()
	l.mu.Lock()
	l.tally.lastError, l.tally.lastErrorAt = err.Error(), now
	t := l.troubles[kind]
	if t == nil {
		t = &trouble{}
		l.troubles[kind] = t
	}
	brief := briefly(err)
	other := t.open && brief != t.Brief
	if t.Since.IsZero() {
		t.Since = now
	}
	t.Kind, t.Cause, t.Brief, t.Blocked = kind, err.Error(), brief, retry.ClassOf(err) == retry.ClassBlocked
	t.Failures++
	tell := (!t.open || other) && (t.told.IsZero() || now.Sub(t.told) >= tellAgain) && !l.tellsAlready(kind, brief)
	if tell {
		t.told, t.open = now, true
	}
	told := t.Trouble
	l.mu.Unlock()
	l.m.failing[kind].Set(1)
	if tell {
		l.log.Warn("sink failing", "what", kind, "cause", told.Cause, "since", told.Since.UTC().Format(time.RFC3339), "failures", told.Failures)
	}
}

// tellsAlready reports whether the same cause was told of another kind of trouble, which
// lasts. l.mu is held.
func (l *lane) tellsAlready(kind, brief string) bool {
	for other, t := range l.troubles {
		if other != kind && t.open && t.Brief == brief {
			return true
		}
	}
	return false
}

// mend notes that something works.
func (l *lane) mend(kind string) {
	l.mu.Lock()
	t := l.troubles[kind]
	if t == nil || t.Since.IsZero() {
		l.mu.Unlock()
		return
	}
	was, tell := t.Trouble, t.open
	t.Trouble, t.open = Trouble{}, false
	l.mu.Unlock()
	l.m.failing[kind].Set(0)
	if tell {
		l.log.Info("sink works again", "what", kind, "after", time.Since(was.Since).Round(time.Millisecond).String(),
			"failures", was.Failures, "cause", was.Cause)
	}
}

// ailing lists what fails now.
func (l *lane) ailing() (all []Trouble) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, kind := range troubleKinds {
		if t := l.troubles[kind]; t != nil && !t.Since.IsZero() {
			all = append(all, t.Trouble)
		}
	}
	return all
}

var troubleKinds = []string{TroubleDelivery, TroubleFlush, TroubleRead, TroubleLetters, TroubleCursor, TroubleLag}

// briefly names a cause in words of this program and the operating system only.
func briefly(err error) string {
	var own interface{ Brief() string }
	var errno syscall.Errno
	switch {
	case errors.As(err, &own):
		return own.Brief()
	case errors.As(err, &errno):
		return errno.Error()
	}
	switch retry.ClassOf(err) {
	case retry.ClassTimeout:
		return "no answer in time"
	case retry.ClassTransient:
		return "not reachable"
	case retry.ClassOverload:
		return "overloaded"
	case retry.ClassPermanent:
		return "refused"
	}
	return "unknown"
}

// sums tells at most once in a while how much became of something, with the latest cause.
type sums struct {
	told time.Time
	n    int
}

// lose tells, now and then, of items that a sink does not get, and why.
func (l *lane) lose(what, reason string, n int, cause string) {
	if count, tell := l.sometimes(what+" "+reason, n); tell {
		l.log.Warn(what, "reason", reason, "count", count, "cause", cause)
	}
}

// sometimes adds n to what is to be told under a key, and reports whether it is time.
func (l *lane) sometimes(key string, n int) (count int, tell bool) {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.sums[key]
	s.n += n
	count, tell = s.n, s.told.IsZero() || now.Sub(s.told) >= tellAgain
	if tell {
		s = sums{told: now}
	}
	l.sums[key] = s
	return count, tell
}
