package fsys

import (
	"errors"
	"fmt"
	"syscall"
)

// SyncError is a sync that was asked for and failed: what is on the disk is not known, and
// asking again proves nothing. Everything short of the sync, such as a folder that could
// not be opened for it, is another error.
type SyncError struct {
	Site Site
	Err  error
}

func (e *SyncError) Error() string { return fmt.Sprintf("sync failed (%s): %v", e.Site, e.Err) }

// Unwrap returns what the system said.
func (e *SyncError) Unwrap() error { return e.Err }

// Class is what a failed operation means for the data.
type Class uint8

// The classes. Only after SyncFailed is anything in doubt that was synced before; all
// others can be tried again, from the beginning of what was to be done.
const (
	// Refused: the operation was not carried out, for a reason that is none of the others,
	// such as EIO on opening a file, or a missing permission.
	Refused Class = iota
	// SyncFailed: see SyncError. It comes before what the cause says.
	SyncFailed
	// NoSpace: the disk, or the user's share of it, is full.
	NoSpace
	// NoFiles: the process or the system is out of file descriptors.
	NoFiles
)

// Classify tells what an error of a file operation means. The whole program asks here
// before it gives up a log, a checkpoint or another file.
func Classify(err error) Class {
	var failed *SyncError
	switch {
	case errors.As(err, &failed):
		return SyncFailed
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return NoSpace
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return NoFiles
	}
	return Refused
}
