package sink

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/reliability/dispatch"
	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/reliability/fsys/fsystest"
	"github.com/sloengine/sloengine/reliability/retry"
	"github.com/sloengine/sloengine/reliability/wal"
)

const fileDir = "/out/sink"

var filesMade int

func fileItems(n int) []dispatch.Item {
	batch := make([]dispatch.Item, n)
	for i := range batch {
		e := event.Event{ID: fmt.Sprintf("e%d", filesMade), Service: "shop", Type: "order", Time: time.Unix(1795165200, 0)}
		e.Set("text", strings.Repeat("line\n", filesMade%7))
		filesMade++
		batch[i] = dispatch.Item{ID: e.ID, Payload: event.AppendBinary(nil, &e)}
	}
	return batch
}

func newFile(t *testing.T, disk *fsystest.Mem, change func(*FileOptions)) *File {
	t.Helper()
	o := FileOptions{FS: disk, Dir: fileDir}
	if change != nil {
		change(&o)
	}
	s, err := NewFile(o)
	require.NoError(t, err)
	return s
}

// fileIDs reads all files and checks that every line is one whole event.
func fileIDs(t *testing.T, disk *fsystest.Mem) map[string]int {
	t.Helper()
	names, err := disk.List(fileDir)
	require.NoError(t, err)
	found := map[string]int{}
	for _, n := range names {
		if !strings.HasSuffix(n, ".ndjson") {
			continue
		}
		raw, err := disk.ReadFile(fileDir + "/" + n)
		require.NoError(t, err)
		require.True(t, len(raw) == 0 || raw[len(raw)-1] == '\n', "%s ends in a torn line", n)
		for line := range bytes.Lines(raw) {
			var e event.Event
			require.NoError(t, json.Unmarshal(line, &e), "%s: %q", n, line)
			found[e.ID]++
		}
	}
	return found
}

func fileCount(t *testing.T, disk *fsystest.Mem) (n int) {
	names, err := disk.List(fileDir)
	require.NoError(t, err)
	for _, name := range names {
		if fileNumber(name) >= 0 {
			n++
		}
	}
	return n
}

func TestWritesAndRotatesBySize(t *testing.T) {
	disk := fsystest.New()
	s := newFile(t, disk, func(o *FileOptions) { o.MaxBytes, o.Retain = 2000, 3 })
	_, err := NewFile(FileOptions{FS: disk, Dir: fileDir})
	require.ErrorIs(t, err, fsys.ErrLocked)
	var last dispatch.Item
	for range 40 {
		batch := fileItems(5)
		require.Empty(t, s.Send(t.Context(), batch))
		last = batch[4]
	}
	require.NoError(t, s.Flush(t.Context()))
	require.Equal(t, 3, fileCount(t, disk))
	require.Contains(t, fileIDs(t, disk), last.ID)
	require.NoError(t, s.Close())
	require.Error(t, s.Send(t.Context(), fileItems(1)).Err)
	s = newFile(t, disk, func(o *FileOptions) { o.MaxBytes = 2000 })
	require.Contains(t, fileIDs(t, disk), last.ID)
	require.Greater(t, s.nextNum, 3, "numbers go on")
	require.NoError(t, s.Close())
}

func TestRotatesByAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := fsystest.New()
		s := newFile(t, disk, func(o *FileOptions) { o.MaxAge = time.Hour })
		require.Empty(t, s.Send(t.Context(), fileItems(1)))
		require.NoError(t, s.Flush(t.Context()))
		time.Sleep(time.Hour)
		require.NoError(t, s.Flush(t.Context()))
		require.Equal(t, 1, fileCount(t, disk), "without a new batch, too")
		time.Sleep(time.Hour)
		require.NoError(t, s.Flush(t.Context()))
		require.Equal(t, 1, fileCount(t, disk), "an empty file is not rotated")
		require.NoError(t, s.Close())
	})
}

// Lines that Flush made durable survive a power loss, and no line is torn, for any part of the rest
// on the disk.
func TestPowerCut(t *testing.T) {
	for _, policy := range []Fsync{FsyncCursor, FsyncBatch} {
		for seed := range uint64(25) {
			rng := rand.New(rand.NewPCG(seed, 1))
			disk := fsystest.New()
			durable := map[string]bool{}
			for range 4 {
				s := newFile(t, disk, func(o *FileOptions) { o.MaxBytes, o.Fsync = 30_000, policy })
				after, percent := int64(rng.IntN(60)), rng.IntN(101)
				var clone *fsystest.Mem
				start := disk.Ops()
				disk.Before(func(fsystest.Op, string) {
					if clone == nil && disk.Ops()-start >= after {
						clone = disk.CrashClone(percent, int64(seed))
					}
				})
				var taken []string
				for clone == nil {
					batch := fileItems(1 + rng.IntN(60))
					r := s.Send(t.Context(), batch)
					require.Empty(t, r)
					for _, it := range batch {
						taken = append(taken, it.ID)
					}
					if policy == FsyncCursor && rng.IntN(3) > 0 {
						continue
					}
					require.NoError(t, s.Flush(t.Context()))
					if clone == nil {
						for _, id := range taken {
							durable[id] = true
						}
						taken = nil
					}
				}
				disk.Before(nil)
				require.NoError(t, s.Close())
				disk = clone
			}
			s := newFile(t, disk, nil)
			found := fileIDs(t, disk)
			for id := range durable {
				require.NotZero(t, found[id], "%s, seed %d, %s", id, seed, policy)
			}
			require.NoError(t, s.Close())
		}
	}
}

func TestEverySyncIsNeeded(t *testing.T) {
	survives := func(t *testing.T, site fsys.Site) bool {
		disk := fsystest.New()
		if site != "" {
			disk.IgnoreSync(site)
		}
		s := newFile(t, disk, nil)
		batch := fileItems(3)
		require.Empty(t, s.Send(t.Context(), batch))
		require.NoError(t, s.Flush(t.Context()))
		clone := disk.CrashClone(0, 1)
		require.NoError(t, s.Close())
		raw, err := clone.ReadFile(fileDir + "/" + activeFile)
		return err == nil && bytes.Count(raw, []byte{'\n'}) == 3
	}
	require.True(t, survives(t, ""))
	for _, site := range []fsys.Site{SiteFileMkdir, SiteFileData, SiteFileDir} {
		require.False(t, survives(t, site), site)
	}
}

func TestDamageIsTakenOut(t *testing.T) {
	good := `{"service":"a","type":"b"}` + "\n"
	for name, c := range map[string]struct{ raw, want string }{
		"whole":             {good + good, good + good},
		"torn":              {good + good[:10], good},
		"torn, no break":    {good + strings.TrimSuffix(good, "\n"), good},
		"only torn":         {good[:5], ""},
		"hole at the end":   {good + "\x00\x00\x00\x00", good},
		"hole before lines": {good + "\x00\x00\x00" + good[3:] + good, good + good},
		"not an object":     {good + "1\n" + good, good + good},
		"empty":             {"", ""},
	} {
		disk := fsystest.New()
		require.NoError(t, newFile(t, disk, nil).Close())
		require.NoError(t, disk.WriteFile(fileDir+"/"+activeFile, []byte(c.raw)))
		s := newFile(t, disk, nil)
		raw, err := disk.ReadFile(fileDir + "/" + activeFile)
		require.NoError(t, err)
		require.Equal(t, c.want, string(raw), name)
		require.Empty(t, s.Send(t.Context(), fileItems(2)))
		require.NoError(t, s.Close())
		raw, err = disk.ReadFile(fileDir + "/" + activeFile)
		require.NoError(t, err)
		require.Equal(t, strings.Count(c.want, "\n")+2, bytes.Count(raw, []byte{'\n'}), name)
	}
}

func TestDiskFaults(t *testing.T) {
	disk := fsystest.New()
	s := newFile(t, disk, nil)
	require.Empty(t, s.Send(t.Context(), fileItems(3)))
	disk.FailNext(fsystest.OpWrite, syscall.ENOSPC)
	r := s.Send(t.Context(), fileItems(100))
	require.ErrorIs(t, r.Err, syscall.ENOSPC)
	require.Equal(t, retry.ClassBlocked, retry.ClassOf(r.Err), "no event is the cause")
	require.NoError(t, s.Flush(t.Context()))
	require.Len(t, fileIDs(t, disk), 3, "half a batch is cut off")
	require.Empty(t, s.Send(t.Context(), fileItems(2)))

	disk.FailNext(fsystest.OpSync, syscall.EIO)
	require.ErrorIs(t, s.Flush(t.Context()), syscall.EIO)
	require.Error(t, s.Flush(t.Context()), "asking again proves nothing")
	require.Empty(t, s.Send(t.Context(), fileItems(2)))
	require.NoError(t, s.Flush(t.Context()))
	require.Len(t, fileIDs(t, disk), 7)
	require.NoError(t, s.Close())
}

func TestASyncThatFailsWhileABatchIsTakenIsToldByTheNextFlush(t *testing.T) {
	disk := fsystest.New()
	s := newFile(t, disk, func(o *FileOptions) { o.MaxBytes = 1024 })
	require.Empty(t, s.Send(t.Context(), fileItems(3)))
	disk.FailNext(fsystest.OpSync, syscall.EIO)
	batch := fileItems(20)
	require.ErrorIs(t, s.Send(t.Context(), batch).Err, syscall.EIO, "the rotation")
	require.Empty(t, s.Send(t.Context(), batch))
	require.Error(t, s.Flush(t.Context()), "the first three may be gone")
	require.NoError(t, s.Flush(t.Context()))
	require.NoError(t, s.Close())
}

// A write fails, and so does the cut behind it; then the file goes, too.
func TestLinesOfAFileThatIsGoneAfterAFailedWriteAreTold(t *testing.T) {
	disk := fsystest.New()
	s := newFile(t, disk, nil)
	require.Empty(t, s.Send(t.Context(), fileItems(3)))
	disk.FailNext(fsystest.OpWrite, syscall.ENOSPC)
	disk.FailNext(fsystest.OpTruncate, syscall.EIO)
	batch := fileItems(5)
	require.ErrorIs(t, s.Send(t.Context(), batch).Err, syscall.ENOSPC)
	require.NoError(t, disk.Remove(filepath.Join(fileDir, activeFile)))
	require.Empty(t, s.Send(t.Context(), batch))
	require.Error(t, s.Flush(t.Context()), "the first three are gone")
	require.NoError(t, s.Flush(t.Context()))
	require.NoError(t, s.Close())
}

func TestFlushAfterAFailedCloseFails(t *testing.T) {
	disk := fsystest.New()
	s := newFile(t, disk, nil)
	require.Empty(t, s.Send(t.Context(), fileItems(3)))
	disk.FailNext(fsystest.OpSync, syscall.EIO)
	require.ErrorIs(t, s.Close(), syscall.EIO)
	require.Error(t, s.Flush(t.Context()))
}

// A replay forgets a dead letter once the sink has it: a power cut must not take it then.
func TestDeliveredDeadLettersSurviveAPowerCut(t *testing.T) {
	disk := fsystest.New()
	d, err := dispatch.New(dispatch.Options{
		FS: disk, Dir: "/out/cursors", Source: noLog{}, Split: func(*wal.Record, func(dispatch.Item)) error { return nil },
		DeadLetter: func(context.Context, []dispatch.DeadLetter) error { return nil },
	})
	require.NoError(t, err)
	s := newFile(t, disk, nil)
	require.NoError(t, d.Add(dispatch.SinkOptions{Name: "archive", Sink: s}))
	batch := fileItems(3)
	require.Empty(t, s.Send(t.Context(), fileItems(2)), "by the lane, of which the log still knows")
	require.NoError(t, d.Deliver(t.Context(), "archive", batch).Err)
	found := fileIDs(t, disk.CrashClone(0, 1))
	for _, it := range batch {
		require.Equal(t, 1, found[it.ID])
	}
	require.NoError(t, s.Close())
}

// noLog is a log without records.
type noLog struct{ dispatch.Source }

func (noLog) FirstSeq() uint64   { return 1 }
func (noLog) DurableSeq() uint64 { return 0 }

func TestFileUnreadableItems(t *testing.T) {
	disk := fsystest.New()
	s := newFile(t, disk, nil)
	batch := fileItems(3)
	batch[1].Payload = []byte("?")
	r := s.Send(t.Context(), batch)
	require.NoError(t, r.Err)
	require.Len(t, r.Failed, 1)
	require.Equal(t, 1, r.Failed[0].Index)
	require.Equal(t, retry.ClassPermanent, retry.ClassOf(r.Failed[0].Err))
	require.Len(t, fileIDs(t, disk), 2)
	require.NoError(t, s.Close())
}

func TestFileOptions(t *testing.T) {
	disk := fsystest.New()
	for want, o := range map[string]FileOptions{
		"no file system":  {},
		"1 KiB to 1 GiB":  {FS: disk, Dir: fileDir, MaxBytes: 1},
		"invalid max age": {FS: disk, Dir: fileDir, MaxAge: 1},
		"to retain":       {FS: disk, Dir: fileDir, Retain: -1},
		"invalid fsync":   {FS: disk, Dir: fileDir, Fsync: "often"},
	} {
		_, err := NewFile(o)
		require.ErrorContains(t, err, want)
	}
	disk.FailNext(fsystest.OpOpen, errors.New("EIO"))
	_, err := NewFile(FileOptions{FS: disk, Dir: fileDir})
	require.Error(t, err)
	s := newFile(t, disk, nil) // the lock was let go of
	require.NoError(t, s.Close())
}

func BenchmarkFile(b *testing.B) {
	s, err := NewFile(FileOptions{FS: fsys.OS(), Dir: b.TempDir()})
	require.NoError(b, err)
	defer s.Close()
	batch := fileItems(500)
	b.ReportAllocs()
	for b.Loop() {
		if r := s.Send(b.Context(), batch); r.Err != nil {
			b.Fatal(r.Err)
		}
	}
	b.ReportMetric(float64(b.N)*500/b.Elapsed().Seconds(), "events/s")
}

// The folder goes while the sink works: no event counts as delivered meanwhile, with or
// without traffic, and all that was not durable is asked for again once it is back.
func TestTheFolderGoesAndComesBack(t *testing.T) {
	for name, vanish := range map[string]func(dir string) error{
		"deleted": os.RemoveAll,
		"moved":   func(dir string) error { return os.Rename(dir, dir+".old") },
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "sink")
			s, err := NewFile(FileOptions{FS: fsys.OS(), Dir: dir})
			require.NoError(t, err)
			defer func() { require.NoError(t, s.Close()) }()
			require.Empty(t, s.Send(t.Context(), fileItems(2)))
			require.NoError(t, s.Flush(t.Context()))
			require.NoError(t, vanish(dir))
			require.ErrorContains(t, s.Flush(t.Context()), "is missing", "without a new batch")
			r := s.Send(t.Context(), fileItems(3))
			require.Equal(t, retry.ClassBlocked, retry.ClassOf(r.Err))
			require.ErrorContains(t, r.Err, "is missing")
			require.NoDirExists(t, dir, "an empty mount point must not be written to")

			require.NoError(t, os.Mkdir(dir, 0o700))
			require.Empty(t, s.Send(t.Context(), fileItems(3)))
			require.NoError(t, s.Flush(t.Context()))
			raw, err := os.ReadFile(filepath.Join(dir, activeFile))
			require.NoError(t, err)
			require.Equal(t, 3, bytes.Count(raw, []byte{'\n'}))
			_, err = NewFile(FileOptions{FS: fsys.OS(), Dir: dir})
			require.ErrorIs(t, err, fsys.ErrLocked, "the new folder is locked too")
		})
	}
}

func TestLinesThatWereNotDurableWhenTheFileWentAreTold(t *testing.T) {
	dir := t.TempDir()
	s, err := NewFile(FileOptions{FS: fsys.OS(), Dir: dir})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	require.Empty(t, s.Send(t.Context(), fileItems(2)))
	require.NoError(t, os.Remove(filepath.Join(dir, activeFile)))
	require.Empty(t, s.Send(t.Context(), fileItems(3)))
	require.ErrorContains(t, s.Flush(t.Context()), "lines were lost")
	require.NoError(t, s.Flush(t.Context()))
}
