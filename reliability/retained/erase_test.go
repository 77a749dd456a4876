package retained

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/reliability/fsys/fsystest"
	"github.com/sloengine/sloengine/reliability/wal"
)

const token = "erased-01234567"

// rewrite puts the token in place of a service.
func rewrite(dst []byte, rec *wal.Record, e *Erasure) ([]byte, int, error) {
	service, rest, ok := bytes.Cut(rec.Payload, []byte("|"))
	if !ok {
		return dst, 0, errors.New("no event")
	}
	if !e.Is(service) {
		return dst, 0, nil
	}
	return append(append(append(dst, e.Token...), '|'), rest...), 1, nil
}

func idOf(value string) string { return "e" + strings.TrimPrefix(value, "shop") }

func erasureOf(value string, below uint64) Erasure {
	e := NewErasure("service", value)
	e.ID, e.Token, e.Below = idOf(value), token, below
	return e
}

func (w *world) erase(t testing.TB, value string) Progress {
	t.Helper()
	e := erasureOf(value, w.seq+1)
	p, err := w.store.Erase(e, func(o *Erasure) bool { return o.ID == e.ID })
	require.NoError(t, err)
	return p
}

// payloads reads everything that there is.
func payloads(t testing.TB, src *Source) (out map[uint64]string) {
	t.Helper()
	r, err := src.NewReader(Query{})
	require.NoError(t, err)
	defer r.Close()
	out = map[uint64]string{}
	for rec := (wal.Record{}); ; {
		ok, err := r.Next(&rec)
		require.NoError(t, err)
		if !ok {
			return out
		}
		require.Zero(t, rec.Lost)
		require.Equal(t, at(rec.Seq), rec.Time)
		out[rec.Seq] = string(rec.Payload)
	}
}

// wanted is a record with and without an erasure.
func wanted(seq uint64, value string) (before, after string) {
	before = string(payloadOf(seq))
	if serviceOf(seq) != value {
		return before, before
	}
	return before, token + before[len(value):]
}

func requireErased(t testing.TB, w *world, value string, below uint64) {
	t.Helper()
	for name, src := range w.sources() {
		got := payloads(t, src)
		require.Len(t, got, int(w.seq), name)
		for seq, payload := range got {
			before, after := wanted(seq, value)
			if seq >= below {
				after = before
			}
			require.Equal(t, after, payload, "%s %d", name, seq)
		}
	}
}

// An erasure changes what is retained, waits for what is still in the log, and leaves what comes later.
func TestErase(t *testing.T) {
	w := newWorld(t, fsystest.New())
	w.write(t, 500)
	w.work(t)
	before := w.store.Stats()
	w.write(t, 2) // still in the log, with the value
	noted, err := w.store.Source().Digest(t.Context(), w.seq)
	require.NoError(t, err)
	last := w.seq
	p := w.erase(t, "shop2")
	require.False(t, p.Done)
	require.Equal(t, before.Files, p.Files)
	below := w.seq + 1
	w.work(t)
	p = w.store.Erasure(p)
	require.False(t, p.Done, "a record is in the log")
	require.Zero(t, p.Files)
	require.Positive(t, p.Events)
	again := w.erase(t, "shop2")
	require.Equal(t, p.Events, again.Events, "the same one is not begun twice")
	w.log.Roll()
	w.write(t, 50) // of the same value, and later
	w.work(t)
	require.True(t, w.store.Erasure(p).Done)
	requireErased(t, w, "shop2", below)
	after := w.store.Stats()
	require.Equal(t, before.Events, w.store.statsUpTo(before.First+before.Records).Events)
	require.Greater(t, after.Files, before.Files)

	data, err := w.disk.ReadFile(filepath.Join(testDir, ChainName))
	require.NoError(t, err)
	require.NotContains(t, string(data), "shop2")
	events := uint64(0)
	_, err = readChain(data, func(l *link) {
		events += l.events()
		require.NotEmpty(t, l.Frames)
		for _, f := range l.Frames {
			require.NotEqual(t, f.Old, f.New)
			require.Equal(t, f.New, w.digestOf(t, f.First))
		}
	})
	require.NoError(t, err)
	require.EqualValues(t, below-400, events)
	for i, change := range [][]byte{[]byte(`"old":"0`), []byte(`"records":9`)} {
		cut := bytes.Index(data, change[:6])
		bad := bytes.Clone(data)
		copy(bad[cut:], change)
		_, err = readChain(bad, func(*link) {})
		require.ErrorIs(t, err, errDamaged, i)
	}
	// The digest at a record is that of before the erasure, and the chain explains what differs.
	for name, src := range w.sources() {
		c, err := src.Check(t.Context(), w.seq)
		require.NoError(t, err)
		require.Empty(t, c.Changed, name)
		require.Positive(t, c.Erased)
		sum, err := src.Digest(t.Context(), last)
		require.NoError(t, err)
		require.Equal(t, noted, sum)
	}
	require.NoError(t, w.disk.WriteFile(filepath.Join(testDir, ChainName), nil))
	c, err := w.store.Source().Check(t.Context(), w.seq)
	require.NoError(t, err)
	require.NotEmpty(t, c.Changed)
	require.NoError(t, w.disk.WriteFile(filepath.Join(testDir, ChainName), data))

	left, err := w.disk.ReadFile(filepath.Join(testDir, pendingName))
	require.NoError(t, err)
	require.NotContains(t, string(left), "hash", "what could find the value by trial is gone")
}

func (s *Store) statsUpTo(next uint64) Stats {
	var files []*file
	for _, f := range s.snapshot() {
		if f.First < next {
			files = append(files, f)
		}
	}
	return stats(files)
}

// digestOf is that of a block as it is now.
func (w *world) digestOf(t testing.TB, first uint64) string {
	t.Helper()
	for _, f := range w.store.snapshot() {
		open, blocks, err := (&Source{fs: w.disk}).enter(f)
		require.NoError(t, err)
		defer open.Close()
		for i := range blocks {
			if blocks[i].First == first {
				u, err := Form{}.newUnpacker()
				require.NoError(t, err)
				_, err = u.open(open, &blocks[i])
				require.NoError(t, err)
				return sumOf(u.raw)
			}
		}
	}
	t.Fatalf("no block begins with record %d", first)
	return ""
}

// Wherever the process is killed or loses power, each record is there in its old form or its new one, and a start
// finishes the erasure.
func TestEraseWithPowerLossAtEveryOperation(t *testing.T) {
	require.NoError(t, eraseUnderPowerLoss(t))
}

func TestEverySyncOfAnErasureIsNeeded(t *testing.T) {
	for _, site := range []fsys.Site{fsys.SiteAtomicFile, fsys.SiteAtomicDir, SiteChain} {
		t.Run(string(site), func(t *testing.T) { require.Error(t, eraseUnderPowerLoss(t, site)) })
	}
}

func eraseUnderPowerLoss(t *testing.T, ignore ...fsys.Site) (broken error) {
	const value = "shop1"
	disk := fsystest.New()
	w := newWorld(t, disk)
	w.write(t, 450)
	w.work(t)
	disk.IgnoreSync(ignore...)
	w.erase(t, value)
	below, checks := w.seq+1, 0
	disk.Before(func(op fsystest.Op, name string) {
		for _, percent := range []int{0, 50, 100} {
			if broken != nil {
				return
			}
			checks++
			if err := checkErasure(t, disk.CrashClone(percent, int64(checks)), value, below); err != nil {
				broken = fmt.Errorf("before %s of %s, %d %% kept: %w", op, filepath.Base(name), percent, err)
			}
		}
	})
	w.work(t)
	disk.Before(nil)
	require.Greater(t, checks+len(ignore)*1000, 40)
	require.NoError(t, w.log.Close())
	return broken
}

// checkErasure starts on a disk, compares all records, and lets the erasure go on.
func checkErasure(t *testing.T, disk *fsystest.Mem, value string, below uint64) error {
	w := newWorld(t, disk)
	defer w.log.Close()
	changed := map[uint64]bool{}
	for _, src := range w.sources() {
		got := payloads(t, src)
		if len(got) != int(w.seq) {
			return fmt.Errorf("%d records of %d", len(got), w.seq)
		}
		for seq, payload := range got {
			before, after := wanted(seq, value)
			if payload != before && payload != after {
				return fmt.Errorf("record %d is %q", seq, payload)
			}
			changed[seq] = changed[seq] || before != after && payload == after
		}
	}
	// What is new is in the chain.
	data, err := readWhole(disk, filepath.Join(testDir, ChainName))
	if err != nil {
		return err
	}
	named := map[string]bool{}
	lines := 0
	if _, err := readChain(data, func(l *link) {
		lines++
		for _, f := range l.Frames {
			named[f.New] = true
		}
	}); err != nil {
		return err
	}
	if err := w.store.load(); err != nil {
		return err
	}
	for _, f := range w.store.snapshot() {
		if changed[f.First] && !named[w.digestOf(t, f.First)] {
			return fmt.Errorf("file %d is new, and the chain of %d lines does not say so", f.First, lines)
		}
	}
	w.store.Offer(w.seq + 1)
	w.store.work(nil)
	w.log.Roll()
	w.write(t, 1)
	w.work(t)
	if n := len(w.store.erasures.pending); n > 0 {
		return fmt.Errorf("%d erasures are left", n)
	}
	for seq, payload := range payloads(t, w.store.Source()) {
		_, after := wanted(seq, value)
		if seq < below && payload != after {
			return fmt.Errorf("record %d is %q after the restart", seq, payload)
		}
	}
	return nil
}

// A reader that is in the middle, and one that knows the index of before, read each record once while files are
// replaced.
func TestAReaderBesideAnErasure(t *testing.T) {
	w := newWorld(t, fsystest.New())
	w.write(t, 1000)
	w.work(t)
	for i, value := range []string{"shop1", "shop2"} {
		sources := w.sources()
		readers := map[string]*Reader{}
		last := map[string]uint64{}
		var rec wal.Record
		for name, src := range sources {
			_ = payloads(t, src) // its indexes are known
			r, err := src.NewReader(Query{})
			require.NoError(t, err)
			for range 250 {
				ok, err := r.Next(&rec)
				require.NoError(t, err)
				require.True(t, ok)
			}
			readers[name], last[name] = r, rec.Seq
		}
		w.erase(t, value)
		w.work(t)
		require.Positive(t, w.store.Erasure(Progress{Erasure: Erasure{ID: idOf(value)}}).Events+uint64(i+1))
		for name, r := range readers {
			for {
				ok, err := r.Next(&rec)
				require.NoError(t, err)
				if !ok {
					break
				}
				require.Equal(t, last[name]+1, rec.Seq, name)
				require.Zero(t, rec.Lost)
				last[name] = rec.Seq
			}
			require.Equal(t, w.seq, last[name])
			gaps, _ := r.Gaps()
			require.Empty(t, gaps)
			require.NoError(t, r.Close())
			chunks := 0
			for _, err := range sources[name].Chunks(Query{}) {
				require.NoError(t, err)
				chunks++
			}
			require.Greater(t, chunks, len(w.store.snapshot()))
		}
	}
}

// What cannot be written is tried again, and what cannot be read stays and is counted.
func TestEraseMeetsFaults(t *testing.T) {
	w := newWorld(t, fsystest.New())
	w.write(t, 600)
	w.work(t)
	hit := w.store.snapshot()[7]
	require.Equal(t, "shop1", serviceOf(hit.First+1))
	data, err := w.disk.ReadFile(hit.path)
	require.NoError(t, err)
	data[headBytes+5] ^= 1
	require.NoError(t, w.disk.WriteFile(hit.path, data))
	w.erase(t, "shop1")
	w.disk.FailNamed(fsystest.OpSync, ".hist.tmp", 1, errors.New("no"))
	w.work(t)
	require.False(t, w.store.Erasure(Progress{Erasure: Erasure{ID: idOf("shop1")}}).Done)
	require.False(t, w.store.FailingSince().IsZero())
	w.disk.ClearFaults()
	w.work(t)
	p := w.store.Erasure(Progress{Erasure: Erasure{ID: idOf("shop1")}})
	require.Equal(t, 1, p.Damaged)
	require.Zero(t, p.Files)
	require.True(t, w.store.FailingSince().IsZero())
	for seq := range maxErasures {
		_, err = w.store.Erase(Erasure{ID: fmt.Sprint(seq), Below: w.seq + 1}, func(*Erasure) bool { return false })
		if err != nil {
			break
		}
	}
	require.ErrorIs(t, err, ErrManyErasures)
	w.store.SetBounds(Bounds{})
	w.work(t)
	require.True(t, w.store.Erasure(Progress{Erasure: Erasure{ID: idOf("shop1")}}).Done, "nothing is retained")
	require.Zero(t, w.store.Stats().Files)
}
