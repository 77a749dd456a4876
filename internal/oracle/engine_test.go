package oracle

import (
	"context"
	"encoding/binary"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/alerts/incident"
	"github.com/sloengine/sloengine/ingest/counter"
	"github.com/sloengine/sloengine/ingest/counting"
	"github.com/sloengine/sloengine/ingest/position"
	"github.com/sloengine/sloengine/ingest/record"
	"github.com/sloengine/sloengine/reliability/wal"
	"github.com/sloengine/sloengine/rules/series"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/sla/evaluator"
	"github.com/sloengine/sloengine/slo/fold"
	"github.com/sloengine/sloengine/slo/spec"
	"github.com/sloengine/sloengine/web/collector"
)

// loadOracle reads the specs of services as they are at a time.
func loadOracle(t testing.TB, services []string, now time.Duration) *spec.Spec {
	t.Helper()
	var files []spec.File
	for _, name := range services {
		text := oracleSpecs[name]
		if now >= redefinedAt {
			text = strings.NewReplacer(redefinition...).Replace(text)
		}
		if name == "till" && now >= correctionAt {
			text += oracleCorrection
		}
		files = append(files, spec.File{Name: name + ".yaml", Data: []byte(text)})
	}
	sp, problems := spec.Load(files)
	require.NoError(t, problems.Err())
	return sp
}

// oracleEngine is the engine from its log on: fold, evaluator, and the counters
// that Prometheus scrapes. Its time is what it is told.
type oracleEngine struct {
	t       testing.TB
	state   counting.FoldState
	eval    *evaluator.Evaluator
	payload []byte
}

func newOracleEngine(t testing.TB, sp *spec.Spec, at time.Time) *oracleEngine {
	t.Helper()
	f, err := fold.New(fold.Options{})
	require.NoError(t, err)
	e := &oracleEngine{
		t: t, state: counting.FoldState{Fold: f, Incidents: incident.NewBook(), Positions: position.NewBook(),
			Counters: counter.NewTable()}}
	e.eval, err = evaluator.New(evaluator.Options{
		Source: func(_ context.Context, req fold.Request) (*fold.Sums, error) { return f.Sums(req), nil },
	})
	require.NoError(t, err)
	e.apply(record.TypeHeartbeat, at, []byte{byte(record.BeatStart)})
	e.change(sp, at)
	return e
}

func (e *oracleEngine) apply(typ byte, at time.Time, payload []byte) {
	e.t.Helper()
	err := e.state.Apply(wal.Record{Type: typ, Time: at.UnixNano(), Payload: payload},
		func(_ int, _ []byte, reason string) {
			require.Fail(e.t, "event refused", reason)
		})
	require.NoError(e.t, err)
}

// restart is what the log says of an engine that comes up again.
func (e *oracleEngine) restart(at time.Time) {
	e.apply(record.TypeHeartbeat, at, []byte{byte(record.BeatStart)})
}

// change puts a spec in force, as a reload does.
func (e *oracleEngine) change(sp *spec.Spec, at time.Time) {
	e.t.Helper()
	in := counting.Inputs(sp)
	cfg, err := evaluator.Compile(in)
	require.NoError(e.t, err)
	encoded, err := counting.EncodeConfig(cfg, nil)
	require.NoError(e.t, err)
	require.NoError(e.t, e.eval.Change(in, func() error {
		e.apply(record.TypeConfig, at, encoded)
		return nil
	}))
}

// take folds what is received before a time, and then lets the engine evaluate. It returns the rest.
func (e *oracleEngine) take(events []*oracleEvent, replica int,
	now time.Duration) (rest []*oracleEvent, r *sla.Report) {
	e.t.Helper()
	rest = e.fold(events, replica, now)
	e.apply(record.TypeHeartbeat, oracleStart.Add(now), []byte{byte(record.BeatTick)})
	r, err := e.eval.Tick(context.Background(), oracleStart.Add(now))
	require.NoError(e.t, err)
	return rest, r
}

// fold folds what is received before a time, one record a second. It returns the rest.
func (e *oracleEngine) fold(events []*oracleEvent, replica int, now time.Duration) (rest []*oracleEvent) {
	e.t.Helper()
	for len(events) > 0 && events[0].received < now {
		second := events[0].received.Truncate(time.Second) + time.Second
		n := 0
		e.payload = e.payload[:0]
		for len(events) > 0 && events[0].received < min(second, now) {
			if replica < 0 || events[0].replica == replica {
				e.payload = append(e.payload, events[0].encoded...)
				n++
			}
			events = events[1:]
		}
		if n > 0 {
			head := append(binary.AppendUvarint(nil, uint64(n)), 0)
			e.apply(record.TypeEvents, oracleStart.Add(min(second, now)-1), append(head, e.payload...))
		}
	}
	return events
}

// scraped are the families that generated rules read.
var scraped = []string{series.Events.Name, series.PartEvents.Name, series.Info.Name, series.EngineEvents.Name}

// scrape gives out the counters as a scrape would find them.
func (e *oracleEngine) scrape(instance string, add func(series string, value float64)) {
	export(e.eval.Latest(), scraped, instance, add)
}

// export gives out some families of a report.
func export(r *sla.Report, families []string, instance string, add func(series string, value float64)) {
	var b strings.Builder
	for _, f := range collector.Families(r, nil) {
		if !slices.Contains(families, f.GetName()) {
			continue
		}
		for _, m := range f.Metric {
			b.Reset()
			b.WriteString(f.GetName() + `{job="sloengine",instance="` + instance + `"`)
			for _, l := range m.Label {
				b.WriteString("," + l.GetName() + `="` + l.GetValue() + `"`)
			}
			b.WriteString("}")
			add(b.String(), metricValue(m))
		}
	}
}

func metricValue(m *dto.Metric) float64 { return m.GetCounter().GetValue() + m.GetGauge().GetValue() }
