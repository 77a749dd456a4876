package counting

import (
	"context"
	"encoding/json"
	"log/slog"
	"reflect"
	"strings"
	"sync/atomic"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sloengine/sloengine/ingest/engine"
	"github.com/sloengine/sloengine/reliability/metric"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/fold"
)

// Counts queries the counts of the fold, which belongs to the engine's reader.
type Counts struct {
	fold   *fold.Fold // used within engine.Do only
	engine *engine.Engine
	log    *slog.Logger
	stats  atomic.Pointer[fold.Stats] // as of the last tick; nil before the first
}

// NewCounts defines the metrics of the fold in set.
func NewCounts(f *fold.Fold, e *engine.Engine, set *metrics.Set, log *slog.Logger) *Counts {
	c := &Counts{fold: f, engine: e, log: log}
	// The fold has no goroutine of its own that could count.
	stat := func(family *metric.Family, read func(*fold.Stats) float64, labels ...string) {
		family.Read(set, func() float64 {
			if st := c.stats.Load(); st != nil {
				return read(st)
			}
			return 0
		}, labels...)
	}
	stat(metric.FoldEvents, func(s *fold.Stats) float64 { return float64(s.Events) })
	stat(metric.FoldLateEvents, func(s *fold.Stats) float64 { return float64(s.Late) })
	stat(metric.FoldTooOldEvents, func(s *fold.Stats) float64 { return float64(s.TooOld) })
	stat(metric.FoldBackfilledEvents, func(s *fold.Stats) float64 { return float64(s.Backfilled) })
	stat(metric.FoldRefusedEvents, func(s *fold.Stats) float64 { return float64(s.Refused) })
	stat(metric.FoldPlanLookups, func(s *fold.Stats) float64 { return float64(s.PlanHits) }, "hit")
	stat(metric.FoldPlanLookups, func(s *fold.Stats) float64 { return float64(s.PlanMisses) }, "miss")
	stat(metric.FoldGroups, func(s *fold.Stats) float64 { return float64(s.Groups) })
	stat(metric.FoldEvictedGroups, func(s *fold.Stats) float64 { return float64(s.Evicted) })
	stat(metric.FoldFullSLOs, func(s *fold.Stats) float64 { return float64(len(FullGroups(s))) })
	stat(metric.FoldUntracked, func(s *fold.Stats) float64 { return float64(s.Untracked) })
	stat(metric.FoldBytes, func(s *fold.Stats) float64 { return float64(s.Bytes) })
	stat(metric.FoldParkedGenerations, func(s *fold.Stats) float64 { return float64(s.Parked) })
	stat(metric.FoldParkedBytes, func(s *fold.Stats) float64 { return float64(s.ParkedBytes) })
	return c
}

// Ready is closed once the counts hold everything that is in the log.
func (c *Counts) Ready() <-chan struct{} { return c.engine.Ready() }

// Stats are those of the last tick; nil before the first.
func (c *Counts) Stats() *fold.Stats { return c.stats.Load() }

// Do calls f with the fold at one position of the log, on the goroutine that owns it.
func (c *Counts) Do(ctx context.Context, f func(*fold.Fold)) error {
	return c.engine.Do(ctx, func() { f(c.fold) })
}

// InForce reports whether what a spec counts is in force.
func (c *Counts) InForce(ctx context.Context, s *Spec) (yes bool) {
	var cfg fold.Config
	if json.Unmarshal(s.Encoded, &cfg) != nil {
		return false
	}
	err := c.engine.Do(ctx, func() { yes = reflect.DeepEqual(&cfg, c.fold.Config()) })
	return yes && err == nil
}

// Seal calls f with the fold and the number of the last record that it holds. No record is applied meanwhile.
func (c *Counts) Seal(ctx context.Context, f func(f *fold.Fold, position uint64) error) error {
	var err error
	if done := c.engine.Do(ctx, func() { err = f(c.fold, c.engine.Position()) }); done != nil {
		return done
	}
	return err
}

// Sums answers the evaluator. They are those behind the record with the number folded.
func (c *Counts) Sums(ctx context.Context, req fold.Request) (out *fold.Sums, folded uint64, err error) {
	if err := c.engine.Do(ctx, func() { out, folded = c.fold.Sums(req), c.engine.Position() }); err != nil {
		return nil, 0, err
	}
	c.logRoom(c.stats.Swap(&out.Stats), &out.Stats)
	return out, folded, nil
}

// Read answers queries at one position of the log.
func (c *Counts) Read(ctx context.Context, queries []fold.ReadRequest) (out []fold.ReadResult, err error) {
	err = c.engine.Do(ctx, func() { out = c.fold.Read(queries) })
	return out, err
}

// Undropped is the share of the events offered to each counter that no rate limit dropped.
func (c *Counts) Undropped(ctx context.Context, ids []string, sp slo.Span) (out []float64, err error) {
	err = c.engine.Do(ctx, func() { out = c.fold.Kept(ids, sp) })
	return out, err
}

// FullGroups lists the SLOs that cannot have another group. An SLO that is counted in
// several ways, such as for the bands of an agreement, is listed once.
func FullGroups(st *fold.Stats) (out []FullStatus) {
	if st == nil {
		return nil
	}
	for _, f := range st.Full {
		id, _, _ := strings.Cut(f.Indicator, "#")
		x := FullStatus{SLO: id, MaxGroups: f.MaxGroups, Other: f.Other}
		if n := len(out) - 1; n >= 0 && out[n].SLO == id {
			out[n].Other = max(out[n].Other, x.Other)
		} else {
			out = append(out, x)
		}
	}
	return out
}

// CrowdedWork lists the SLOs that cannot track more work.
func CrowdedWork(st *fold.Stats) (out []CrowdedStatus) {
	if st == nil {
		return nil
	}
	for _, x := range st.Crowded {
		out = append(out, CrowdedStatus{SLO: x.Indicator, MaxInFlight: x.MaxInFlight, Untracked: x.Untracked})
	}
	return out
}

// logRoom logs which SLOs ran out of groups or of room for work, and which have room again.
func (c *Counts) logRoom(before, now *fold.Stats) {
	added(FullGroups(before), FullGroups(now), func(f FullStatus) string { return f.SLO }, func(f FullStatus) {
		c.log.Warn("SLO reached max_groups, new values share the group __other__, which never alerts", "slo", f.SLO,
			"max_groups", f.MaxGroups)
	}, func(f FullStatus) {
		c.log.Info("SLO is below max_groups again", "slo", f.SLO, "max_groups", f.MaxGroups)
	})
	added(CrowdedWork(before), CrowdedWork(now), func(x CrowdedStatus) string { return x.SLO }, func(x CrowdedStatus) {
		c.log.Warn("SLO reached max_in_flight, work that starts now is not tracked and lowers coverage", "slo", x.SLO,
			"max_in_flight", x.MaxInFlight)
	}, func(x CrowdedStatus) {
		c.log.Info("SLO is below max_in_flight again", "slo", x.SLO, "max_in_flight", x.MaxInFlight)
	})
}

// added calls begin for elements that are only in now, and end for those that are only in before.
func added[T any](before, now []T, id func(T) string, begin, end func(T)) {
	each := func(list, other []T, do func(T)) {
		known := make(map[string]bool, len(other))
		for _, x := range other {
			known[id(x)] = true
		}
		for _, x := range list {
			if !known[id(x)] {
				do(x)
			}
		}
	}
	each(now, before, begin)
	each(before, now, end)
}
