package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sloengine/sloengine/ingest/engine"
	"github.com/sloengine/sloengine/ingest/record"
	"github.com/sloengine/sloengine/reliability/metric"
	"github.com/sloengine/sloengine/slo/fold"
)

// evictEvery is how often it is looked whether parked generations must go.
const evictEvery = 10 * time.Second

// parking is what the engine retains of SLOs that are not in its spec: by how much,
// and what became of it. The fold has the generations, and a record of the log drops
// them.
type parking struct {
	budget  int64
	dedup   time.Duration
	list    atomic.Pointer[[]fold.Generation] // as of the last look
	evicted map[string]*metrics.Counter       // by reason
	failing bool                              // the last eviction failed
}

// The reasons for which parked generations go.
const (
	evictedExpired = "expired"
	evictedBudget  = "budget"
	evictedForget  = "forgotten"
)

func (a *App) newParking(set *metrics.Set) {
	c := &a.config
	a.parking = parking{budget: c.Parked.Memory, dedup: c.KnownIDs.MaxAge, evicted: map[string]*metrics.Counter{}}
	for _, reason := range []string{evictedExpired, evictedBudget, evictedForget} {
		a.parking.evicted[reason] = metric.FoldParkedEvicted.Counter(set, reason)
	}
	metric.FoldParkedLimitBytes.Read(set, func() float64 { return float64(c.Parked.Memory) })
}

// generations lists what is counted and what is parked.
func (a *App) generations(ctx context.Context) (all []fold.Generation, err error) {
	err = a.engine.Do(ctx, func() { all = a.fold.Generations(a.parking.dedup) })
	if err == nil {
		parked := slices.DeleteFunc(slices.Clone(all), func(g fold.Generation) bool { return g.Number == 0 })
		a.parking.list.Store(&parked)
	}
	return all, err
}

// evictParked writes, until ctx ends, what of the parked generations must go.
func (a *App) evictParked(ctx context.Context) error {
	if err := a.waitReady(ctx); err != nil {
		return nil //nolint:nilerr // only the context can end the wait
	}
	tick := time.NewTicker(evictEvery)
	defer tick.Stop()
	for {
		err := a.evictOnce(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && !a.parking.failing:
			a.log.Error("parked generations could not be evicted, retrying", "err", err)
		case err == nil && a.parking.failing:
			a.log.Info("parked generations can be evicted again")
		}
		a.parking.failing = err != nil
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (a *App) evictOnce(ctx context.Context) error {
	var f record.Forget
	var gone []fold.Generation
	var now time.Time
	var basis uint64
	err := a.engine.Do(ctx, func() {
		f.Generations, f.Services = a.fold.Evictions(a.parking.budget, a.parking.dedup)
		basis = a.engine.Position()
		if len(f.Generations)+len(f.Services) > 0 {
			now = a.fold.Watermark()
			gone = a.fold.Generations(a.parking.dedup)
		}
	})
	if err != nil {
		return err
	}
	if len(f.Generations)+len(f.Services) == 0 {
		return nil
	}
	gone = slices.DeleteFunc(gone, func(g fold.Generation) bool { return !slices.Contains(f.Generations, g.Number) })
	if err := a.engine.Forget(ctx, f, basis); err != nil {
		if errors.Is(err, engine.ErrConfigChanged) {
			return nil // the next look sees the new one
		}
		return err
	}
	for _, reason := range []string{evictedExpired, evictedBudget} {
		of := slices.DeleteFunc(slices.Clone(gone), func(g fold.Generation) bool { return g.Until.After(now) == (reason == evictedExpired) })
		if len(of) == 0 {
			continue
		}
		a.parking.evicted[reason].Add(len(of))
		a.log.Warn("parked counts evicted", "reason", reason, "slos", nameList(generationIDs(of)))
	}
	if len(f.Services) > 0 {
		a.log.Info("service has no counts any more, its ids were forgotten", "services", nameList(f.Services))
	}
	_, err = a.generations(ctx)
	return err
}

// generationIDs names the SLOs of generations, each once: what else is counted for an
// SLO, such as its bands, is named only where the SLO itself is not.
func generationIDs(list []fold.Generation) []string {
	ids := make([]string, len(list))
	for i, g := range list {
		ids[i] = g.ID
	}
	return sloIDs(ids)
}

func sloIDs(ids []string) []string {
	out := slices.DeleteFunc(append([]string{}, ids...), func(id string) bool {
		slo, _, extra := strings.Cut(id, "#")
		return extra && slices.Contains(ids, slo)
	})
	slices.Sort(out)
	return slices.Compact(out)
}

// nameList is a list for a log line, the first twenty of it.
func nameList(names []string) string {
	const most = 20
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], " "), len(names)-most)
	}
	return strings.Join(names, " ")
}
