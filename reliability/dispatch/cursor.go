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

// The syncs of this package, besides those of fsys.WriteAtomic.
const (
	// SiteDir is the sync of the parents of the cursors' folder.
	SiteDir fsys.Site = "dispatch.dir"
	// SiteRemove is the sync of the cursors' folder after one was removed. Without it, a sink of the same name that is
	// added later could find the old cursor after a power loss.
	SiteRemove fsys.Site = "dispatch.remove"
)

// Cursor is the next item that a sink is to get: an item of a record, counted from 0.
type Cursor struct {
	Seq   uint64
	Index int
}

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

func (c cursors) path(sink string) string { return filepath.Join(c.dir, sink+cursorSuffix) }

// save replaces a sink's cursor and syncs it. After an error the old cursor is still valid.
func (c cursors) save(sink string, at Cursor) error {
	// A text file with a checksum, replaced as a whole: a crash leaves the old cursor or the new one, and an operator can
	// read both.
	text := fmt.Sprintf(cursorFormat, at.Seq, at.Index)
	return fsys.WriteAtomic(c.fs, c.path(sink), func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "%s sum %08x\n", text, crc32.Checksum([]byte(text), castagnoli))
		return err
	})
}

// load reads a sink's cursor; ok is false if it has none. A damaged cursor is an error, never a missing one: starting
// over without being told would send the sink the whole log.
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
	// A newer format is told apart from damage, since the advice is the opposite: upgrade again, and do not remove it.
	var version int
	if n, _ := fmt.Sscanf(string(raw), cursorVersion, &version); n == 1 && version > 1 {
		return Cursor{}, false, fmt.Errorf("cursor %s has format %d, and this program reads format 1: %w", name, version, fsys.ErrNewer)
	}
	if err != nil || n != 3 || sum != crc32.Checksum([]byte(text), castagnoli) || at.Index < 0 {
		return Cursor{}, false, fmt.Errorf("damaged cursor %s (remove it to send the sink everything that is still in the log)", name)
	}
	return at, true, nil
}

// OldestCursor is the oldest record that the cursors in a folder point at, math.MaxUint64 if there is none. It serves
// those who look at a data folder while no engine runs on it.
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

// removeOthers removes the cursors of sinks that are no longer configured, so that they do not retain the log for ever.
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
