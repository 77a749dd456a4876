package engine

import (
	"time"
)

// UnavailableError means that a request is valid and cannot be accepted now. Nothing of it was stored.
//
// The values below are compared by identity and are keys of a metric, so they are never copied.
type UnavailableError struct {
	Code       string        // for programs, such as "disk_full"
	Detail     string        // a sentence
	RetryAfter time.Duration // after which trying again makes sense
}

// Error returns the detail.
func (e *UnavailableError) Error() string { return e.Detail }

// The reasons for which Admit and SetConfig refuse, to test with errors.Is. All are temporary for the sender, who
// should resend after RetryAfter.
var (
	// ErrOverloaded: the queue holds Options.QueueBytes.
	ErrOverloaded = &UnavailableError{"overloaded", "too many requests are waiting to be stored", time.Second}
	// ErrDiskFull: the disk is full, or below its low-water mark.
	ErrDiskFull = &UnavailableError{"disk_full", "the disk is full or nearly full", 10 * time.Second}
	// ErrWriteFailed: the disk refused a write. The log is unchanged.
	ErrWriteFailed = &UnavailableError{"write_failed", "the log could not be written", 5 * time.Second}
	// ErrNoFiles: no file descriptor is left for the log, which is unchanged.
	ErrNoFiles = &UnavailableError{"no_descriptors", "no file descriptor is left for the log", 5 * time.Second}
	// ErrNotReady: the engine is still reading its log after the start.
	ErrNotReady = &UnavailableError{"not_ready", "the engine is recovering", 2 * time.Second}
	// ErrPoisoned: a sync failed, so nothing more can be promised. The process is about to exit.
	ErrPoisoned = &UnavailableError{"poisoned", "the log can no longer be written", 5 * time.Second}
	// ErrClockJump: the clock is more than Options.MaxClockJump ahead of the last record.
	ErrClockJump = &UnavailableError{"clock_jump", "the engine's clock jumped ahead", 10 * time.Second}
	// ErrStopping: the engine is shutting down.
	ErrStopping = &UnavailableError{"stopping", "the engine is shutting down", 2 * time.Second}
)

// Unavailable lists the reasons above.
var Unavailable = []*UnavailableError{
	ErrOverloaded, ErrDiskFull, ErrWriteFailed, ErrNoFiles, ErrNotReady, ErrPoisoned, ErrClockJump, ErrStopping,
}
