package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/ingest/checkpoint"
	"github.com/sloengine/sloengine/ingest/dedup"
	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/reliability/dlq"
	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/reliability/fsys/fsystest"
	"github.com/sloengine/sloengine/reliability/retained"
	"github.com/sloengine/sloengine/reliability/wal"
)

// oracle stands outside the engine. It gives out ids and remembers which were
// acknowledged.
type oracle struct {
	mu     sync.Mutex
	next   int
	issued []string
	acked  map[string]bool
}

func (o *oracle) issue(n int, rng *rand.Rand) (ids []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for range n {
		kind := "id"
		switch rng.IntN(12) {
		case 0:
			kind = "refuse"
		case 1:
			kind = "panic"
		}
		o.next++
		ids = append(ids, fmt.Sprintf("%s-%d", kind, o.next))
	}
	o.issued = append(o.issued, ids...)
	return ids
}

func (o *oracle) ack(ids []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, id := range ids {
		o.acked[id] = true
	}
}

// snapshot is a copy of the oracle at one moment.
func (o *oracle) snapshot() *oracle {
	o.mu.Lock()
	defer o.mu.Unlock()
	copied := &oracle{next: o.next, issued: append([]string{}, o.issued...), acked: map[string]bool{}}
	for id := range o.acked {
		copied.acked[id] = true
	}
	return copied
}

// watch takes a picture of the disk. Requests acknowledged before have to be on it, and requests
// issued after it cannot be.
func (o *oracle) watch(take func() *fsystest.Mem) (*fsystest.Mem, *oracle) {
	promised := o.snapshot()
	disk := take()
	promised.issued = o.snapshot().issued
	return disk, promised
}

// crash is the disk after a power loss, and the promises made until then.
type crash struct {
	disk   *fsystest.Mem
	oracle *oracle
	ids    IDOptions
	op     string
}

func crashOptions(fs fsys.FS) Options {
	opt := testOptions(fs)
	opt.SegmentBytes = 2048
	opt.Checkpoint = CheckpointOptions{Interval: 3 * time.Millisecond, LogBytes: 1000}
	opt.DeadLetterSegmentBytes = 4096
	return opt
}

// crashParts retain little, so that something is deleted.
var crashParts = Parts{History: retained.Bounds{Age: time.Hour, Bytes: 8 << 10}}

// losePower runs an engine under load and loses the power at some operations of
// its disk. The unsynced share that survives differs from one to the next.
func losePower(t *testing.T, opt Options, o *oracle, seed int64, crashes int) (found []crash) {
	disk := opt.FS.(*fsystest.Mem)
	rng := rand.New(rand.NewPCG(uint64(seed), 1))
	var mu sync.Mutex
	ops, from := 0, rng.IntN(600)
	done := make(chan struct{})
	disk.Before(func(op fsystest.Op, name string) {
		mu.Lock()
		defer mu.Unlock()
		ops++
		// Most operations are those of the log. The rare ones are the delicate ones.
		chance, survive := 0.1, []int{0, 20, 50, 80, 100}[rng.IntN(5)]
		switch {
		case op == fsystest.OpSyncDir:
			chance, survive = 0.3, 50
		case strings.Contains(name, "/wal/") && (op == fsystest.OpWrite || op == fsystest.OpSync):
			chance = 0.02
		}
		if ops < from || len(found) == crashes || rng.Float64() > chance {
			return
		}
		clone, promised := o.watch(func() *fsystest.Mem { return disk.CrashClone(survive, rng.Int64()) })
		found = append(found, crash{clone, promised, opt.IDs, fmt.Sprintf("before operation %d: %s %s", ops, op, name)})
		if len(found) == crashes {
			close(done)
		}
	})
	r := launch(t, opt, crashParts)
	var wg sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	for c := range 4 {
		rng := rand.New(rand.NewPCG(uint64(seed), uint64(c)+2))
		wg.Go(func() {
			select {
			case <-r.Ready():
			case <-ctx.Done():
				return
			}
			for ctx.Err() == nil {
				ids := o.issue(1+rng.IntN(6), rng)
				if _, err := r.Commit(ctx, testBatch(ids...)); err == nil {
					o.ack(ids)
				}
			}
		})
	}
	select {
	case <-done:
	case err := <-r.end:
		r.end <- err
	case <-time.After(testkit.Patience):
		t.Error("not enough operations")
	}
	cancel()
	wg.Wait()
	r.stop()
	if err := <-r.end; err != nil {
		t.Error(err)
	}
	disk.Before(nil)
	return found
}

// check starts an engine on a crashed disk and compares it with the promises:
// every acknowledged id counted exactly once, others at most once, unknown ones
// never; and sending all of them again completes it.
func (c *crash) check(t testing.TB) (err error) {
	fail := func(format string, args ...any) error {
		return fmt.Errorf("%s: %s", c.op, fmt.Sprintf(format, args...))
	}
	opt := crashOptions(c.disk)
	opt.IDs = c.ids
	r := launch(t, opt, crashParts)
	select {
	case <-r.Ready():
	case err := <-r.end:
		return fail("does not start: %v", err)
	}
	defer r.kill()
	if n := r.Health().Checkpoint.Fallbacks; n > 0 {
		return fail("%d checkpoints broken by a mere power loss", n)
	}
	if err := historyIsWhole(r); err != nil {
		return fail("%v", err)
	}
	judge := func(all bool) error {
		seen := r.counts()
		deadLetters := r.deadLetters(t)
		if total := r.Health().DeadLetters; uint64(len(deadLetters)) != total {
			return fail("%d dead letters of %d", len(deadLetters), total)
		}
		for _, entry := range deadLetters {
			var e struct{ ID string }
			if err := json.Unmarshal(entry.Event, &e); err != nil {
				return fail("dead letter: %v", err)
			}
			seen[e.ID]++
		}
		known := map[string]bool{}
		for _, id := range c.oracle.issued {
			known[id] = true
			if n := seen[id]; n > 1 || n == 0 && (all || c.oracle.acked[id]) {
				return fail("%s counted %d times, acknowledged: %v", id, n, c.oracle.acked[id])
			}
		}
		for id := range seen {
			if !known[id] {
				return fail("%s was never sent", id)
			}
		}
		return nil
	}
	if err := judge(false); err != nil || c.ids.Bytes < 1<<16 {
		return err // with a small table, duplicates are counted again
	}
	for ids := c.oracle.issued; len(ids) > 0; {
		n := min(len(ids), 100)
		result, err := r.Commit(context.Background(), testBatch(ids[:n]...))
		if err != nil {
			return fail("repeat: %v", err)
		}
		if result.Accepted+result.Duplicates != n {
			return fail("repeat of %d: %+v", n, result)
		}
		ids = ids[n:]
	}
	return judge(true)
}

// historyIsWhole reads what is retained and then the log: each record once, and none is missing.
func historyIsWhole(r *running) error {
	for {
		again, err := readHistory(r)
		if !again {
			return err
		}
	}
}

// readHistory is historyIsWhole once. It is to be read again if its oldest part was deleted meanwhile.
func readHistory(r *running) (again bool, err error) {
	reader, err := r.History().Source().NewReader(retained.Query{})
	if err != nil {
		return false, err
	}
	defer reader.Close()
	next := uint64(0)
	for rec := (wal.Record{}); ; next = rec.Seq + 1 {
		ok, err := reader.Next(&rec)
		switch {
		case err != nil:
			return false, fmt.Errorf("read the history: %w", err)
		case !ok && next <= r.Health().Checkpoint.Position:
			return false, fmt.Errorf("the history ends before record %d", next)
		case !ok:
			return false, nil
		case next != 0 && rec.Seq != next || rec.Lost != 0:
			return r.History().Stats().First > next,
				fmt.Errorf("the history has record %d for %d, %d lost", rec.Seq, next, rec.Lost)
		}
	}
}

func TestPowerLoss(t *testing.T) {
	for seed := range int64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			o := &oracle{acked: map[string]bool{}}
			for _, first := range losePower(t, crashOptions(fsystest.New()), o, seed, 12) {
				// A second loss, on the disk that the first one left.
				o := first.oracle.snapshot()
				disk := first.disk.CrashClone(100, 1)
				require.NoError(t, first.check(t))
				for _, second := range losePower(t, crashOptions(disk), o, seed+100, 2) {
					second.op = first.op + ", then " + second.op
					require.NoError(t, second.check(t))
				}
			}
		})
	}
}

// Every sync of the engine is there for a reason: without any one of them some
// power loss breaks a promise. By name, bugs of the field among them: an
// acknowledgement before the sync, and no sync of the folder.
func TestEverySyncIsNeeded(t *testing.T) {
	sites := []fsys.Site{checkpoint.SiteDataDir, checkpoint.SiteIDs, checkpoint.SiteIDsDir, fsys.SiteAtomicFile,
		fsys.SiteAtomicDir, fsys.SiteWALAppend}
	for _, site := range sites {
		t.Run(string(site), func(t *testing.T) {
			t.Parallel()
			for seed := range int64(200) { // of which the first few do, as a rule
				disk := fsystest.New()
				disk.IgnoreSync(site)
				if site == checkpoint.SiteDataDir { // the dead letters sync the same folder for their own sake
					disk.IgnoreSync(dlq.SiteMkdir)
				}
				opt := crashOptions(disk)
				if site == checkpoint.SiteIDsDir {
					opt.IDs.Bytes = 2 * 30 * dedup.KeyBytes // many files
				}
				for _, c := range losePower(t, opt, &oracle{acked: map[string]bool{}}, seed, 10) {
					if err := c.check(t); err != nil {
						t.Log(err)
						return
					}
				}
			}
			require.Fail(t, "nobody misses it")
		})
	}
}

// crashPoints are all the places at which a test kills the engine.
var crashPoints = []CrashPoint{
	CrashBeforeAppend, CrashAfterAppend, CrashAfterAck, CrashBeforeApply,
	CrashBeforeCheckpoint, CrashAfterDeadLetters, CrashAfterPack, CrashAfterIDs, CrashAfterManifest,
	CrashBeforeTruncate, CrashAfterTruncate, CrashAfterMove, CrashAfterDelete, CrashBeforeStop, CrashAfterStop,
	CrashBeforeStartRecords,
}

// A killed process leaves all that it wrote: nothing acknowledged is lost at any
// of the named places, and nothing is counted twice.
func TestKillAtNamedPoints(t *testing.T) {
	for _, point := range crashPoints {
		t.Run(string(point), func(t *testing.T) {
			t.Parallel()
			disk, o := fsystest.New(), &oracle{acked: map[string]bool{}}
			rng := rand.New(rand.NewPCG(uint64(len(point)), 3))
			for cycle := range 3 {
				opt := crashOptions(disk)
				var once sync.Once
				killed := make(chan crash, 1)
				var passes atomic.Int64
				opt.CrashPoint = func(p CrashPoint) {
					// The places of a start and of a stop are passed once.
					if p != point || passes.Add(1) <= int64(cycle) && !strings.HasPrefix(string(p), "st") {
						return
					}
					once.Do(func() {
						clone, promised := o.watch(func() *fsystest.Mem { return disk.CrashClone(100, 1) })
						killed <- crash{clone, promised, opt.IDs, string(p)}
					})
				}
				r := start(t, opt, crashParts)
				var at *crash
				for at == nil {
					ids := o.issue(1+rng.IntN(5), rng)
					if _, err := r.Commit(context.Background(), testBatch(ids...)); err == nil {
						o.ack(ids)
					}
					if strings.HasPrefix(string(point), "stop") && len(o.issued) > 100*(cycle+1) {
						r.stop()
					}
					select {
					case c := <-killed:
						at = &c
					default:
					}
				}
				r.kill()
				disk = at.disk.CrashClone(100, 1)
				require.NoError(t, at.check(t))
				o = at.oracle.snapshot()
			}
		})
	}
}
