package dispatch

import (
	"errors"
	"slices"
	"syscall"
	"time"

	"github.com/sloengine/sloengine/reliability/health"
	"github.com/sloengine/sloengine/reliability/retry"
)

// This file reports the failures of a lane for the status, and throttles their log lines: each kind of
// failure is logged when it begins, when its cause changes and when it ends, and at most once a minute.

// The kinds of failure of a lane.
const (
	TroubleDelivery    = "delivery"     // calls to the sink fail, or it refuses every item
	TroubleFlush       = "flush"        // the sink cannot make delivered items durable: they are sent again
	TroubleRead        = "log"          // the log cannot be read
	TroubleDeadLetters = "dead_letters" // dead letters cannot be stored, so the lane waits
	TroubleCursor      = "cursor"       // the cursor cannot be saved: after a crash, events are sent again
	// the sink is too far behind, and the log range that it should skip cannot be retained
	TroubleLag = "lag"
)

// Trouble is a failure of a lane, from the first error until it works again.
//
// Failures counts from Since on. Cause may hold anything that the sink has answered, so it is shown to operators
// only.
type Trouble struct {
	Kind  string    `json:"what"` // delivery, flush, log, dead_letters, cursor or lag
	Since time.Time `json:"since"`
	Cause string    `json:"cause"` // the last error, with the text of the sink
	// Brief is the cause in words of this program and the operating system only, for pages that anybody may read.
	Brief    string `json:"brief"`
	Failures uint64 `json:"failures"`
	// Blocked says that an operator has to act: the items wait until then.
	Blocked bool `json:"blocked"`
}

// recentFailure is how long a failure to deliver counts when nothing waits any more.
const recentFailure = 2 * time.Minute

// logAgainAfter is the shortest time between two log lines about the same kind of failure: a sink that fails and
// recovers in quick succession must not fill the log.
//
// The status always shows the present cause, so nothing is hidden by that.
const logAgainAfter = time.Minute

// newTroubles returns the trackers of all kinds.
func newTroubles() map[string]*health.Tracker {
	all := map[string]*health.Tracker{}
	for _, kind := range troubleKinds {
		all[kind] = &health.Tracker{
			// Compared by brief, since the full text may differ at every call: it can hold times, ids and ports.
			Cause: BriefCause, Interval: logAgainAfter,
			Known: func(cause string) bool {
				return slices.ContainsFunc(troubleKinds, func(k string) bool { return k != kind && all[k].Logs(cause) })
			},
		}
	}
	return all
}

// failed records that something failed. The first failure is logged immediately, another cause after a minute.
func (l *lane) failed(kind string, err error) {
	l.noteError(err)
	f, log := l.troubles[kind].Failed(err)
	l.m.failing[kind].Set(1)
	if log {
		l.log.Warn("sink failing", "what", kind, "cause", err.Error(),
			"since", f.Since.UTC().Format(time.RFC3339), "failures", f.Count)
	}
}

// recovered records that something works, and logs it if its failure was logged.
func (l *lane) recovered(kind string) {
	f, log := l.troubles[kind].Recovered()
	l.ended(kind, "sink recovered", f, log)
}

// idle ends a failure to deliver without a success: its items are dead letters or expired, nothing waits, and the
// sink may be healthy. A sink that an operator has to fix first keeps its failure.
func (l *lane) idle() {
	f, log := l.troubles[TroubleDelivery].EndIf(func(f health.Failure) bool {
		return !blocked(f) && time.Since(f.Last) >= recentFailure
	})
	l.ended(TroubleDelivery, "sink failed, and nothing waits for it", f, log)
}

func (l *lane) ended(kind, message string, f health.Failure, log bool) {
	if f.Count == 0 {
		return
	}
	l.m.failing[kind].Set(0)
	if log {
		l.log.Info(message, "what", kind, "after", time.Since(f.Since).Round(time.Millisecond).String(),
			"failures", f.Count, "cause", f.Err.Error())
	}
}

// troublesNow lists the current failures.
func (l *lane) troublesNow() (all []Trouble) {
	for _, kind := range troubleKinds {
		if f := l.troubles[kind].Failure(); f.Count > 0 {
			all = append(all, Trouble{kind, f.Since, f.Err.Error(), f.Cause, f.Count, blocked(f)})
		}
	}
	return all
}

func blocked(f health.Failure) bool { return retry.ClassOf(f.Err) == retry.ClassBlocked }

// troubleKinds is the order in which the status lists them, the most significant first.
var troubleKinds = []string{TroubleDelivery, TroubleFlush, TroubleRead, TroubleDeadLetters, TroubleCursor, TroubleLag}

// BriefCause names a cause in words of this program and the operating system only: an answer of a sink may hold
// secrets.
func BriefCause(err error) string {
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

// sums holds the count under a key since it was last logged. lane.mu guards it.
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

// sumUp adds n to the count under a key, and reports whether it is time to log the sum.
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
