package app

import (
	"fmt"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sloengine/sloengine/slo/fold"
)

// ownMetrics are the figures that no single room owns: the fold's, which has no
// goroutine to count in, and those of the process.
func (a *App) ownMetrics() *metrics.Set {
	set := metrics.NewSet()
	stat := func(name string, read func(*fold.Stats) float64) {
		set.NewGauge("sloengine_fold_"+name, func() float64 {
			if st := a.foldStats.Load(); st != nil {
				return read(st)
			}
			return 0
		})
	}
	stat("events_total", func(s *fold.Stats) float64 { return float64(s.Events) })
	stat("late_events_total", func(s *fold.Stats) float64 { return float64(s.Late) })
	stat("too_old_events_total", func(s *fold.Stats) float64 { return float64(s.TooOld) })
	stat("backfilled_events_total", func(s *fold.Stats) float64 { return float64(s.Backfilled) })
	stat("refused_events_total", func(s *fold.Stats) float64 { return float64(s.Refused) })
	stat(`plan_lookups_total{result="hit"}`, func(s *fold.Stats) float64 { return float64(s.PlanHits) })
	stat(`plan_lookups_total{result="miss"}`, func(s *fold.Stats) float64 { return float64(s.PlanMisses) })
	stat("groups", func(s *fold.Stats) float64 { return float64(s.Groups) })
	stat("evicted_groups_total", func(s *fold.Stats) float64 { return float64(s.Evicted) })
	set.NewGauge("sloengine_fold_full_slos", func() float64 { return float64(len(fullGroups(a.foldStats.Load()))) })
	stat("bytes", func(s *fold.Stats) float64 { return float64(s.Bytes) })
	stat("parked_generations", func(s *fold.Stats) float64 { return float64(s.Parked) })
	stat("parked_bytes", func(s *fold.Stats) float64 { return float64(s.ParkedBytes) })
	a.newParking(set)

	a.reloadFailures = set.NewCounter("sloengine_reload_failures_total")
	set.NewGauge("sloengine_reload_last_ok", func() float64 {
		if a.specs.failed.Load() != nil {
			return 0
		}
		return 1
	})
	set.NewGauge(fmt.Sprintf("sloengine_build_info{version=%q,revision=%q,goversion=%q}", a.opt.Version.Version, a.opt.Version.Revision, a.opt.Version.Go),
		func() float64 { return 1 })
	return set
}
