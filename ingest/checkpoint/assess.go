package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/sloengine/sloengine/ingest/dedup"
	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/reliability/wal"
)

// This file assesses damage: it reads the files that a checkpoint names, records which parts are unusable and the
// cost of that, and chooses the checkpoint that loses the least. It changes nothing on the disk. load.go decides
// with it whether a start is refused.

// findings lists the damage that a check found in the parts of a checkpoint, or in its ids.
//
// It is filled by one goroutine. lost is 0 for damage that costs nothing: the checkpoint is then as good as a
// whole one, but the files are still moved aside.
type findings struct {
	what  []string // places and their cost, for the operator
	files []string // the damaged ones
	lost  uint64   // number of parts or ids; other damage, such as a header, costs nothing

	parts     map[string]bool // the lost ones
	worthless bool            // the rest is useless without the lost part
}

// add notes damage at a place in a file.
func (f *findings) add(file, format string, args ...any) {
	if !slices.Contains(f.files, file) {
		f.files = append(f.files, file)
	}
	f.what = append(f.what, file+": "+fmt.Sprintf(format, args...))
}

// isPassing reports whether an error says nothing about the file: another version of the program, or the same one with
// a file descriptor, could read it.
//
// Such an error must end the start. Treating it as damage would move a good file aside.
func isPassing(err error) bool {
	return errors.Is(err, fsys.ErrNewer) || fsys.Classify(err) == fsys.NoFiles
}

// checkParts reads all parts of a checkpoint and verifies them. The error is a passing one.
//
// The bytes are read and dropped. Reading them is the price for choosing before anything is restored: a State
// cannot be emptied again.
func (s *Store) checkParts(m *manifest) (*findings, error) {
	found := &findings{parts: map[string]bool{}}
	var buf []byte
	err := s.eachPart(m, func(p *savedPart, pack fsys.File, err error) error {
		if err == nil {
			buf, err = readSaved(pack, *p, buf)
		}
		if err == nil || isPassing(err) {
			return err
		}
		found.lost++
		found.parts[p.name] = true
		cost, ok := s.opt.Loss(p.name)
		if !ok {
			found.worthless, cost = true, "the checkpoint is useless without it"
		}
		found.add(packName(p.pack), "%v; lost: %s", err, cost)
		return nil
	}, func(pack string, err error) error {
		if isPassing(err) {
			return err
		}
		found.add(pack, "%v", err)
		return nil
	})
	return found, err
}

// checkIDs reads all ids of a checkpoint and adds the readable ones to a table, unless that is nil.
//
// Ids that cannot be read do not make a checkpoint worthless: a resend of those events counts again, and nothing
// else happens.
func (s *Store) checkIDs(m *manifest, to *dedup.Restore) (*findings, error) {
	found := &findings{}
	for i, saved := range m.ids {
		until := m.idAt
		if i+1 < len(m.ids) {
			until = m.ids[i+1].start
		}
		name := idsName(saved.number)
		var read uint64
		var bad []string
		file, err := s.opt.FS.Open(s.path(name))
		if err == nil {
			add := func(block idBlock) {
				if to != nil {
					block.addTo(to, until>>s.opt.IDs.Shift())
				}
			}
			read, bad, err = readIDs(file, saved, m.idsForm(), add)
			err = errors.Join(err, file.Close())
		}
		if err != nil && isPassing(err) {
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
		found.add(name, "%s; lost: %d of %d ids, of events received between %s and %s; a resend of those is counted again",
			strings.Join(bad, ", "), lost, saved.keys, formatTime(saved.start), formatTime(until))
	}
	return found, nil
}

// choice is where to begin: with a checkpoint, or with the log alone if m is nil.
type choice struct {
	m       *manifest
	found   *findings
	missing uint64 // records that neither it nor the log holds

	passed []string // damage of the checkpoints that were tried before
}

// whole reports whether nothing is lost by beginning there.
//
// The log alone is whole if it begins with record 1 and gave nothing up.
func (c *choice) whole() bool { return c.found.lost == 0 && c.missing == 0 && !c.found.worthless }

// better prefers the choice with fewer missing records, then the one that lost less.
//
// A missing record is a count that is lost for good. A lost part or id is confined to a time, so it comes second.
// A checkpoint that is worthless is never better than none.
func (c *choice) better(than *choice) bool {
	switch {
	case c.found.worthless || than == nil:
		return !c.found.worthless
	case c.missing != than.missing:
		return c.missing < than.missing
	}
	return c.found.lost < than.found.lost
}

// choose tries the checkpoints, the newest first, and then the log alone. It returns the first that is whole, or else
// the best.
//
// The newest whole one is preferred only because it leaves the least of the log to be read: every whole choice
// gives the same counts. The log alone has no findings, so best is never nil at the end.
func choose(manifests []*manifest, missing func(*manifest) uint64,
	check func(*manifest) (*findings, error)) (*choice, error) {
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

// missingAfter is the number of records after seq that the log lacks.
//
// They are those in front of the oldest record in the log, and those that the log gave up under an accepted loss.
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

// lastLost is the last record of a loss. It is exact at the start that gives the records up. Later starts only know the
// record with which the log continues.
func lastLost(loss *wal.Loss) uint64 {
	if c := loss.Cause; c != nil {
		return max(c.LastSeq, c.Unproven)
	}
	return loss.LastSeq
}

// givenUp reports whether the log gave records up when it was opened. A checkpoint must then cover the place, so that
// the next start does not judge it again.
//
// A loss has its cause only at the start that gave the records up.
func givenUp(log *wal.Log) bool {
	return slices.ContainsFunc(log.Losses(), func(loss wal.Loss) bool { return loss.Cause != nil })
}

// formatTime formats a time in Unix nanoseconds.
func formatTime(ns int64) string { return time.Unix(0, ns).UTC().Format(time.RFC3339) }

// Covered is the last record that the newest undamaged checkpoint holds, in its state and in its ids; 0 if there is
// none. Damage to the log up to that record costs nothing, as long as no sink needs it.
//
// It reads all parts and ids of the newest checkpoint, so it is called only when the log is damaged. The lower of
// the two positions counts: a record is covered when both the state and the ids hold it.
func (s *Store) Covered() (uint64, error) {
	numbers, err := s.manifests()
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	for _, number := range numbers {
		m, err := s.readManifest(number)
		if err != nil {
			continue // Load reports it
		}
		parts, err := s.checkParts(m)
		if err != nil {
			return 0, err
		}
		ids, err := s.checkIDs(m, nil)
		if err != nil {
			return 0, err
		}
		if parts.lost == 0 && ids.lost == 0 {
			return min(m.seq, m.idSeq), nil
		}
	}
	return 0, nil
}
