package record

import (
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/reliability/fsys/fsystest"
	"github.com/sloengine/sloengine/reliability/retained"
	"github.com/sloengine/sloengine/reliability/wal"
)

// orderEvent is an event of a shop, with a random id and attributes of few values.
func orderEvent(rng *rand.Rand, at time.Time) *event.Event {
	return &event.Event{
		ID: fmt.Sprintf("ord-%d-%d", at.Unix(), rng.IntN(1e6)), Time: at, Service: "shop",
		Type: []string{"checkout", "search", "order"}[rng.IntN(3)], HasDuration: true,
		Duration: time.Duration(rng.ExpFloat64() * float64(120*time.Millisecond)).Round(time.Millisecond),
		Attributes: []event.Attr{
			{Name: "bank", Value: fmt.Sprint("bank-", rng.IntN(8))},
			{Name: "channel", Value: []string{"web", "app"}[rng.IntN(2)]},
			{Name: "region", Value: fmt.Sprint("eu-", rng.IntN(4))},
			{Name: "status", Value: []string{"200", "500"}[rng.IntN(50)/49]},
		},
	}
}

// spanEvent is an event of a span: its id is random, its duration has nanoseconds.
func spanEvent(rng *rand.Rand, at time.Time) *event.Event {
	e := orderEvent(rng, at)
	e.ID = fmt.Sprintf("%016x%016x-%016x", rng.Uint64(), rng.Uint64(), rng.Uint64())
	e.Duration = time.Duration(rng.ExpFloat64() * 120e6)
	return e
}

// retain writes n events in records of 100 into a log, retains them, and returns the CPU time of that.
func retain(t testing.TB, n int, kind func(*rand.Rand, time.Time) *event.Event) (s *retained.Store,
	used time.Duration) {
	t.Helper()
	disk := fsystest.New()
	log, err := wal.Open(wal.Options{FS: disk, Dir: "/wal", SegmentBytes: 4 << 20})
	require.NoError(t, err)
	rng := rand.New(rand.NewPCG(1, 2))
	at := time.Unix(1_760_000_000, 0)
	for done := 0; done < n; done += 100 {
		payload := AppendHead(nil, 100, &event.Batch{}, nil)
		for range 100 {
			at = at.Add(time.Duration(rng.IntN(2_000_000)))
			payload = event.AppendBinary(payload, kind(rng, at))
		}
		require.NoError(t, log.Append([]wal.Pending{{Time: at.UnixNano(), Type: TypeEvents, Payload: payload}}))
	}
	return retainAll(t, disk, "/history", log, at)
}

// retainAll retains the closed segments of a log, and returns the CPU time of that.
func retainAll(t testing.TB, disk fsys.FS, dir string, log *wal.Log, at time.Time) (s *retained.Store,
	used time.Duration) {
	t.Helper()
	s = retained.New(retained.Options{
		FS: disk, Dir: dir, Log: log, Describe: Describe, Form: Form(), RuleType: TypeConfig,
		Now:     func() time.Time { return at },
		Missing: func() int64 { return 0 }, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	s.SetBounds(retained.Bounds{Age: time.Hour, Bytes: 1 << 40})
	s.Offer(log.NextSeq())
	stop, ended := make(chan struct{}), make(chan error)
	began := cpu(t)
	go func() { ended <- s.Run(stop) }()
	testkit.Eventually(t, "all closed segments are retained", func() bool {
		_, _, waits := log.Closed(s.Floor())
		return s.Floor() > 1 && !waits
	})
	used = cpu(t) - began
	close(stop)
	require.NoError(t, <-ended)
	return s, used
}

// cpu is what the process has used.
func cpu(t testing.TB) time.Duration {
	var u unix.Rusage
	require.NoError(t, unix.Getrusage(unix.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// The index counts the events of each kind, and a reader returns them.
func TestDescribe(t *testing.T) {
	s, _ := retain(t, 100_000, orderEvent)
	st := s.Stats()
	require.Greater(t, st.Files, 1)
	r, err := s.Source().NewReader(retained.Query{To: st.First + st.Records})
	require.NoError(t, err)
	events := uint64(0)
	for rec := (wal.Record{}); ; {
		ok, err := r.Next(&rec)
		require.NoError(t, err)
		if !ok {
			break
		}
		got, err := ParseEvents(rec.Payload)
		require.NoError(t, err)
		require.NoError(t, event.EachHead(got.Body, func(service, typ []byte, at int64) {
			require.Equal(t, "shop", string(service))
			events++
		}))
	}
	require.NoError(t, r.Close())
	require.Equal(t, st.Events, events)
	require.Less(t, float64(st.Bytes)/float64(st.Events), 40.0)

	r, err = s.Source().NewReader(retained.Query{Service: "other", To: st.First + st.Records})
	require.NoError(t, err)
	ok, err := r.Next(new(wal.Record))
	require.NoError(t, err)
	require.False(t, ok)
	require.Zero(t, r.Read(), "no block is read for it")
	require.NoError(t, r.Close())
}

var freeze = flag.Bool("freeze", false, "write the file of the present format")

// TestFrozenColumns reads a file of events that the first build with columns wrote. If it fails, change the code and
// not the file.
func TestFrozenColumns(t *testing.T) {
	const frozen, first = "../../testdata/frozen/history-1-events.hist", 1
	rng := rand.New(rand.NewPCG(3, 4))
	var payloads [][]byte
	for range 20 {
		var events [][]byte
		for range 1 + rng.IntN(4) {
			events = append(events, event.AppendBinary(nil, randomEvent(rng)))
		}
		payloads = append(payloads, payloadOf(events...))
	}
	dir := t.TempDir()
	if *freeze {
		log, err := wal.Open(wal.Options{FS: fsys.OS(), Dir: filepath.Join(dir, "wal"), SegmentBytes: 32 << 10})
		require.NoError(t, err)
		for i, b := range append(payloads, make([]byte, 40<<10)) {
			require.NoError(t, log.Append([]wal.Pending{{Time: int64(i), Type: TypeEvents, Payload: b}}))
		}
		retainAll(t, fsys.OS(), filepath.Join(dir, "history"), log, time.Unix(1, 0))
		require.NoError(t, log.Close())
		names, err := filepath.Glob(filepath.Join(dir, "history", "*.hist"))
		require.NoError(t, err)
		data, err := os.ReadFile(names[0])
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(frozen, data, 0o600))
	}
	data, err := os.ReadFile(frozen)
	require.NoError(t, err)
	dir = t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("%020d.hist", first)), data, 0o600))
	r, err := retained.OpenFolders(fsys.OS(), dir, filepath.Join(dir, "wal"),
		Form()).NewReader(retained.Query{From: first})
	require.NoError(t, err)
	n := 0
	for rec := (wal.Record{}); ; n++ {
		ok, err := r.Next(&rec)
		require.NoError(t, err)
		if !ok {
			break
		}
		require.Equal(t, uint64(first+n), rec.Seq)
		require.Equal(t, payloads[n], rec.Payload)
	}
	gaps, _ := r.Gaps()
	require.Empty(t, gaps)
	require.Greater(t, n, 5)
	require.NoError(t, r.Close())
}

// BenchmarkRetain says what an event costs to retain: CPU, and bytes on disk.
func BenchmarkRetain(b *testing.B) {
	for name, kind := range map[string]func(*rand.Rand, time.Time) *event.Event{"orders": orderEvent, "spans": spanEvent} {
		b.Run(name, func(b *testing.B) {
			var events, bytes, raw, used float64
			for b.Loop() {
				s, took := retain(b, 400_000, kind)
				st := s.Stats()
				events, bytes = events+float64(st.Events), bytes+float64(st.Bytes)
				raw, used = raw+float64(st.Raw), used+float64(took)
			}
			b.ReportMetric(used/events, "cpu-ns/event")
			b.ReportMetric(bytes/events, "bytes/event")
			b.ReportMetric(raw/events, "raw-bytes/event")
		})
	}
}
