package retained

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/sloengine/sloengine/reliability/fsys"
)

// This file deletes the oldest files, and gives up segments that cannot be written.

// expire deletes what is too old, too much, or in the way.
func (s *Store) expire(b Bounds) error {
	missing := s.o.Missing() // asked once: a file system may free what was deleted later
	for {
		files := s.snapshot()
		if len(files) == 0 {
			return nil
		}
		bytes := int64(0)
		for _, f := range files {
			bytes += f.size
		}
		var reason string
		switch {
		case b.Age == 0 || s.o.Now().Sub(time.Unix(0, files[0].To)) > b.Age:
			reason = "age"
		case bytes > b.Bytes:
			reason = "bytes"
		case missing > 0:
			reason = "disk"
		default:
			return nil
		}
		if _, err := s.deleteOldest(reason); err != nil {
			return err
		}
		missing -= files[0].size
	}
}

// deleteOldest deletes one file, durably, so that there is never a hole in front of a file that stays.
func (s *Store) deleteOldest(reason string) (did bool, err error) {
	files := s.snapshot()
	if len(files) == 0 {
		return false, nil
	}
	// Out of the list first, so that no new reader picks it.
	s.mu.Lock()
	s.files = s.files[1:]
	s.mu.Unlock()
	err = fsys.ChangeDir(s.o.FS, s.o.Dir, SiteDelete, func() error {
		if err := s.o.FS.Remove(files[0].path); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	})
	if err != nil {
		s.mu.Lock()
		s.files = slices.Insert(slices.Clone(s.files), 0, files[0])
		s.mu.Unlock()
		return false, fmt.Errorf("delete retained records: %w", err)
	}
	s.o.Metrics.removed[reason].Inc()
	s.o.Step(StepDeleted)
	s.measure()
	return true, nil
}

// giveUp does not retain a segment. Readers find a gap there.
func (s *Store) giveUp(first, next uint64, reason string) {
	s.o.Logger.Error("records of the log are not retained", "first", first, "next", next, "reason", reason)
	s.o.Metrics.givenUp.AddInt64(int64(next - first))
	s.passed(next)
}

// giveUpIf gives up the oldest segment that waits if the disk is full, and those beyond maxWaiting in any case.
func (s *Store) giveUpIf(full bool) {
	if full {
		if did, _ := s.deleteOldest("disk"); did {
			return // the next attempt has the space
		}
	}
	waiting := 0
	for at := s.floor.Load(); ; waiting++ {
		_, next, ok := s.o.Log.Closed(at)
		if !ok || next > s.offer.Load() {
			break
		}
		at = next
	}
	for ; waiting > maxWaiting || full && waiting > 0; waiting, full = waiting-1, false {
		first, next, _ := s.o.Log.Closed(s.floor.Load())
		s.giveUp(first, next, "it cannot be written")
	}
}
