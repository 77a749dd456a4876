package retained

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/reliability/fsys/fsystest"
	"github.com/sloengine/sloengine/reliability/wal"
)

const (
	testDir = "/data/history"
	testLog = "/data/wal"
	rule    = 2
)

// world is a log with a Store, on a disk in memory.
type world struct {
	disk  *fsystest.Mem
	log   *wal.Log
	store *Store
	seq   uint64
	free  int64 // missing bytes
	now   time.Time
}

// at is the receive time of a record: one per second.
func at(seq uint64) int64 { return int64(seq) * int64(time.Second) }

// payloadOf names a record, with a service and a type that change slowly.
func payloadOf(seq uint64) []byte {
	return fmt.Appendf(nil, "%s|%s|%d|%s", serviceOf(seq), "order", seq, bytes.Repeat([]byte{byte(seq)}, int(seq%97)))
}

func serviceOf(seq uint64) string { return fmt.Sprint("shop", seq/200) }

func describe(rec *wal.Record, s *Sketch) error {
	if rec.Type == rule {
		return nil
	}
	parts := bytes.SplitN(rec.Payload, []byte("|"), 3)
	if len(parts) < 3 {
		return errors.New("no event")
	}
	s.Event(parts[0], parts[1], rec.Time-int64(time.Minute))
	return nil
}

func newWorld(t testing.TB, disk *fsystest.Mem) *world {
	t.Helper()
	w := &world{disk: disk, now: time.Unix(1000, 0)}
	log, err := wal.Open(wal.Options{FS: disk, Dir: testLog, SegmentBytes: 4096, RuleType: rule})
	require.NoError(t, err)
	w.log, w.seq = log, log.NextSeq()-1
	w.store = New(Options{
		FS: disk, Dir: testDir, Log: log, Describe: describe, Rewrite: rewrite, RuleType: rule,
		Now:     func() time.Time { return w.now },
		Missing: func() int64 { return w.free }, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	w.store.SetBounds(Bounds{Age: time.Hour, Bytes: 1 << 30})
	return w
}

func (w *world) write(t testing.TB, n int) {
	t.Helper()
	for range n {
		w.seq++
		typ := byte(1)
		if w.seq%50 == 1 {
			typ = rule
		}
		require.NoError(t, w.log.Append([]wal.Pending{{Time: at(w.seq), Type: typ, Payload: payloadOf(w.seq)}}))
	}
}

// work moves everything that can be moved, and lets the log delete it.
func (w *world) work(t testing.TB) {
	t.Helper()
	w.store.Offer(w.seq + 1)
	w.store.work(nil)
	require.NoError(t, w.log.Truncate(min(w.seq+1, w.store.Floor())))
}

// read reads a query and checks that the records are the right ones.
func read(t testing.TB, src *Source, q Query) (seqs []uint64, r *Reader) {
	t.Helper()
	r, err := src.NewReader(q)
	require.NoError(t, err)
	for rec := (wal.Record{}); ; {
		ok, err := r.Next(&rec)
		require.NoError(t, err)
		if !ok {
			require.NoError(t, r.Close())
			return seqs, r
		}
		require.Equal(t, at(rec.Seq), rec.Time)
		require.Equal(t, string(payloadOf(rec.Seq)), string(rec.Payload))
		require.Equal(t, rec.Seq%50 == 1, rec.Type == rule)
		seqs = append(seqs, rec.Seq)
	}
}

func span(from, to uint64) (seqs []uint64) {
	for n := from; n < to; n++ {
		seqs = append(seqs, n)
	}
	return seqs
}

// sources are both ways to read: in the process, and from another one.
func (w *world) sources() map[string]*Source {
	return map[string]*Source{"own": w.store.Source(), "other": OpenFolders(w.disk, testDir, testLog, Form{})}
}

func TestEveryRecordIsReadOnce(t *testing.T) {
	w := newWorld(t, fsystest.New())
	for round := range 5 {
		w.write(t, 300)
		if round%2 == 0 {
			w.work(t)
		}
		for name, src := range w.sources() {
			got, r := read(t, src, Query{})
			require.Equal(t, span(1, w.seq+1), got, name)
			gaps, more := r.Gaps()
			require.Empty(t, gaps)
			require.Zero(t, more)
			got, _ = read(t, src, Query{From: 100, To: 420})
			require.Equal(t, span(100, min(420, w.seq+1)), got, name)
			got, _ = read(t, src, Query{ReceivedFrom: at(77), ReceivedTo: at(200)})
			require.Equal(t, span(77, 200), got, name)
		}
	}
	st := w.store.Stats()
	require.Greater(t, st.Files, 10)
	require.EqualValues(t, 1, st.First)
	require.Positive(t, w.log.FirstSeq()-1, "the log is truncated")
}

// A start reads the indexes and no records: with all records overwritten it finds the same.
func TestAStartReadsIndexesOnly(t *testing.T) {
	w := newWorld(t, fsystest.New())
	w.write(t, 2000)
	w.work(t)
	want := w.store.Stats()
	for _, f := range w.store.snapshot() {
		data, err := w.disk.ReadFile(f.path)
		require.NoError(t, err)
		require.Greater(t, int(f.tableAt), headBytes+len(data)/4)
		clear(data[headBytes:f.tableAt])
		require.NoError(t, w.disk.WriteFile(f.path, data))
	}
	again := newWorld(t, w.disk.CrashClone(100, 1))
	require.NoError(t, again.store.load())
	require.Equal(t, want, again.store.Stats())
	again.work(t)
	require.Equal(t, want, again.store.Stats(), "and neither does what it retains next")
}

// What is retained says how far back it can reach once that is known.
func TestReach(t *testing.T) {
	const day = 24 * time.Hour
	now := time.Unix(1_000_000_000, 0)
	for name, x := range map[string]struct {
		st   Stats
		b    Bounds
		want Reach
		miss int64
		full bool
	}{
		"empty": {b: Bounds{Age: 32 * day, Bytes: 100}},
		"off":   {st: Stats{From: now.Add(-day), Bytes: 50}, b: Bounds{Bytes: 100}},
		"of the future": {st: Stats{From: now.Add(day), Bytes: 50},
			b: Bounds{Age: 32 * day, Bytes: 100}},
		"an hour old": {st: Stats{From: now.Add(-time.Hour), Bytes: 50}, b: Bounds{Age: 32 * day, Bytes: 100},
			want: Reach{Back: time.Hour}},
		"half": {st: Stats{From: now.Add(-5 * day), Bytes: 5 * 86400}, b: Bounds{Age: 32 * day, Bytes: 10 * 86400},
			want: Reach{Back: 5 * day, Limit: 10 * day, Left: 5 * day, Rate: 1}, miss: 20 * 86400},
		"full": {st: Stats{From: now.Add(-5 * day), Bytes: 5 * 86400}, b: Bounds{Age: 32 * day, Bytes: 5 * 86400},
			want: Reach{Back: 5 * day, Limit: 5 * day, Rate: 1}, miss: 25 * 86400, full: true},
		"as old as it may be": {st: Stats{From: now.Add(-32 * day), Bytes: 1}, b: Bounds{Age: 32 * day, Bytes: 1 << 62},
			want: Reach{Back: 32 * day, Limit: 32 * day, Rate: 1 / (32 * day).Seconds()}, full: true},
	} {
		got := x.st.Reach(now, x.b)
		require.Equal(t, x.want, got, name)
		require.Equal(t, x.miss, got.Missing(30*day), name)
		require.Equal(t, x.full, got.Full(), name)
	}
}

// The index names what is in a file, so a query skips the others without reading them.
func TestAQuerySkips(t *testing.T) {
	w := newWorld(t, fsystest.New())
	w.write(t, 2000)
	w.work(t)
	all, r := read(t, w.store.Source(), Query{})
	whole := r.Read()
	require.Len(t, all, 2000)
	got, r := read(t, w.store.Source(), Query{Service: serviceOf(700), To: w.log.FirstSeq()})
	require.Subset(t, got, []uint64{602, 700, 799})
	require.NotContains(t, got, uint64(1200))
	require.Less(t, r.Read(), whole/4)
	got, r = read(t, w.store.Source(), Query{EventFrom: at(640), EventTo: at(641), To: w.log.FirstSeq()})
	require.Contains(t, got, uint64(700), "a minute after its event")
	require.Less(t, r.Read(), whole/4)
	got, r = read(t, w.store.Source(), Query{Service: "other", To: w.log.FirstSeq()})
	require.Empty(t, got)
	require.Zero(t, r.Read())
	f := w.store.snapshot()[0]
	require.EqualValues(t, 1, f.Rules[0])
	require.Equal(t, f.Records-uint64(len(f.Rules)), f.Events)
}

func TestTheOldestGoFirst(t *testing.T) {
	w := newWorld(t, fsystest.New())
	w.write(t, 2000)
	w.work(t)
	full := w.store.Stats()
	require.EqualValues(t, 1, full.First)

	w.store.SetBounds(Bounds{Age: time.Hour, Bytes: full.Bytes / 2})
	w.work(t)
	half := w.store.Stats()
	require.LessOrEqual(t, half.Bytes, full.Bytes/2)
	require.Greater(t, half.Bytes, full.Bytes/3)
	got, _ := read(t, w.store.Source(), Query{})
	require.Equal(t, span(half.First, w.seq+1), got)

	w.now = time.Unix(0, at(1500)).Add(time.Hour)
	w.work(t)
	newer := w.store.Stats()
	require.Greater(t, newer.First, half.First)
	require.LessOrEqual(t, newer.First, uint64(1501))

	w.free = 1
	w.work(t)
	require.Equal(t, newer.Files-1, w.store.Stats().Files, "one file is enough")
	w.free = 0

	live := w.log.FirstSeq()
	w.store.SetBounds(Bounds{})
	w.work(t)
	require.Zero(t, w.store.Stats().Files)
	got, _ = read(t, w.store.Source(), Query{})
	require.Equal(t, span(live, w.seq+1), got, "the log itself stays")
}

// A reader that is in the middle goes on while files are deleted and segments are moved.
func TestAReaderBesideChanges(t *testing.T) {
	w := newWorld(t, fsystest.New())
	w.write(t, 1000)
	w.work(t)
	for name, src := range w.sources() {
		r, err := src.NewReader(Query{})
		require.NoError(t, err)
		want := w.store.Stats().First
		var rec wal.Record
		for rec.Seq < w.log.FirstSeq()+5 {
			ok, err := r.Next(&rec)
			require.NoError(t, err)
			require.True(t, ok)
			require.Equal(t, want, rec.Seq, name)
			want++
		}
		w.write(t, 1000) // what it reads is moved
		w.work(t)
		for want <= w.seq {
			ok, err := r.Next(&rec)
			require.NoError(t, err)
			require.True(t, ok)
			require.Equal(t, want, rec.Seq, name)
			require.Zero(t, rec.Lost)
			want++
		}
		require.NoError(t, r.Close())

		r, err = src.NewReader(Query{})
		require.NoError(t, err)
		_, err = r.Next(&rec)
		require.NoError(t, err)
		for range 3 { // the files behind it are deleted
			_, err = w.store.deleteOldest("age")
			require.NoError(t, err)
		}
		lost := uint64(0)
		for want := rec.Seq + 1; want <= w.seq; want++ {
			ok, err := r.Next(&rec)
			require.NoError(t, err)
			require.True(t, ok)
			lost += rec.Lost
			want += rec.Lost
			require.Equal(t, want, rec.Seq, name)
		}
		gaps, _ := r.Gaps()
		require.Len(t, gaps, 1, name)
		require.Equal(t, lost, gaps[0].Next-gaps[0].First)
		require.NoError(t, r.Close())
	}
}

// Damage costs the records that it hit, and is said.
func TestDamage(t *testing.T) {
	base := newWorld(t, fsystest.New())
	base.write(t, 600)
	base.work(t)
	files := base.store.snapshot()
	hit := files[1]
	whole, err := base.disk.ReadFile(hit.path)
	require.NoError(t, err)
	for i := range whole {
		for _, change := range []string{"flip", "cut"} {
			disk := base.disk.CrashClone(100, 1)
			data := bytes.Clone(whole)
			if change == "flip" {
				data[i] ^= 0x41
			} else {
				data = data[:i]
			}
			require.NoError(t, disk.WriteFile(hit.path, data))
			w := newWorld(t, disk)
			for name, src := range w.sources() {
				got, r := read(t, src, Query{})
				gaps, _ := r.Gaps()
				if len(got) == int(base.seq) { // a byte that says nothing of the records
					require.Empty(t, gaps)
					require.Less(t, i, headBytes)
					continue
				}
				require.Len(t, gaps, 1, "%s %d %s", change, i, name)
				require.Equal(t, Gap{hit.First, hit.Next, gaps[0].Reason}, gaps[0])
				require.Equal(t, append(span(1, hit.First), span(hit.Next, base.seq+1)...), got)
			}
			require.NoError(t, w.log.Close())
		}
	}
}

// Names are the files alone, the newest first, between what is to be erased and the chain of erasures.
func TestNames(t *testing.T) {
	w := newWorld(t, fsystest.New())
	names, err := Names(w.disk, testDir)
	require.NoError(t, err, "nothing is retained")
	require.Empty(t, names)
	w.write(t, 600)
	w.work(t)
	for _, name := range []string{fileName(900) + fsys.TempSuffix, fileName(901) + ".aside", "x", ChainName, pendingName} {
		require.NoError(t, w.disk.WriteFile(filepath.Join(testDir, name), nil))
	}
	names, err = Names(w.disk, testDir)
	require.NoError(t, err)
	want := []string{pendingName}
	for _, f := range slices.Backward(w.store.snapshot()) {
		want = append(want, filepath.Base(f.path))
	}
	want = append(want, ChainName)
	require.Greater(t, len(want), 1)
	require.Equal(t, want, names)
}

// A gap of the folder is skipped, and said.
func TestAFileIsMissing(t *testing.T) {
	w := newWorld(t, fsystest.New())
	w.write(t, 600)
	w.work(t)
	hit := w.store.snapshot()[2]
	require.NoError(t, w.disk.Remove(hit.path))
	w = newWorld(t, w.disk)
	for _, src := range w.sources() {
		got, r := read(t, src, Query{})
		gaps, _ := r.Gaps()
		require.Equal(t, []Gap{{hit.First, hit.Next, "not retained"}}, gaps)
		require.Equal(t, append(span(1, hit.First), span(hit.Next, w.seq+1)...), got)
	}
}

// Files of a log that is gone are moved aside, since its numbers are used again.
func TestAnotherLog(t *testing.T) {
	w := newWorld(t, fsystest.New())
	w.write(t, 600)
	w.work(t)
	names, err := w.disk.List(testLog)
	require.NoError(t, err)
	for _, name := range names {
		require.NoError(t, w.disk.Remove(filepath.Join(testLog, name)))
	}
	w = newWorld(t, w.disk)
	w.write(t, 200)
	w.work(t)
	got, r := read(t, w.store.Source(), Query{})
	require.Equal(t, span(1, 201), got)
	gaps, _ := r.Gaps()
	require.Empty(t, gaps)
}

// Wherever the process is killed or loses power, each record is in the log or retained, and read once.
func TestPowerLossAtEveryOperation(t *testing.T) {
	require.NoError(t, losePower(t))
}

// Without any one of the syncs some power loss takes records.
func TestEverySyncIsNeeded(t *testing.T) {
	for _, site := range []fsys.Site{fsys.SiteAtomicFile, fsys.SiteAtomicDir} {
		t.Run(string(site), func(t *testing.T) { require.Error(t, losePower(t, site)) })
	}
}

// losePower moves, and then deletes, with a power loss before each operation, and returns the first broken promise.
func losePower(t *testing.T, ignore ...fsys.Site) (broken error) {
	disk := fsystest.New()
	w := newWorld(t, disk)
	disk.IgnoreSync(ignore...)
	w.write(t, 300)
	oldest, checks := uint64(1), 0 // the first record that must be there
	disk.Before(func(op fsystest.Op, name string) {
		for _, percent := range []int{0, 20, 50, 100} {
			if broken == nil {
				checks++
				if err := checkAfterLoss(t, disk.CrashClone(percent, int64(checks)), oldest, w.seq); err != nil {
					broken = fmt.Errorf("before %s of %s, %d %% kept: %w", op, filepath.Base(name), percent, err)
				}
			}
		}
	})
	w.work(t)
	full := w.store.Stats()
	require.Greater(t, full.Files, 3)
	oldest = w.store.snapshot()[full.Files/2].First
	w.store.SetBounds(Bounds{Age: time.Hour, Bytes: full.Bytes / 2})
	w.work(t)
	require.Greater(t, checks+len(ignore)*1000, 100)
	disk.Before(nil)
	require.NoError(t, w.log.Close())
	return broken
}

// checkAfterLoss starts on a disk, and reads all records up to last, each once, from the oldest one or an older one on.
func checkAfterLoss(t *testing.T, disk *fsystest.Mem, oldest, last uint64) error {
	w := newWorld(t, disk)
	defer w.log.Close()
	for name, src := range w.sources() {
		r, err := src.NewReader(Query{})
		require.NoError(t, err)
		defer r.Close()
		next := uint64(0)
		for rec := (wal.Record{}); ; next = rec.Seq + 1 {
			ok, err := r.Next(&rec)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			if !ok {
				break
			}
			if next == 0 && rec.Seq <= oldest {
				next = rec.Seq
			}
			if rec.Seq != next || rec.Lost != 0 || string(rec.Payload) != string(payloadOf(rec.Seq)) {
				return fmt.Errorf("%s: record %d comes for %d, with %d lost", name, rec.Seq, next, rec.Lost)
			}
		}
		if next != last+1 {
			return fmt.Errorf("%s: ends before record %d of %d", name, next, last)
		}
	}
	w.seq = last
	w.work(t) // and goes on from there
	if got, _ := read(t, w.store.Source(), Query{}); got[0] > oldest || got[len(got)-1] != last {
		return fmt.Errorf("after more work: records %d to %d", got[0], got[len(got)-1])
	}
	return nil
}

// Chunks go from the newest record to the oldest, and reading them one by one reads each record once.
func TestChunks(t *testing.T) {
	w := newWorld(t, fsystest.New())
	w.write(t, 1500)
	w.work(t)
	w.write(t, 100)
	for name, src := range w.sources() {
		for q, want := range map[Query]int{{}: 1600, {EventFrom: at(640), EventTo: at(641)}: 1, {From: 1600}: 1} {
			r, err := src.NewReader(Query{})
			require.NoError(t, err)
			var got []uint64
			below := uint64(math.MaxUint64)
			for c, err := range src.Chunks(q) {
				require.NoError(t, err)
				require.LessOrEqual(t, c.Next, below, name)
				below = c.First
				require.NoError(t, r.Seek(Query{From: c.First, To: c.Next}))
				var rec wal.Record
				for ok, err := r.Next(&rec); ok; ok, err = r.Next(&rec) {
					require.NoError(t, err)
					require.True(t, rec.Type == rule || c.EventTo >= at(rec.Seq)-int64(time.Minute))
					got = append(got, rec.Seq)
				}
			}
			require.NoError(t, r.Close())
			slices.Sort(got)
			require.Len(t, slices.Compact(slices.Clone(got)), len(got), "each once")
			require.GreaterOrEqual(t, len(got), want, name)
			if want == 1600 {
				require.Equal(t, span(1, 1601), got, name)
			} else {
				require.Less(t, len(got), 1000, "the index skips the others")
			}
		}
	}
}
