package checkpoint

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
	"github.com/sloengine/sloengine/internal/order"
	"github.com/sloengine/sloengine/reliability/fsys"
)

// This file writes checkpoints and deletes old ones. Each step of Write is durable before the next, and the
// manifest makes the checkpoint: until it is renamed into place, a start sees the two checkpoints before. Reading
// them is in load.go.

// Dir is the folder of the checkpoints in the data folder.
const Dir = "checkpoints"

const (
	// brokenSuffix is appended to the names of files that must not be used again. The names are then not those of
	// checkpoints any more, so neither Load nor clean touches the files.
	brokenSuffix = ".broken"

	// maxPacks is how many packs may stay in use. Beyond that, the parts of those with the least in them move to the
	// new pack.
	//
	// Without a bound, parts that never change would keep one pack of each checkpoint alive, and a start would
	// open hundreds of files. A higher bound copies less and opens more.
	maxPacks = 32
)

// The steps after which Options.Step is called. Each is durable by then.
const (
	StepPack     = "checkpoint.pack"
	StepIDs      = "checkpoint.ids"
	StepManifest = "checkpoint.manifest"
)

// Options configure a Store. All are required.
//
// FS, DataDir and IDs must be those that the folder was written with: ids are stored as hashes, and the table is
// rebuilt with the same bounds.
type Options struct {
	FS      fsys.FS
	DataDir string // Dir is below it
	Logger  *slog.Logger
	IDs     dedup.Options
	// Loss describes the cost of continuing without a part of the state; ok is false if the others are useless
	// without it.
	Loss func(part string) (cost string, ok bool)
	// AcceptLoss continues where a start would lose something. Otherwise such a start is refused.
	AcceptLoss bool
	// Step is called after each step of writing a checkpoint. Crash tests stop there.
	Step func(step string)
}

// Store reads and writes the checkpoints of a data folder. It has no lock: recovery uses it first, and the goroutine
// that writes checkpoints from then on. Other goroutines may read checkpoints with a Store of their own.
//
// Invariants between two calls of Write:
//
//   - newest and before name only files that are on the disk, synced, and never changed again. Id files grow, but only
//     behind the length that a manifest names.
//   - newest has a higher number than before. After a start around damage both are nil, so that nothing of the old
//     files is used again.
//   - After Load, last is at least as high as the number of any manifest or pack, and lastIDs as that of any file of
//     ids, also of those that were moved aside.
type Store struct {
	opt Options
	dir string

	// Set by Load, and then by Write after each manifest.
	// The two checkpoints that are kept. Their files must stay until a newer manifest is durable.
	newest, before *manifest // nil while there are fewer
	last           uint64    // highest number in any file name, so that no name is used twice

	// The files of ids, and the number of the last one. They are ahead of those in newest by what a Write that failed had
	// synced.
	ids     []savedIDs
	lastIDs uint64
	open    fsys.File // the last of ids; nil until something is written
	damaged uint64    // number of a file that could not be compacted

	// Captured ids that are not written yet. The table does not hand them out again: an id that is neither here nor in a
	// file would be recognised until the next restart only, and a resend after that would count twice.
	waiting []dedup.Keys

	// Files of damaged checkpoints. They are renamed only after a checkpoint without them is durable: a crash before
	// that leaves the folder as it was.
	aside []string
}

// New returns a Store. It does not touch the folder.
//
// A Store that only reads, such as one for a backup, needs no Close.
func New(opt Options) *Store {
	return &Store{opt: opt, dir: filepath.Join(opt.DataDir, Dir)}
}

// State is the fold of the log up to one position.
//
// Its parts are captured between two records, so they belong together. Seq is the number of the record before
// that moment, 0 for an empty state.
type State struct {
	Seq   uint64 // the last record in it
	At    int64  // receive time of that record, Unix ns
	Dead  uint64 // events that the fold had refused by then
	Parts []Part
}

// Part is one part of a State. A part that has not changed since the last checkpoint has no data: the bytes of that
// checkpoint are used again.
//
// Data must not change until Write has returned. Names are unique within a State, which the caller ensures.
type Part struct {
	Name    string
	Changed bool
	Data    []byte
}

// The names of the files. 16 digits keep them sorted by number, which manifests relies on.
func manifestName(number uint64) string { return fmt.Sprintf("manifest-%016d", number) }
func packName(number uint64) string     { return fmt.Sprintf("pack-%016d", number) }
func idsName(number uint64) string      { return fmt.Sprintf("ids-%016d", number) }

// numberOf reads the number from a name that the function name made.
//
// Comparing with the name that the number makes refuses other spellings, such as missing zeros: a file with such
// a name is not ours and must not be deleted.
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

func (s *Store) path(base string) string { return filepath.Join(s.dir, base) }

// Write makes a checkpoint and returns how many bytes it wrote. A failed write leaves the earlier checkpoints as they
// are. Each step is durable before the next: the manifest comes last, so a crash in between leaves files that no
// manifest names and that the next checkpoint deletes.
//
// Consequences of another order:
//
//   - ids after the manifest: a crash in between leaves a manifest that names more ids than the file has. Those ids
//     would be lost, and a resend of their events would count twice.
//   - the manifest before the pack: a crash leaves a checkpoint without its parts.
//   - clean before the manifest: a crash leaves the older checkpoint with files missing.
//
// An error before the manifest leaves newest and before as they were. An error after it (moving aside, cleaning)
// comes with a checkpoint that is valid: the next Write cleans again. The captured ids are never lost by an
// error, see waiting.
func (s *Store) Write(state *State, ids *dedup.Capture) (written int64, err error) {
	s.waiting = append(s.waiting, ids.Keys...)
	// s.last moves with success only, so a Write that failed has its number used again. No manifest names the
	// files that it left, and WriteAtomic replaces them.
	m := &manifest{
		number: s.last + 1, seq: state.Seq, at: state.At, dead: state.Dead,
		idSeq: ids.Seq, idAt: ids.At, shift: ids.Shift, floor: ids.Floor, epochs: ids.Epochs,
	}
	size, err := s.writePack(m, state)
	if err != nil {
		return 0, err
	}
	written += size
	s.opt.Step(StepPack)
	size, err = s.writeIDs(m, ids)
	if err != nil {
		return written, err
	}
	written += size
	s.opt.Step(StepIDs)
	if err := s.writeManifest(m); err != nil {
		return written, err
	}
	s.opt.Step(StepManifest)
	// The manifest is durable, so from here on the checkpoint exists, even if the rest of the call fails.
	s.last, s.before, s.newest = m.number, s.newest, m
	if err := s.moveAside(s.aside); err != nil {
		return written + m.size, err
	}
	s.aside = nil
	return written + m.size, s.clean()
}

// writeManifest writes the manifest to a temporary file, syncs it, renames it and syncs the folder. The rename is
// the moment at which the checkpoint begins to exist.
func (s *Store) writeManifest(m *manifest) error {
	data := m.encode()
	m.size = int64(len(data))
	if err := fsys.Replace(s.opt.FS, s.path(manifestName(m.number)), data); err != nil {
		return fmt.Errorf("write manifest: %w", err)
	}
	return nil
}

// writePack writes the changed parts into one new pack, together with the remaining parts of packs that are mostly
// unused.
//
// It fills in the parts and packs of m. A checkpoint in which nothing changed has no pack of its own: all its
// parts lie in earlier ones, and written is 0. ErrStale comes before anything is written.
func (s *Store) writePack(m *manifest, state *State) (written int64, err error) {
	saved := map[string]savedPart{}
	if s.newest != nil {
		for _, p := range s.newest.parts {
			saved[p.name] = p
		}
	}
	retired := s.retired(state, saved)
	data := map[int][]byte{} // of the parts that go into the new pack, by their place in state
	for i := range state.Parts {
		part := &state.Parts[i]
		old, known := saved[part.Name]
		switch {
		case part.Changed:
			data[i] = part.Data
		case !known:
			return 0, fmt.Errorf("part %q: %w", part.Name, ErrStale)
		case retired[old.pack]:
			if data[i], err = s.readPart(old); err != nil {
				// The fold still has it: it encodes all parts for the next checkpoint.
				return 0, fmt.Errorf("%w: %w", ErrStale, err)
			}
		default:
			m.parts = append(m.parts, old)
		}
	}
	inUse := map[uint64]bool{}
	for i := range m.parts {
		inUse[m.parts[i].pack] = true
	}
	if s.newest != nil {
		for _, p := range s.newest.packs {
			if inUse[p.number] {
				m.packs = append(m.packs, p)
			}
		}
	}
	if len(data) == 0 {
		return 0, nil
	}
	offset := int64(fileHead)
	for i := range state.Parts {
		if b, ok := data[i]; ok {
			m.parts = append(m.parts, savedPart{state.Parts[i].Name, m.number, offset, int64(len(b)), crcOf(b)})
			offset += int64(len(b))
		}
	}
	m.packs = append(m.packs, savedPack{m.number, offset})
	err = fsys.WriteAtomic(s.opt.FS, s.path(packName(m.number)), func(w io.Writer) error {
		if _, err := w.Write(appendHead(nil, packMagic, packVersion)); err != nil {
			return err
		}
		for i := range state.Parts {
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

// ErrStale means that the saved bytes of an unchanged part cannot be read. The next State must have all its parts.
//
// It is not fatal: the checkpoints on the disk stay as they are. The reader of the log answers it by encoding
// every part.
var ErrStale = errors.New("saved part is unreadable")

// retired chooses the packs whose remaining parts move to the new one: those of which less than half is in use, and
// beyond maxPacks those with the fewest bytes in use.
//
// Half is a balance: a pack that stays is at most half waste, and one that goes frees more bytes than are copied
// from it.
func (s *Store) retired(state *State, saved map[string]savedPart) map[uint64]bool {
	if s.newest == nil {
		return nil
	}
	live := map[uint64]int64{}
	for i := range state.Parts {
		if old, ok := saved[state.Parts[i].Name]; ok && !state.Parts[i].Changed {
			live[old.pack] += old.length
		}
	}
	retired := map[uint64]bool{}
	var rest []savedPack
	for _, p := range s.newest.packs {
		if 2*live[p.number] < p.size-fileHead {
			retired[p.number] = true
		} else {
			rest = append(rest, p)
		}
	}
	order.By(rest, func(a, b *savedPack) int { return int(min(1, max(-1, live[a.number]-live[b.number]))) })
	for len(rest) >= maxPacks {
		retired[rest[0].number] = true
		rest = rest[1:]
	}
	return retired
}

// readPart reads one part that moves to a new pack. It verifies the checksum, so damage is never copied.
func (s *Store) readPart(p savedPart) ([]byte, error) {
	file, err := s.opt.FS.Open(s.path(packName(p.pack)))
	if err != nil {
		return nil, fmt.Errorf("open pack: %w", err)
	}
	data, err := readSaved(file, p, nil)
	return data, errors.Join(err, file.Close())
}

// readSaved reads a part and verifies its checksum. It uses buf if that is large enough.
//
// The place is checked against the size first, so that a damaged manifest cannot make it allocate more than the
// file holds.
func readSaved(pack fsys.File, p savedPart, buf []byte) ([]byte, error) {
	size, err := pack.Size()
	if err != nil {
		return nil, fmt.Errorf("size of %s: %w", packName(p.pack), err)
	}
	if p.offset < fileHead || p.length < 0 || p.offset > size || p.length > size-p.offset {
		return nil, fmt.Errorf("part %q: invalid place in %s: %d bytes at offset %d of %d", p.name, packName(p.pack),
			p.length, p.offset, size)
	}
	buf = slices.Grow(buf[:0], int(p.length))[:p.length]
	if n, err := pack.ReadAt(buf, p.offset); n < len(buf) {
		return nil, fmt.Errorf("read part %q of %s: %w", p.name, packName(p.pack), err)
	}
	if crcOf(buf) != p.crc {
		return nil, fmt.Errorf("part %q of %s at offset %d: checksum mismatch", p.name, packName(p.pack), p.offset)
	}
	return buf, nil
}

// clean deletes the files that neither of the two newest checkpoints refers to. It runs only after their manifests are
// durable. Files that a crash leaves behind are deleted by the next checkpoint.
//
// An error leaves files behind and nothing else: a later call deletes them. The deletions are not synced. A power
// loss may bring files back that no manifest needs, and an old manifest among them is older than the two that
// count.
func (s *Store) clean() error {
	keep := map[string]bool{}
	for _, m := range []*manifest{s.newest, s.before} {
		if m == nil {
			continue
		}
		keep[manifestName(m.number)] = true
		for _, p := range m.packs {
			keep[packName(p.number)] = true
		}
		for _, f := range m.ids {
			keep[idsName(f.number)] = true
		}
	}
	names, err := s.opt.FS.List(s.dir)
	if err != nil {
		return fmt.Errorf("list checkpoints: %w", err)
	}
	for _, name := range names {
		if keep[name] || !isOurs(name) {
			continue
		}
		if err := s.opt.FS.Remove(s.path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove old checkpoint file: %w", err)
		}
	}
	return nil
}

// isOurs reports whether a file may be deleted. Files that were moved aside, or that an operator put there, may not.
//
// Temporary files are ours, too: a crash leaves them behind.
func isOurs(name string) bool {
	name = strings.TrimSuffix(name, fsys.TempSuffix)
	_, isCheckpoint := checkpointNumber(name)
	_, isIDs := numberOf(name, idsName)
	return isCheckpoint || isIDs
}

// checkpointNumber reads the number of a checkpoint from the name of its manifest or pack.
func checkpointNumber(name string) (uint64, bool) {
	for _, kind := range []func(uint64) string{manifestName, packName} {
		if number, ok := numberOf(name, kind); ok {
			return number, true
		}
	}
	return 0, false
}

// Floor is the first record of the log that recovery may need: the one after the older of the two checkpoints. With
// fewer than two it is 0, and all of the log is needed.
//
// It goes back to the older checkpoint, and in each to the lower of the two positions, so that a start can fall
// back to it for the state as well as for the ids. Only durable checkpoints count: Write has returned, or Load
// has read it.
func (s *Store) Floor() uint64 {
	if s.newest == nil || s.before == nil {
		return 0
	}
	return 1 + min(s.newest.seq, s.newest.idSeq, s.before.seq, s.before.idSeq)
}

// Bytes is the size of all files, or parts of files, that the newest checkpoint refers to; 0 if there is none.
//
// Only the goroutine that owns the Store may call it.
func (s *Store) Bytes() int64 {
	if s.newest == nil {
		return 0
	}
	return s.newest.stateBytes()
}
