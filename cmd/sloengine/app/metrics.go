package app

import (
	"github.com/VictoriaMetrics/metrics"

	"github.com/sloengine/sloengine/reliability/metric"
	"github.com/sloengine/sloengine/slo/fold"
)

// ownMetrics are the figures that no single room owns: the fold's, which has no
// goroutine to count in, and those of the process.
func (a *App) ownMetrics() *metrics.Set {
	set := metrics.NewSet()
	stat := func(family *metric.Family, read func(*fold.Stats) float64, labels ...string) {
		family.Read(set, func() float64 {
			if st := a.foldStats.Load(); st != nil {
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
	metric.FoldFullSLOs.Read(set, func() float64 { return float64(len(fullGroups(a.foldStats.Load()))) })
	stat(metric.FoldBytes, func(s *fold.Stats) float64 { return float64(s.Bytes) })
	stat(metric.FoldParkedGenerations, func(s *fold.Stats) float64 { return float64(s.Parked) })
	stat(metric.FoldParkedBytes, func(s *fold.Stats) float64 { return float64(s.ParkedBytes) })
	a.newParking(set)

	a.reloadFailures = metric.ReloadFailures.Counter(set)
	metric.ReloadLastOK.Read(set, func() float64 {
		if a.specs.failed.Load() != nil {
			return 0
		}
		return 1
	})
	metric.BuildInfo.Read(set, func() float64 { return 1 }, a.opt.Version.Version, a.opt.Version.Revision, a.opt.Version.Go)
	return set
}
