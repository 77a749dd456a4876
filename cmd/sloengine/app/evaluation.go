package app

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sloengine/sloengine/alerts/backtest"
	"github.com/sloengine/sloengine/cmd/sloengine/app/config"
	"github.com/sloengine/sloengine/cmd/sloengine/app/reports"
	"github.com/sloengine/sloengine/ingest/counting"
	"github.com/sloengine/sloengine/ingest/record"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/sla/evaluator"
	"github.com/sloengine/sloengine/sla/history"
	"github.com/sloengine/sloengine/sla/outlook"
	"github.com/sloengine/sloengine/sla/report"
	"github.com/sloengine/sloengine/slo/fold"
	"github.com/sloengine/sloengine/slo/spec"
)

// evaluation makes reports of the counts.
type evaluation struct {
	*evaluator.Evaluator
	counts   *counting.Counts
	parking  *counting.Parking
	changes  *counting.Changes
	rebuilds *counting.Rebuilder
	traffic  *history.TrafficLog
	tries    *backtest.Runner // of specs on the past
	outlooks *outlook.Keeper  // nil if nothing is forecast
	folded   uint64           // the last record that the tick under way sees
	log      *slog.Logger
}

func (b *builder) evaluation(s *storage, alerts *liveAlerts) (*evaluation, error) {
	c := &b.config
	e := &evaluation{traffic: history.NewTrafficLog(), log: b.Log}
	e.counts = counting.NewCounts(s.fold, s.engine, b.set, b.Log)
	e.parking = counting.NewParking(c.Parked.Memory, c.Dedup.MaxAge, e.counts, b.set)
	e.rebuilds = counting.NewRebuilder(s.rebuilds, counting.RebuildOptions{Off: c.Rebuild.Off, CPU: c.Rebuild.V.CPU,
		Specs: b.specs, Metrics: b.set}, e.counts)
	s.rebuilder = e.rebuilds
	e.changes = counting.NewChanges(e.parking, b.specs, e.rebuilds, b.Log)
	file := filepath.Join(b.DataDir, ForecastsFile)
	outlooks, complete, observe, err := newOutlooks(c, e.counts.Read, file, b.set, b.Log)
	if err != nil {
		return nil, err
	}
	e.outlooks = outlooks
	ticks := counting.NewTickLog(s.engine.WriteTicks, b.Log)
	e.Evaluator, err = evaluator.New(evaluator.Options{
		Source: func(ctx context.Context, req fold.Request) (out *fold.Sums, err error) {
			out, e.folded, err = e.counts.Sums(ctx, req)
			return out, err
		},
		OnRefused: ticks.Refuse,
		OnReport: func(r *sla.Report) {
			alerts.step(r, func(before time.Time, states uint32) {
				ticks.Note(record.Tick{Time: r.Time.UnixNano(), Folded: e.folded, States: states}, before)
			})
			e.traffic.Observe(r)
			observe(r)
		},
		Complete: complete,
		Refused:  s.engine.ClockJumped,
		Interval: c.Evaluator.Interval,
		Metrics:  evaluator.NewMetrics(b.set),
		Logger:   b.Log,
	})
	if err != nil {
		return nil, fmt.Errorf("create evaluator: %w", err)
	}
	if err := e.SetSpec(b.first.Inputs); err != nil {
		return nil, fmt.Errorf("evaluate spec: %w", err)
	}
	return e, nil
}

// tries replays the log for those who ask it.
func (b *builder) tries(p *parts) *backtest.Runner {
	return backtest.NewRunner(backtest.RunnerOptions{
		Source: p.storage.engine.History().Source(), Interval: b.config.Evaluator.Interval, Alerts: b.config.AlertOptions(),
		Now:     time.Now,
		InForce: func() *spec.Spec { return b.specs.InForce().Spec }, Incidents: p.incidents.View,
		LogError: func(msg string, err error) { b.Log.Error(msg, "err", err) },
	})
}

// seal reports as of one position of the log, which another process makes the same of.
func (b *builder) seal(p *parts) func(context.Context, time.Time, func(*sla.Report, report.Source) error) (*report.Seal,
	error) {
	counts, history := p.evaluation.counts, p.storage.engine.History()
	return func(ctx context.Context, at time.Time, do func(*sla.Report, report.Source) error) (*report.Seal, error) {
		out := &report.Seal{}
		in := b.specs.InForce().Inputs
		if err := counts.Seal(ctx, func(f *fold.Fold, position uint64) error {
			out.Position, out.Evaluated = position, at.UTC()
			return reports.AsOf(ctx, f, in, out.Evaluated, do)
		}); err != nil {
			return nil, err
		}
		if history.Bounds().Age == 0 {
			return out, nil
		}
		sum, err := history.Source().Digest(ctx, out.Position)
		if err != nil {
			return nil, fmt.Errorf("digest of the log: %w", err)
		}
		out.Digest = sum.String()
		return out, nil
	}
}

// ForecastsFile keeps how well forecasts did.
const ForecastsFile = "forecasts.json"

// newOutlooks makes what forecasts, and what the evaluator calls to complete a report and when it has made one. The
// keeper is nil if the settings forecast nothing.
func newOutlooks(c *config.Config, counts history.CountsFunc, file string, set *metrics.Set,
	log *slog.Logger) (k *outlook.Keeper, complete, observe func(*sla.Report), err error) {
	if c.Forecast.Groups == 0 {
		nothing := func(*sla.Report) {}
		return nil, nothing, nothing, nil
	}
	k, err = outlook.New(outlook.Options{
		Counts: counts, Groups: c.Forecast.Groups, File: file, Metrics: outlook.NewMetrics(set), Logger: log,
	})
	if err != nil {
		return nil, nil, nil, err
	}
	return k, k.Complete, k.Observe, nil
}
