package dispatch

import (
	"errors"
	"syscall"
	"time"

	"github.com/sloengine/sloengine/reliability/retry"
)

// This file says what fails in a lane, for the status, and keeps the log quiet while it does: each kind of
// trouble is logged when it begins, when its cause changes and when it ends, and at most once a minute.

// The kinds of trouble of a lane.
const (
	TroubleDelivery    = "delivery"     // calls to the sink fail, or it refuses every item
	TroubleFlush       = "flush"        // the sink cannot make delivered items durable: they are sent again
	TroubleRead        = "log"          // the log cannot be read
	TroubleDeadLetters = "dead_letters" // dead letters cannot be stored, so the lane waits
	TroubleCursor      = "cursor"       // the cursor cannot be saved: after a crash, events are sent again
	TroubleLag         = "lag"          // the sink is too far behind, and the log range that it should skip cannot be retained
)

// Trouble is what fails in a lane, from the first failure until it works again.
//
// Failures counts from Since on. Cause may hold anything that the sink has answered, so it is shown to operators
// only.
type Trouble struct {
	Kind  string
	Since time.Time
	Cause string // the last error, with what the sink wrote
	// Brief is the cause in words of this program and the operating system only, for pages that anybody may read.
	Brief    string
	Failures uint64
	// Blocked says that an operator has to act: the items wait until then.
	Blocked bool
}

// trouble is a Trouble while it lasts, and when it was last logged. lane.mu guards it.
type trouble struct {
	Trouble
	told time.Time // when it was last logged; zero: never
	last time.Time // when it failed last
	open bool      // its start was logged, so its end will be
}

// recentFailure is how long a failure to deliver counts when nothing waits any more.
const recentFailure = 2 * time.Minute

// logAgainAfter is the shortest time between two log lines about the same kind of trouble: a sink that fails and recovers
// in quick succession must not fill the log.
//
// The status always shows the present cause, so nothing is hidden by that.
const logAgainAfter = time.Minute

// fails records that something failed. The first failure is logged immediately, the same cause again after a minute.
func (l *lane) fails(kind string, err error) {
	now := time.Now()
	l.mu.Lock()
	l.tally.lastError, l.tally.lastErrorAt = err.Error(), now
	t := l.troubles[kind]
	if t == nil {
		t = &trouble{}
		l.troubles[kind] = t
	}
	// Compared by brief, since the full text may differ at every call: it can hold times, ids and ports.
	brief := briefCause(err)
	other := t.open && brief != t.Brief
	if t.Since.IsZero() {
		t.Since = now
	}
	t.Kind, t.Cause, t.Brief, t.Blocked = kind, err.Error(), brief, retry.ClassOf(err) == retry.ClassBlocked
	t.Failures++
	t.last = now
	tell := (!t.open || other) && (t.told.IsZero() || now.Sub(t.told) >= logAgainAfter) && !l.tellsAlready(kind, brief)
	if tell {
		t.told, t.open = now, true
	}
	told := t.Trouble // a copy, so that the log line is written without the lock
	l.mu.Unlock()
	l.m.failing[kind].Set(1)
	if tell {
		l.log.Warn("sink failing", "what", kind, "cause", told.Cause, "since", told.Since.UTC().Format(time.RFC3339), "failures", told.Failures)
	}
}

// tellsAlready reports whether the same cause was logged for another kind of trouble that lasts. l.mu is held.
func (l *lane) tellsAlready(kind, brief string) bool {
	for other, t := range l.troubles {
		if other != kind && t.open && t.Brief == brief {
			return true
		}
	}
	return false
}

// works records that something works, and logs it if its failure was logged.
func (l *lane) works(kind string) {
	l.ends(kind, "sink recovered", func(*trouble) bool { return true })
}

// idle ends a failure to deliver without a success: its items are dead letters or expired, nothing waits, and the sink
// may be as healthy as any. A sink that an operator has to fix first goes on failing.
func (l *lane) idle() {
	l.ends(TroubleDelivery, "sink failed, and nothing waits for it", func(t *trouble) bool {
		return !t.Blocked && time.Since(t.last) >= recentFailure
	})
}

func (l *lane) ends(kind, message string, over func(*trouble) bool) {
	l.mu.Lock()
	t := l.troubles[kind]
	if t == nil || t.Since.IsZero() || !over(t) {
		l.mu.Unlock()
		return
	}
	was, tell := t.Trouble, t.open
	t.Trouble, t.open = Trouble{}, false // told stays: it bounds the lines of a sink that fails again and again
	l.mu.Unlock()
	l.m.failing[kind].Set(0)
	if tell {
		l.log.Info(message, "what", kind, "after", time.Since(was.Since).Round(time.Millisecond).String(),
			"failures", was.Failures, "cause", was.Cause)
	}
}

// troublesNow lists what fails now.
func (l *lane) troublesNow() (all []Trouble) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, kind := range troubleKinds {
		if t := l.troubles[kind]; t != nil && !t.Since.IsZero() {
			all = append(all, t.Trouble)
		}
	}
	return all
}

// troubleKinds is the order in which the status lists them, the most telling first.
var troubleKinds = []string{TroubleDelivery, TroubleFlush, TroubleRead, TroubleDeadLetters, TroubleCursor, TroubleLag}

// briefCause names a cause in words of this program and the operating system only: an answer of a sink may hold secrets.
func briefCause(err error) string {
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

// sums is what has been counted under a key since it was last logged. lane.mu guards it.
type sums struct {
	told time.Time
	n    int
}

// logLost logs, at most once a minute per reason, items that a sink does not get.
func (l *lane) logLost(what, reason string, n int, cause string) {
	if count, tell := l.sumUp(what+" "+reason, n); tell {
		l.log.Warn(what, "reason", reason, "count", count, "cause", cause)
	}
}

// sumUp adds n to what is counted under a key, and reports whether it is time to log the sum.
func (l *lane) sumUp(key string, n int) (count int, tell bool) {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.sums[key]
	s.n += n
	count, tell = s.n, s.told.IsZero() || now.Sub(s.told) >= logAgainAfter
	if tell {
		s = sums{told: now}
	}
	l.sums[key] = s
	return count, tell
}
