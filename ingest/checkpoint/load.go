package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sloengine/sloengine/ingest/dedup"
	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/reliability/wal"
)

// This file chooses where a start begins and restores from there. The state and the ids are chosen independently,
// by the same rule (choose, in assess.go), and judge then reports the loss of that choice. Nothing on the disk
// changes before judge has agreed to the start.

// LossError means that the data folder lacks or contradicts data that it once held, and that starting anyway would
// lose counts. The start is refused until the folder is restored, or Options.AcceptLoss accepts the loss.
//
// Reason lists every loss, joined by semicolons, with files, places, numbers of records and times.
type LossError struct {
	Dir    string
	Reason string
}

// Error names the missing data and the options of the operator.
func (e *LossError) Error() string {
	return fmt.Sprintf(
		"data folder %s: %s; restore the folder from a backup, or start with the accept-loss override to continue with "+
			"what is left",
		e.Dir, e.Reason)
}

// Start is where recovery begins: the state and the ids each at a record of the log, and the part of them that
// is lost.
//
// Seq and IDSeq are independent: recovery applies the records after Seq to the state and those after IDSeq to the
// ids. Both are 0 if the log alone is read. IDs is ready to use and belongs to the caller from then on.
type Start struct {
	Seq   uint64 // the state holds the log up to this record
	At    int64  // receive time of that record, Unix ns
	IDSeq uint64 // the ids hold the log up to this record
	IDAt  int64
	Dead  uint64 // events that the fold had refused by then
	IDs   *dedup.Table

	Fallbacks int // newer checkpoints that are not used
	LostParts int
	LostIDs   uint64
	// Damaged means that the start worked around damage. A checkpoint must follow that refers to no older file. Lossy
	// means that something was lost: then the start is only complete with that checkpoint.
	Damaged, Lossy bool

	m    *manifest       // of the state; nil: the log alone
	lost map[string]bool // parts of m
}

// Load finds where to begin, for the state and the ids each on its own: with the newest checkpoint that lost nothing,
// with an older one, or with the log alone. If something is lost wherever it begins, it refuses to start, unless
// Options.AcceptLoss is set. It changes nothing in the folder before that decision.
//
// Load must be called before Write, and once. It leaves s in one of two conditions. After an undamaged start,
// newest and before are the checkpoints found, and the next checkpoint builds on them. After damage both are
// nil: the next checkpoint is complete, and only when it is durable are the old files moved aside. A crash
// before that finds the folder as it was and chooses the same again.
func (s *Store) Load(log *wal.Log) (*Start, error) {
	if err := fsys.MkdirAllSynced(s.opt.FS, s.dir, SiteDataDir); err != nil {
		return nil, err
	}
	numbers, err := s.manifests()
	if err != nil {
		return nil, err
	}
	found, unreadable, err := s.readManifests(numbers)
	if err != nil {
		return nil, err
	}
	// The two choices read different files, and large ones: side by side they take half the time.
	var state, known *choice
	var ids *dedup.Table
	var group errgroup.Group
	group.Go(func() (err error) {
		state, err = choose(found, func(m *manifest) uint64 { return missingAfter(log, m.position()) },
			func(m *manifest) (*findings, error) {
				f, err := s.checkParts(m)
				s.logDamage(m, f)
				return f, err
			})
		return err
	})
	group.Go(func() (err error) {
		var built *manifest
		build := func(m *manifest) (f *findings, err error) {
			built = m
			ids, f, err = s.readTable(m)
			s.logDamage(m, f)
			return f, err
		}
		known, err = choose(found, func(m *manifest) uint64 { return missingAfter(log, m.idPosition()) }, build)
		if err == nil && known.m != built && known.m != nil {
			_, err = build(known.m)
		}
		if err == nil && known.m == nil {
			ids = dedup.New(s.opt.IDs)
		}
		return err
	})
	if err := group.Wait(); err != nil {
		return nil, fmt.Errorf("read checkpoint: %w", err)
	}
	lossy, err := s.judge(log, state, known, len(numbers) > 0, unreadable)
	if err != nil {
		return nil, err
	}

	start := &Start{IDSeq: known.m.idPosition(), IDs: ids, Lossy: lossy, m: state.m, lost: state.found.parts,
		LostParts: len(state.found.parts), LostIDs: known.found.lost}
	if m := state.m; m != nil {
		start.Seq, start.At, start.Dead = m.seq, m.at, m.dead
	}
	if known.m != nil {
		start.IDAt = known.m.idAt
	}
	first := max(0, slices.Index(found, state.m)) // the first that both agree on
	if state.m == nil || state.m != known.m {
		first = len(found)
	}
	// A fallback is a manifest that is newer than the one in use, whether it could not be read or was not chosen.
	start.Fallbacks = len(unreadable) + first
	aside := make([]string, 0, len(numbers))
	for _, m := range unreadable {
		aside = append(aside, manifestName(m.number))
	}
	damaged := len(state.found.files)+len(known.found.files) > 0 || lossy || givenUp(log)
	if state.m == nil || known.m != state.m || damaged {
		// The next checkpoint uses nothing of the old files again.
		start.Damaged = len(numbers) > 0 || lossy || givenUp(log)
		s.aside = append(append(aside, state.found.files...), known.found.files...)
		for _, m := range found {
			s.aside = append(s.aside, manifestName(m.number))
		}
		// Ids that were appended to the old files are not in a new file yet: Renew has the table hand out all of
		// them again.
		if start.Damaged {
			ids.Renew()
		}
		if end := log.NextSeq() - 1; max(start.Seq, start.IDSeq) > end { // the end of the log is lost
			start.Seq, start.IDSeq = min(start.Seq, end), min(start.IDSeq, end)
		}
		return start, nil
	}
	// From here on nothing that is in use is damaged. Newer manifests that were not chosen are moved aside at
	// once, or the next checkpoint would delete them.
	for _, m := range found[:first] {
		aside = append(aside, manifestName(m.number))
	}
	if err := s.moveAside(aside); err != nil {
		return nil, err
	}
	s.newest = state.m
	if first+1 < len(found) {
		s.before = found[first+1]
	}
	// The last file of ids continues at the length in the manifest. Data that an unfinished checkpoint appended behind
	// it is overwritten.
	if s.newest.shift == s.opt.IDs.Shift() {
		s.ids = slices.Clone(s.newest.ids)
	} else { // other ticks: the next checkpoint writes all ids again
		ids.Renew()
	}
	return start, nil
}

// unreadableManifest is a manifest that Load cannot use.
type unreadableManifest struct {
	number uint64
	err    error
}

// readManifests reads the manifests in that order. One of a newer version, or one that could not be opened because
// file descriptors ran out, is no evidence of damage: that is an error.
//
// A manifest that is merely damaged costs nothing while another one is whole, so it is only listed.
func (s *Store) readManifests(numbers []uint64) (found []*manifest, unreadable []unreadableManifest, err error) {
	for _, number := range numbers {
		m, err := s.readManifest(number)
		if err != nil && isPassing(err) {
			return nil, nil, fmt.Errorf("read checkpoint %s: %w", s.path(manifestName(number)), err)
		}
		if err != nil {
			s.opt.Logger.Error("checkpoint manifest is unreadable", "manifest", manifestName(number), "err", err)
			unreadable = append(unreadable, unreadableManifest{number, err})
			continue
		}
		found = append(found, m)
	}
	return found, unreadable, nil
}

// judge lists the losses. It refuses a start that loses anything, unless that was accepted.
//
// For the state and for the ids it looks for the same four things: records in front of the log that neither
// holds, a checkpoint beyond the end of the log, records that the log itself gave up, and damaged parts or ids. A
// reason that applies to both is listed once.
func (s *Store) judge(log *wal.Log, state, known *choice, anyManifest bool,
	unreadable []unreadableManifest) (lossy bool, err error) {
	first, end := log.FirstSeq(), log.NextSeq()-1
	var reasons []string
	add := func(format string, args ...any) {
		if reason := fmt.Sprintf(format, args...); !slices.Contains(reasons, reason) {
			reasons = append(reasons, reason)
		}
	}
	for i, at := range []*choice{state, known} {
		seq := at.m.position()
		if i == 1 {
			seq = at.m.idPosition()
		}
		switch {
		// The first case needs no reason: the log continues where the checkpoint ends, or the two
		// overlap.
		case seq+1 >= first:
		case !anyManifest:
			add(
				"there is no checkpoint, and the log begins with record %d: records 1 to %d are lost, %[2]d in all", first, first-1)
		case at.m == nil:
			add(
				"no checkpoint is valid, and the log begins with record %d: records 1 to %d are lost, %[2]d in all", first, first-1)
			for _, m := range unreadable {
				add("%s: %v", manifestName(m.number), m.err)
			}
			for _, what := range at.passed {
				add("%s", what)
			}
		default:
			add(
				"the checkpoint holds the log up to record %d, but the log begins with record %d: records %d to %d are lost, %d "+
					"in all", seq, first, seq+1, first-1, first-1-seq)
		}
		if seq > end {
			add("the checkpoint holds the log up to record %d, but the log ends with record %d", seq, end)
		}
		for _, loss := range log.Losses() {
			if from, last := max(loss.FirstSeq, seq+1, first), lastLost(&loss); last >= from {
				add("records %d to %d of the log are lost, %d at most", from, last, last-from+1)
			}
		}
		if at.found.lost > 0 {
			for _, what := range at.found.what {
				add("%s", what)
			}
		}
	}
	if len(reasons) == 0 {
		return false, nil
	}
	reason := strings.Join(reasons, "; ")
	if !s.opt.AcceptLoss {
		return true, &LossError{Dir: s.opt.DataDir, Reason: reason}
	}
	s.opt.Logger.Error("loss accepted, continuing with what is left", "reason", reason)
	return true, nil
}

// Restore passes every part of the state at start to f, pack by pack. The data is nil for a part that is lost and
// valid during the call only.
//
// The parts are read a second time, after Load has verified them: holding all of them in memory would cost twice
// the state. An error is one of the disk or of f, and the caller must then not use the state.
func (s *Store) Restore(start *Start, f func(name string, data []byte) error) error {
	if start.m == nil {
		return nil
	}
	var buf []byte
	return s.eachPart(start.m, func(p *savedPart, pack fsys.File, err error) error {
		if start.lost[p.name] {
			return f(p.name, nil)
		}
		if err != nil {
			return err
		}
		if buf, err = readSaved(pack, *p, buf); err != nil {
			return err
		}
		return f(p.name, buf[:len(buf):len(buf)])
	}, func(string, error) error { return nil }) // a damaged header costs nothing: parts have checksums of their own
}

// logDamage logs the damage of a checkpoint, whether or not it costs anything.
//
// It logs at once, before the decision, so that the log names every damaged file even if an older checkpoint is
// whole.
func (s *Store) logDamage(m *manifest, f *findings) {
	if f == nil {
		return
	}
	for _, what := range f.what {
		s.opt.Logger.Error("checkpoint is damaged", "manifest", manifestName(m.number), "what", what)
	}
}

// position is the last record in the parts. A nil manifest stands for the log alone.
func (m *manifest) position() uint64 {
	if m == nil {
		return 0
	}
	return m.seq
}

// idPosition is the last record in the ids.
func (m *manifest) idPosition() uint64 {
	if m == nil {
		return 0
	}
	return m.idSeq
}

// readTable builds the deduplication table from the ids of a checkpoint, as far as they are readable.
//
// The number of keys of a manifest sizes the table, bounded by the length of the file, so that a damaged manifest
// cannot make it allocate more.
func (s *Store) readTable(m *manifest) (*dedup.Table, *findings, error) {
	keys := uint64(0)
	for _, f := range m.ids {
		keys += min(f.keys, uint64(f.length)/dedup.KeyBytes)
	}
	shift, floor := m.shift, m.floor
	if shift == 0 {
		shift = s.opt.IDs.Shift()
		floor = m.floorBefore(s.opt.IDs.MaxAge, shift)
	}
	r := dedup.NewRestore(s.opt.IDs, keys, shift, floor, m.epochs)
	found, err := s.checkIDs(m, r)
	return r.Table(), found, err
}

// floorBefore is the floor of version 3, whose ids were in generations: it knew all ids that were received after the
// older one began. The third generation was the first to replace another.
func (m *manifest) floorBefore(maxAge time.Duration, shift uint8) int64 {
	floor := (m.idAt - int64(maxAge)) >> shift
	if len(m.ids) == 2 && m.ids[1].number >= 3 {
		floor = max(floor, m.ids[0].start>>shift+1) // the dropped one may have an id of the same tick
	}
	return floor
}

// manifests returns the numbers of all manifests, the newest first. It notes the highest number in any file name, also
// of files that were moved aside.
//
// Names are listed in ascending order by the file system interface, so reversing them gives the newest first.
func (s *Store) manifests() (numbers []uint64, err error) {
	names, err := s.opt.FS.List(s.dir)
	if err != nil {
		return nil, fmt.Errorf("list checkpoints: %w", err)
	}
	for _, name := range names {
		if number, ok := numberOf(name, manifestName); ok {
			numbers = append(numbers, number)
		}
		if number, ok := checkpointNumber(strings.TrimSuffix(name, brokenSuffix)); ok {
			s.last = max(s.last, number)
		}
		if number, ok := numberOf(strings.TrimSuffix(name, brokenSuffix), idsName); ok {
			s.lastIDs = max(s.lastIDs, number)
		}
	}
	slices.Reverse(numbers)
	return numbers, nil
}

// readManifest reads and verifies one manifest. One whose number is not that of its name was copied there, and is
// damage.
func (s *Store) readManifest(number uint64) (*manifest, error) {
	file, err := s.opt.FS.Open(s.path(manifestName(number)))
	if err != nil {
		return nil, fmt.Errorf("open manifest: %w", err)
	}
	data, err := readAll(file)
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, fmt.Errorf("read manifest: %w", err)
	}
	m, err := decodeManifest(data)
	if err == nil {
		m.size = int64(len(data))
	}
	if err == nil && m.number != number {
		err = fmt.Errorf("its number is %d", m.number)
	}
	return m, err
}

// eachPart calls f with every part of m, pack by pack, and bad with a pack whose header is invalid. If a pack cannot be
// opened, f gets its parts with the reason.
//
// Pack by pack means that each file is opened once. An error that f or bad returns ends the walk.
func (s *Store) eachPart(m *manifest, f func(p *savedPart, pack fsys.File, err error) error,
	bad func(pack string, err error) error) error {
	byPack := map[uint64][]*savedPart{}
	for i := range m.parts {
		byPack[m.parts[i].pack] = append(byPack[m.parts[i].pack], &m.parts[i])
	}
	for _, number := range slices.Sorted(maps.Keys(byPack)) {
		if err := s.eachOf(number, byPack[number], f, bad); err != nil {
			return err
		}
	}
	return nil
}

// eachOf is eachPart for the parts in one pack.
func (s *Store) eachOf(number uint64, parts []*savedPart, f func(*savedPart, fsys.File, error) error,
	bad func(string, error) error) (err error) {
	name := packName(number)
	pack, err := s.opt.FS.Open(s.path(name))
	if err != nil {
		err = fmt.Errorf("open %s: %w", name, err)
	} else {
		defer func() { err = errors.Join(err, pack.Close()) }()
		head := make([]byte, fileHead)
		_, _ = pack.ReadAt(head, 0) // a short read fails the check
		if err := checkHead(head, packMagic, packVersion); err != nil {
			if err := bad(name, err); err != nil {
				return fmt.Errorf("read %s: %w", name, err)
			}
		}
	}
	opened := err
	for _, p := range parts {
		if err := f(p, pack, opened); err != nil {
			return err
		}
	}
	return nil
}

// moveAside renames files that must not be used again. They are never deleted: an operator may want to look at them.
//
// A file that is gone was moved by an earlier attempt. The sync makes the renames durable before anything is
// built on them.
func (s *Store) moveAside(names []string) error {
	for _, name := range names {
		path := s.path(name)
		if err := s.opt.FS.Rename(path, path+brokenSuffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("rename damaged checkpoint file: %w", err)
		}
	}
	if len(names) == 0 {
		return nil
	}
	if err := fsys.SyncDir(s.opt.FS, s.dir, SiteDataDir); err != nil {
		return fmt.Errorf("rename damaged checkpoint file: %w", err)
	}
	return nil
}

// readAll reads a file as a whole. It is for manifests, which are small.
func readAll(file fsys.File) ([]byte, error) {
	size, err := file.Size()
	if err != nil {
		return nil, err
	}
	data := make([]byte, size)
	if n, err := file.ReadAt(data, 0); n < len(data) {
		return nil, fmt.Errorf("read %d of %d bytes: %w", n, len(data), err)
	}
	return data, nil
}
