package fsys

import (
	"errors"
	"fmt"
	"syscall"
)

// SyncError is a failed sync: the content of the disk is unknown, and another sync proves nothing.
// Everything short of the sync, such as a folder that could not be opened for it, is another error.
type SyncError struct {
	Site Site
	Err  error
}

func (e *SyncError) Error() string { return fmt.Sprintf("sync failed (%s): %v", e.Site, e.Err) }

// Unwrap returns the error of the system.
func (e *SyncError) Unwrap() error { return e.Err }

// Class is the effect of a failed operation on the data.
type Class uint8

// The classes. Only after SyncFailed is previously synced data in doubt; after all others the
// operation can be retried from its beginning.
const (
	// Refused: the operation was not carried out, for any other reason, such as EIO on opening a file,
	// or a missing permission.
	Refused Class = iota
	// SyncFailed: see SyncError. It takes precedence over the class of the cause.
	SyncFailed
	// NoSpace: the disk, or the user's share of it, is full.
	NoSpace
	// NoFiles: the process or the system is out of file descriptors.
	NoFiles
)

// Classify returns the class of an error of a file operation. The whole program asks here before it
// gives up a log, a checkpoint or another file.
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
