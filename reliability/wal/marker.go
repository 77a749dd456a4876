package wal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/sloengine/sloengine/reliability/fsys"
)

const (
	markName    = "durable"
	markMagic   = "sloe-end"
	markVersion = 1
	markBytes   = 40
	markSlots   = 2 // written in turn, so that a torn write leaves the one before
)

// mark names the last durable record, so that a log that ends before it is noticed, and
// the segment that was written to then, with its salt.
//
// Numbers and salt are those of one moment. The salt makes it possible to restore the head of the active segment.
type mark struct {
	seq     uint64
	segment uint64
	salt    uint32
}

// marker is the file of the mark. It is written in place after each batch, which costs
// no sync, and synced by [Log.SyncMark] and with every new segment. While a sync is in progress
// there are no other writes: a write could have to wait for it.
//
// Two parties write it: Append through markBatch, and the caller of SyncMark. They share no lock, because Append must
// not wait for the marker's sync, but each takes a slot of its own from turn, and markBatch does nothing during a
// sync. A slot that is torn by a crash has a wrong checksum, and the other one counts.
type marker struct {
	// Written by Open, before there is anybody else.
	found mark
	bad   error // why a slot could not be read

	file atomic.Pointer[fsys.File] // nil until it could be opened, and after Close; opened and closed under syncMu
	buf  [markBytes]byte           // for the encoding in markBatch; Append's, under appendMu
	turn atomic.Uint32             // counts writes; its parity is the slot
	err  atomic.Pointer[error]     // of the last write without a sync; returned, and cleared, by the next SyncMark

	syncing atomic.Bool // a sync is under way: markBatch leaves the file alone

	// syncMu is held while the marker is opened, synced and closed, disk I/O included. It guards the fields below.
	// It is taken with appendMu held (a new segment is marked at once), never the other way round.
	syncMu sync.Mutex
	synced mark // the durable mark; the zero mark after an error
	closed bool
}

// appendTo encodes a slot. See FORMAT.md.
func (m *mark) appendTo(b []byte) []byte {
	b = append(b, markMagic...)
	b = binary.LittleEndian.AppendUint32(b, markVersion)
	b = binary.LittleEndian.AppendUint32(b, m.salt)
	b = binary.LittleEndian.AppendUint64(b, m.segment)
	b = binary.LittleEndian.AppendUint64(b, m.seq)
	b = binary.LittleEndian.AppendUint32(b, 0)
	return binary.LittleEndian.AppendUint32(b, checksum(0, b))
}

func (l *Log) markPath() string { return filepath.Join(l.o.Dir, markName) }

// readMark finds the mark. Without one, or with one that is damaged, the end of the log
// cannot be checked; the records can.
//
// The slot with the higher number counts. A slot of zeros was never written. A damaged slot beside a good one
// means that the last write of the marker was torn or that the disk changed it, and the two cannot be
// distinguished: it is reported, and the good slot is used. turn is set to the slot that counts, so that the next
// write goes to the other one.
func (l *Log) readMark() error {
	f, err := l.o.FS.Open(l.markPath())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open marker: %w", err)
	}
	var all [markSlots * markBytes]byte
	_, err = f.ReadAt(all[:], 0)
	if cerr := f.Close(); cerr != nil {
		return fmt.Errorf("close marker: %w", cerr)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read marker %s: %w", l.markPath(), err)
	}
	for slot := range uint32(markSlots) {
		b := all[slot*markBytes:][:markBytes]
		switch {
		case string(b) == string(make([]byte, markBytes)):
		case string(b[:8]) != markMagic || checksum(0, b[:36]) != binary.LittleEndian.Uint32(b[36:]):
			l.mark.bad = fmt.Errorf(
				"marker %s was damaged and is rewritten (it may have named a later end of the log than the present one)",
				l.markPath())
		case binary.LittleEndian.Uint32(b[8:]) != markVersion:
			return &VersionError{Segment: l.markPath(), Version: binary.LittleEndian.Uint32(b[8:])}
		default:
			m := mark{binary.LittleEndian.Uint64(b[24:]), binary.LittleEndian.Uint64(b[16:]), binary.LittleEndian.Uint32(b[12:])}
			if m.seq >= l.mark.found.seq {
				l.mark.found = m
				l.mark.turn.Store(slot)
			}
		}
	}
	return nil
}

// openMark opens the file of the marker, or makes it.
//
// syncMu is held. The marker is opened late, by the first sync, so that a log can be read even where the marker
// cannot be made.
func (l *Log) openMark() error {
	f, err := l.o.FS.OpenReadWrite(l.markPath())
	if errors.Is(err, fs.ErrNotExist) {
		// Without the sync of the folder, a power loss could take the file with every mark that was synced into it.
		if f, err = l.o.FS.Create(l.markPath()); err == nil {
			err = fsys.SyncDir(l.o.FS, l.o.Dir, fsys.SiteWALMarkDir)
		}
	}
	if err == nil {
		l.mark.file.Store(&f)
	} else if f != nil {
		// Removed, so that the next attempt creates it and syncs the folder again.
		_ = f.Close()
		_ = l.o.FS.Remove(l.markPath())
	}
	return err
}

// slot is the place of the next mark.
//
// Each call claims another slot than the one before it, so a write that a crash tears leaves the mark before it.
func (k *marker) slot() int64 { return int64(k.turn.Add(1)%markSlots) * markBytes }

// present is the mark as it should be now.
func (l *Log) present() mark {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := mark{seq: l.durable.Load()}
	if n := len(l.segments); n > 0 {
		m.segment, m.salt = l.segments[n-1].first, l.segments[n-1].salt
	}
	return m
}

// markBatch writes the mark after a batch became durable, without a sync.
//
// appendMu is held. An error does not fail the batch, which is durable already: it is counted, and the next
// SyncMark writes the marker again even if nothing was appended since.
func (l *Log) markBatch(seg *segment) {
	// Skipping a mark costs nothing: the next batch or SyncMark names a later record.
	f := l.mark.file.Load()
	if f == nil || l.mark.syncing.Load() {
		return
	}
	m := mark{seq: l.nextSeq - 1, segment: seg.first, salt: seg.salt}
	if _, err := (*f).WriteAt(m.appendTo(l.mark.buf[:0]), l.mark.slot()); err != nil {
		l.markFailed(err)
	}
}

// markFailed counts a failed write and leaves the error for the next SyncMark.
func (l *Log) markFailed(err error) {
	l.o.Metrics.markErrors.Inc()
	l.mark.err.Store(&err)
}

// SyncMark makes the mark durable: a log that ends before the record that was durable
// when SyncMark was called is not opened without the override. The owner calls it every
// second or so; after an error the log stays usable, and the loss of its end may go undetected.
func (l *Log) SyncMark() error {
	if err := l.alive(); err != nil {
		return err
	}
	return l.syncMark(false)
}

// syncMark writes and syncs the mark. force writes it even if it has not changed: a new segment and a start use
// that.
func (l *Log) syncMark(force bool) error {
	k := &l.mark
	k.syncMu.Lock()
	defer k.syncMu.Unlock()
	if k.closed {
		return nil
	}
	// syncing before present: a markBatch that does not see it yet writes the same mark or an older one, into the other
	// slot, and an older one loses by its number.
	k.syncing.Store(true)
	defer k.syncing.Store(false)
	m := l.present()
	failed := k.err.Swap(nil)
	// Nothing was appended since: an idle log costs no sync a second. A write that failed in between may have damaged a
	// slot, so then it is written in any case.
	if m == k.synced && failed == nil && !force {
		return nil
	}
	var err error
	if k.file.Load() == nil {
		err = l.openMark()
	}
	if err == nil {
		_, err = (*k.file.Load()).WriteAt(m.appendTo(nil), k.slot())
	}
	if err == nil {
		err = fsys.SyncFile(*k.file.Load(), fsys.SiteWALMark)
	}
	if err != nil {
		l.o.Metrics.markErrors.Inc()
		k.synced = mark{} // unknown, so the next call writes again
		return fmt.Errorf("write marker of the log: %w", passing(err))
	}
	k.synced = m
	return nil
}

// tryMark makes the mark durable where the log does not depend on it: the next SyncMark returns the
// error.
func (l *Log) tryMark() {
	if err := l.syncMark(true); err != nil {
		l.mark.err.Store(&err) // counted there
	}
}

// closeMark writes the mark a last time, so that a clean stop leaves no record behind it unnoticed. appendMu is held.
func (l *Log) closeMark() error {
	l.tryMark()
	k := &l.mark
	k.syncMu.Lock()
	defer k.syncMu.Unlock()
	k.closed = true
	if f := k.file.Swap(nil); f != nil {
		return (*f).Close()
	}
	return nil
}
