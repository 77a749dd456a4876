package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/zeebo/xxh3"

	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/reliability/wal"
)

// findings is what of a checkpoint cannot be read: of its parts, or of its ids.
type findings struct {
	what  []string // places and what they cost, for people
	files []string // that are damaged
	lost  uint64   // parts, or ids; whatever is damaged beside them costs nothing

	parts     map[string]bool // that are lost
	worthless bool            // nothing can be used without what is lost
}

func (f *findings) add(file, format string, args ...any) {
	if !slices.Contains(f.files, file) {
		f.files = append(f.files, file)
	}
	f.what = append(f.what, file+": "+fmt.Sprintf(format, args...))
}

// passing is an error that says nothing about the file.
func passing(err error) bool {
	return errors.Is(err, errNewerFormat) || fsys.Classify(err) == fsys.NoFiles
}

// checkParts reads all parts of a checkpoint. The error is one that says nothing about
// their state.
func (c *checkpoints) checkParts(m *manifest, state State) (*findings, error) {
	found := &findings{parts: map[string]bool{}}
	var buf []byte
	err := c.eachPart(m, func(p *savedPart, pack fsys.File, err error) error {
		if err == nil {
			buf, err = readSaved(pack, *p, buf)
		}
		if err == nil || passing(err) {
			return err
		}
		found.lost++
		found.parts[p.name] = true
		what, ok := state.Loss(p.name)
		if !ok {
			found.worthless, what = true, "the checkpoint is worth nothing without it"
		}
		found.add(packName(p.pack), "%v; lost: %s", err, what)
		return nil
	}, func(pack string, err error) error {
		if passing(err) {
			return err
		}
		found.add(pack, "%v", err)
		return nil
	})
	return found, err
}

// checkIDs reads all ids of a checkpoint and hands them over, by place of their
// generation.
func (c *checkpoints) checkIDs(m *manifest, add func(generation int, key xxh3.Uint128)) (*findings, error) {
	found := &findings{}
	if len(m.generations) < 1 || len(m.generations) > 2 {
		found.worthless, found.lost = true, 1
		found.add(manifestName(m.number), "%d generations of ids", len(m.generations))
		return found, nil
	}
	for i, saved := range m.generations {
		name := idsName(saved.number)
		var read uint64
		var bad []string
		file, err := c.fs.Open(c.path(name))
		if err == nil {
			read, bad, err = readIDs(file, saved, func(key xxh3.Uint128) { add(i, key) })
			err = errors.Join(err, file.Close())
		}
		if err != nil && passing(err) {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		if err != nil {
			bad = append(bad, err.Error())
		}
		if len(bad) == 0 {
			continue
		}
		lost := saved.keys - min(saved.keys, read)
		found.lost += lost
		until := m.idAt
		if i+1 < len(m.generations) {
			until = m.generations[i+1].start
		}
		found.add(name, "%s; lost: %d of %d known ids, of events received between %s and %s; a resend of those is counted again",
			strings.Join(bad, ", "), lost, saved.keys, timeText(saved.start), timeText(until))
	}
	return found, nil
}

// choice is where to begin: with a checkpoint, or with the log alone if m is nil.
type choice struct {
	m       *manifest
	found   *findings
	missing uint64 // records that neither it nor the log holds

	passed []string // what of the checkpoints cannot be read without which this one is chosen
}

func (c *choice) whole() bool { return c.found.lost == 0 && c.missing == 0 && !c.found.worthless }

// better prefers what lacks fewer records, and then what lost less.
func (c *choice) better(than *choice) bool {
	switch {
	case c.found.worthless || than == nil:
		return !c.found.worthless
	case c.missing != than.missing:
		return c.missing < than.missing
	}
	return c.found.lost < than.found.lost
}

// choose takes the first that is whole, of the checkpoints from the newest on and the log
// alone, or the best.
func choose(manifests []*manifest, missing func(*manifest) uint64, check func(*manifest) (*findings, error)) (*choice, error) {
	var best *choice
	var passed []string
	for _, m := range append(slices.Clone(manifests), nil) {
		at := &choice{m: m, found: &findings{}, missing: missing(m)}
		if m != nil {
			var err error
			if at.found, err = check(m); err != nil {
				return nil, err
			}
		}
		if at.whole() {
			return at, nil
		}
		if at.better(best) {
			best = at
		}
		passed = append(passed, at.found.what...)
	}
	best.passed = passed
	return best, nil
}

// missingAfter is how many records after seq the log does not have.
func missingAfter(log *wal.Log, seq uint64) (n uint64) {
	if first := log.FirstSeq(); first > seq+1 {
		n = first - 1 - seq
		seq = first - 1
	}
	for _, loss := range log.Losses() {
		if last := lastLost(&loss); last > seq {
			n += last - max(loss.FirstSeq-1, seq)
		}
	}
	return n
}

// lastLost is the last record that was lost. What was given up just now is known
// exactly; later only the number from which the log went on is.
func lastLost(loss *wal.Loss) uint64 {
	if c := loss.Cause; c != nil {
		return max(c.LastSeq, c.Unproven)
	}
	return loss.LastSeq
}

// givenUp reports whether the log gave records up when it was opened. A checkpoint must
// then hold the place, so that the next start need not judge it again.
func givenUp(log *wal.Log) bool {
	return slices.ContainsFunc(log.Losses(), func(loss wal.Loss) bool { return loss.Cause != nil })
}

// covered is the last record that a checkpoint without damage holds, together with its
// ids, and that no sink has yet to get: damage to the log up to there costs nothing.
func (e *Engine) covered() (uint64, error) {
	c := e.checkpointFiles()
	numbers, err := c.manifests()
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	for _, number := range numbers {
		m, err := c.readManifest(number)
		if err != nil {
			continue // the start itself says so
		}
		parts, err := c.checkParts(m, e.opt.State)
		if err != nil {
			return 0, err
		}
		ids, err := c.checkIDs(m, func(int, xxh3.Uint128) {})
		if err != nil {
			return 0, err
		}
		if parts.lost == 0 && ids.lost == 0 && !ids.worthless {
			return min(m.seq, m.idSeq), nil
		}
	}
	return 0, nil
}
