package dispatch

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/reliability/breaker"
	"github.com/sloengine/sloengine/reliability/bulkhead"
	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/reliability/fsys/fsystest"
	"github.com/sloengine/sloengine/reliability/retry"
	"github.com/sloengine/sloengine/reliability/wal"
)

// oracle stands outside of the process that dies. It knows the acknowledged items and those that
// each sink has received. The acts of a process after its end have no effect.
type oracle struct {
	mu        sync.Mutex
	acked     map[string]bool
	delivered map[string]map[string]int
	process   int // the one that lives, 0 if none does
	started   int
	next      int
}

var crashSinks = []string{"flaky", "slow", "partial", "refusing"}

func (o *oracle) alive(process int, f func()) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.process != process {
		return false
	}
	f()
	return true
}

// crashSink is one of the flaky sinks, as seen by one process.
type crashSink struct {
	o       *oracle
	name    string
	process int
	mu      sync.Mutex
	rng     *rand.Rand
	well    bool
}

func (s *crashSink) Send(ctx context.Context, batch []Item) (r Result) {
	s.mu.Lock()
	dice, other := s.rng.Float64(), s.rng.Float64()
	bad := map[int]bool{}
	if !s.well && s.name == "partial" {
		for i := range batch {
			if s.rng.Float64() < 0.2 {
				bad[i] = true
				err := retry.WithClass(errors.New("not this one"), retry.ClassTransient)
				if s.rng.Float64() < 0.2 {
					err = retry.Permanent(err)
				}
				r.Failed = append(r.Failed, Failure{i, err})
			}
		}
	}
	s.mu.Unlock()
	down := errors.New("down")
	if !s.well {
		switch s.name {
		case "slow":
			select {
			case <-time.After(time.Duration(dice * 4 * float64(time.Millisecond))):
			case <-ctx.Done():
				return Result{Err: ctx.Err()}
			}
		case "refusing":
			if dice < 0.7 {
				return Result{Err: retry.WithClass(down, retry.ClassTransient)}
			}
		case "flaky":
			if dice < 0.3 {
				return Result{Err: retry.After(down, time.Millisecond)}
			}
		}
	}
	s.o.alive(s.process, func() {
		for i, it := range batch {
			if !bad[i] {
				s.o.delivered[s.name][it.ID]++
			}
		}
	})
	if !s.well && s.name == "flaky" && other < 0.2 { // it took them without an answer
		return Result{Err: retry.WithClass(errors.New("reset"), retry.ClassTransient)}
	}
	return r
}

// deadFile is a log of dead letters: acknowledged items are on the disk.
type deadFile struct {
	mu  sync.Mutex
	log *wal.Log
}

func (d *deadFile) keep(_ context.Context, list []DeadLetter) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var text strings.Builder
	for _, l := range list {
		fmt.Fprintf(&text, "%s:%s ", l.Sink, l.Item.ID)
	}
	return d.log.Append([]wal.Pending{{Payload: []byte(text.String())}})
}

func (d *deadFile) read(t *testing.T) map[string]map[string]bool {
	found := map[string]map[string]bool{}
	for _, s := range crashSinks {
		found[s] = map[string]bool{}
	}
	r, err := d.log.NewReader(0)
	require.NoError(t, err)
	defer r.Close()
	for {
		var rec wal.Record
		ok, err := r.Next(&rec)
		require.NoError(t, err)
		if !ok {
			return found
		}
		for _, entry := range strings.Fields(string(rec.Payload)) {
			sink, id, _ := strings.Cut(entry, ":")
			found[sink][id] = true
		}
	}
}

// life is one process on a disk, until the power goes, or until it is stopped in the
// middle of its work (or, the last one, until all is delivered). It returns the disk as the next process finds it.
func life(t *testing.T, o *oracle, disk *fsystest.Mem, rng *rand.Rand, last bool) *fsystest.Mem {
	o.mu.Lock()
	o.started++
	process := o.started
	o.process = process
	o.mu.Unlock()
	log, err := wal.Open(wal.Options{FS: disk, Dir: "/wal", SegmentBytes: 2048})
	require.NoError(t, err)
	deadLog, err := wal.Open(wal.Options{FS: disk, Dir: "/dead", SegmentBytes: 1 << 20})
	require.NoError(t, err)
	dead := &deadFile{log: deadLog}
	d, err := New(Options{
		FS: disk, Dir: "/cursors", Source: log, Split: splitWords, DeadLetter: dead.keep,
		SaveInterval: 3 * time.Millisecond, DrainTimeout: time.Second,
	})
	require.NoError(t, err)
	for _, name := range crashSinks {
		require.NoError(t, d.Add(SinkOptions{
			Name: name, Sink: &crashSink{
				o: o, name: name, process: process, rng: rand.New(rand.NewPCG(rng.Uint64(), 1)), well: last},
			BatchItems: 1 + rng.IntN(20), BatchWait: time.Millisecond, Bulkhead: bulkhead.Options{Concurrency: 1 + rng.IntN(4)},
			Retry:      retry.Options{Base: time.Millisecond, Cap: 3 * time.Millisecond, MaxRetries: 2},
			Budget:     &retry.BudgetOptions{MinPerSecond: 1000},
			RetryLimit: &retry.LimitOptions{PerInterval: 10_000},
			Staged:     Staged{Items: 10_000},
			Breaker: breaker.Options{
				Consecutive: breaker.Consecutive{Open: 5 * time.Millisecond, Probes: 1},
				Rate:        breaker.Rate{Open: 5 * time.Millisecond},
			},
		}))
	}
	ctx, stop := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- d.Run(ctx) }()

	crashed := make(chan *fsystest.Mem, 1)
	graceful := !last && rng.IntN(3) == 0
	rounds := 5 + rng.IntN(20)
	if !last && !graceful {
		after := int64(20 + rng.IntN(250))
		percent, seed := rng.IntN(101), int64(rng.Uint64()>>1)
		start := disk.Ops()
		disk.Before(func(fsystest.Op, string) {
			if disk.Ops()-start < after {
				return
			}
			o.alive(process, func() {
				crashed <- disk.CrashClone(percent, seed)
				o.process = 0
			})
		})
	}
	var clone *fsystest.Mem
	for round := 0; clone == nil; round++ {
		if graceful && round == rounds {
			clone = disk // state after a clean stop
			break
		}
		n := 1 + rng.IntN(30)
		ids := make([]string, n)
		for i := range ids {
			o.next++
			ids[i] = fmt.Sprintf("e%d", o.next)
		}
		if !last {
			if err := log.Append(
				[]wal.Pending{{Time: time.Now().UnixNano(), Type: 1, Payload: []byte(strings.Join(ids, " "))}}); err == nil {
				o.alive(process, func() {
					for _, id := range ids {
						o.acked[id] = true
					}
				})
			}
		}
		if lowest, ok := d.Lowest(); ok {
			require.NoError(t, log.Truncate(lowest))
			if last && lowest == log.NextSeq() {
				break
			}
		}
		select {
		case clone = <-crashed:
		case <-time.After(time.Duration(rng.IntN(3)) * time.Millisecond):
		}
	}
	disk.Before(nil)
	stop()
	require.NoError(t, <-ran)
	if last {
		found := dead.read(t)
		buried := 0
		for _, sink := range crashSinks {
			for id := range o.acked {
				if o.delivered[sink][id] == 0 && !found[sink][id] {
					t.Errorf("sink %s: %s was acknowledged, but neither delivered nor kept", sink, id)
				}
				if found[sink][id] {
					buried++
				}
			}
			for id := range o.delivered[sink] {
				require.True(t, o.acked[id] || strings.HasPrefix(id, "e"), "unknown id %s", id)
			}
		}
		t.Logf("%d acknowledged, %d dead letters, flaky got %d", len(o.acked), buried, len(o.delivered["flaky"]))
	}
	require.NoError(t, log.Close())
	require.NoError(t, deadLog.Close())
	return clone
}

// TestEveryAcknowledgedItemReachesEverySink kills the dispatcher again and again, at any operation
// on the disk and with any part of the unsynced data lost, while the log is truncated behind the
// cursors.
func TestEveryAcknowledgedItemReachesEverySink(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 7))
			o := &oracle{acked: map[string]bool{}, delivered: map[string]map[string]int{}}
			for _, s := range crashSinks {
				o.delivered[s] = map[string]int{}
			}
			disk := fsystest.New()
			for range 12 {
				disk = life(t, o, disk, rng, false)
			}
			life(t, o, disk, rng, true)
			require.Greater(t, len(o.acked), 100)
		})
	}
}

// Without one of the syncs, a cursor or its removal does not survive: the tests must see it.
func TestEverySyncIsNeeded(t *testing.T) {
	for _, c := range []struct {
		site fsys.Site
		lost func(t *testing.T, disk *fsystest.Mem) bool
	}{
		{fsys.SiteAtomicFile, cursorLost},
		{fsys.SiteAtomicDir, cursorLost},
		{SiteDir, cursorLost},
		{SiteRemove, cursorIsBack},
	} {
		t.Run(string(c.site), func(t *testing.T) {
			whole := fsystest.New()
			require.False(t, c.lost(t, whole))
			broken := fsystest.New()
			broken.IgnoreSync(c.site)
			require.True(t, c.lost(t, broken))
		})
	}
}

func cursorLost(t *testing.T, disk *fsystest.Mem) bool {
	d, log := cursorBench(t, disk)
	defer log.Close()
	require.NoError(t, d.Add(SinkOptions{Name: "s", Sink: newFake(nil)}))
	_, ok, err := cursors{disk.CrashClone(0, 1), "/a/cursors"}.load("s")
	return err != nil || !ok
}

func cursorIsBack(t *testing.T, disk *fsystest.Mem) bool {
	d, log := cursorBench(t, disk)
	defer log.Close()
	require.NoError(t, d.Add(SinkOptions{Name: "s", Sink: newFake(nil)}))
	require.NoError(t, d.Remove(t.Context(), "s"))
	_, ok, err := cursors{disk.CrashClone(0, 1), "/a/cursors"}.load("s")
	require.NoError(t, err)
	return ok
}

func cursorBench(t *testing.T, disk *fsystest.Mem) (*Dispatcher, *wal.Log) {
	log, err := wal.Open(wal.Options{FS: disk, Dir: "/wal"})
	require.NoError(t, err)
	d, err := New(Options{
		FS: disk, Dir: "/a/cursors", Source: log, Split: splitWords,
		DeadLetter: func(context.Context, []DeadLetter) error { return nil },
	})
	require.NoError(t, err)
	return d, log
}
