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
// before is called first, and no segment is deleted until Snapshot returns. What before reads
// therefore refers to records that are in the snapshot: it may name the end of the log, or an older
// record that was needed when it was read.
func (l *Log) Snapshot(before func() error, add func(name string, size int64, file fsys.File)) error {
	l.truncateMu.Lock()
	defer l.truncateMu.Unlock()
	if err := before(); err != nil {
		return err
	}
	l.mu.Lock()
	segments, dead := slices.Clone(l.segments), l.err
	l.mu.Unlock()
	if dead != nil {
		return dead
	}
	for _, s := range segments {
		size := s.end.Load()
		f, err := l.o.FS.Open(s.path)
		if err != nil {
			return fmt.Errorf("open segment %s: %w", s.path, passing(err))
		}
		add(filepath.Base(s.path), size, f)
	}
	return nil
}

// SnapshotKept does the same for a folder that Keep made. A folder that is gone is no error.
func SnapshotKept(f fsys.FS, dir string, add func(name string, size int64, file fsys.File)) error {
	names, err := f.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list kept records: %w", err)
	}
	for _, name := range names {
		if _, ok := parseSegmentName(name); !ok {
			continue
		}
		file, err := f.Open(filepath.Join(dir, name))
		if err != nil {
			return fmt.Errorf("open kept segment: %w", passing(err))
		}
		size, err := file.Size()
		if err == nil {
			size, err = usedBytes(file, size) // the rest is preallocated
		}
		if err != nil {
			return errors.Join(fmt.Errorf("read kept segment %s: %w", name, err), file.Close())
		}
		add(name, size, file)
	}
	return nil
}
