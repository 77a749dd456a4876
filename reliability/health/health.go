// Package health tracks whether one thing works: since when it fails, how often and why, and when that is logged.
//
// It does not know the failing part, and decides nothing else: retries, breakers and metrics are the
// caller's.
package health

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// Failure is the state of a failing part, from the first error until a success. The zero value is
// not a failure.
type Failure struct {
	Since time.Time // of the first error
	Last  time.Time // of the last one
	Count uint64
	Err   error  // the last one
	Cause string // of Err, see Tracker

	logged      bool
	loggedCause string
}

// Text is the last error; "" without one.
func (f *Failure) Text() string {
	if f.Err == nil {
		return ""
	}
	return f.Err.Error()
}

// Tracker follows a failure. The zero value is ready, and works. It is safe for concurrent use; the fields must not
// change.
type Tracker struct {
	Now func() time.Time // nil: time.Now
	// Cause returns the text by which errors are compared: the error's own text can hold ports and times. A failure is
	// logged again when its cause changes. Nil: all errors have the same.
	Cause func(error) string
	// Interval is the shortest time between two log lines about failures, so that a part which fails and recovers
	// in quick succession does not fill the log.
	Interval time.Duration
	// Known reports whether the cause is logged elsewhere already. Nil: it never is.
	Known func(cause string) bool

	mu       sync.Mutex // held while the failure changes
	failure  atomic.Pointer[Failure]
	loggedAt time.Time // zero: never
}

// Failure is the present one.
func (t *Tracker) Failure() Failure {
	if f := t.failure.Load(); f != nil {
		return *f
	}
	return Failure{}
}

// Failing reports whether there is a failure.
func (t *Tracker) Failing() bool { return t.failure.Load() != nil }

// Logs reports whether a failure that lasts was logged, and has this cause.
func (t *Tracker) Logs(cause string) bool {
	f := t.Failure()
	return f.logged && f.Cause == cause
}

// Failed notes an error. log says that the failure is to be logged: it is the first one, or its cause is another.
func (t *Tracker) Failed(err error) (f Failure, log bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	f = t.Failure()
	if f.Count == 0 {
		f.Since = now
	}
	f.Last, f.Err = now, err
	f.Count++
	if t.Cause != nil {
		f.Cause = t.Cause(err)
	}
	log = (!f.logged || f.Cause != f.loggedCause) &&
		(t.loggedAt.IsZero() || now.Sub(t.loggedAt).Abs() >= t.Interval) && (t.Known == nil || !t.Known(f.Cause))
	if log {
		f.logged, f.loggedCause, t.loggedAt = true, f.Cause, now
	}
	t.failure.Store(&f)
	return f, log
}

// Recovered ends the failure and returns it. log says that its beginning was logged. Without a failure, it costs one
// load.
func (t *Tracker) Recovered() (f Failure, log bool) {
	return t.EndIf(func(Failure) bool { return true })
}

// EndIf is Recovered for a failure that is over without a success.
func (t *Tracker) EndIf(over func(Failure) bool) (f Failure, log bool) {
	if t.failure.Load() == nil {
		return f, false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if f = t.Failure(); f.Count == 0 || !over(f) {
		return Failure{}, false
	}
	t.failure.Store(nil)
	return f, f.logged
}

func (t *Tracker) now() time.Time {
	if t.Now != nil {
		return t.Now()
	}
	return time.Now()
}

// Log is a Tracker that writes one line at the first error and one at the recovery.
type Log struct {
	Tracker
	Logger        *slog.Logger
	Level         slog.Leveler // of Broken; nil: error
	Broken, Works string       // the texts of the lines
}

// Note notes how an attempt went. more goes into its line, if there is one.
func (l *Log) Note(err error, more ...any) {
	if err == nil {
		if !l.Failing() { // on hot paths, this is all
			return
		}
		if f, log := l.Recovered(); log {
			lasted := l.now().Sub(f.Since).Round(time.Millisecond)
			l.Logger.Info(l.Works, append(more, "failed_for", lasted, "failures", f.Count)...)
		}
		return
	}
	if _, log := l.Failed(err); log {
		level := slog.Leveler(slog.LevelError)
		if l.Level != nil {
			level = l.Level
		}
		l.Logger.Log(context.Background(), level.Level(), l.Broken, append(more, "err", err)...)
	}
}
