package dispatch

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"math"
	"path/filepath"
	"strings"

	"github.com/sloengine/sloengine/reliability/fsys"
)

// This file stores cursors: how far each sink has got, in one small file per sink. A restart continues from
// them, and they hold back the truncation of the log, so a cursor is never ahead of the durable position of its
// sink.

// The syncs of this package, besides those of fsys.WriteAtomic.
const (
	// SiteDir is the sync of the parents of the cursors' folder.
	SiteDir fsys.Site = "dispatch.dir"
	// SiteRemove is the sync of the cursors' folder after one was removed. Without it, a sink of the same name that is
	// added later could find the old cursor after a power loss.
	SiteRemove fsys.Site = "dispatch.remove"
)

// Cursor is the next item that a sink is to get: an item of a record, counted from 0.
//
// Everything before it is final for the sink: delivered and flushed, dropped by policy, or a dead letter. Index
// is 0 except inside a record that fills several batches.
type Cursor struct {
	Seq   uint64
	Index int
}

// before orders cursors by record and then by item.
func (c Cursor) before(d Cursor) bool {
	return c.Seq < d.Seq || c.Seq == d.Seq && c.Index < d.Index
}

const (
	cursorSuffix = ".cursor"
	cursorFormat = "sloengine sink cursor 1: record %d item %d"
	// cursorVersion begins a cursor of any format.
	cursorVersion = "sloengine sink cursor %d:"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// cursors stores one small file per sink, see FORMAT.md. It has no state. Calls for different sinks may run at the same
// time; calls for one sink are made by its lane, or by a Dispatcher that holds changing.
type cursors struct {
	fs  fsys.FS
	dir string
}

// path is safe for any name that SinkOptions allows: it has no separator and does not begin with a dot.
func (c cursors) path(sink string) string { return filepath.Join(c.dir, sink+cursorSuffix) }

// save replaces a sink's cursor and syncs it. After an error the old cursor is still valid.
//
// After a *fsys.SyncError it is not known which of the two a power loss leaves. Both are valid: neither is ahead
// of the sink.
func (c cursors) save(sink string, at Cursor) error {
	// A text file with a checksum, replaced as a whole: a crash leaves the old cursor or the new one, and an operator can
	// read both.
	text := fmt.Sprintf(cursorFormat, at.Seq, at.Index)
	text = fmt.Sprintf("%s sum %08x\n", text, crc32.Checksum([]byte(text), castagnoli))
	return fsys.Replace(c.fs, c.path(sink), []byte(text))
}

// load reads a sink's cursor; ok is false if it has none. A damaged cursor is an error, never a missing one: silently
// starting over would send the sink the whole log.
func (c cursors) load(sink string) (at Cursor, ok bool, err error) {
	name := c.path(sink)
	f, err := c.fs.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return Cursor{}, false, nil
	}
	if err != nil {
		return Cursor{}, false, fmt.Errorf("open cursor: %w", err)
	}
	raw, err := io.ReadAll(io.LimitReader(f, 256))
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return Cursor{}, false, fmt.Errorf("read cursor %s: %w", name, err)
	}
	var sum uint32
	n, err := fmt.Sscanf(string(raw), cursorFormat+" sum %x\n", &at.Seq, &at.Index, &sum)
	text := fmt.Sprintf(cursorFormat, at.Seq, at.Index)
	// A newer format is distinguished from damage, since the advice is the opposite: upgrade again, and do not remove
	// it.
	var version int
	if n, _ := fmt.Sscanf(string(raw), cursorVersion, &version); n == 1 && version > 1 {
		return Cursor{}, false, fmt.Errorf("cursor %s has format %d, and this program reads format 1: %w",
			name, version, fsys.ErrNewer)
	}
	if err != nil || n != 3 || sum != crc32.Checksum([]byte(text), castagnoli) || at.Index < 0 {
		return Cursor{}, false, fmt.Errorf(
			"damaged cursor %s (remove it to send the sink everything that is still in the log)", name)
	}
	return at, true, nil
}

// OldestCursor is the oldest record that the cursors in a folder point at, math.MaxUint64 if there is none. It is for
// tools that inspect a data folder while no engine runs on it.
//
// A damaged cursor is an error, since the sink may need any record.
func OldestCursor(f fsys.FS, dir string) (uint64, error) {
	names, err := f.List(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("list cursors: %w", err)
	}
	oldest := uint64(math.MaxUint64)
	for _, name := range names {
		sink, ok := strings.CutSuffix(name, cursorSuffix)
		if !ok {
			continue
		}
		at, ok, err := cursors{f, dir}.load(sink)
		if err != nil {
			return 0, err
		}
		if ok {
			oldest = min(oldest, at.Seq)
		}
	}
	return oldest, nil
}

// remove deletes a sink's cursor durably. One that is gone already is no error, but the folder is synced all the
// same: the call that removed it may have crashed before its sync.
func (c cursors) remove(sink string) error {
	err := fsys.ChangeDir(c.fs, c.dir, SiteRemove, func() error {
		if err := c.fs.Remove(c.path(sink)); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("remove cursor: %w", err)
	}
	return nil
}

// removeOthers removes the cursors of sinks that are no longer configured, so that they do not retain the log
// forever.
func (c cursors) removeOthers(keep func(sink string) bool) error {
	names, err := c.fs.List(c.dir)
	if err != nil {
		return fmt.Errorf("list cursors: %w", err)
	}
	for _, n := range names {
		sink, ok := strings.CutSuffix(n, cursorSuffix)
		if !ok || keep(sink) {
			continue
		}
		if err := c.remove(sink); err != nil {
			return err
		}
	}
	return nil
}
