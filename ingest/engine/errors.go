package engine

import (
	"errors"
	"time"
)

// UnavailableError says that nothing is wrong with a request, but that it cannot
// be taken now. Nothing of the request was stored.
type UnavailableError struct {
	Code       string        // for programs, such as "disk_full"
	Detail     string        // for people
	RetryAfter time.Duration // after which trying again makes sense
}

// Error returns the detail.
func (e *UnavailableError) Error() string { return e.Detail }

// The reasons for which Commit and SetConfig refuse; test with errors.Is. All
// are temporary for the sender, who should resend after RetryAfter.
var (
	// ErrOverloaded: more bytes wait for the log than Options.QueueBytes.
	ErrOverloaded = &UnavailableError{"overloaded", "too many requests wait to be stored", time.Second}
	// ErrDiskFull: the disk is full, or below its low-water mark.
	ErrDiskFull = &UnavailableError{"disk_full", "the disk is full or nearly full", 10 * time.Second}
	// ErrWriteFailed: the disk refused a write; the log is as it was before.
	ErrWriteFailed = &UnavailableError{"write_failed", "the log could not be written", 5 * time.Second}
	// ErrNoFiles: no file descriptor is left for the log, which is as it was before.
	ErrNoFiles = &UnavailableError{"no_descriptors", "the engine has no file descriptor left for its log", 5 * time.Second}
	// ErrNotReady: the engine is still reading its log after a start.
	ErrNotReady = &UnavailableError{"not_ready", "the engine is recovering", 2 * time.Second}
	// ErrPoisoned: a write to the log failed in a way after which nothing more
	// can be promised; the process is about to exit.
	ErrPoisoned = &UnavailableError{"poisoned", "the log cannot be written any more", 5 * time.Second}
	// ErrClockJump: the clock is more than Options.MaxClockJump ahead of the
	// last record.
	ErrClockJump = &UnavailableError{"clock_jump", "the clock of the engine jumped ahead", 10 * time.Second}
	// ErrStopping: the engine is shutting down.
	ErrStopping = &UnavailableError{"stopping", "the engine is shutting down", 2 * time.Second}
)

// RetryAfter returns how long a sender should wait after err, and whether err
// is of the kind that passes.
func RetryAfter(err error) (time.Duration, bool) {
	var unavailable *UnavailableError
	if errors.As(err, &unavailable) {
		return unavailable.RetryAfter, true
	}
	return 0, false
}
