package sink

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	parquetgo "github.com/parquet-go/parquet-go"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/ingest/parquet"
	"github.com/sloengine/sloengine/reliability/dispatch"
	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/reliability/fsys/fsystest"
	"github.com/sloengine/sloengine/reliability/retry"
)

const lake = "/out/lake"

// lakeItems are the events of records from..to, with three each, of two services and two days.
func lakeItems(from, to uint64) (items []dispatch.Item) {
	for seq := from; seq < to; seq++ {
		for index := range 3 {
			e := event.Event{ID: fmt.Sprintf("%d.%d", seq, index), Service: fmt.Sprint("s", index%2), Type: "t",
				Time: time.Unix(1795165200+int64(seq%2)*86400, 0)}
			items = append(items, dispatch.Item{ID: e.ID, Payload: event.AppendBinary(nil, &e), Seq: seq, Index: index,
				Time: time.Unix(1795165200+int64(seq), 0)})
		}
	}
	return items
}

func newLake(disk fsys.FS) (*Parquet, error) { return NewParquet(ParquetOptions{FS: disk, Dir: lake}) }

// pass lets time pass for a sink. The zstd of all files is one for the process, hence there is no bubble here.
func pass(s *Parquet, d time.Duration) {
	then := s.now().Add(d)
	s.now = func() time.Time { return then }
}

// lakeIDs reads all files: each must be whole, in its folder, and named after the log range that it holds.
func lakeIDs(t *testing.T, disk *fsystest.Mem) map[string]int {
	type row struct {
		ID     string `parquet:"id"`
		Index  int64  `parquet:"index"`
		Record int64  `parquet:"record"`
	}
	found := map[string]int{}
	list := func(dir string) (shown []string) {
		names, err := disk.List(dir)
		if !errors.Is(err, fs.ErrNotExist) {
			require.NoError(t, err)
		}
		for _, name := range names {
			if !strings.HasPrefix(name, ".") {
				shown = append(shown, name)
			}
		}
		return shown
	}
	for _, service := range list(lake) {
		for _, day := range list(filepath.Join(lake, service)) {
			for _, name := range list(filepath.Join(lake, service, day)) {
				data, err := disk.ReadFile(filepath.Join(lake, service, day, name))
				require.NoError(t, err)
				r := parquetgo.NewGenericReader[row](bytes.NewReader(data))
				rows := make([]row, r.NumRows())
				n, err := r.Read(rows)
				if !errors.Is(err, io.EOF) {
					require.NoError(t, err)
				}
				require.Len(t, rows, n)
				require.NoError(t, r.Close())
				kind, _, _ := strings.Cut(name, "-")
				require.Equal(t, fmt.Sprintf("%s-%018d.%d-%018d.parquet", kind, rows[0].Record, rows[0].Index, rows[n-1].Record),
					name)
				for _, x := range rows {
					require.Equal(t, fmt.Sprintf("%d.%d", x.Record, x.Index), x.ID)
					found[x.ID]++
				}
			}
		}
	}
	return found
}

func wantIDs(from, to uint64) map[string]int {
	want := map[string]int{}
	for _, it := range lakeItems(from, to) {
		want[it.ID] = 1
	}
	return want
}

func TestParquetRolls(t *testing.T) {
	disk := fsystest.New()
	s, err := newLake(disk)
	require.NoError(t, err)
	_, err = newLake(disk)
	require.ErrorIs(t, err, fsys.ErrLocked)
	_, held := s.Held()
	require.False(t, held)
	require.Empty(t, s.Send(t.Context(), lakeItems(5, 10)))
	require.NoError(t, s.Flush(t.Context()))
	at, held := s.Held()
	require.True(t, held)
	require.Equal(t, dispatch.Cursor{Seq: 5}, at)
	require.Empty(t, lakeIDs(t, disk))
	pass(s, time.Hour)
	require.Empty(t, s.Send(t.Context(), lakeItems(8, 12)), "some were sent before")
	require.NoError(t, s.Flush(t.Context()))
	_, held = s.Held()
	require.False(t, held)
	require.Equal(t, wantIDs(5, 12), lakeIDs(t, disk))
	require.Empty(t, s.Send(t.Context(), lakeItems(12, 14)))
	require.NoError(t, s.Close())
	require.Error(t, s.Send(t.Context(), lakeItems(14, 15)).Err)
	s, err = newLake(disk)
	require.NoError(t, err)
	require.Empty(t, s.Send(t.Context(), lakeItems(5, 16)))
	require.NoError(t, s.Close())
	require.Equal(t, wantIDs(5, 16), lakeIDs(t, disk))
}

// TestParquetBounds: what is held is bounded in bytes and in files.
func TestParquetBounds(t *testing.T) {
	defer func(b, f int) { parquetBytes, parquetFolders = b, f }(parquetBytes, parquetFolders)
	for _, bound := range [][2]int{{2000, 100}, {1 << 20, 3}} {
		parquetBytes, parquetFolders = bound[0], bound[1]
		disk := fsystest.New()
		s, err := newLake(disk)
		require.NoError(t, err)
		for seq := range uint64(60) {
			require.Empty(t, s.Send(t.Context(), lakeItems(seq, seq+1)))
			bytes, folders := s.w.Held()
			require.Less(t, bytes, parquetBytes)
			require.Less(t, folders, parquetFolders)
		}
		require.Greater(t, len(lakeIDs(t, disk)), 100)
		require.NoError(t, s.Close())
		require.Equal(t, wantIDs(0, 60), lakeIDs(t, disk))
	}
}

// deliverLake is a lane: it sends everything behind the cursor again, and saves the cursor as it may.
func deliverLake(t *testing.T, disk *fsystest.Mem, cursor, end uint64, r *rand.Rand) (saved uint64, err error) {
	s, err := newLake(disk)
	if err != nil {
		return cursor, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	for seq := cursor; seq < end; {
		next := min(end, seq+1+r.Uint64N(4))
		if result := s.Send(t.Context(), lakeItems(seq, next)); result.Err != nil {
			return cursor, result.Err
		}
		if seq = next; r.IntN(3) == 0 {
			s.mu.Lock()
			err := s.write()
			s.mu.Unlock()
			if err != nil {
				return cursor, err
			}
		}
		if at, held := s.Held(); held {
			cursor = at.Seq
		} else if r.IntN(2) == 0 { // otherwise the lane has not come to it
			cursor = seq
		}
	}
	return cursor, nil
}

// killLake ends the process at a step, with a part of what was not synced on the disk, and lets the next one deliver
// the rest. It returns how often each event is in the files.
func killLake(t *testing.T, step int64, percent int, ignore ...fsys.Site) (ids map[string]int, err error) {
	disk := fsystest.New()
	disk.IgnoreSync(ignore...)
	disk.StopAt(step)
	cursor, err := deliverLake(t, disk, 1, lakeEnd, rand.New(rand.NewPCG(1, 1)))
	require.ErrorIs(t, err, fsystest.ErrStopped, "step %d", step)
	if percent < 100 {
		disk = disk.CrashClone(percent, step)
	} else {
		disk.ClearFaults()
	}
	if len(ignore) == 0 {
		for id, n := range lakeIDs(t, disk) {
			require.Equal(t, 1, n, "step %d: %s before the start", step, id)
		}
	}
	if _, err = deliverLake(t, disk, cursor, lakeEnd, rand.New(rand.NewPCG(2, uint64(step)))); err != nil {
		return nil, err
	}
	staged, err := disk.List(lake + "/.staged")
	require.NoError(t, err)
	require.Empty(t, staged)
	return lakeIDs(t, disk), nil
}

const lakeEnd = 12

// TestParquetKilledAtEachStep: whatever the step at which the process ends, with all or a part of what was not synced
// on the disk, the next one completes the files, and each event is in one of them.
func TestParquetKilledAtEachStep(t *testing.T) {
	whole := fsystest.New()
	_, err := deliverLake(t, whole, 1, lakeEnd, rand.New(rand.NewPCG(1, 1)))
	require.NoError(t, err)
	require.Equal(t, wantIDs(1, lakeEnd), lakeIDs(t, whole))
	killed := 0
	for step := int64(1); step <= whole.Ops(); step++ {
		percent := []int{0, 50, 100}[step%3]
		ids, err := killLake(t, step, percent)
		require.NoError(t, err, "step %d, %d %%", step, percent)
		require.Equal(t, wantIDs(1, lakeEnd), ids, "step %d, %d %%", step, percent)
		killed++
	}
	t.Logf("killed %d times at %d steps", killed, whole.Ops())
	require.Greater(t, killed, 100)
}

// TestParquetNeedsEachSync: without any one kind of sync, a power cut loses or doubles events, or stops the sink.
func TestParquetNeedsEachSync(t *testing.T) {
	whole := fsystest.New()
	_, err := deliverLake(t, whole, 1, lakeEnd, rand.New(rand.NewPCG(1, 1)))
	require.NoError(t, err)
	for _, site := range []fsys.Site{fsys.SiteAtomicFile, fsys.SiteAtomicDir, SiteParquetMove} {
		broken := false
		for step := int64(1); step <= whole.Ops() && !broken; step++ {
			ids, err := killLake(t, step, 0, site)
			broken = err != nil || !maps.Equal(ids, wantIDs(1, lakeEnd))
		}
		require.True(t, broken, "%s", site)
	}
}

// TestParquetFaults: a full disk fails every step once. The sink holds what it has, takes nothing more, says why, and
// writes each event once when it can.
func TestParquetFaults(t *testing.T) {
	whole := fsystest.New()
	s, err := newLake(whole)
	require.NoError(t, err)
	opened := whole.Ops()
	require.Empty(t, s.Send(t.Context(), lakeItems(1, 10)))
	require.NoError(t, s.Close())
	for step := int64(1); step <= whole.Ops()-opened; step++ {
		disk := fsystest.New()
		s, err := newLake(disk)
		require.NoError(t, err)
		require.Empty(t, s.Send(t.Context(), lakeItems(1, 10)))
		pass(s, time.Hour)
		disk.FailAt(step, syscall.ENOSPC)
		err = s.Flush(t.Context())
		require.ErrorIs(t, err, syscall.ENOSPC, "step %d", step)
		result := s.Send(t.Context(), lakeItems(10, 11))
		require.ErrorIs(t, result.Err, syscall.ENOSPC)
		require.Equal(t, retry.ClassBlocked, retry.ClassOf(result.Err))
		pass(s, parquetRetry)
		require.NoError(t, s.Flush(t.Context()))
		require.Empty(t, s.Send(t.Context(), lakeItems(1, 12)))
		require.NoError(t, s.Close())
		require.Equal(t, wantIDs(1, 12), lakeIDs(t, disk), "step %d", step)
	}
}

// TestParquetFolder: a folder that vanished, came back empty or older, or holds what the sink did not write is refused
// with a reason, and nothing is lost.
func TestParquetFolder(t *testing.T) {
	disk := fsystest.New()
	require.NoError(t, disk.MkdirAll(lake+"/service=shop"))
	_, err := newLake(disk)
	require.ErrorContains(t, err, "holds service=shop, and no .sloengine.json")

	disk = fsystest.New()
	s, err := newLake(disk)
	require.NoError(t, err)
	require.Empty(t, s.Send(t.Context(), lakeItems(1, 5)))
	pass(s, time.Hour)
	require.NoError(t, s.Flush(t.Context()))
	require.Empty(t, s.Send(t.Context(), lakeItems(5, 7)))
	state, err := disk.ReadFile(lake + "/" + stateFile)
	require.NoError(t, err)
	require.NoError(t, disk.Rename(lake, "/out/away"))
	require.ErrorContains(t, s.Flush(t.Context()), "folder /out/lake is missing (create or mount it")
	require.Error(t, s.Send(t.Context(), lakeItems(7, 8)).Err)
	require.NoError(t, disk.MkdirAll(lake))
	pass(s, parquetRetryMax)
	require.ErrorContains(t, s.Flush(t.Context()), "has lost its files")
	require.NoError(t, disk.WriteFile(lake+"/"+stateFile, []byte(`{"version":1,"save":0}`)))
	pass(s, parquetRetryMax)
	require.ErrorContains(t, s.Flush(t.Context()), "is an older copy")
	require.NoError(t, disk.WriteFile(lake+"/"+stateFile, state[:10]))
	pass(s, parquetRetryMax)
	require.ErrorContains(t, s.Flush(t.Context()), "damaged /out/lake/.sloengine.json")
	require.NoError(t, disk.WriteFile(lake+"/"+stateFile, []byte(`{"version":2}`)))
	pass(s, parquetRetryMax)
	require.ErrorIs(t, s.Flush(t.Context()), fsys.ErrNewer)
	require.NoError(t, disk.Rename(lake, "/out/empty"))
	require.NoError(t, disk.Rename("/out/away", lake))
	pass(s, parquetRetryMax)
	require.NoError(t, s.Flush(t.Context()))
	require.NoError(t, s.Close())
	require.Equal(t, wantIDs(1, 7), lakeIDs(t, disk))

	// A log that was restored to an earlier state gives its numbers to other events.
	s, err = newLake(disk)
	require.NoError(t, err)
	later := lakeItems(6, 7)
	for i := range later {
		later[i].Time = later[i].Time.Add(time.Hour)
	}
	require.ErrorContains(t, s.Send(t.Context(), later).Err, "of another log, or of a later state of this one")
	require.NoError(t, s.Close())
}

// TestParquetReplays: dead letters that are replayed are in files of their own, each once, however often the replay was
// interrupted.
func TestParquetReplays(t *testing.T) {
	replayed := lakeItems(10, 20)
	for i := range replayed {
		replayed[i].Replayed = true
	}
	run := func(disk *fsystest.Mem) error {
		s, err := newLake(disk)
		if err != nil {
			return err
		}
		all := append(lakeItems(1, 12), lakeItems(20, 25)...) // a part of the range was delivered before it was skipped
		for _, batch := range [][]dispatch.Item{all, replayed[:12], replayed[12:], replayed[20:]} {
			if r := s.Send(t.Context(), batch); r.Err != nil {
				return errors.Join(r.Err, s.Close())
			}
		}
		return s.Close()
	}
	whole := fsystest.New()
	require.NoError(t, run(whole))
	require.Equal(t, wantIDs(1, 25), lakeIDs(t, whole))
	names, err := whole.List(lake + "/service=s0/day=2026-11-20")
	require.NoError(t, err)
	require.Contains(t, strings.Join(names, " "), parquet.Replayed)
	for step := int64(1); step <= whole.Ops(); step += 5 {
		disk := fsystest.New()
		disk.StopAt(step)
		require.Error(t, run(disk))
		disk.ClearFaults()
		require.NoError(t, run(disk), "step %d", step)
		require.Equal(t, wantIDs(1, 25), lakeIDs(t, disk), "step %d", step)
	}
}
