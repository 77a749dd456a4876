package wal

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/reliability/fsys/fsystest"
)

const lossSegmentBytes = 16 << 10

// history is the state of a log as seen by its callers.
type history struct {
	acked    []Pending // record i+1 was acknowledged, or delivered by a reader, as acked[i]
	inFlight []Pending // the batch that Append is busy with
	floor    uint64    // Truncate has returned for the records below
	below    uint64    // Truncate was ever asked for the records below
	marked   uint64    // SyncMark has returned for the record
}

// check opens the remains of a crash and looks for a broken promise.
func (h *history) check(disk *fsystest.Mem) error {
	l, err := openMem(disk, lossSegmentBytes)
	if err != nil {
		return err
	}
	defer func() { _ = l.Close() }()
	got, err := readAll(l, 0)
	if err != nil {
		return err
	}
	if n := l.DurableSeq(); n > uint64(len(h.acked)) && n != uint64(len(h.acked)+len(h.inFlight)) {
		return fmt.Errorf("log ends with record %d, in the middle of the batch of records %d to %d", n, len(h.acked)+1,
			len(h.acked)+len(h.inFlight))
	}
	first := l.FirstSeq()
	if first < h.floor {
		return fmt.Errorf("record %d is back, but everything below %d was truncated", first, h.floor)
	}
	if first > max(1, h.below) {
		return fmt.Errorf("log begins with record %d, but only those below %d were to be truncated", first, h.below)
	}
	for i, r := range got {
		seq := first + uint64(i)
		n := int(seq) - len(h.acked) - 1 // index in the batch in flight
		switch {
		case n < 0:
			err = same(h.acked[seq-1], seq, r)
		case n < len(h.inFlight):
			err = same(h.inFlight[n], seq, r)
		default:
			err = fmt.Errorf("record %d was never appended", seq)
		}
		if err != nil {
			return err
		}
	}
	if l.mark.found.seq < h.marked {
		return fmt.Errorf("marked up to record %d, but the marker says %d: %v", h.marked, l.mark.found.seq, l.mark.bad)
	}
	if want := uint64(len(h.acked)); l.DurableSeq() < want {
		return fmt.Errorf("acknowledged up to record %d, but the log ends with %d", want, l.DurableSeq())
	}
	return l.Append(batch(1, 5000))
}

// crashes checks the possible remains of a power loss at this moment.
func (h *history) crashes(m *fsystest.Mem, when string) error {
	for i, percent := range []int{0, 5, 20, 50, 50, 50, 80, 95, 100} {
		seed := m.Ops()*10 + int64(i)
		if err := h.check(m.CrashClone(percent, seed)); err != nil {
			return fmt.Errorf("%s, operation %d, %d %% kept: %w", when, m.Ops(), percent, err)
		}
	}
	return nil
}

// run is the life of one process. It returns nil, or the error that stopped it.
func (h *history) run(m *fsystest.Mem, batches int) error {
	l, err := openMem(m, lossSegmentBytes)
	if err != nil {
		return err
	}
	defer func() { _ = l.Close() }()
	// A start delivers all records that it finds: from now on it must not change.
	found, err := readAll(l, 0)
	if err != nil {
		return err
	}
	first := l.FirstSeq()
	for i, r := range found {
		if n := int(first) + i - len(h.acked) - 1; n >= 0 {
			h.acked = append(h.acked, h.inFlight[0])
			h.inFlight = h.inFlight[1:]
			if err := same(h.acked[len(h.acked)-1], r.Seq, r); err != nil {
				return err
			}
		}
	}
	h.inFlight = nil
	for i := range batches {
		sizes := [][]int{{100}, {6000, 10, 5000}, {3000, 0, 9}, {9000}, {300, 20000, 7}}[i%5]
		h.inFlight = batch(l.NextSeq(), sizes...)
		if err := l.Append(h.inFlight); err != nil {
			return err
		}
		h.acked = append(h.acked, h.inFlight...)
		h.inFlight = nil
		if i%2 == 1 {
			if err := l.SyncMark(); err != nil {
				return err
			}
			h.marked = l.DurableSeq()
		}
		if i%4 == 3 {
			h.below = l.NextSeq() - 4
			if err := l.Truncate(h.below); err != nil {
				return err
			}
			h.floor = l.FirstSeq()
		}
	}
	return nil
}

// losePower runs a log with a power loss at every operation; the first broken promise is
// returned.
func losePower(ignore ...fsys.Site) error {
	m := fsystest.New()
	m.IgnoreSync(ignore...)
	h := &history{}
	var broken error
	m.Before(func(op fsystest.Op, name string) {
		if broken == nil {
			broken = h.crashes(m, fmt.Sprintf("before %s of %s", op, filepath.Base(name)))
		}
	})
	for range 2 {
		if err := h.run(m, 9); err != nil {
			return err
		}
		if broken == nil {
			broken = h.crashes(m, "at the end")
		}
	}
	return broken
}

// killThenLosePower kills the process at every operation, starts the next one on the memory of the
// dead one, and cuts the power at every operation of that one.
func killThenLosePower(ignore ...fsys.Site) error {
	for n := int64(1); ; n++ {
		m := fsystest.New()
		m.IgnoreSync(ignore...)
		h := &history{}
		m.StopAt(n)
		err := h.run(m, 6)
		if err == nil {
			return nil // n is beyond the last operation
		}
		if !errors.Is(err, fsystest.ErrStopped) {
			return err
		}
		m.ClearFaults()
		var broken error
		m.Before(func(op fsystest.Op, name string) {
			if broken == nil {
				broken = h.crashes(m, fmt.Sprintf("killed at %d, before %s of %s", n, op, filepath.Base(name)))
			}
		})
		if err := h.run(m, 1); err != nil {
			return fmt.Errorf("killed at operation %d: %w", n, err)
		}
		if broken == nil {
			broken = h.crashes(m, fmt.Sprintf("killed at %d, at the end", n))
		}
		if broken != nil {
			return broken
		}
	}
}

// acceptLossAndLosePower has a corrupt log opened under the override, with a power loss
// at every operation.
func acceptLossAndLosePower(ignore ...fsys.Site) error {
	m := fsystest.New()
	h := &history{}
	l, err := openMem(m, lossSegmentBytes)
	if err != nil {
		return err
	}
	for _, sizes := range [][]int{{100, 40, 9000}, {6000, 10, 5000}, {9000, 500}, {300, 20000, 7}, {1000}} {
		recs := batch(l.NextSeq(), sizes...)
		if err := l.Append(recs); err != nil {
			return err
		}
		h.acked = append(h.acked, recs...)
	}
	if err := l.Close(); err != nil {
		return err
	}
	names, err := m.List(testDir)
	if err != nil {
		return err
	}
	names = slices.DeleteFunc(names, func(name string) bool { return name == markName })
	if len(names) < 4 {
		return fmt.Errorf("too few segments: %v", names)
	}
	// A record in the middle, one at the end of its segment, and a segment without a head
	// or a first record: 2, 5, and all of the third segment.
	originals := map[string][]byte{}
	for i, damage := range []func(data []byte){
		func(data []byte) { data[segmentHead+frameHead+100] ^= 1 },
		func(data []byte) { data[segmentHead+3*frameHead+6000+10+1] ^= 1 },
		func(data []byte) { clear(data[:10000]) },
		func([]byte) {},
	} {
		data, err := m.ReadFile(filepath.Join(testDir, names[i]))
		if err != nil {
			return err
		}
		damage(data)
		if err := m.WriteFile(filepath.Join(testDir, names[i]), data); err != nil {
			return err
		}
		originals[names[i]] = data
	}
	firsts := make([]uint64, len(names))
	for i, name := range names {
		firsts[i], _ = parseSegmentName(name)
	}
	lost := func(seq uint64) bool { return seq == 2 || firsts[2]-1 <= seq && seq < firsts[3] }
	open := func(m *fsystest.Mem, accept bool) error {
		l, err := Open(Options{FS: m, Dir: testDir, SegmentBytes: lossSegmentBytes, AcceptLoss: accept})
		if err != nil {
			return err
		}
		defer func() { _ = l.Close() }()
		got, err := readAll(l, 1)
		if err != nil {
			return err
		}
		for i, p := range h.acked {
			seq := uint64(i + 1)
			if lost(seq) {
				continue
			}
			if len(got) == 0 {
				return fmt.Errorf("record %d is not left", seq)
			}
			if err := same(p, seq, got[0]); err != nil {
				return err
			}
			got = got[1:]
		}
		if len(got) > 0 || l.NextSeq() != uint64(len(h.acked))+1 {
			return fmt.Errorf("%d records too many, and number %d is next", len(got), l.NextSeq())
		}
		return nil
	}
	// A head may be written again.
	holds := func(m *fsystest.Mem, name, dir string) bool {
		data, err := m.ReadFile(filepath.Join(dir, name))
		want := bytes.TrimRight(originals[name], "\x00")
		return err == nil && len(data) >= len(want) &&
			bytes.Equal(data[min(len(want), segmentHead):len(want)], want[min(len(want), segmentHead):])
	}
	held := func(m *fsystest.Mem, name string) bool {
		return holds(m, name, testDir) || holds(m, name, filepath.Join(testDir, fmt.Sprintf("quarantine-%020d", firsts[2]-1)))
	}
	crashes := func(done bool, when string) error {
		for i, percent := range []int{0, 20, 50, 80, 100} {
			clone := m.CrashClone(percent, m.Ops()*10+int64(i))
			err := open(clone, !done)
			for _, name := range names {
				if err == nil && !held(clone, name) {
					err = fmt.Errorf("segment %s is lost", name)
				}
			}
			if err != nil {
				return fmt.Errorf("%s, %d %% kept: %w", when, percent, err)
			}
		}
		return nil
	}
	m.IgnoreSync(ignore...)
	var broken error
	m.Before(func(op fsystest.Op, name string) {
		if broken == nil {
			broken = crashes(false, fmt.Sprintf("accepting, before %s of %s", op, filepath.Base(name)))
		}
	})
	if err := open(m, true); err != nil {
		return err
	}
	m.Before(nil)
	if broken == nil {
		broken = crashes(true, "accepted")
	}
	return broken
}

// keepAndLosePower keeps a range, lets go of it in the log, and loses power.
func keepAndLosePower(ignore ...fsys.Site) error {
	m := fsystest.New()
	l, err := openMem(m, 4096)
	if err != nil {
		return err
	}
	defer func() { _ = l.Close() }()
	const records = 60
	for n := range uint64(records) {
		if err := l.Append(batch(n+1, 500)); err != nil {
			return err
		}
	}
	m.IgnoreSync(ignore...)
	const dir = "/data/kept/a"
	if err := l.Archive(5, 40, dir); err != nil {
		return err
	}
	if err := l.Truncate(50); err != nil {
		return err
	}
	k, err := OpenArchive(m.CrashClone(0, 1), dir, 5, 40)
	if err != nil {
		return err
	}
	defer func() { _ = k.Close() }()
	var rec Record
	for seq := uint64(5); seq <= 40; seq++ {
		if ok, err := k.Next(&rec); err != nil || !ok {
			return fmt.Errorf("record %d of the kept ones is lost: %w", seq, err)
		}
		if err := same(batch(seq, 500)[0], seq, rec); err != nil {
			return err
		}
	}
	return nil
}

// markAndLosePower opens a log that has no marker yet, as older programs left it.
func markAndLosePower(ignore ...fsys.Site) error {
	m := fsystest.New()
	l, err := openMem(m, 1<<20)
	if err != nil {
		return err
	}
	if err := errors.Join(l.Append(batch(1, 10)), l.Close(), m.Remove(filepath.Join(testDir, markName)),
		fsys.SyncDir(m, testDir, "")); err != nil {
		return err
	}
	m.IgnoreSync(ignore...)
	if l, err = openMem(m, 1<<20); err != nil {
		return err
	}
	defer func() { _ = l.Close() }()
	if err := errors.Join(l.Append(batch(2, 10)), l.SyncMark()); err != nil {
		return err
	}
	h := &history{acked: append(batch(1, 10), batch(2, 10)...), marked: 2}
	return h.crashes(m, "marked")
}

func TestPowerLossAfterMark(t *testing.T)                { require.NoError(t, markAndLosePower()) }
func TestPowerLossAfterArchive(t *testing.T)             { require.NoError(t, keepAndLosePower()) }
func TestPowerLossAtEveryOperation(t *testing.T)         { require.NoError(t, losePower()) }
func TestKillThenPowerLossAtEveryOperation(t *testing.T) { require.NoError(t, killThenLosePower()) }
func TestPowerLossWhileALossIsAccepted(t *testing.T)     { require.NoError(t, acceptLossAndLosePower()) }

// A sync that can be dropped without any of these tests failing would be one without a
// known reason.
func TestEverySyncIsNeeded(t *testing.T) {
	sites := fsystest.Sites("wal.")
	require.NotEmpty(t, sites)
	for _, site := range sites {
		t.Run(string(site), func(t *testing.T) {
			// The tests that cost little come first: one that notices is enough.
			var err error
			for _, lose := range []func(...fsys.Site) error{losePower, markAndLosePower, keepAndLosePower,
				acceptLossAndLosePower, killThenLosePower} {
				if err = lose(site); err != nil {
					break
				}
			}
			require.Error(t, err, "no test misses the sync %s", site)
			t.Log(err)
		})
	}
}
