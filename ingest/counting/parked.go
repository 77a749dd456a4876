package counting

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
	"github.com/sloengine/sloengine/internal/every"
	"github.com/sloengine/sloengine/reliability/health"
	"github.com/sloengine/sloengine/reliability/metric"
	"github.com/sloengine/sloengine/slo/fold"
	"github.com/sloengine/sloengine/slo/inflight"
)

// evictEvery is how often it is looked whether parked generations must go.
const evictEvery = 10 * time.Second

// Parking manages the counts that the engine retains for SLOs that are not in its spec. The fold
// has the generations, and a record of the log drops them.
type Parking struct {
	*Counts
	budget  int64                             // bytes
	dedup   time.Duration                     // the dedup window
	list    atomic.Pointer[[]fold.Generation] // as of the last look
	evicted map[string]*metrics.Counter       // by reason
}

// The reasons for which parked generations go.
const (
	evictedExpired = "expired"
	evictedBudget  = "budget"
	evictedForget  = "forgotten"
)

// NewParking retains parked generations within a budget of bytes, and for the dedup window at least.
func NewParking(budget int64, dedup time.Duration, counts *Counts, set *metrics.Set) *Parking {
	p := &Parking{Counts: counts, budget: budget, dedup: dedup, evicted: map[string]*metrics.Counter{}}
	for _, reason := range []string{evictedExpired, evictedBudget, evictedForget} {
		p.evicted[reason] = metric.FoldParkedEvicted.Counter(set, reason)
	}
	metric.FoldParkedLimitBytes.Read(set, func() float64 { return float64(p.budget) })
	return p
}

// look lists the active and the parked generations.
func (p *Parking) look(ctx context.Context) (all []fold.Generation, err error) {
	err = p.engine.Do(ctx, func() { all = p.fold.Generations(p.dedup) })
	if err == nil {
		parked := slices.DeleteFunc(slices.Clone(all), func(g fold.Generation) bool { return g.Number == 0 })
		p.list.Store(&parked)
	}
	return all, err
}

// Evict writes, until ctx ends, records that drop parked generations.
func (p *Parking) Evict(ctx context.Context) error {
	evicting := health.Log{
		Logger: p.log, Broken: "evicting parked generations failed, retrying",
		Works: "evicting parked generations succeeds again",
	}
	for range every.Tick(ctx, evictEvery) {
		if err := p.evictOnce(ctx); ctx.Err() == nil {
			evicting.Note(err)
		}
	}
	return nil
}

func (p *Parking) evictOnce(ctx context.Context) error {
	var f record.Forget
	var gone []fold.Generation
	var now time.Time
	var basis uint64
	err := p.engine.Do(ctx, func() {
		f.Generations, f.Services = p.fold.Evictions(p.budget, p.dedup)
		basis = p.engine.Position()
		if len(f.Generations)+len(f.Services) > 0 {
			now = p.fold.Watermark()
			gone = p.fold.Generations(p.dedup)
		}
	})
	if err != nil {
		return err
	}
	if len(f.Generations)+len(f.Services) == 0 {
		return nil
	}
	gone = slices.DeleteFunc(gone, func(g fold.Generation) bool { return !slices.Contains(f.Generations, g.Number) })
	if err := p.engine.Forget(ctx, f, basis); err != nil {
		if errors.Is(err, engine.ErrConfigChanged) {
			return nil // the next look sees the new one
		}
		return err
	}
	for _, reason := range []string{evictedExpired, evictedBudget} {
		of := slices.DeleteFunc(slices.Clone(gone), func(g fold.Generation) bool {
			return g.Until.After(now) == (reason == evictedExpired)
		})
		if len(of) == 0 {
			continue
		}
		p.evicted[reason].Add(len(of))
		p.log.Warn("parked counts evicted", "reason", reason, "slos", nameList(generationIDs(of)))
	}
	if len(f.Services) > 0 {
		p.log.Info("service has no counts left, forgot its ids", "services", nameList(f.Services))
	}
	_, err = p.look(ctx)
	return err
}

// generationIDs names the SLOs of generations, each once: a derived generation, such as that of a
// band, is named only if the SLO itself is absent.
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

// Forget drops the counts of a service, and its ids, by a record of the log.
func (p *Parking) Forget(ctx context.Context, r ForgetRequest) (done Forgotten, err error) {
	done.Service = r.Service
	var held, inUse bool
	var all []fold.Generation
	var basis uint64
	err = p.engine.Do(ctx, func() {
		held, inUse = p.fold.Holds(r.Service)
		all, basis = p.fold.Generations(p.dedup), p.engine.Position()
	})
	switch {
	case err != nil:
		return done, err
	case !held && !inUse:
		return done, ErrNothingCounted
	case inUse && !r.Restart:
		return done, ErrServiceInUse
	}
	err = p.engine.Forget(ctx, record.Forget{Services: []string{r.Service}}, basis)
	if errors.Is(err, engine.ErrConfigChanged) {
		return done, ErrSpecChanged
	}
	if err != nil {
		return done, err
	}
	for _, g := range all {
		switch {
		case g.Service != r.Service:
		case g.Number > 0:
			done.Parked++
		default:
			done.Restarted++
		}
	}
	p.evicted[evictedForget].Add(done.Parked)
	p.log.Warn("forgot counts and ids of service", "service", r.Service, "parked", done.Parked,
		"restarted", done.Restarted)
	_, err = p.look(ctx)
	return done, err
}

// EraseKeys removes the readable text of the keys of work in flight that have the value of an attribute, by a record
// of the log, and returns their number. A dry run only counts them.
func (p *Parking) EraseKeys(ctx context.Context, attribute, value string, dry bool) (n int, err error) {
	key := record.Key{Attribute: attribute, Hash: inflight.Hash([]byte(value))}
	var basis uint64
	err = p.engine.Do(ctx, func() { n, basis = p.fold.ReadableKeys(attribute, key.Hash), p.engine.Position() })
	if err != nil || n == 0 || dry {
		return n, err
	}
	return n, p.engine.Forget(ctx, record.Forget{Keys: []record.Key{key}}, basis)
}

// Generations lists the active and the parked generations.
func (p *Parking) Generations(ctx context.Context) ([]fold.Generation, error) { return p.look(ctx) }

// Parked lists the generations that were parked at the last look.
func (p *Parking) Parked() []fold.Generation {
	if list := p.list.Load(); list != nil {
		return slices.Clone(*list)
	}
	return nil
}

// Status is the memory that parked generations take.
func (p *Parking) Status() ParkedStatus {
	s := ParkedStatus{LimitBytes: p.budget}
	if list := p.list.Load(); list != nil {
		s.Generations = len(*list)
		for _, g := range *list {
			s.Bytes += g.Bytes
		}
	}
	return s
}
