package wal

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/sloengine/sloengine/reliability/fsys"
)

// Snapshot opens every segment and gives it to add with the bytes that are durable in it. The files
// are the receiver's to close. They stay readable after Truncate has deleted them.
//
// before is called first, and no segment is deleted until Snapshot returns. Data that before reads
// therefore refers to records that are in the snapshot: it may name the end of the log, or an older
// record that was needed when it was read.
func (l *Log) Snapshot(before func() error, add func(name string, size int64, file fsys.File)) error {
	l.truncateMu.Lock()
	defer l.truncateMu.Unlock()
	if err := before(); err != nil {
		return err
	}
	// The list is copied after before has returned: everything that before read is older than the list, and truncateMu
	// keeps the segments that held it.
	l.mu.Lock()
	segments, dead := slices.Clone(l.segments), l.err
	l.mu.Unlock()
	if dead != nil {
		return dead
	}
	for _, s := range segments {
		// Append continues meanwhile. Bytes behind the end at this moment do not belong to the snapshot.
		size := s.end.Load()
		f, err := l.o.FS.Open(s.path)
		if err != nil {
			return fmt.Errorf("open segment %s: %w", s.path, passing(err))
		}
		add(filepath.Base(s.path), size, f)
	}
	return nil
}

// SnapshotArchive does the same for a folder that Archive made. A folder that is gone is no error. No lock is needed:
// segments of an archive never change, and one that is deleted meanwhile stays readable through its open file.
func SnapshotArchive(f fsys.FS, dir string, add func(name string, size int64, file fsys.File)) error {
	segments, err := listSegments(f, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, s := range segments {
		file, err := f.Open(s.path)
		if err != nil {
			return fmt.Errorf("open archived segment: %w", passing(err))
		}
		size, err := file.Size()
		if err == nil {
			size, err = usedBytes(file, size) // the rest is preallocated
		}
		if err != nil {
			return errors.Join(fmt.Errorf("read archived segment %s: %w", s.path, err), file.Close())
		}
		add(filepath.Base(s.path), size, file)
	}
	return nil
}
