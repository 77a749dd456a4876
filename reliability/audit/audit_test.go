package audit

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/reliability/fsys/fsystest"
)

func open(t *testing.T, disk *fsystest.Mem, change ...func(*Options)) *Log {
	t.Helper()
	o := Options{FS: disk, Dir: "/data/audit", Logger: slog.New(slog.DiscardHandler)}
	for _, f := range change {
		f(&o)
	}
	l, err := Open(o)
	require.NoError(t, err)
	return l
}

func record(l *Log, detail string) error {
	return l.Record(Entry{Action: "dlq.replay", Token: "sre", Remote: "10.0.0.1:5", Result: OK, Detail: detail})
}

func details(t *testing.T, l *Log, q Query) (out []string) {
	t.Helper()
	if q.Limit == 0 {
		q.Limit = 1000
	}
	list, _, err := l.Read(q)
	require.NoError(t, err)
	for _, e := range list {
		out = append(out, e.Detail)
	}
	return out
}

// For any content of the disk after a power loss: entries that Record has confirmed are there, in order, and
// writing continues.
func TestEntriesSurviveACrashAnywhere(t *testing.T) {
	for _, unsynced := range []int{0, 50, 100} {
		disk := fsystest.New()
		confirmed := 0
		var clones []*fsystest.Mem
		var known []int
		disk.Before(func(fsystest.Op, string) {
			clones, known = append(clones, disk.CrashClone(unsynced, int64(len(clones)))), append(known, confirmed)
		})
		l := open(t, disk, func(o *Options) { o.FileBytes = 64 << 10 })
		for i := range 40 {
			require.NoError(t, record(l, fmt.Sprintf("%d %s", i, strings.Repeat("x", 3000))))
			confirmed++
		}
		require.Greater(t, len(clones), 80)
		for i, clone := range clones {
			after := open(t, clone, func(o *Options) { o.FileBytes = 64 << 10 })
			list, more, err := after.Read(Query{Limit: 100})
			require.NoError(t, err)
			require.False(t, more)
			require.GreaterOrEqual(t, len(list), known[i], "crash %d", i)
			for k, e := range list {
				require.Equal(t, uint64(len(list)-k), e.Seq)
			}
			require.NoError(t, record(after, "next"))
			require.Equal(t, "next", details(t, after, Query{Limit: 1})[0])
			last, _, err := after.Read(Query{Limit: 1})
			require.NoError(t, err)
			require.Equal(t, uint64(len(list)+1), last[0].Seq)
			require.NoError(t, after.Close())
		}
	}
}

func TestFilesAreBounded(t *testing.T) {
	disk := fsystest.New()
	l := open(t, disk, func(o *Options) { o.FileBytes, o.Files = 64<<10, 3 })
	for i := range 200 {
		require.NoError(t, record(l, fmt.Sprintf("%d %s", i, strings.Repeat("x", 3000))))
	}
	names, err := disk.List("/data/audit")
	require.NoError(t, err)
	require.Len(t, names, 3)
	total := 0
	for _, name := range names {
		data, err := disk.ReadFile("/data/audit/" + name)
		require.NoError(t, err)
		require.LessOrEqual(t, len(data), 64<<10)
		total += len(data)
	}
	require.Greater(t, total, 64<<10)
	list, _, err := l.Read(Query{Limit: 1000})
	require.NoError(t, err)
	require.Equal(t, uint64(200), list[0].Seq)
	require.Less(t, len(list), 70)
	require.NoError(t, record(l, strings.Repeat("y", 10_000)))
	require.Len(t, details(t, l, Query{Limit: 1})[0], maxDetail+len("…"))
}

func TestEntriesWaitForTheDisk(t *testing.T) {
	for _, op := range []fsystest.Op{fsystest.OpWrite, fsystest.OpSync, fsystest.OpCreate, fsystest.OpSyncDir} {
		t.Run(string(op), func(t *testing.T) {
			disk, set := fsystest.New(), metrics.NewSet()
			var log bytes.Buffer
			l := open(t, disk, func(o *Options) { o.Set, o.Logger = set, slog.New(slog.NewTextHandler(&log, nil)) })
			if op == fsystest.OpWrite || op == fsystest.OpSync {
				require.NoError(t, record(l, "first"))
			}
			before := details(t, l, Query{})
			disk.FailAlways(op, syscall.ENOSPC)
			require.ErrorIs(t, record(l, "second"), syscall.ENOSPC)
			require.ErrorIs(t, record(l, "third"), syscall.ENOSPC)
			require.False(t, l.Failing().IsZero())
			require.Equal(t, append([]string{"third", "second"}, before...), details(t, l, Query{}), "what waits is shown")
			names, err := disk.List("/data/audit")
			require.NoError(t, err)
			require.LessOrEqual(t, len(names), 2, "attempts leave no files")
			require.Equal(t, 1, strings.Count(log.String(), "cannot be written"), "once, not for each entry")
			var text bytes.Buffer
			set.WritePrometheus(&text)
			require.Contains(t, text.String(), "sloengine_audit_pending_entries 2")
			require.Contains(t, text.String(), "sloengine_audit_failures_total 2")
			if op == fsystest.OpSync {
				for range 40 {
					require.Error(t, record(l, "more"))
				}
				require.Equal(t, "first", details(t, l, Query{})[42], "failures remove nothing")
				return
			}

			disk.ClearFaults()
			require.NoError(t, record(l, "fourth"))
			require.True(t, l.Failing().IsZero())
			require.Contains(t, log.String(), "audit log is written again")
			again := open(t, disk.CrashClone(0, 1))
			require.Equal(t, append([]string{"fourth", "third", "second"}, before...), details(t, again, Query{}))
		})
	}
}

func TestPendingEntriesAreBounded(t *testing.T) {
	disk := fsystest.New()
	l := open(t, disk)
	disk.FailAlways(fsystest.OpCreate, syscall.ENOSPC)
	for i := range maxPending + 5 {
		require.Error(t, record(l, fmt.Sprint(i)))
	}
	disk.ClearFaults()
	require.NoError(t, l.Close())
	all := details(t, open(t, disk), Query{Limit: 5000})
	require.Len(t, all, maxPending)
	require.Equal(t, "5", all[len(all)-1])
}

func TestQueries(t *testing.T) {
	l := open(t, fsystest.New())
	for _, e := range []Entry{{Action: "reload", Remote: "signal"}, {Action: "dlq.replay", Token: "ann"},
		{Action: "dlq.purge", Token: "bob"}, {Action: "dlqs", Token: "bob"}} {
		e.Detail = e.Action
		require.NoError(t, l.Record(e))
	}
	require.Equal(t, []string{"dlq.purge", "dlq.replay"}, details(t, l, Query{Action: "dlq"}))
	require.Equal(t, []string{"dlqs", "dlq.purge"}, details(t, l, Query{Token: "bob"}))
	require.Equal(t, []string{"dlq.replay", "reload"}, details(t, l, Query{Before: 3}))
	require.Empty(t, details(t, l, Query{From: time.Now().Add(time.Hour)}))
	list, more, err := l.Read(Query{Limit: 3})
	require.NoError(t, err)
	require.True(t, more)
	list, more, err = l.Read(Query{Limit: 3, Before: list[2].Seq})
	require.NoError(t, err)
	require.False(t, more)
	require.Len(t, list, 1)
}

// A damaged line costs itself.
func TestDamagedLinesAreSkipped(t *testing.T) {
	disk := fsystest.New()
	l := open(t, disk)
	for _, d := range []string{"one", "two", "three"} {
		require.NoError(t, record(l, d))
	}
	require.NoError(t, l.Close())
	const name = "/data/audit/audit-000001.jsonl"
	data, err := disk.ReadFile(name)
	require.NoError(t, err)
	lines := strings.SplitAfter(string(data), "\n")
	require.NoError(t, disk.WriteFile(name, []byte(lines[0]+"{\x00garbage}\n"+lines[2]+`{"seq":4,"time`)))
	l = open(t, disk)
	require.Equal(t, []string{"three", "one"}, details(t, l, Query{}))
	require.NoError(t, record(l, "four"))
	require.Equal(t, []string{"four", "three", "one"}, details(t, l, Query{}))
}
