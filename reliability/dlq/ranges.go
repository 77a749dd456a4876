package dlq

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/reliability/wal"
)

// ErrRangesFull says that the ranges have reached RangeOptions.MaxBytes.
var ErrRangesFull = errors.New("storage of log ranges is full")

// RangeOptions are required, except MaxBytes.
type RangeOptions struct {
	FS    fsys.FS
	Dir   string // made if missing
	Log   *wal.Log
	Store Store
	// Owned begins the IDs of the dead letters whose ranges are removed while the log is in use.
	// A caller that archives other ranges in Dir does so before it saves their dead letters.
	Owned    string
	MaxBytes int64 // beyond it Archive fails; 0: nothing fits
}

// RangeStore is a Store that also keeps the ranges of the write-ahead log that single dead letters stand for, such as
// the records that a sink was too far behind for. A range has a directory of its own, named after its dead letter. When
// a dead letter is removed, by any call, its range is removed after it.
type RangeStore struct {
	Store
	o RangeOptions

	// mu is held while a range is archived and its dead letter saved, while ranges without a
	// dead letter are removed, and while a snapshot is taken.
	mu sync.Mutex
}

// NewRangeStore reads nothing.
func NewRangeStore(o RangeOptions) *RangeStore { return &RangeStore{Store: o.Store, o: o} }

// Recover removes all ranges that a crash left without a dead letter. It must be called before
// anything else archives ranges in the directory.
func (s *RangeStore) Recover(ctx context.Context) error { return s.sweep(ctx, "") }

// Sweep removes ranges whose dead letter is gone, for example because another engine replayed it.
func (s *RangeStore) Sweep(ctx context.Context) error { return s.sweep(ctx, s.o.Owned) }

func (s *RangeStore) sweep(ctx context.Context, prefix string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.o.FS.MkdirAll(s.o.Dir); err != nil {
		return fmt.Errorf("open log ranges: %w", err)
	}
	ids, err := s.o.FS.List(s.o.Dir)
	if err != nil {
		return fmt.Errorf("list log ranges: %w", err)
	}
	for _, id := range ids {
		if !strings.HasPrefix(id, prefix) {
			continue
		}
		if _, err := s.Get(ctx, id); !errors.Is(err, ErrNotFound) {
			continue // it exists, or the storage cannot determine it
		}
		if err := wal.RemoveArchive(s.o.FS, s.path(id)); err != nil {
			return err
		}
	}
	return nil
}

func (s *RangeStore) path(id string) string { return filepath.Join(s.o.Dir, id) }

func (s *RangeStore) swept(ctx context.Context, n int, err error) (int, error) {
	return n, errors.Join(err, s.Sweep(ctx))
}

// Discard is part of Store.
func (s *RangeStore) Discard(ctx context.Context, ids []string) (int, error) {
	n, err := s.Store.Discard(ctx, ids)
	return s.swept(ctx, n, err)
}

// Replayed is part of Store.
func (s *RangeStore) Replayed(ctx context.Context, ids []string) (int, error) {
	n, err := s.Store.Replayed(ctx, ids)
	return s.swept(ctx, n, err)
}

// Purge is part of Store.
func (s *RangeStore) Purge(ctx context.Context, before time.Time) (int, error) {
	n, err := s.Store.Purge(ctx, before)
	return s.swept(ctx, n, err)
}

// Compact is part of Compacter.
func (s *RangeStore) Compact(ctx context.Context) error {
	if c, ok := s.Store.(Compacter); ok {
		return c.Compact(ctx)
	}
	return nil
}

// Archive puts the records that e stands for aside and saves e. It fails with ErrRangesFull, and saves
// nothing, where the ranges are too large already.
func (s *RangeStore) Archive(ctx context.Context, e Entry) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	size, err := s.size()
	if err != nil {
		return err
	}
	if size >= s.o.MaxBytes {
		return fmt.Errorf("%w: %d of %d bytes", ErrRangesFull, size, s.o.MaxBytes)
	}
	if err := s.o.Log.Archive(e.Seq, e.SeqEnd, s.path(e.ID)); err != nil {
		return err
	}
	return s.Save(ctx, []Entry{e})
}

func (s *RangeStore) size() (bytes int64, err error) {
	ids, err := s.o.FS.List(s.o.Dir)
	if err != nil {
		return 0, fmt.Errorf("list log ranges: %w", err)
	}
	for _, id := range ids {
		segments, err := s.o.FS.List(s.path(id))
		if err != nil {
			return 0, fmt.Errorf("list log range: %w", err)
		}
		for _, name := range segments {
			f, err := s.o.FS.Open(filepath.Join(s.path(id), name))
			if err != nil {
				return 0, fmt.Errorf("open log range: %w", err)
			}
			size, err := f.Size()
			if err = errors.Join(err, f.Close()); err != nil {
				return 0, fmt.Errorf("size of log range: %w", err)
			}
			bytes += size
		}
	}
	return bytes, nil
}

// Open reads the records that e stands for.
func (s *RangeStore) Open(e *Entry) (*wal.ArchiveReader, error) {
	return wal.OpenArchive(s.o.FS, s.path(e.ID), e.Seq, e.SeqEnd)
}

// Snapshot calls f, then gives the files of all ranges to add, by their names below the directory.
// No range comes or goes meanwhile.
func (s *RangeStore) Snapshot(f func() error, add func(name string, size int64, file fsys.File)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := f(); err != nil {
		return err
	}
	ids, err := s.o.FS.List(s.o.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("list log ranges: %w", err)
	}
	for _, id := range ids {
		err := wal.SnapshotArchive(s.o.FS, s.path(id), func(name string, size int64, file fsys.File) {
			add(filepath.Join(id, name), size, file)
		})
		if err != nil {
			return err
		}
	}
	return nil
}
