package counting

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/ingest/record"
	"github.com/sloengine/sloengine/reliability/fsys/fsystest"
	"github.com/sloengine/sloengine/reliability/wal"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/fold"
	"github.com/sloengine/sloengine/slo/spec"
)

const heldSpec = `version: sloengine/v1
service: shop
types: [order, refund, created, shipped]
slos:
  - {name: availability, objective: %s, window: 7d, %s,
      indicator: {events: {valid: '{type=~"%s"}', bad: '{outcome="failure"}'}}}
  - {name: latency, objective: 90, window: 7d, group_by: [product], max_groups: 2,
     indicator: {latency: {valid: '{type="order"}', threshold: 100ms}}}
  - name: shipping
    objective: 90
    window: 7d
    group_by: [product]
    indicator:
      completion: {started: '{type="created"}', finished: '{type="shipped"}', key: order, within: %s}
---
version: sloengine/v1
service: bank
slos:
  - {name: availability, objective: 99, window: 7d, indicator: {events: {bad: '{outcome="failure"}'}}}
`

// The forms of the spec. They differ in two SLOs of the service shop.
var (
	specA = fmt.Sprintf(heldSpec, "99", "max_groups: 5, group_by: [channel]", "order", "1h")
	specB = fmt.Sprintf(heldSpec, "95", "group_by: [product]", "order|refund", "20m")
	specC = fmt.Sprintf(heldSpec, "90", "group_by: [product]", "refund", "30m")
	heldX = slo.ID("shop/availability")
)

func specOf(t *testing.T, text string) *Spec {
	sp, problems := spec.Load([]spec.File{{Name: "spec.yaml", Data: []byte(text)}})
	require.NoError(t, problems.Err())
	s, err := compileSpec(sp)
	require.NoError(t, err)
	return s
}

// startConfig is the configuration of a start.
func (w *rebuildWorld) startConfig(f *fold.Fold) []byte {
	if w.specs == nil {
		return w.encoded()
	}
	first := w.reb.AtStart(w.files, f, w.reb.counts.log)
	w.specs.Use(first)
	return first.Encoded
}

// reload puts a spec in force as a running engine does.
func (w *rebuildWorld) reload(text string) {
	w.reloading.Lock()
	defer w.reloading.Unlock()
	w.files = specOf(w.t, text)
	var held []fold.Generation
	w.ok(w.eng.Do(context.Background(), func() { held = w.state.Fold.Generations(0) }))
	next := w.reb.Holding(w.files, w.specs.InForce().Spec, held)
	w.ok(w.eng.SetConfig(context.Background(), next.Encoded))
	w.specs.Use(next)
}

// activate takes over definitions as a running engine does.
func (w *rebuildWorld) activate(ctx context.Context, ids []slo.ID, b record.Rebuilt, still func() bool) error {
	w.reloading.Lock()
	defer w.reloading.Unlock()
	if !still() {
		return ErrNotWanted
	}
	next, err := w.specs.InForce().Released(ids)
	if err == nil {
		err = w.eng.TakeOver(ctx, b, next.Encoded, w.eng.Position())
	}
	if err == nil {
		w.specs.Use(next)
	}
	return err
}

func newHeldWorld(t *testing.T, disk *fsystest.Mem, text string, now time.Time) *rebuildWorld {
	w := newRebuildWorld(t, disk, nil, now)
	w.files = specOf(t, text)
	w.specs = &Specs{}
	w.specs.Use(w.files)
	return w
}

// requireCountsOf says that all SLOs have the counts of a spec that was in force from the first record on, apart from
// those that began later.
func (w *rebuildWorld) requireCountsOf(records []wal.Record, text string) {
	w.t.Helper()
	var cfg, now fold.Config
	require.NoError(w.t, json.Unmarshal(specOf(w.t, text).Encoded, &cfg))
	require.NoError(w.t, json.Unmarshal(w.specs.InForce().Encoded, &now))
	w.cfg = &now
	for _, ind := range cfg.Indicators {
		w.requireSameCounts(records, &cfg, ind.ID)
	}
}

// TestHeldDefinition: until a changed definition has its counts, the earlier one counts with its objective, groups and
// alerts, and then the changed one has all that it would have counted.
func TestHeldDefinition(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(seed, 21))
			w := newHeldWorld(t, fsystest.New(), specA, rebuildStart)
			w.start(true)
			w.traffic(rng, 120)
			beside := rand.New(rand.NewPCG(seed, 22))
			seen := 0
			w.atStep(func(step string) {
				if step == StepRebuildRemoved {
					return
				}
				w.traffic(beside, 3)
				now := w.specs.InForce()
				x := findSLO(now.Spec, heldX)
				if step == StepRebuildTaken {
					require.Nil(t, now.Wanted)
					require.InDelta(t, 0.95, x.Objective.Ratio(), 1e-9)
					require.False(t, x.Earlier)
					return
				}
				seen++
				require.Equal(t, []slo.ID{heldX, "shop/shipping"}, now.Held)
				require.InDelta(t, 0.99, x.Objective.Ratio(), 1e-9)
				require.Equal(t, []string{"channel"}, x.GroupBy)
				require.True(t, x.Earlier)
				attrs, _ := w.specs.MergeBy([]byte("shop"))
				require.Contains(t, attrs, "product")
				require.Equal(t, []string{string(heldX), "shop/shipping"}, w.reb.Progress().Held)
			})
			w.reload(specB)
			w.traffic(rng, 20)
			if rng.IntN(2) == 0 {
				w.stop()
				w.start(true)
			}
			w.rebuilt()
			require.Nil(t, w.reb.Progress())
			require.GreaterOrEqual(t, seen, 2)
			w.traffic(rng, 10)
			w.requireCountsOf(w.end(), specB)
		})
	}
}

// TestHeldDefinitionAndPowerLoss: whenever the power is lost, the next start has the earlier definition with all that
// it counted, or the changed one with all that it would have counted.
func TestHeldDefinitionAndPowerLoss(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 31))
	w := newHeldWorld(t, fsystest.New(), specA, rebuildStart)
	w.start(true)
	w.traffic(rng, 80)
	type crash struct {
		disk *fsystest.Mem
		at   time.Time
	}
	var mu sync.Mutex
	var found []crash
	take := func() {
		mu.Lock()
		defer mu.Unlock()
		if len(found) < 400 {
			found = append(found, crash{w.disk.CrashClone(rng.IntN(101), rng.Int64()), time.Unix(0, w.now.Load())})
		}
	}
	w.atStep(func(string) { take() })
	w.disk.Before(func(fsystest.Op, string) { take() })
	w.reload(specB)
	w.rebuilt()
	w.disk.Before(nil)
	w.atStep(func(string) {})
	w.stop()
	took := map[bool]int{}
	for _, i := range rand.New(rand.NewPCG(3, 32)).Perm(len(found))[:min(30, len(found))] {
		x := found[i]
		r := newHeldWorld(t, x.disk, specB, x.at.Add(time.Minute))
		r.start(false)
		held := r.specs.InForce().Wanted != nil
		took[held]++
		records := r.end()
		if held {
			require.Equal(t, []slo.ID{heldX, "shop/shipping"}, r.specs.InForce().Held)
			r.requireCountsOf(records, specA)
		} else {
			r.requireCountsOf(records, specB)
		}
		r = newHeldWorld(t, x.disk, specB, x.at.Add(time.Hour))
		r.start(true)
		r.rebuilt()
		r.requireCountsOf(r.end(), specB)
	}
	require.Positive(t, took[true])
	t.Logf("earlier definitions after %d crashes, changed ones after %d", took[true], took[false])
}

// TestHeldDefinitionChangesAgain: a third definition cancels the rebuild of the second, and the first one stays in
// force until it has its counts; the first one itself goes on.
func TestHeldDefinitionChangesAgain(t *testing.T) {
	for _, third := range []string{specC, specA} {
		t.Run("", func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, 41))
			w := newHeldWorld(t, fsystest.New(), specA, rebuildStart)
			w.start(true)
			w.traffic(rng, 100)
			var once sync.Once
			w.atStep(func(step string) {
				if step == StepRebuildWritten {
					once.Do(func() { w.reload(third) })
				}
			})
			w.reload(specB)
			w.rebuilt()
			w.traffic(rng, 10)
			require.Equal(t, third, map[bool]string{true: specA, false: specC}[len(w.reb.state.Done) == 0])
			w.requireCountsOf(w.end(), third)
		})
	}
}

// TestAskAndCancelRebuild: a cancel puts the changed definitions in force without a past, and they can be rebuilt
// later, on demand. Both survive a kill.
func TestAskAndCancelRebuild(t *testing.T) {
	ctx := context.Background()
	rng := rand.New(rand.NewPCG(1, 51))
	w := newHeldWorld(t, fsystest.New(), specA, rebuildStart)
	w.start(false)
	w.traffic(rng, 100)
	_, err := w.reb.Ask(ctx, RebuildRequest{All: true, Cancel: true})
	require.ErrorIs(t, err, ErrNoRebuild)
	_, err = w.reb.Ask(ctx, RebuildRequest{SLOs: []string{"shop/unknown"}})
	require.ErrorIs(t, err, ErrUnknownSLO)
	w.reload(specB)
	done, err := w.reb.Ask(ctx, RebuildRequest{SLOs: []string{string(heldX)}, Cancel: true})
	require.NoError(t, err)
	require.Equal(t, RebuildAnswer{SLOs: []string{string(heldX)}, Activated: []string{string(heldX)}}, done)
	require.Equal(t, []slo.ID{"shop/shipping"}, w.specs.InForce().Held)
	done, err = w.reb.Ask(ctx, RebuildRequest{All: true, Cancel: true})
	require.NoError(t, err)
	require.Equal(t, []string{"shop/shipping"}, done.Activated)
	restart := func(rebuild bool) {
		w.stop()
		w = newHeldWorld(t, w.disk, specB, time.Unix(0, w.now.Load()).Add(time.Minute))
		w.start(rebuild)
	}
	restart(false)
	require.Nil(t, w.specs.InForce().Wanted)
	require.Nil(t, w.reb.Progress())
	since, _ := w.state.Fold.Since(string(heldX))
	require.True(t, since.After(rebuildStart))
	done, err = w.reb.Ask(ctx, RebuildRequest{SLOs: []string{string(heldX), "shop/shipping"}})
	require.NoError(t, err)
	require.Equal(t, []string{string(heldX), "shop/shipping"}, done.SLOs)
	restart(true)
	w.rebuilt()
	w.requireCountsOf(w.end(), specB)
	w.reb.o.Off = true
	_, err = w.reb.Ask(ctx, RebuildRequest{All: true})
	require.ErrorIs(t, err, ErrRebuildOff)
	require.Empty(t, slices.Clone(w.reb.waiting()))
}
