package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/sloengine/sloengine/ingest/dedup"
	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/reliability/wal"
)

// load finds where to begin, the State and the ids each on its own: with the newest
// checkpoint that lost nothing, with an older one, or with the log alone. Where something
// is lost whatever one begins with, the start is refused, unless that was accepted.
func (c *checkpoints) load(opt *Options, log *wal.Log) (*manifest, *dedup.Table, error) {
	if err := fsys.MkdirAllSynced(c.fs, c.dir, SiteDataDir); err != nil {
		return nil, nil, err
	}
	numbers, err := c.manifests()
	if err != nil {
		return nil, nil, err
	}
	var found []*manifest
	var broken, unreadable []string
	for _, number := range numbers {
		m, err := c.readManifest(number)
		switch {
		case err == nil:
			found = append(found, m)
			continue
		case errors.Is(err, errNewerFormat):
			return nil, nil, fmt.Errorf("checkpoint %s: %w", c.path(manifestName(number)), err)
		case fsys.Classify(err) == fsys.NoFiles: // which says nothing about the checkpoint
			return nil, nil, fmt.Errorf("read checkpoint %s: %w", c.path(manifestName(number)), err)
		}
		c.log.Error("checkpoint manifest cannot be read", "manifest", manifestName(number), "err", err)
		broken = append(broken, manifestName(number))
		unreadable = append(unreadable, fmt.Sprintf("%s: %v", manifestName(number), err))
	}

	var state, known *choice
	var ids *dedup.Table
	var group errgroup.Group
	group.Go(func() (err error) {
		state, err = choose(found, func(m *manifest) uint64 { return missingAfter(log, m.position()) },
			func(m *manifest) (*findings, error) {
				f, err := c.checkParts(m, opt.State)
				c.tell(m, f)
				return f, err
			})
		return err
	})
	group.Go(func() (err error) {
		var built *manifest
		build := func(m *manifest) (f *findings, err error) {
			built = m
			ids, f, err = c.readKnown(m, opt.IDs)
			c.tell(m, f)
			return f, err
		}
		known, err = choose(found, func(m *manifest) uint64 { return missingAfter(log, m.idPosition()) }, build)
		if err == nil && known.m != built && known.m != nil {
			_, err = build(known.m)
		}
		if err == nil && known.m == nil {
			ids = dedup.New(opt.IDs)
		}
		return err
	})
	if err := group.Wait(); err != nil {
		return nil, nil, fmt.Errorf("read checkpoint: %w", err)
	}
	if err := c.judge(opt, log, state, known, len(numbers), unreadable); err != nil {
		return nil, nil, err
	}
	from := &manifest{}
	if state.m != nil {
		*from = *state.m
	}
	from.idSeq, from.idAt = known.m.idPosition(), 0
	if known.m != nil {
		from.idAt = known.m.idAt
	}
	if len(found) > 0 || len(broken) > 0 {
		c.fallbacks = len(broken)
		for _, m := range found {
			if m == state.m && m == known.m {
				break
			}
			c.fallbacks++
		}
	}
	damaged := len(state.found.files)+len(known.found.files) > 0 || c.lossy || givenUp(log)
	if state.m == nil || known.m != state.m || damaged {
		// Nothing of the old files is used again.
		c.damaged = len(numbers) > 0 || c.lossy || givenUp(log)
		c.lostParts, c.lostIDs = state.found.parts, known.found.lost
		c.aside = append(append(broken, state.found.files...), known.found.files...)
		for _, m := range found {
			c.aside = append(c.aside, manifestName(m.number))
		}
		if c.damaged {
			ids.Renew()
		}
		if end := log.NextSeq() - 1; max(from.seq, from.idSeq) > end {
			from.seq, from.idSeq = min(from.seq, end), min(from.idSeq, end)
		}
		return from, ids, nil
	}
	at := slices.Index(found, state.m)
	for _, m := range found[:at] {
		broken = append(broken, manifestName(m.number))
	}
	if err := c.moveAside(broken); err != nil {
		return nil, nil, err
	}
	c.newest = state.m
	if at+1 < len(found) {
		c.before = found[at+1]
	}
	for _, g := range c.newest.generations {
		c.files[g.number] = &idFile{length: g.length, crc: g.crc, keys: g.keys}
	}
	return c.newest, ids, nil
}

// judge says what is damaged, and refuses a start at which anything would be lost, unless
// that was accepted.
func (c *checkpoints) judge(opt *Options, log *wal.Log, state, known *choice, manifests int, unreadable []string) error {
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
		case seq+1 >= first:
		case manifests == 0:
			add("there is no checkpoint, and the log begins with record %d: records 1 to %d are lost, %[2]d in all", first, first-1)
		case at.m == nil:
			add("no checkpoint is valid, and the log begins with record %d: records 1 to %d are lost, %[2]d in all", first, first-1)
			for _, what := range append(slices.Clone(unreadable), at.passed...) {
				add("%s", what)
			}
		default:
			add("the checkpoint holds the log up to record %d, but the log begins with record %d: records %d to %d are lost, %d in all", seq, first, seq+1, first-1, first-1-seq)
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
		return nil
	}
	c.lossy = true
	reason := strings.Join(reasons, "; ")
	if !opt.AcceptLoss {
		return &LossError{Dir: opt.Dir, Reason: reason}
	}
	c.log.Error("going on with what is left, as was asked", "reason", reason)
	return nil
}

func (c *checkpoints) tell(m *manifest, f *findings) {
	if f == nil {
		return
	}
	for _, what := range f.what {
		c.log.Error("checkpoint is damaged", "manifest", manifestName(m.number), "what", what)
	}
}

// position is the last record in the parts; no manifest stands for the log alone.
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

// readKnown reads the ids of a checkpoint, as far as they can be read.
func (c *checkpoints) readKnown(m *manifest, opt IDOptions) (*dedup.Table, *findings, error) {
	r := dedup.NewRestore(opt, m.nextGeneration, m.epochs)
	for _, saved := range m.generations {
		r.Generation(saved.number, saved.start, min(saved.keys, uint64(saved.length)/dedup.KeyBytes))
	}
	found, err := c.checkIDs(m, r.Add)
	if err != nil || found.worthless {
		return dedup.New(opt), found, err
	}
	return r.Table(), found, nil
}

// manifests returns the numbers of all manifests, the newest first, and takes
// note of the highest number in any name.
func (c *checkpoints) manifests() (numbers []uint64, err error) {
	names, err := c.fs.List(c.dir)
	if err != nil {
		return nil, fmt.Errorf("list checkpoints: %w", err)
	}
	for _, name := range names {
		if number, ok := numberOf(name, manifestName); ok {
			numbers = append(numbers, number)
		}
		if number, ok := checkpointNumber(strings.TrimSuffix(name, brokenSuffix)); ok {
			c.last = max(c.last, number)
		}
	}
	slices.Reverse(numbers)
	return numbers, nil
}

func (c *checkpoints) readManifest(number uint64) (*manifest, error) {
	file, err := c.fs.Open(c.path(manifestName(number)))
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
		err = fmt.Errorf("it says that its number is %d", m.number)
	}
	return m, err
}

// eachPart calls f with every part of m, pack by pack, and bad with a pack whose head
// cannot be used. A part of a pack that cannot be opened comes with the reason.
func (c *checkpoints) eachPart(m *manifest, f func(p *savedPart, pack fsys.File, err error) error, bad func(pack string, err error) error) error {
	byPack := map[uint64][]*savedPart{}
	for i := range m.parts {
		byPack[m.parts[i].pack] = append(byPack[m.parts[i].pack], &m.parts[i])
	}
	for _, number := range slices.Sorted(maps.Keys(byPack)) {
		if err := c.eachOf(number, byPack[number], f, bad); err != nil {
			return err
		}
	}
	return nil
}

func (c *checkpoints) eachOf(number uint64, parts []*savedPart, f func(*savedPart, fsys.File, error) error, bad func(string, error) error) (err error) {
	name := packName(number)
	pack, err := c.fs.Open(c.path(name))
	if err != nil {
		err = fmt.Errorf("open %s: %w", name, err)
	} else {
		defer closing(&err, pack, name)
		head := make([]byte, fileHead)
		_, _ = pack.ReadAt(head, 0) // what is not there does not match
		if err := checkHead(head, packMagic); err != nil {
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

// moveAside renames files that must not be used again.
func (c *checkpoints) moveAside(names []string) error {
	for _, name := range names {
		path := c.path(name)
		if err := c.fs.Rename(path, path+brokenSuffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("move a damaged file aside: %w", err)
		}
	}
	if len(names) == 0 {
		return nil
	}
	if err := fsys.SyncDir(c.fs, c.dir, SiteDataDir); err != nil {
		return fmt.Errorf("move a damaged file aside: %w", err)
	}
	return nil
}

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
