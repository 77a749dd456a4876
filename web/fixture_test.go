package web

import (
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/alerts/state"
	"github.com/sloengine/sloengine/internal/testkit/slotest"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/spec"
	"github.com/sloengine/sloengine/web/site"
	"github.com/sloengine/sloengine/web/status"
)

func init() { gin.SetMode(gin.TestMode) }

var noon = time.Date(2026, 11, 20, 12, 0, 7, 0, time.UTC)

// newCost is a price of bad events.
func newCost(t testing.TB, price, currency string) *slo.Cost {
	a, err := slo.ParseAmount(price)
	require.NoError(t, err)
	return &slo.Cost{Unit: slo.PerBad, Price: a, Currency: currency}
}

// newSLOReport makes a report whose numbers fit together: burn says how fast the
// last hour burned compared with the period.
func newSLOReport(s *slo.SLO, g slo.Group, good, bad uint64, burn float64) sla.SLOReport {
	r := sla.SLOReport{
		SLO: s, Group: g, Period: slo.Span{From: s.Window.Start(noon), To: noon}, Coverage: 1, Generation: 1,
		Since: noon.Add(-40 * 24 * time.Hour), Informative: g.IsOther(),
	}
	total := slo.Counts{Good: good, Bad: bad}
	r.Budget, r.Total, r.Events = slo.NewBudget(s.Objective, total), total, total
	r.Raw = r.Budget
	if total.Valid() > 0 {
		r.LastEvent, r.Rate = noon.Add(-9*time.Second), float64(total.Valid())/(30*24*3600)
	}
	for _, w := range slo.BurnWindows {
		v := uint64(float64(total.Valid()) * float64(w) / float64(30*24*time.Hour))
		k := math.Min(1, burn*math.Sqrt(float64(time.Hour)/float64(w))*s.Objective.Budget())
		b := uint64(math.Round(float64(v) * k))
		r.Burns = append(r.Burns, slo.NewBurn(w, slo.NewBudget(s.Objective, slo.Counts{Good: v - b, Bad: b})))
	}
	p := slo.NewBurn(r.Period.Duration(), r.Budget)
	p.Period = true
	r.Burns = append(r.Burns, p)
	r.RawBurns = r.Burns
	r.State = slo.Judge(30*24*time.Hour, r.Budget, r.Burns)
	return r
}

// insurance is a report like the demo's: three products and every state.
func insurance(t testing.TB) *sla.Report {
	month := slo.Window{Rolling: 30 * 24 * time.Hour}
	during, err := slo.ParseSchedule("Mon-Fri 09:00-18:00 Europe/Moscow")
	require.NoError(t, err)
	application := slo.Selector{slotest.Matcher(t, "type", slo.OpEqual, "application")}
	events := slo.Budgeting{Method: slo.Occurrences}
	base := func(name, percent string, ind slo.Indicator) *slo.SLO {
		return &slo.SLO{
			ID: slo.NewID("insurance-unpaid", name), Objective: slotest.Objective(t, percent), Window: month,
			Budgeting: events, Indicator: ind,
			GroupBy: []string{"product"}, Labels: map[string]string{"team": "unpaid"},
		}
	}
	availability := base("availability", "99.9", slo.Indicator{Kind: slo.KindEvents, Valid: application, Bad: slo.Selector{
		slotest.Matcher(t, "outcome", slo.OpEqual, "failure"), slotest.Matcher(t, "severity", slo.OpNotEqual, "business"),
	}})
	availability.Description = "Applications that were not broken by us or our partners."
	availability.Links = map[string]string{"dashboard": "https://grafana.example.org/d/1?a=b&c=d"}
	availability.Corrections = []slo.Correction{
		{Name: "db upgrade", Author: "ops", Reason: "planned", Start: noon.Add(-9 * time.Hour), Duration: 2 * time.Hour}}
	latency := base("latency", "95", slo.Indicator{Kind: slo.KindLatency, Valid: application, Threshold: 15 * time.Minute})
	quality := base("quality", "99",
		slo.Indicator{Kind: slo.KindEvents, Valid: application,
			Bad: slo.Selector{slotest.Matcher(t, "severity", slo.OpEqual, "business")}})
	throughput := base("throughput", "99",
		slo.Indicator{Kind: slo.KindThroughput, Valid: application, AtLeast: 100, Per: time.Minute, During: during})
	mdm := &slo.SLO{
		ID: "mdm/availability", Objective: slotest.Objective(t, "99.5"),
		Window: slo.Window{Calendar: slo.Month, Location: time.UTC}, Budgeting: events,
		Indicator: slo.Indicator{
			Kind: slo.KindEvents, Bad: slo.Selector{slotest.Matcher(t, "outcome", slo.OpEqual, "failure")}},
	}

	rep := &sla.Report{Version: 4211, Time: noon, Watermark: noon.Add(-time.Second), Took: 3 * time.Millisecond}
	add := func(s *slo.SLO, g slo.Group, good, bad uint64, burn float64) *sla.SLOReport {
		rep.SLOs = append(rep.SLOs, newSLOReport(s, g, good, bad, burn))
		return &rep.SLOs[len(rep.SLOs)-1]
	}
	corrected := add(availability, slo.Group{"MEDCARE"}, 1_281_204, 702, 0.3)
	corrected.Corrected = 2 * time.Hour
	corrected.Raw = slo.NewBudget(availability.Objective, slo.Counts{Good: 1_282_104, Bad: 1_177})
	add(availability, slo.Group{"SOMLT"}, 410_022, 981, 11)
	add(availability, slo.Group{"TRVL10"}, 96_120, 31, 18)
	add(latency, slo.Group{"MEDCARE"}, 1_240_000, 41_200, 0.6)
	add(latency, slo.Group{"SOMLT"}, 400_100, 10_900, 0.4)
	add(latency, slo.Group{"TRVL10"}, 95_800, 351, 0.1).Unmeasured = 12
	add(quality, slo.Group{"MEDCARE"}, 1_276_300, 5_606, 0.2)
	add(quality, slo.Group{"SOMLT"}, 409_000, 2_003, 0.5)
	add(quality, slo.Group{"TRVL10"}, 95_300, 851, 0.9)
	add(throughput, slo.Group{"MEDCARE"}, 11_870, 12, 0).Slice = time.Minute
	add(throughput, slo.Group{"SOMLT"}, 11_801, 81, 0).Slice = time.Minute
	missing := add(throughput, slo.Group{"TRVL10"}, 0, 0, 0)
	missing.Slice, missing.Coverage = time.Minute, 0.412
	add(mdm, nil, 2_404_101, 3_120, 0.4)

	names := []string{"availability", "latency", "throughput", "quality"}
	weights := []float64{0.4, 0.3, 0.2, 0.1}
	agreement := &sla.Agreement{Service: "insurance-unpaid", Name: "unpaid", GroupBy: []string{"product"}, Window: month,
		Method: sla.Attainment, NoData: sla.NoDataExclude, Warning: 95, Critical: 90}
	for _, product := range []string{"MEDCARE", "SOMLT", "TRVL10"} {
		r := sla.SLAReport{SLA: agreement, Group: slo.Group{product}, Period: slo.Span{From: month.Start(noon), To: noon},
			HasData: true, Worst: -1}
		sum, known := 0.0, 0.0
		for i, n := range names {
			s := site.FindSLO(rep, slo.NewID("insurance-unpaid", n), slo.Group{product})
			c := sla.ComponentReport{Name: n, SLO: s.SLO.ID, Weight: weights[i], HasData: s.Budget.HasData,
				Indicator: s.Budget.SLI, Objective: s.SLO.Objective.Ratio(), Counts: s.Budget.Counts, Coverage: s.Coverage}
			if c.HasData {
				c.Attainment = min(1, s.SLO.Objective.Budget()/(1-s.Budget.SLI))
				c.Points = c.Attainment
				c.Lost = 100 * c.Weight * (1 - c.Points)
				sum, known = sum+c.Weight*c.Points, known+c.Weight
				r.Breached = r.Breached || c.Attainment < 1
				if c.Lost > 0 && (r.Worst < 0 || c.Lost > r.Components[r.Worst].Lost) {
					r.Worst = i
				}
			} else {
				r.Missing++
			}
			r.Components = append(r.Components, c)
		}
		r.Score = 100 * sum / known
		r.Low, r.High = 100*sum, 100*(sum+1-known)
		r.Level = sla.LevelOK
		if r.Score < agreement.Warning {
			r.Level = sla.LevelWarning
		}
		if r.Score < agreement.Critical {
			r.Level = sla.LevelCritical
		}
		rep.SLAs = append(rep.SLAs, r)
	}

	limit := func(name string, warning, critical time.Duration, within, warn, crit uint64) {
		l := &slo.Threshold{Service: "insurance-unpaid", Name: name, Warning: warning, Critical: critical,
			Match: slo.Selector{slotest.Matcher(t, "task", slo.OpEqual, name)}}
		month := sla.Violations{Within: within, Warning: warn, Critical: crit}
		rep.Thresholds = append(rep.Thresholds,
			sla.ThresholdReport{Threshold: l, Total: month, Month: month,
				Day:       sla.Violations{Within: within / 30, Warning: warn / 30, Critical: crit / 30},
				LastEvent: noon.Add(-12 * time.Second)})
	}
	limit("createApplication", time.Minute, 0, 1_781_000, 412, 0)
	limit("mdm", 5*time.Second, 0, 2_407_221, 11_931, 0)
	limit("processing", 15*time.Minute, 30*time.Minute, 1_735_900, 52_451, 1_204)

	for _, product := range []string{"MEDCARE", "SOMLT"} {
		rep.Traffic = append(rep.Traffic,
			sla.TrafficReport{Service: "insurance-unpaid", Type: "application", Outcome: "success",
				DimensionNames: []string{"product"}, DimensionValues: []string{product}, Count: 1_281_204, LastEvent: noon},
			sla.TrafficReport{Service: "insurance-unpaid", Type: "application", Outcome: "failure", Severity: "critical",
				DimensionNames: []string{"product"}, DimensionValues: []string{product}, Count: 702, LastEvent: noon})
	}
	rep.Durations = []sla.DurationReport{{
		Service: "insurance-unpaid", Type: "application", Outcome: "success", DimensionNames: []string{"product"},
		DimensionValues: []string{"MEDCARE"}, Buckets: []time.Duration{time.Minute, 5 * time.Minute, 15 * time.Minute},
		Counts: []uint64{700, 200, 80, 20}, Sum: 123 * time.Hour, SumSeconds: (123 * time.Hour).Seconds(),
	}}
	return rep
}

// dayAndNight is a day and night rhythm with one bad hour.
func dayAndNight(id string, g slo.Group, hours []slo.Span) (rows [][]uint64) {
	if strings.Contains(id, "throughput") && len(g) > 0 && g[0] == "TRVL10" {
		return nil
	}
	for _, sp := range hours {
		at := sp.From
		n := 900 + 700*math.Sin(float64(at.Hour()-8)/24*2*math.Pi)
		v := uint64(n)
		bad := uint64(float64(v) * 0.0006 * (1 + math.Sin(float64(at.Hour()*7))))
		if at.Hour() == 9 && len(g) > 0 && g[0] != "MEDCARE" {
			bad = v / 60
		}
		if at.Hour() == 3 {
			v, bad = 0, 0
		}
		rows = append(rows, []uint64{v - bad, bad})
	}
	return rows
}

func readyStatus() status.Engine {
	return status.Engine{
		State: status.Ready, Progress: 1, Started: noon.Add(-52 * time.Hour),
		Ingest: status.IngestStatus{Received: 1_803_422, Accepted: 1_801_010, Duplicates: 2_204, Rejected: 208,
			Late: 14_022, Refused: 3},
		Log: status.LogStatus{Bytes: 412 << 20, Segments: 7, Seq: 1_802_113, HistoryBytes: 19 << 30,
			HistoryFrom: noon.Add(-19 * 24 * time.Hour), HistoryLimit: 19 << 30, HistoryReach: 19 * 24 * 3600,
			HistoryShort: "history reaches back 19 of the 30 days that checkout needs; 11.0 GiB more would do"},
		Checkpoint: status.CheckpointStatus{Time: noon.Add(-41 * time.Second), Bytes: 38 << 20},
		IDs:        status.IDStatus{Known: 1_801_010, Bytes: 57 << 20, WindowSeconds: 9 * 24 * 3600},
		Fold:       status.FoldStatus{Watermark: noon.Add(-time.Second), Groups: 42, Bytes: 6 << 20},
		Disk:       status.DiskStatus{Dir: "/var/lib/sloengine", FreeBytes: 71 << 30, LowBytes: 1 << 30},
		Spec:       status.SpecStatus{Loaded: noon.Add(-52 * time.Hour), Hash: "9f2c41d07a", SLOs: 5},

		Limits: []status.LimitStatus{{Layer: "global", Rule: "global", PerSecond: 10_000, Current: 412.5},
			{Layer: "type", Rule: "application", PerSecond: 1000, Current: 1204, Hits: 9_310}},
		Offenders: []status.OffenderStatus{{Context: "tenant", Value: "acme", Hits: 9_001, Error: 12}},
		Redis: &status.RedisStatus{Connected: true, Since: noon.Add(-52 * time.Hour),
			RoundTripSeconds: 0.00021, Fallbacks: 4},
		Breakers: []status.BreakerStatus{
			{Name: "warehouse", State: status.BreakerClosed, Since: noon.Add(-3 * time.Hour), Reason: "the probes succeeded"}},
		Bulkheads: []status.BulkheadStatus{{Name: "warehouse", Active: 2, Concurrency: 10, Queue: 20, Rejected: 7}},
		Sinks: []status.SinkStatus{
			{
				Name: "warehouse", Kind: "http", LagRecords: 12, LagBytes: 8 << 10, MaxLagBytes: 1 << 30, OldestAgeSeconds: 1.5,
				InFlight: 2, Delivered: 1_801_001, Retries: 31,
				DeadLetters: map[string]uint64{"expired": 2}, LastDelivery: noon.Add(-time.Second),
				LastError: "503 Service Unavailable", LastErrorAt: noon.Add(-3 * time.Hour), Breaker: status.BreakerClosed,
			},
			{Name: "archive", Kind: "file", Delivered: 1_801_010, LastDelivery: noon.Add(-time.Second)},
		},
		Alertmanagers: []status.AlertmanagerStatus{{
			Name: "am-1:9093", URL: "http://am-1:9093", Sent: 1_204, LastSuccess: noon.Add(-30 * time.Second),
			LastSuccessSeconds: 0.0042, Breaker: status.BreakerClosed,
		}},
		Reports: []status.ReportStatus{{
			Name: "monthly", Every: "month", Next: noon.Add(10 * 24 * time.Hour), Targets: []status.ReportTarget{
				{Kind: "folder", Name: "/srv/reports", Period: "2026-10", Outcome: "sent", At: noon.Add(-19 * 24 * time.Hour)},
				{Kind: "email", Name: "ops@example.org"},
			},
		}},
		DeadLetters: &status.DeadLetterStatus{Storage: "memory", Count: 3, Bytes: 900, Oldest: noon.Add(-3 * time.Hour),
			ByOrigin: map[string]int64{"fold": 1, "sink": 2}, ByReason: map[string]int64{"expired": 2, "attribute too long": 1},
			BySink: map[string]int64{"warehouse": 2}},
	}
}

// someAlerts are one alert in every state, and one on all groups of an SLO.
func someAlerts() []state.Alert {
	base := func(name, severity string, urgent bool, id slo.ID, is state.State, group ...string) state.Alert {
		a := state.Alert{
			Name: name, Severity: severity, Urgent: urgent, Service: "insurance-unpaid", SLO: id, State: is,
			Group: group, Value: 0.0173,
			ActiveSince: noon.Add(-14 * time.Minute), FirstBad: noon.Add(-15 * time.Minute),
			Labels: []state.Label{{Name: "alertname", Value: name}},
		}
		if len(group) > 0 {
			a.GroupBy, a.Labels = []string{"product"}, append(a.Labels, state.Label{Name: "product", Value: group[0]})
		}
		a.Labels = append(a.Labels, []state.Label{{Name: "service", Value: "insurance-unpaid"},
			{Name: "severity", Value: severity}, {Name: "slo_id", Value: string(id)}}...)
		a.Fingerprint = name + string(is)
		if is != state.Pending {
			a.FiredAt = noon.Add(-13 * time.Minute)
		}
		return a
	}
	const trvl = "TRVL10"
	page := base("ErrorBudgetBurnPage", "page", true, "insurance-unpaid/availability", state.Firing, trvl)
	page.Labels = append(page.Labels, state.Label{Name: "slo_long", Value: "1h"},
		state.Label{Name: "slo_short", Value: "5m"}, state.Label{Name: "slo_tier", Value: "page-1h"})
	slices.SortFunc(page.Labels, func(a, b state.Label) int { return strings.Compare(a.Name, b.Name) })
	over := base("ErrorBudgetBurnPage", "page", true, "insurance-unpaid/availability", state.Resolved, trvl)
	over.ActiveSince, over.FirstBad, over.FiredAt, over.ResolvedAt = noon.Add(-9*time.Hour),
		noon.Add(-9*time.Hour-time.Minute), noon.Add(-9*time.Hour), noon.Add(-8*time.Hour)
	score := base("CompositeSLAWarning", "warning", false, "", state.Pending, trvl)
	score.Agreement = "unpaid"
	return []state.Alert{
		over, score, base("SLONoData", "warning", false, "insurance-unpaid/throughput", state.Firing), page,
		base("ErrorBudgetExhausted", "ticket", false, "insurance-unpaid/availability", state.Firing, "SOMLT"),
	}
}

// bench is a Web whose parts a test can change between requests.
type bench struct {
	t      testing.TB
	rep    *sla.Report
	alerts []state.Alert
	held   []state.Held
	eng    status.Engine
	now    time.Time
	opt    site.Options
	router *gin.Engine
	web    *Web
}

func newBench(t testing.TB, change ...func(*site.Options)) *bench {
	b := &bench{t: t, rep: insurance(t), alerts: someAlerts(), eng: readyStatus(), now: noon.Add(3 * time.Second)}
	b.opt = site.Options{
		Numbers: site.Numbers{
			Report: func() *sla.Report { return b.rep }, Counts: b.counts,
			Source: func(id slo.ID) (spec.Source, bool) {
				return spec.Source{Position: spec.Position{File: "specs/insurance.yaml", Line: 12}},
					id.Service() == "insurance-unpaid"
			},
		},
		Condition: site.Condition{Engine: func() status.Engine { return b.eng }},
		Alerting: site.Alerting{
			Alerts: func() *state.View { return &state.View{Active: b.alerts, Held: b.held} }, AlertsKept: 24 * time.Hour,
		},
		Now: func() time.Time { return b.now }, Version: site.Version{Version: "1.0.0", Revision: "abc1234", Go: "go1.26"},
		DLQ: someDeadLetters(t),
	}
	for _, f := range change {
		f(&b.opt)
	}
	if b.opt.May == nil && b.opt.Allow == nil {
		b.opt.May = func(*gin.Context, site.Permission) bool { return true }
	}
	var err error
	b.web, err = New(b.opt)
	require.NoError(t, err)
	b.router = gin.New()
	b.web.Register(b.router)
	return b
}

func (b *bench) do(method, target string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, nil)
	r.Host = "127.0.0.1:8080"
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	rec := httptest.NewRecorder()
	b.router.ServeHTTP(rec, r)
	return rec
}

func (b *bench) get(target string, header ...string) *httptest.ResponseRecorder {
	return b.do(http.MethodGet, target, header...)
}
