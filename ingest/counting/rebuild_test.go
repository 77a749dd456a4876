package counting

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/sloengine/sloengine/alerts/incident"
	"github.com/sloengine/sloengine/ingest/counter"
	"github.com/sloengine/sloengine/ingest/engine"
	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/ingest/position"
	"github.com/sloengine/sloengine/ingest/record"
	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/reliability/fsys/fsystest"
	"github.com/sloengine/sloengine/reliability/retained"
	"github.com/sloengine/sloengine/reliability/wal"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/fold"
)

var rebuildStart = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// rebuildConfig has an SLO of each form. Those whose names are in changed have another definition.
func rebuildConfig(changed ...string) *fold.Config {
	failed := []fold.Matcher{{Name: "outcome", Op: slo.OpEqual, Value: "failure"}}
	cfg := &fold.Config{Version: fold.ConfigVersion, Services: []fold.Service{
		{Name: "bank"}, {Name: "shop", Types: []string{"order", "refund", "created", "shipped"}}}}
	add := func(ind fold.Indicator) {
		ind.Service = "shop"
		name := ind.ID
		if ind.ID = "shop/" + name; slices.Contains(changed, name) {
			switch {
			case ind.Work != nil:
				ind.Work.Within = 20 * time.Minute
			case len(ind.Edges) > 0:
				ind.Edges = []time.Duration{200 * time.Millisecond}
			case ind.Slice != nil:
				ind.Slice.Per = 5 * time.Minute
			default:
				ind.Valid, ind.GroupBy = []fold.Matcher{{Name: "type", Op: slo.OpEqual, Value: "order"}}, []string{"product"}
			}
		}
		cfg.Indicators = append(cfg.Indicators, ind)
	}
	add(fold.Indicator{ID: "availability", Kind: fold.Events, Bad: failed, Retention: 30 * 24 * time.Hour})
	add(fold.Indicator{ID: "latency", Kind: fold.Latency, Edges: []time.Duration{100 * time.Millisecond},
		GroupBy: []string{"product"}, MaxGroups: 2, Retention: 7 * 24 * time.Hour})
	add(fold.Indicator{ID: "minutes", Kind: fold.Events, Bad: failed, Retention: 7 * 24 * time.Hour,
		Slice: &fold.Slice{Per: time.Minute, Target: 0.9}})
	add(fold.Indicator{ID: "shipping", Kind: fold.Completion, GroupBy: []string{"product"},
		Retention: 30 * 24 * time.Hour, Work: &fold.Work{Key: "order", Within: time.Hour,
			Started:  []fold.Matcher{{Name: "type", Op: slo.OpEqual, Value: "created"}},
			Finished: []fold.Matcher{{Name: "type", Op: slo.OpEqual, Value: "shipped"}}}})
	cfg.Indicators = append(cfg.Indicators,
		fold.Indicator{ID: "bank/availability", Service: "bank", Kind: fold.Events, Bad: failed,
			Retention: 90 * 24 * time.Hour})
	return cfg
}

// rebuildWorld is an engine in simulated time, on a disk that can lose its power.
type rebuildWorld struct {
	t     *testing.T
	disk  *fsystest.Mem
	now   atomic.Int64
	cfg   *fold.Config
	state FoldState
	eng   *engine.Engine
	reb   *Rebuilder
	step  atomic.Pointer[func(string)] // called at the steps of a rebuild
	stop  func()

	stopping atomic.Bool // steps may meet the end of the engine

	forgets bool // services are forgotten now and then
	damaged bool // the history lacks records

	specs     *Specs     // nil: cfg is what is counted
	files     *Spec      // what the files say, with specs
	reloading sync.Mutex // of a reload or a takeover of definitions

	log   *slog.Logger  // of the next start; nil: nothing is logged
	retry time.Duration // of a rebuild that fails; 0: the default
}

func newRebuildWorld(t *testing.T, disk *fsystest.Mem, cfg *fold.Config, now time.Time) *rebuildWorld {
	w := &rebuildWorld{t: t, disk: disk, cfg: cfg}
	w.atStep(func(string) {})
	w.now.Store(now.UnixNano())
	return w
}

// atStep has f called at each step of a rebuild from now on.
func (w *rebuildWorld) atStep(f func(string)) { w.step.Store(&f) }

func (w *rebuildWorld) encoded() []byte {
	payload, err := EncodeConfig(w.cfg, nil)
	require.NoError(w.t, err)
	return payload
}

// start runs an engine. Without rebuild nothing is rebuilt.
func (w *rebuildWorld) start(rebuild bool) {
	t := w.t
	f, err := fold.New(fold.Options{})
	require.NoError(t, err)
	rebuilds := NewRebuilds(w.disk, "/data")
	w.state = FoldState{Fold: f, Incidents: incident.NewBook(), Positions: position.NewBook(),
		Counters: counter.NewTable(), Rebuilds: rebuilds}
	log := cmp.Or(w.log, slog.New(slog.DiscardHandler))
	w.eng, err = engine.Open(engine.Options{
		Config: func() []byte { return w.startConfig(f) },
		FS:     w.disk, Dir: "/data", State: w.state, Logger: log, SegmentBytes: 4096,
		IDs: engine.IDOptions{Bytes: 1 << 20}, Disk: engine.DiskOptions{LowWater: -1}, Heartbeat: time.Hour,
		Checkpoint: engine.CheckpointOptions{Interval: 5 * time.Millisecond, LogBytes: 3000},
		Now:        func() time.Time { return time.Unix(0, w.now.Load()) },
		Uptime:     func() time.Duration { return time.Duration(w.now.Load()) },
	})
	require.NoError(t, err)
	require.NoError(t, rebuilds.Open(w.eng.History().Source()))
	counts := NewCounts(f, w.eng, metrics.NewSet(), log)
	w.reb = NewRebuilder(rebuilds, RebuildOptions{CPU: 1, Every: time.Millisecond, Retry: w.retry, Specs: w.specs,
		Step: func(s string) { (*w.step.Load())(s) }}, counts)
	w.reb.Activate = w.activate
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		_ = w.eng.Run(ctx, engine.Parts{Retain: rebuilds.Lowest,
			History: retained.Bounds{Age: 1000 * 24 * time.Hour, Bytes: 1 << 30}}) // its disk may be gone
	})
	w.stopping.Store(false)
	w.stop = func() {
		w.stopping.Store(true)
		cancel()
		running.Wait()
		_ = w.eng.Close()
	}
	<-w.eng.Ready()
	if rebuild {
		running.Go(func() { _ = w.reb.Run(ctx) })
	}
}

// traffic is some time of everything that a log may hold.
func (w *rebuildWorld) traffic(rng *rand.Rand, rounds int) {
	ctx := context.Background()
	for range rounds {
		b := &event.Batch{Backfill: rng.IntN(6) == 0}
		if b.Backfill && rng.IntN(2) == 0 {
			at := w.now.Load() - int64(rng.IntN(48))*int64(time.Hour)
			b.Covers = []event.Span{{From: at - int64(time.Hour), To: at}}
		}
		for range 1 + rng.IntN(8) {
			age := time.Duration(rng.ExpFloat64() * float64(2*time.Minute))
			if b.Backfill {
				age = time.Duration(rng.IntN(72*3600)) * time.Second
			}
			e := event.Event{ID: fmt.Sprint("id-", rng.Uint64()), Time: time.Unix(0, w.now.Load()).Add(-age), Service: "shop",
				Type:        []string{"order", "order", "refund", "created", "shipped", "unknown"}[rng.IntN(6)],
				HasDuration: true, Duration: time.Duration(rng.IntN(400)) * time.Millisecond, Weight: uint32(rng.IntN(3)),
				Attributes: []event.Attr{{Name: "order", Value: fmt.Sprint(rng.IntN(20))},
					{Name: "product", Value: []string{"A", "B", "C", "D"}[rng.IntN(4)]}}}
			if rng.IntN(5) == 0 {
				e.Service = "bank"
			}
			if rng.IntN(3) == 0 {
				e.Outcome = event.Failure
			}
			item := event.Item{Index: len(b.Events), Start: len(b.Buf), HasKey: true, Time: e.Time.UnixNano(),
				Key: event.Key([]byte(e.Service), []byte(e.ID))}
			b.Buf = event.AppendBinary(b.Buf, &e)
			item.End = len(b.Buf)
			b.Events = append(b.Events, item)
		}
		_, err := w.eng.Commit(ctx, b)
		w.ok(err)
		switch rng.IntN(12) {
		case 0: // an event that the fold had refused, under a type that it knows
			e := event.Event{ID: "dead", Time: time.Unix(0, w.now.Load()).Add(-time.Hour), Service: "shop", Type: "order"}
			errs := w.eng.Replay(ctx, []engine.Replay{{Key: event.Key([]byte("replay"), []byte(fmt.Sprint(rng.Uint64()))),
				ID: fmt.Sprint(rng.Uint64()), Event: event.AppendBinary(nil, &e)}}, false)
			for _, err := range errs {
				w.ok(err)
			}
		case 1:
			w.ok(w.eng.Lose(ctx, noPosition{}, []record.Dropped{{Service: []byte("shop"), Type: []byte("order"),
				Reason: []byte("limit"), Time: w.now.Load() - int64(time.Minute), N: 3}}))
		case 2:
			if rng.IntN(16) == 0 && w.forgets {
				w.ok(w.eng.Forget(ctx, record.Forget{Services: []string{"shop"}}, w.eng.Position()))
			}
		}
		step := time.Duration(rng.IntN(60)) * time.Second
		switch rng.IntN(40) {
		case 0:
			step = time.Duration(rng.IntN(72)) * time.Hour
		case 1:
			step = time.Duration(rng.IntN(6)) * time.Hour
		}
		w.now.Add(int64(step))
	}
}

// ok takes errors of an engine whose disk lost its power.
func (w *rebuildWorld) ok(err error) {
	if err != nil && !(w.stopping.Load() && errors.Is(err, engine.ErrStopping)) &&
		!strings.Contains(err.Error(), "changed meanwhile") {
		require.NoError(w.t, err)
	}
}

type noPosition struct{}

func (noPosition) AppendPosition(dst []byte, _ []int32) []byte { return dst }

// change puts a configuration in force.
func (w *rebuildWorld) change(cfg *fold.Config) {
	w.cfg = cfg
	require.NoError(w.t, w.eng.SetConfig(context.Background(), w.encoded()))
}

// rebuilt waits until nothing waits to be rebuilt.
func (w *rebuildWorld) rebuilt() {
	testkit.Eventually(w.t, "all is rebuilt", func() bool {
		w.reb.mu.Lock()
		running := len(w.reb.now.SLOs) > 0
		w.reb.mu.Unlock()
		w.reb.Rebuilds.mu.Lock()
		defer w.reb.Rebuilds.mu.Unlock()
		return len(w.reb.state.Waiting) == 0 && !running && (w.specs == nil || w.specs.InForce().Wanted == nil)
	})
}

// records are all of the log and its history.
func (w *rebuildWorld) records() (all []wal.Record) {
	r, err := w.eng.History().Source().NewReader(retained.Query{})
	require.NoError(w.t, err)
	for rec := (wal.Record{}); ; {
		ok, err := r.Next(&rec)
		require.NoError(w.t, err)
		if !ok {
			break
		}
		rec.Payload = slices.Clone(rec.Payload)
		all = append(all, rec)
	}
	gaps, _ := r.Gaps()
	require.Equal(w.t, w.damaged, len(gaps) > 0)
	require.NoError(w.t, r.Close())
	return all
}

// asIf counts records by a fold that had the definitions of changed from the first record on, and those of each
// configuration otherwise. Takeovers mean nothing to it. Generations have numbers above earlier.
func asIf(t *testing.T, records []wal.Record, defined *fold.Config, earlier uint32) *fold.Fold {
	f, err := fold.New(fold.Options{})
	require.NoError(t, err)
	s := FoldState{Fold: f, Incidents: incident.NewBook(), Positions: position.NewBook(), Counters: counter.NewTable()}
	for _, rec := range records {
		if rec.Type == record.TypeConfig {
			var cfg fold.Config
			require.NoError(t, json.Unmarshal(rec.Payload, &cfg))
			for i, ind := range defined.Indicators {
				at := slices.IndexFunc(cfg.Indicators, func(x fold.Indicator) bool { return x.ID == ind.ID })
				if at < 0 {
					cfg.Indicators = append(cfg.Indicators, defined.Indicators[i])
				} else {
					cfg.Indicators[at] = defined.Indicators[i]
				}
			}
			for ; earlier > 0; earlier-- {
				other := cfg
				other.Indicators = slices.Clone(cfg.Indicators)
				for i := range other.Indicators {
					other.Indicators[i].GroupBy = []string{fmt.Sprint("attribute", earlier)}
				}
				require.NoError(t, f.SetConfig(&other, rec.Time))
			}
			rec.Payload, err = EncodeConfig(&cfg, nil)
			require.NoError(t, err)
		}
		require.NoError(t, s.Apply(rec, func(int, []byte, string) {}))
	}
	return f
}

// requireSameCounts compares all that was counted for an SLO with that of a fold that had the given definitions from
// the first record on, byte for byte: what a generation keeps when it is parked. The number of the generation, and the
// number of calls, which is the version of what they changed, are made equal.
func (w *rebuildWorld) requireSameCounts(records []wal.Record, defined *fold.Config, id string) {
	t, got, cfg := w.t, w.state.Fold, w.cfg
	t.Helper()
	generation := func(f *fold.Fold) uint32 {
		gs := f.Generations(0)
		return gs[slices.IndexFunc(gs, func(g fold.Generation) bool { return g.ID == id && g.Number == 0 })].Generation
	}
	want := asIf(t, records, defined, 0)
	want = asIf(t, records, defined, generation(got)-generation(want))
	w.requireSameReads(want, id)
	clock := func(f *fold.Fold) uint64 { return f.Parts()[0].Version }
	var data [2][]byte
	for _, f := range []*fold.Fold{want, got} {
		for clock(f) < max(clock(want), clock(got)) {
			f.Advance(f.Watermark().UnixNano(), fold.Tick)
		}
	}
	for i, f := range []*fold.Fold{want, got} {
		without := *cfg
		without.Indicators = slices.DeleteFunc(slices.Clone(cfg.Indicators),
			func(x fold.Indicator) bool { return x.ID == id })
		require.NoError(t, f.SetConfig(&without, f.Watermark().UnixNano()))
		gs := f.Generations(0)
		require.Equal(t, id, gs[len(gs)-1].ID)
		for _, p := range f.Parts() {
			if p.Name == fmt.Sprint("parked-", gs[len(gs)-1].Number) {
				data[i] = p.Encode(nil)
			}
		}
		require.NoError(t, f.SetConfig(cfg, f.Watermark().UnixNano()))
	}
	require.NotEmpty(t, data[0])
	require.Equal(t, data[0], data[1], id)
}

// requireSameReads compares what an SLO shows with what it shows in another fold.
func (w *rebuildWorld) requireSameReads(want *fold.Fold, id string) {
	w.t.Helper()
	require.Equal(w.t, want.Watermark(), w.state.Fold.Watermark())
	require.Equal(w.t, readAll(want, id), readAll(w.state.Fold, id), id)
}

// readAll is what an SLO shows: its counts by the hour for 120 days, what was observed, and work in flight.
func readAll(f *fold.Fold, id string) any {
	now := f.Watermark()
	req := fold.ReadRequest{ID: id}
	for _, a := range []string{"", "A", "B", "C", "D", slo.OtherGroup} {
		if req.Groups = append(req.Groups, slo.Group{a}); a == "" {
			req.Groups[0] = slo.Group{}
		}
	}
	for h := range 24 * 120 {
		to := now.Add(-time.Duration(h) * time.Hour)
		req.Spans = append(req.Spans, slo.Span{From: to.Add(-time.Hour), To: to})
	}
	sums := f.Sums(fold.Request{Now: now})
	var work []slo.InFlight
	for _, x := range sums.InFlight {
		if string(x.SLO) == id {
			x.Bytes = 0
			work = append(work, x)
		}
	}
	return []any{f.Read([]fold.ReadRequest{req}), work}
}

// TestRebuildIsAsIfCounted: with a changed definition, counts are those of an engine that had it from the first record
// on. Records are events, late ones, backfills, replays, refused events, drops, forgotten services and starts.
func TestRebuildIsAsIfCounted(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(seed, 7))
			changed := []string{"availability", "latency", "minutes", "shipping"}[:1+rng.IntN(4)]
			w := newRebuildWorld(t, fsystest.New(), rebuildConfig(), rebuildStart)
			w.forgets = seed%2 == 0
			w.start(true)
			w.traffic(rng, 150)
			beside := rand.New(rand.NewPCG(seed, 8))
			w.atStep(func(step string) {
				if step != StepRebuildRemoved {
					w.traffic(beside, 3)
				}
			})
			if rng.IntN(2) == 0 {
				w.stop()
				w.now.Add(int64(rng.IntN(100)) * int64(time.Minute))
				w.start(true)
			}
			w.traffic(rng, 50)
			w.change(rebuildConfig(changed...))
			w.traffic(rng, 30)
			w.rebuilt()
			w.traffic(rng, 30)
			if rng.IntN(2) == 0 {
				w.stop()
				w.start(true)
			}
			records := w.end()
			require.NotEmpty(t, w.reb.state.Done)
			for _, name := range changed {
				since, ok := w.state.Fold.Since("shop/" + name)
				require.True(t, ok)
				require.True(t, w.forgets || since.Equal(rebuildStart))
				w.requireSameCounts(records, w.cfg, "shop/"+name)
			}
		})
	}
}

// TestRebuildFromADamagedHistory: records that cannot be read are counted by nothing, and their time is unobserved, as
// for an engine whose log lost them.
func TestRebuildFromADamagedHistory(t *testing.T) {
	for seed := range uint64(3) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(seed, 13))
			changed := []string{"availability", "latency", "minutes", "shipping"}
			w := newRebuildWorld(t, fsystest.New(), rebuildConfig(), rebuildStart)
			w.start(true)
			w.traffic(rng, 200)
			before := w.records()
			var files []string
			testkit.Eventually(t, "some of the log is history", func() bool {
				names, err := w.disk.List("/data/history")
				require.NoError(t, err)
				files = slices.DeleteFunc(names, func(name string) bool { return !strings.HasSuffix(name, ".hist") })
				return len(files) > 4
			})
			slices.Sort(files)
			name := filepath.Join("/data/history", files[len(files)/2])
			data, err := w.disk.ReadFile(name)
			require.NoError(t, err)
			data[len(data)/3] ^= 1
			require.NoError(t, w.disk.WriteFile(name, data))
			w.damaged = true
			w.change(rebuildConfig(changed...))
			w.traffic(rng, 30)
			w.rebuilt()
			records := w.end()
			require.NotEmpty(t, w.reb.state.Done)
			readable := 0
			for _, rec := range records {
				if rec.Seq <= before[len(before)-1].Seq {
					readable++
				}
			}
			require.Less(t, readable, len(before))
			for _, name := range changed {
				w.requireSameReads(asIf(t, records, w.cfg, 0), "shop/"+name)
			}
			whole := asIf(t, before, w.cfg, 0)
			lacking := asIf(t, records[:readable], w.cfg, 0)
			require.NotEqual(t, readAll(whole, "shop/availability"), readAll(lacking, "shop/availability"))
		})
	}
}

// end stops the engine, and returns all records.
func (w *rebuildWorld) end() []wal.Record {
	require.NoError(w.t, w.eng.CatchUp(context.Background()))
	records := w.records()
	w.stop()
	return append(records, wal.Record{Seq: records[len(records)-1].Seq + 1, Time: w.now.Load(),
		Type: record.TypeHeartbeat, Payload: []byte{byte(record.BeatStop)}})
}

// TestRebuildAndPowerLoss: whenever the power is lost, the next start has the old counts or the rebuilt ones, as its
// log says, and gets the rebuilt ones in the end.
func TestRebuildAndPowerLoss(t *testing.T) {
	const crashes = 30
	for seed := range uint64(3) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(seed, 9))
			changed := []string{"latency", "shipping", "minutes"}
			w := newRebuildWorld(t, fsystest.New(), rebuildConfig(), rebuildStart)
			w.start(true)
			w.traffic(rng, 100)
			type crash struct {
				disk *fsystest.Mem
				at   time.Time
				op   string
			}
			var mu sync.Mutex
			var found []crash
			losing := rand.New(rand.NewPCG(seed, 12))
			take := func(op string) {
				mu.Lock()
				defer mu.Unlock()
				found = append(found, crash{w.disk.CrashClone(losing.IntN(101), losing.Int64()), time.Unix(0, w.now.Load()), op})
			}
			beside := rand.New(rand.NewPCG(seed, 10))
			var steps atomic.Int64 // since the definition changed
			var picking sync.Mutex
			pick := rand.New(rand.NewPCG(seed, 11))
			w.atStep(func(step string) {
				if steps.Load() < 20 {
					take(step)
				}
				if steps.Add(1); step != StepRebuildRemoved {
					w.traffic(beside, 3)
				}
			})
			w.change(rebuildConfig(changed...))
			w.disk.Before(func(op fsystest.Op, name string) {
				picking.Lock()
				hit := pick.IntN(4) == 0
				if strings.Contains(name, "rebuilt") {
					hit = true
				}
				picking.Unlock()
				if hit && steps.Load() < 20 {
					take(fmt.Sprint(op, " ", name))
				}
			})
			w.traffic(rng, 20)
			w.rebuilt()
			w.traffic(rng, 20)
			w.disk.Before(nil)
			w.stop()
			took := map[bool]int{}
			for _, at := range pick.Perm(len(found))[:min(crashes/3, len(found))] {
				x := found[at]
				r := newRebuildWorld(t, x.disk, w.cfg, x.at.Add(time.Minute))
				r.start(false)
				has := func() bool { return len(r.reb.state.Done) > 0 }
				took[has()]++
				records := r.end()
				for _, name := range changed {
					if defined := r.cfg; has() {
						r.requireSameCounts(records, defined, "shop/"+name)
					} else {
						r.requireSameCounts(records, &fold.Config{}, "shop/"+name)
					}
				}
				r = newRebuildWorld(t, x.disk, w.cfg, x.at.Add(time.Hour))
				r.start(true)
				r.rebuilt()
				r.traffic(rand.New(rand.NewPCG(1, 1)), 5)
				records = r.end()
				require.True(t, has(), x.op)
				for _, name := range changed {
					r.requireSameCounts(records, r.cfg, "shop/"+name)
				}
			}
			require.GreaterOrEqual(t, len(found), 30)
		})
	}
}

// TestServicesOfARebuild: a rebuild that begins between two configurations knows which events the engine stored then.
func TestServicesOfARebuild(t *testing.T) {
	r := NewRebuilds(fsystest.New(), "/data")
	cfg := rebuildConfig()
	r.begin(cfg)
	require.Equal(t, cfg.Services, r.servicesAt(7).Services)
	cfg.Services[1].AdmitUnknown = true
	require.True(t, r.noteServices(10, cfg))
	require.False(t, r.noteServices(11, cfg))
	require.False(t, r.servicesAt(9).Services[1].AdmitUnknown)
	require.Equal(t, cfg.Services, r.servicesAt(10).Services)
	require.Equal(t, cfg.Services, r.servicesAt(12).Services)
}

// TestRebuildShare: a rebuild rests so long that it works the share of the time that the settings say.
func TestRebuildShare(t *testing.T) {
	for share, rest := range map[float64]time.Duration{1: 0, 0.5: time.Second, 0.1: 9 * time.Second} {
		require.InDelta(t, rest, (&RebuildOptions{CPU: share}).rest(time.Second), 1e6, share)
	}
}

// BenchmarkRebuild is the CPU time of counting one SLO, by event, from a retained log: with a service that has all
// events, and with one that has one in twenty.
func BenchmarkRebuild(b *testing.B) {
	const events, size = 2_000_000, 100
	for _, other := range []int{0, 19} {
		b.Run(fmt.Sprintf("1-of-%d", other+1), func(b *testing.B) {
			dir := b.TempDir()
			log, err := wal.Open(
				wal.Options{FS: fsys.OS(), Dir: filepath.Join(dir, "wal"), SegmentBytes: 8 << 20})
			require.NoError(b, err)
			rng := rand.New(rand.NewPCG(1, 2))
			at := rebuildStart
			for range events / size {
				payload := record.AppendHead(nil, size, &event.Batch{}, nil)
				service := "shop"
				if rng.IntN(other+1) > 0 {
					service = "bank"
				}
				for range size {
					at = at.Add(time.Duration(rng.IntN(2_000_000)))
					payload = event.AppendBinary(payload, &event.Event{ID: fmt.Sprintf("ord-%d", rng.Uint32()), Time: at,
						Service: service, Type: "order", HasDuration: true, Duration: time.Duration(rng.ExpFloat64() * 1e8),
						Attributes: []event.Attr{{Name: "product", Value: fmt.Sprint("p-", rng.IntN(20))},
							{Name: "channel", Value: []string{"web", "app"}[rng.IntN(2)]}, {Name: "region", Value: "eu-1"}}})
				}
				require.NoError(b, log.Append([]wal.Pending{{Time: at.UnixNano(), Type: record.TypeEvents, Payload: payload}}))
			}
			store := retained.New(retained.Options{FS: fsys.OS(), Dir: filepath.Join(dir, "history"), Log: log,
				Describe: record.Describe, Form: record.Form(),
				Now: func() time.Time { return at }, Missing: func() int64 { return 0 },
				Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
			store.SetBounds(retained.Bounds{Age: 1000 * time.Hour, Bytes: 1 << 40})
			store.Offer(log.NextSeq())
			stop, ended := make(chan struct{}), make(chan error)
			go func() { ended <- store.Run(stop) }()
			testkit.Eventually(b, "all closed segments are retained", func() bool {
				_, _, waits := log.Closed(store.Floor())
				return store.Floor() > 1 && !waits
			})
			close(stop)
			require.NoError(b, <-ended)
			cfg := rebuildConfig("availability")
			var used time.Duration
			for b.Loop() {
				lone, err := fold.NewLone(cfg, []string{"shop/availability"})
				require.NoError(b, err)
				require.NoError(b, lone.Configure(cfg, rebuildStart.UnixNano()))
				l := newLoneFold(lone, log.FirstSeq())
				var before, after unix.Rusage
				require.NoError(b, unix.Getrusage(unix.RUSAGE_SELF, &before))
				require.NoError(b, l.catchUp(store.Source(), log.NextSeq()))
				require.NoError(b, unix.Getrusage(unix.RUSAGE_SELF, &after))
				used += time.Duration(after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano())
			}
			b.ReportMetric(float64(used)/float64(events*b.N), "cpu-ns/event")
		})
	}
}
