package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/sloengine/sloengine/ingest/checkpoint"
	"github.com/sloengine/sloengine/reliability/fsys"
)

// AddFile takes an open file of a snapshot, with its name in the data folder and the number of bytes that count. It
// closes the file.
type AddFile func(name string, size int64, file fsys.File)

// snapshotTries is how often opening a checkpoint is tried while newer ones replace it.
//
// Opening the files takes milliseconds, and checkpoints are rarer than that, so even one repetition is rare.
const snapshotTries = 10

// Snapshot opens the files of the data folder that a start needs and passes them to add. Counting continues meanwhile.
// Everything that was acknowledged before the call is in them.
//
// The order makes them consistent: the checkpoint first, then the files that others adds, then the log. So the log
// holds every record that the checkpoint, a cursor or a removed dead letter refers to, and the dead letters hold
// everything that the checkpoint has left behind.
//
// An error leaves the files that were added in the hands of the receiver, which closes them.
func (e *Engine) Snapshot(others func() error, add AddFile) error {
	select {
	case <-e.ready:
	default:
		return ErrNotReady
	}
	return e.log.Snapshot(func() error {
		if err := e.snapshotCheckpoint(add); err != nil {
			return err
		}
		return others()
	}, func(name string, size int64, file fsys.File) { add(filepath.Join(LogDir, name), size, file) })
}

// snapshotCheckpoint adds the newest checkpoint, if there is one. If newer ones replace it meanwhile, its files may be
// deleted before they are open, and it begins again.
//
// Files are passed on only when all of them are open: a checkpoint of which some files are missing is useless.
func (e *Engine) snapshotCheckpoint(add AddFile) (err error) {
	for range snapshotTries {
		var files []func()
		var open []fsys.File
		err = e.checkpoints().OpenNewest(func(name string, size int64, file fsys.File) {
			open = append(open, file)
			files = append(files, func() { add(filepath.Join(checkpoint.Dir, name), size, file) })
		})
		if err == nil {
			for _, add := range files {
				add()
			}
			return nil
		}
		for _, file := range open {
			err = errors.Join(err, file.Close())
		}
		if !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	return fmt.Errorf("snapshot of the checkpoint: %w", err)
}
