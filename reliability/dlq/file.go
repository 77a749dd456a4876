package dlq

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/sloengine/sloengine/reliability/fsys"
)

// The syncs of the file store, besides those of fsys.WriteAtomic in compaction.
const (
	// SiteMkdir: the parents of the root and of day folders.
	SiteMkdir fsys.Site = "dlq.mkdir"
	// SiteAppend: entries and removals, before they are acknowledged.
	SiteAppend fsys.Site = "dlq.append"
	// SiteSegmentDir: the day folder, after a segment was made in it.
	SiteSegmentDir fsys.Site = "dlq.segment.dir"
	// SiteRecover: the last segment at start, since the last process may have died between
	// writing and syncing, and its entries are about to be shown.
	SiteRecover fsys.Site = "dlq.recover"
	// SiteRecoverDir: the day folder of the last segment at start, for the same reason.
	SiteRecoverDir fsys.Site = "dlq.recover.dir"
	// SiteRemoveDir: the day folder, after a segment was removed and before the removals
	// that later segments hold for it are dropped.
	SiteRemoveDir fsys.Site = "dlq.remove.dir"
)

// FileOptions say where and how much the file store keeps.
type FileOptions struct {
	FS  fsys.FS // the operating system's
	Dir string  // required; one store at a time
	// SegmentBytes is the size after which a new file is begun, 10 MB; from 4 KiB to 1 GiB.
	SegmentBytes int64
	// MaxBytes bounds all files together, 4 GiB, at least two segments. Beyond it Save
	// fails with ErrFull. The index in memory takes about 50 KiB per segment.
	MaxBytes int64
	// DedupIDs is how many of the last IDs are remembered, so that an entry that is saved twice is
	// stored once: 131,072.
	DedupIDs int
	Now      func() time.Time // for days and empty times, time.Now
	Metrics  *Metrics

	later func(func()) // runs work in the background: in a goroutine, except in tests
}

func (o *FileOptions) normal() error {
	if o.Dir == "" {
		return errors.New("dead letters: Dir is required")
	}
	o.FS = cmp.Or(o.FS, fsys.OS())
	o.SegmentBytes = cmp.Or(o.SegmentBytes, 10_000_000)
	if o.SegmentBytes < 4<<10 || o.SegmentBytes > 1<<30 {
		return fmt.Errorf("dead letters: invalid segment size of %d bytes (4 KiB to 1 GiB)", o.SegmentBytes)
	}
	o.MaxBytes = cmp.Or(o.MaxBytes, 4<<30)
	if o.MaxBytes < 2*o.SegmentBytes {
		return fmt.Errorf("dead letters: invalid maximum of %d bytes (at least two segments)", o.MaxBytes)
	}
	o.DedupIDs = cmp.Or(o.DedupIDs, goneIDs)
	if o.DedupIDs < 1 {
		return fmt.Errorf("dead letters: invalid dedup window of %d IDs (at least 1)", o.DedupIDs)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.later == nil {
		o.later = func(f func()) { go f() }
	}
	o.Metrics = o.Metrics.orNew()
	return nil
}

// File is the Store in files. Save, Discard, Replayed and Failed return when their lines
// are synced; calls at the same time share one sync. See FORMAT.md.
type File struct {
	o    FileOptions
	lock io.Closer

	// turn is held by the writer: it guards the fields below up to mu.
	turn   chan struct{}
	active fsys.File // the last segment while it is written to, or nil
	// spare is the file of the next segment, if there is one already; making yields it while
	// it is in progress.
	spare   fsys.File
	spareOf *segment
	making  chan spare
	day     string // whose folder is there, and durable
	next    uint64 // number of the next line
	known   *window
	keys    map[tallyKey]bool // see admit

	queue struct {
		sync.Mutex
		waiting []*pending
	}

	// mu guards the index. Files change their content below the size in the index, or
	// vanish, only while it is held.
	mu       sync.RWMutex
	segments []*segment // by ascending number
	located  map[string]uint64
	damages  []Damage
	damaged  int64
	lost     Loss
	torn     int64 // bytes
	closed   bool
	poison   error
}

var (
	_ Store     = (*File)(nil)
	_ Compacter = (*File)(nil)
)

// maxDamages is how many damaged places are reported in detail.
const maxDamages = 100

// OpenFile opens a folder of dead letters, creating it if needed, and reads all of it. The
// torn tail of the last segment is cut off: it was never acknowledged. Damage elsewhere is skipped,
// counted and reported by [File.Damage].
func OpenFile(o FileOptions) (_ *File, err error) {
	if err := o.normal(); err != nil {
		return nil, err
	}
	f := &File{o: o, turn: make(chan struct{}, 1), next: 1, known: newWindow(o.DedupIDs),
		keys: map[tallyKey]bool{}, located: map[string]uint64{}}
	if err := fsys.MkdirAllSynced(o.FS, o.Dir, SiteMkdir); err != nil {
		return nil, fmt.Errorf("dead letters: %w", err)
	}
	if f.lock, err = o.FS.Lock(filepath.Join(o.Dir, "LOCK")); err != nil {
		return nil, fmt.Errorf("dead letters: %w", err)
	}
	if err := f.recover(); err != nil {
		return nil, errors.Join(fmt.Errorf("open dead letters: %w", err), f.lock.Close())
	}
	f.observe()
	return f, nil
}

// Close releases the folder. Calls in progress end first.
func (f *File) Close() error {
	f.turn <- struct{}{}
	defer func() { <-f.turn }()
	f.mu.Lock()
	closed := f.closed
	f.closed = true
	f.mu.Unlock()
	if closed {
		return nil
	}
	f.takeSpare(true)
	f.dropSpare()
	return errors.Join(f.seal(), f.lock.Close())
}

// seal ends the active segment; the next Save begins a new one.
func (f *File) seal() error {
	if f.active == nil {
		return nil
	}
	file := f.active
	f.active = nil
	return file.Close()
}

// own waits for the turn to write.
func (f *File) own(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case f.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := f.writable(); err != nil {
		<-f.turn
		return err
	}
	return nil
}

func (f *File) writable() error {
	f.mu.RLock()
	defer f.mu.RUnlock()
	if f.closed {
		return ErrClosed
	}
	if f.poison != nil {
		return fmt.Errorf("%w: %w", ErrPoisoned, f.poison)
	}
	return nil
}

// fail poisons the store: the content of the disk is unknown.
func (f *File) fail(err error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.poison == nil {
		f.poison = err
		f.o.Metrics.poisoned.Set(1)
	}
	return fmt.Errorf("%w: %w", ErrPoisoned, err)
}

// Damage returns up to 100 of the damaged places, and how many there are.
func (f *File) Damage() ([]Damage, int64) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return slices.Clone(f.damages), f.damaged
}

func (f *File) damage(d Damage) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.damaged++
	f.lost.Bytes += d.Bytes
	f.lost.Entries += d.Lost
	if !d.From.IsZero() && (f.lost.From.IsZero() || d.From.Before(f.lost.From)) {
		f.lost.From = d.From
	}
	if d.To.After(f.lost.To) {
		f.lost.To = d.To
	}
	f.o.Metrics.damaged.Inc()
	f.o.Metrics.damagedBytes.Add(int(d.Bytes))
	f.o.Metrics.damagedLost.Add(int(d.Lost))
	if len(f.damages) < maxDamages {
		f.damages = append(f.damages, d)
	}
}

// Stats implements Store.
func (f *File) Stats(ctx context.Context) (Stats, error) {
	if err := ctx.Err(); err != nil {
		return Stats{}, err
	}
	f.mu.RLock()
	defer f.mu.RUnlock()
	if f.closed {
		return Stats{}, ErrClosed
	}
	return f.stats(), nil
}

// stats adds up the segments. The caller holds mu.
func (f *File) stats() Stats {
	all := tallies{}
	var bytes, disk int64
	oldest, latest := int64(math.MaxInt64), int64(math.MinInt64)
	for _, s := range f.segments {
		for key, n := range s.tallies {
			all.add(key, n)
		}
		bytes += s.liveBytes
		disk += s.size
		oldest, latest = min(oldest, s.oldest), max(latest, s.latest)
	}
	stats := all.stats()
	stats.Backend, stats.Bytes, stats.DiskBytes, stats.Damaged = "file", bytes, disk, f.damaged
	if f.damaged > 0 {
		lost := f.lost
		stats.Lost = &lost
	}
	stats.TornBytes = f.torn
	if latest != math.MinInt64 {
		stats.Newest = time.UnixMilli(latest).UTC()
	}
	if oldest != math.MaxInt64 {
		stats.Oldest = time.UnixMilli(oldest).UTC()
	}
	return stats
}

// observe publishes the present size.
func (f *File) observe() {
	f.mu.RLock()
	s := f.stats()
	f.mu.RUnlock()
	f.o.Metrics.holds(s.ByOrigin, s.Bytes, s.Oldest)
	f.o.Metrics.disk.Set(float64(s.DiskBytes))
}

// admit is the key to count an entry under. There is a bounded number of them.
func (f *File) admit(key tallyKey) tallyKey {
	if !f.keys[key] {
		if len(f.keys) >= maxTallies {
			return tallyKey{key.origin, tallyOther, tallyOther}
		}
		f.keys[key] = true
	}
	return key
}
