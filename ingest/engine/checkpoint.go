package engine

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sloengine/sloengine/ingest/dedup"
	"github.com/sloengine/sloengine/reliability/fsys"
)

const (
	checkpointDir = "checkpoints"
	brokenSuffix  = ".broken"

	// maxPacks is how many packs may stay in use; the ones with the least in
	// them are then written anew.
	maxPacks = 32
)

// checkpoints are the files of the newest checkpoint and of the one before it. They belong
// to recovery, and then to the goroutine of the saver: no lock.
type checkpoints struct {
	fs    fsys.FS
	dir   string
	crash func(CrashPoint)
	log   *slog.Logger

	newest, before *manifest // nil while there are fewer
	last           uint64    // highest number ever seen
	files          map[uint64]*idFile

	fallbacks int // checkpoints that were passed over at the start

	// What the start found: damage that was gone around, so that a checkpoint must be made
	// that needs no older file, and whether anything was lost by it.
	damaged, lossy bool
	lostParts      map[string]bool
	lostIDs        uint64
	aside          []string // files to move aside once there is a checkpoint without them
}

// capture is the state at one position of the log.
type capture struct {
	seq   uint64
	at    int64
	dead  uint64
	parts []capturedPart
}

// capturedPart is one part. It has data if it changed since it was last saved.
type capturedPart struct {
	name    string
	changed bool
	data    []byte
}

func manifestName(number uint64) string { return fmt.Sprintf("manifest-%016d", number) }
func packName(number uint64) string     { return fmt.Sprintf("pack-%016d", number) }
func idsName(number uint64) string      { return fmt.Sprintf("ids-%016d", number) }

// numberOf reads the number from a name that name made.
func numberOf(base string, name func(uint64) string) (number uint64, ok bool) {
	_, digits, found := strings.Cut(base, "-")
	if !found {
		return 0, false
	}
	if _, err := fmt.Sscanf(digits, "%d", &number); err != nil {
		return 0, false
	}
	return number, name(number) == base
}

func (c *checkpoints) path(base string) string { return filepath.Join(c.dir, base) }

// write makes a checkpoint of what was captured and returns the bytes it wrote.
// A failed write leaves the earlier checkpoints as they are.
func (c *checkpoints) write(state *capture, ids *dedup.Capture) (written int64, err error) {
	c.takeIDs(ids)
	m := &manifest{
		number: c.last + 1, seq: state.seq, at: state.at, dead: state.dead,
		idSeq: ids.Seq, idAt: ids.At, nextGeneration: ids.Next, epochs: ids.Epochs,
	}
	size, err := c.writePack(m, state)
	if err != nil {
		return 0, err
	}
	written += size
	c.crash(CrashAfterPack)
	size, err = c.writeIDs(m, ids)
	if err != nil {
		return written, err
	}
	written += size
	c.crash(CrashAfterIDs)
	if err := c.writeManifest(m); err != nil {
		return written, err
	}
	c.crash(CrashAfterManifest)
	c.last, c.before, c.newest = m.number, c.newest, m
	if err := c.moveAside(c.aside); err != nil {
		return written + m.size, err
	}
	c.aside = nil
	return written + m.size, c.clean()
}

func (c *checkpoints) writeManifest(m *manifest) error {
	data := m.encode()
	m.size = int64(len(data))
	err := fsys.WriteAtomic(c.fs, c.path(manifestName(m.number)), func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
	if err != nil {
		return fmt.Errorf("write manifest: %w", err)
	}
	return nil
}

// writePack saves the changed parts in one new pack, together with what is left
// in packs that are mostly out of date.
func (c *checkpoints) writePack(m *manifest, state *capture) (written int64, err error) {
	saved := map[string]savedPart{}
	if c.newest != nil {
		for _, p := range c.newest.parts {
			saved[p.name] = p
		}
	}
	retired := c.retired(state, saved)
	data := map[int][]byte{} // of the parts that go into the new pack, by their place in state
	for i := range state.parts {
		part := &state.parts[i]
		old, known := saved[part.name]
		switch {
		case part.changed:
			data[i] = part.data
		case !known:
			return 0, fmt.Errorf("part %q: %w", part.name, errStale)
		case retired[old.pack]:
			if data[i], err = c.readPart(old); err != nil {
				// The state still has it: the next checkpoint saves all anew.
				return 0, fmt.Errorf("%w: %w", errStale, err)
			}
		default:
			m.parts = append(m.parts, old)
		}
	}
	inUse := map[uint64]bool{}
	for i := range m.parts {
		inUse[m.parts[i].pack] = true
	}
	if c.newest != nil {
		for _, p := range c.newest.packs {
			if inUse[p.number] {
				m.packs = append(m.packs, p)
			}
		}
	}
	if len(data) == 0 {
		return 0, nil
	}
	offset := int64(fileHead)
	for i := range state.parts {
		if b, ok := data[i]; ok {
			m.parts = append(m.parts, savedPart{state.parts[i].name, m.number, offset, int64(len(b)), crcOf(b)})
			offset += int64(len(b))
		}
	}
	m.packs = append(m.packs, savedPack{m.number, offset})
	err = fsys.WriteAtomic(c.fs, c.path(packName(m.number)), func(w io.Writer) error {
		if _, err := w.Write(appendHead(nil, packMagic)); err != nil {
			return err
		}
		for i := range state.parts {
			if _, err := w.Write(data[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("write pack: %w", err)
	}
	return offset, nil
}

// errStale means that a part that was to be reused is not there: everything has
// to be encoded again.
var errStale = errors.New("a saved part cannot be reused")

// retired chooses the packs whose remaining parts move to the new one: those of
// which less than half is in use, and the emptiest if there are too many.
func (c *checkpoints) retired(state *capture, saved map[string]savedPart) map[uint64]bool {
	if c.newest == nil {
		return nil
	}
	live := map[uint64]int64{}
	for i := range state.parts {
		if old, ok := saved[state.parts[i].name]; ok && !state.parts[i].changed {
			live[old.pack] += old.length
		}
	}
	retired := map[uint64]bool{}
	var rest []savedPack
	for _, p := range c.newest.packs {
		if 2*live[p.number] < p.size-fileHead {
			retired[p.number] = true
		} else {
			rest = append(rest, p)
		}
	}
	slices.SortStableFunc(rest, func(a, b savedPack) int { return int(min(1, max(-1, live[a.number]-live[b.number]))) })
	for len(rest) >= maxPacks {
		retired[rest[0].number] = true
		rest = rest[1:]
	}
	return retired
}

func (c *checkpoints) readPart(p savedPart) ([]byte, error) {
	file, err := c.fs.Open(c.path(packName(p.pack)))
	if err != nil {
		return nil, fmt.Errorf("open pack: %w", err)
	}
	data, err := readSaved(file, p, nil)
	return data, errors.Join(err, file.Close())
}

// readSaved reads and checks a part, into buf if it is large enough.
func readSaved(pack fsys.File, p savedPart, buf []byte) ([]byte, error) {
	size, err := pack.Size()
	if err != nil {
		return nil, fmt.Errorf("size of %s: %w", packName(p.pack), err)
	}
	if p.offset < fileHead || p.length < 0 || p.offset > size || p.length > size-p.offset {
		return nil, fmt.Errorf("part %q: %s has %d bytes, not %d at %d", p.name, packName(p.pack), size, p.length, p.offset)
	}
	buf = slices.Grow(buf[:0], int(p.length))[:p.length]
	if n, err := pack.ReadAt(buf, p.offset); n < len(buf) {
		return nil, fmt.Errorf("read part %q of %s: %w", p.name, packName(p.pack), err)
	}
	if crcOf(buf) != p.crc {
		return nil, fmt.Errorf("part %q of %s at offset %d: checksum does not match", p.name, packName(p.pack), p.offset)
	}
	return buf, nil
}

// clean removes the files that neither of the two kept checkpoints refers to.
// What a crash leaves is removed next time.
func (c *checkpoints) clean() error {
	keep := map[string]bool{}
	for _, m := range []*manifest{c.newest, c.before} {
		if m == nil {
			continue
		}
		keep[manifestName(m.number)] = true
		for _, p := range m.packs {
			keep[packName(p.number)] = true
		}
		for _, g := range m.generations {
			keep[idsName(g.number)] = true
		}
	}
	for number := range c.files {
		if !keep[idsName(number)] {
			if err := c.forgetIDs(number); err != nil {
				return fmt.Errorf("close old ids: %w", err)
			}
		}
	}
	names, err := c.fs.List(c.dir)
	if err != nil {
		return fmt.Errorf("list checkpoints: %w", err)
	}
	for _, name := range names {
		if keep[name] || !isOurs(name) {
			continue
		}
		if err := c.fs.Remove(c.path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove old checkpoint file: %w", err)
		}
	}
	return nil
}

// isOurs says whether a file may be removed: what was moved aside, or put there
// by hand, is not touched.
func isOurs(name string) bool {
	name = strings.TrimSuffix(name, fsys.TempSuffix)
	_, isCheckpoint := checkpointNumber(name)
	_, isIDs := numberOf(name, idsName)
	return isCheckpoint || isIDs
}

// checkpointNumber reads the number of a checkpoint from the name of one of its
// files, also of one that was moved aside.
func checkpointNumber(name string) (uint64, bool) {
	for _, kind := range []func(uint64) string{manifestName, packName} {
		if number, ok := numberOf(name, kind); ok {
			return number, true
		}
	}
	return 0, false
}

// floor is the first log position that recovery from any kept checkpoint could
// need. Without an older checkpoint that is all of the log.
func (c *checkpoints) floor() uint64 {
	if c.newest == nil || c.before == nil {
		return 0
	}
	return 1 + min(c.newest.seq, c.newest.idSeq, c.before.seq, c.before.idSeq)
}
