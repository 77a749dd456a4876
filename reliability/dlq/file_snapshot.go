package dlq

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/sloengine/sloengine/reliability/fsys"
)

// Snapshot opens every segment and gives it to add, by its path below the folder, with the bytes
// that are written. No write is under way meanwhile. The files are the receiver's to close. They
// stay as they are: compaction replaces a segment by another file.
func (f *File) Snapshot(ctx context.Context, add func(name string, size int64, file fsys.File)) error {
	if err := f.own(ctx); err != nil {
		return err
	}
	defer func() { <-f.turn }()
	f.mu.RLock()
	defer f.mu.RUnlock()
	for _, s := range f.segments {
		file, err := f.o.FS.Open(f.path(s))
		if err != nil {
			return fmt.Errorf("open dead letters: %w", err)
		}
		add(filepath.Join(s.day, segmentName(s.number)), s.size, file)
	}
	return nil
}
