package web

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/internal/testkit/slotest"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/sla/history"
	"github.com/sloengine/sloengine/sla/report"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/fold"
	"github.com/sloengine/sloengine/web/api"
	"github.com/sloengine/sloengine/web/api/v1"
)

// tableCounts answers from a table of bins per hour: counter, group, hour since from.
type tableCounts struct {
	from     time.Time
	oldest   time.Time
	hourly   time.Time
	observed []slo.Span
	since    map[string]time.Time // by counter: observed only from then on
	edges    map[string][]time.Duration
	sliced   map[string]bool
	hours    map[string]func(hour int) []uint64 // by counter and group
	asked    int
	most     int // cells of a request
}

func (c *tableCounts) counts(_ context.Context, qs []fold.ReadRequest) ([]fold.ReadResult, error) {
	var out []fold.ReadResult
	cells := 0
	for _, q := range qs {
		c.asked++
		cells += len(q.Groups) * len(q.Spans)
		a := fold.ReadResult{Known: true, Oldest: c.oldest, Hourly: c.hourly, Observed: c.observed, Edges: c.edges[q.ID],
			Sliced: c.sliced[q.ID]}
		if at, ok := c.since[q.ID]; ok {
			a.Observed = []slo.Span{{From: at, To: at.Add(365 * 24 * time.Hour)}}
		}
		for _, g := range q.Groups {
			f := c.hours[q.ID+"|"+g.Key()]
			if f == nil {
				a.Groups = append(a.Groups, nil)
				continue
			}
			rows := make([][]uint64, len(q.Spans))
			for k, sp := range q.Spans {
				rows[k] = make([]uint64, len(f(0)))
				for at := sp.From; at.Before(sp.To); at = at.Add(time.Hour) {
					if at.Before(c.oldest) {
						continue
					}
					for b, n := range f(int(at.Sub(c.from) / time.Hour)) {
						rows[k][b] += n
					}
				}
			}
			a.Groups = append(a.Groups, rows)
		}
		out = append(out, a)
	}
	c.most = max(c.most, cells)
	return out, nil
}

// periodBench is a service of two groups whose numbers a person can check: week 46 of
// 2026 (9 to 15 November) has 168 hours of 1,000 events. Group a has 1 bad event an
// hour and 100 in each of the two hours of planned maintenance on Thursday; b has 5
// bad ones an hour. Half of the events take a minute at most, nine in ten ten minutes.
func periodBench(t *testing.T) (*bench, *tableCounts) {
	monday := time.Date(2026, 11, 9, 0, 0, 0, 0, time.UTC)
	month := slo.Window{Rolling: 30 * 24 * time.Hour}
	maintenance := monday.Add(3*24*time.Hour + 10*time.Hour)
	events := slo.Budgeting{Method: slo.Occurrences}
	avail := &slo.SLO{ID: "shop/availability", Objective: slotest.Objective(t, "99.8"), Window: month, Budgeting: events,
		GroupBy:     []string{"product"},
		Indicator:   slo.Indicator{Kind: slo.KindEvents},
		Corrections: []slo.Correction{{Name: "upgrade", Start: maintenance, Duration: 2 * time.Hour}}}
	lat := &slo.SLO{ID: "shop/latency", Objective: slotest.Objective(t, "90"), Window: month, Budgeting: events,
		GroupBy: []string{"product"}, Indicator: slo.Indicator{Kind: slo.KindLatency, Threshold: 10 * time.Minute}}
	vol := &slo.SLO{ID: "shop/volume", Objective: slotest.Objective(t, "95"), Window: month, Budgeting: events,
		GroupBy: []string{"product"}, Indicator: slo.Indicator{Kind: slo.KindThroughput, AtLeast: 10, Per: time.Minute}}
	scored := &sla.Agreement{Service: "shop", Name: "gold", GroupBy: []string{"product"}, Window: month,
		Method: sla.Attainment, NoData: sla.NoDataExclude, Warning: 95, Critical: 80,
		Components: []sla.Component{{Name: "availability", SLO: avail.ID, Weight: 50},
			{Name: "latency", SLO: lat.ID, Weight: 30}, {Name: "volume", SLO: vol.ID, Weight: 20}}}
	banded := &sla.Agreement{Service: "shop", Name: "stepped", GroupBy: []string{"product"}, Window: month,
		Method: sla.Bands, NoData: sla.NoDataBad,
		Components: []sla.Component{
			{Name: "speed", SLO: lat.ID, Weight: 3, Bands: []sla.Band{{Quantile: 0.95, Threshold: time.Minute, Score: 100},
				{Quantile: 0.9, Threshold: 10 * time.Minute, Score: 60}, {Score: 10}}},
			{Name: "volume", SLO: vol.ID, Weight: 1}, {Name: "outside", SLO: "shop/prom", Weight: 1},
		}}
	rep := &sla.Report{Version: 1, Time: noon, Watermark: noon}
	for _, s := range []*slo.SLO{avail, lat, vol} {
		for _, g := range []string{"a", "b"} {
			r := newSLOReport(s, slo.Group{g}, 1000, 1, 0.1)
			if s == vol {
				r.Slice = time.Minute
			}
			rep.SLOs = append(rep.SLOs, r)
		}
	}
	for _, a := range []*sla.Agreement{scored, banded} {
		for _, g := range []string{"a", "b"} {
			in := make([]sla.ComponentInput, len(a.Components))
			for i := range in {
				in[i] = sla.ComponentInput{Objective: avail.Objective, Kind: slo.KindEvents, Method: slo.Occurrences,
					Within: make([]uint64, 3)}
			}
			r := sla.NewScorer(a).Score(slo.Span{From: noon.Add(-30 * 24 * time.Hour), To: noon}, in,
				make([]sla.ComponentReport, len(in)))
			r.SetGroup(slo.Group{g})
			rep.SLAs = append(rep.SLAs, r)
		}
	}
	rep.Thresholds = []sla.ThresholdReport{
		{Threshold: &slo.Threshold{Service: "shop", Name: "slow", Warning: time.Minute, Critical: time.Hour}},
		{Threshold: &slo.Threshold{Service: "shop", Name: "fatal", Each: "critical"}}}

	hit := int(maintenance.Sub(monday) / time.Hour)
	c := &tableCounts{from: monday, oldest: monday.Add(-20 * 24 * time.Hour),
		observed: []slo.Span{{From: monday.Add(-20 * 24 * time.Hour), To: noon}},
		edges: map[string][]time.Duration{"shop/latency": {10 * time.Minute},
			"shop/latency#bands:stepped": {time.Minute, 10 * time.Minute}, "shop/limit:slow": {time.Minute, time.Hour}},
		sliced: map[string]bool{"shop/volume": true},
	}
	c.hours = map[string]func(int) []uint64{
		"shop/availability|a": func(h int) []uint64 {
			if h == hit || h == hit+1 {
				return []uint64{900, 100}
			}
			return []uint64{999, 1}
		},
		"shop/availability|b": func(int) []uint64 { return []uint64{995, 5} },
		"shop/limit:slow|":    func(int) []uint64 { return []uint64{50, 2, 1} },
		"shop/limit:fatal|":   func(int) []uint64 { return []uint64{0, 3} },
	}
	for _, g := range []string{"a", "b"} {
		c.hours["shop/latency|"+g] = func(int) []uint64 { return []uint64{900, 100} }
		c.hours["shop/latency#bands:stepped|"+g] = func(int) []uint64 { return []uint64{500, 400, 100} }
		c.hours["shop/volume|"+g] = func(int) []uint64 { return []uint64{54, 6, 580, 600, 60e9} }
		c.hours["shop/volume#events|"+g] = func(int) []uint64 { return []uint64{700, 0} }
	}
	b := newBench(t)
	b.rep = rep
	b.web.Opt.Counts = c.counts
	return b, c
}

func (b *bench) report(target string) v1.PeriodReport {
	rec := b.get(target)
	require.Equal(b.t, http.StatusOK, rec.Code, rec.Body.String())
	var got v1.PeriodReport
	require.NoError(b.t, json.Unmarshal(rec.Body.Bytes(), &got))
	return got
}

// TestReportNumbers holds a report against numbers worked out by hand.
func TestReportNumbers(t *testing.T) {
	b, _ := periodBench(t)
	got := b.report("/api/v1/report?period=2026-W46&days=true")
	require.Equal(t, []string{"2026-W46", "2026-W45", "2026-W47"}, []string{got.Period, got.Previous, got.Next})
	require.False(t, got.Running)
	require.True(t, got.Begun)
	slos := map[string]v1.ReportSLO{}
	for _, x := range got.SLOs {
		slos[x.SLO+" "+x.Group["product"]] = x
	}
	require.Len(t, slos, 6)

	// 168 hours of 1,000: 166 bad and 200 in the maintenance. Without the latter 166 of
	// 166,000, which is half of what 99.8 % allows; with it 366 of 168,000.
	a := slos["availability a"]
	require.Equal(t, v1.Counts{Good: 165_834, Bad: 166, Valid: 166_000}, a.Budget.Counts)
	require.Equal(t, v1.Counts{Good: 167_634, Bad: 366, Valid: 168_000}, a.Raw.Counts)
	require.InDelta(t, 0.999, *a.Budget.SLI, 1e-12)
	require.InDelta(t, 0.5, *a.Budget.Consumed, 1e-9)
	require.InDelta(t, 366.0/168_000/0.002, *a.Raw.Consumed, 1e-9)
	require.EqualValues(t, report.Met, a.Verdict, "the maintenance was planned")
	require.EqualValues(t, 168_000, a.Events)
	require.Equal(t, 7200.0, a.Corrected)
	require.Equal(t, 1.0, a.Coverage)
	require.Nil(t, a.KeptFrom)
	require.Equal(t, "2026-11-09", a.WorstDay.Date, "24 bad ones each day, 22 on the day of the maintenance")
	require.EqualValues(t, 24, a.WorstDay.Net.Bad)
	require.InDelta(t, 24.0/166, a.WorstDay.Share, 1e-12)
	var net, raw slo.Counts
	for _, d := range a.Days {
		net, raw = net.Add(slo.Counts{Good: d.Net.Good, Bad: d.Net.Bad}),
			raw.Add(slo.Counts{Good: d.Raw.Good, Bad: d.Raw.Bad})
	}
	require.Len(t, a.Days, 7)
	require.Equal(t, a.Budget.Counts, api.NewCounts(net), "the days add up")
	require.Equal(t, a.Raw.Counts, api.NewCounts(raw))

	require.EqualValues(t, report.Breached, slos["availability b"].Verdict)
	require.InDelta(t, 2.5, *slos["availability b"].Budget.Consumed, 1e-9)
	require.EqualValues(t, report.Met, slos["latency a"].Verdict, "met to the event")
	require.EqualValues(t, 168*700, slos["volume a"].Events, "events, though slices are judged")
	require.Equal(t, uint64(168*60), slos["volume a"].Budget.Counts.Valid)
	require.EqualValues(t, report.Breached, slos["volume a"].Verdict)

	// gold: a: 50 + 30 + 20 x 0.05/0.1 = 90. b: 50 x 0.002/0.005 + 30 + 10 = 60.
	slas := map[string]v1.ReportSLA{}
	for _, x := range got.SLAs {
		slas[x.SLA.SLA+" "+x.Group["product"]] = x
	}
	require.InDelta(t, 90, *slas["gold a"].Score, 1e-9)
	require.InDelta(t, 60, *slas["gold b"].Score, 1e-9)
	require.Equal(t, sla.LevelWarning, slas["gold a"].Level)
	require.Equal(t, sla.LevelCritical, slas["gold b"].Level)
	require.EqualValues(t, report.Breached, slas["gold a"].Verdict)
	require.Equal(t, "availability", *slas["gold b"].Worst)
	require.InDelta(t, 30, *slas["gold b"].Components[0].Lost, 1e-9)
	require.InDelta(t, 90, *slas["gold a"].Days[0].Score, 1e-9)
	// stepped: 3/5 x 60 for the second band, 1/5 x 580/600 of the volume, nothing for
	// what Prometheus measures.
	require.InDelta(t, 36+20*580.0/600, *slas["stepped a"].Score, 1e-9)
	require.InDelta(t, *slas["stepped a"].Score+20, *slas["stepped a"].High, 1e-9)
	require.Equal(t, "p90 within 10m", slas["stepped a"].Components[0].Note)
	require.Equal(t, "measured by Prometheus, not counted here", slas["stepped a"].Components[2].Note)
	require.Equal(t, v1.Violations{Within: 168 * 50, Warning: 168 * 2, Critical: 168 + 168*3}, slas["gold a"].Violations)
	require.Equal(t, v1.Violations{Within: 168 * 50, Warning: 168 * 2, Critical: 168}, got.Limits[0].Violations)
	require.Equal(t, v1.Violations{Critical: 168 * 3}, got.Limits[1].Violations)
}

// TestReportScoresAsTheEngine: over any days the score is that of sla.Score for the
// same counts.
func TestReportScoresAsTheEngine(t *testing.T) {
	b, c := periodBench(t)
	for _, a := range report.Agreements(b.rep) {
		var l history.Batch
		sp := slo.Span{From: c.from, To: c.from.Add(7 * 24 * time.Hour)}
		book := report.NewPeriodScores(b.rep, a, history.Days(sp, time.UTC), "x", nil, &l)
		require.NoError(t, l.Run(t.Context(), c.counts))
		for _, days := range [][2]int{{0, 7}, {3, 4}, {2, 5}} {
			hours := uint64(days[1]-days[0]) * 24
			calm := hours
			if days[0] <= 3 && days[1] > 3 {
				calm -= 2 // the maintenance
			}
			of := map[slo.ID]sla.ComponentInput{
				"shop/availability": {Objective: slotest.Objective(t, "99.8"), Kind: slo.KindEvents, Method: slo.Occurrences,
					Counts: slo.Counts{Good: 999 * calm, Bad: calm}},
				"shop/latency": {Objective: slotest.Objective(t, "90"), Kind: slo.KindLatency, Method: slo.Occurrences,
					Counts: slo.Counts{Good: 900 * hours, Bad: 100 * hours}, Measured: 1000 * hours,
					Within: []uint64{500 * hours, 900 * hours, 0}},
				"shop/volume": {Objective: slotest.Objective(t, "95"), Kind: slo.KindThroughput, Method: slo.Occurrences,
					Counts: slo.Counts{Good: 54 * hours, Bad: 6 * hours}, Achieved: 580 * hours, Target: 600 * hours,
					RatioSum: 60e9 * hours},
			}
			var in []sla.ComponentInput
			for _, comp := range a.Components {
				x := of[comp.SLO]
				if x.Within == nil || len(comp.Bands) == 0 {
					x.Within = make([]uint64, len(comp.Bands))
				}
				in = append(in, x)
			}
			want := sla.NewScorer(a).Score(slo.Span{}, in, make([]sla.ComponentReport, len(in)))
			got := book.Score(slo.Group{"a"}, days[0], days[1])
			require.Equal(t, want.Score, got.Score, "%s %v", a.Name, days)
			require.Equal(t, [2]float64{want.Low, want.High}, [2]float64{got.Low, got.High})
			require.Equal(t, want.Worst, got.Worst)
			for i := range want.Components {
				require.Equal(t, want.Components[i].Lost, got.Components[i].Lost, "%s %s", a.Name, want.Components[i].Name)
			}
		}
	}
}

// TestReportNamesNewSLOs: what was not counted yet is not the lowest coverage, on the page and in mails.
func TestReportNamesNewSLOs(t *testing.T) {
	b, c := periodBench(t)
	lowest := func() string {
		body := b.get("/report?period=2026-W46").Body.String()
		m := regexp.MustCompile(`Lowest coverage</dt><dd><span class="big">([^<]*)</span><span class="note">([^<]*)`).
			FindStringSubmatch(body)
		require.NotNil(t, m)
		return m[1] + ", " + m[2]
	}
	require.Equal(t, "100.0%, of all SLOs, SLAs and event thresholds", lowest())
	c.since = map[string]time.Time{"shop/volume": c.from.Add(5 * 24 * time.Hour)}
	b.rep.Version++
	require.Equal(t, "100.0%, of all SLOs, SLAs and event thresholds, without 3 new", lowest(),
		"the SLO and the two agreements that it is part of")
	body := b.get("/report?period=2026-W46").Body.String()
	require.Contains(t, body, "left out of the lowest coverage: shop/volume, shop/gold, shop/stepped.")
	require.Contains(t, body, "new since 14 Nov 00:00")
	c.since["shop/volume"] = c.from.Add(30 * 24 * time.Hour) // after the period
	b.rep.Version++
	require.Contains(t, lowest(), "100.0%, ")
	c.since = map[string]time.Time{}
	c.observed = []slo.Span{{From: c.from, To: c.from.Add(84 * time.Hour)}} // the engine was down: that counts
	b.rep.Version++
	require.Equal(t, "50.0%, of all SLOs, SLAs and event thresholds", lowest())
}

// TestReportSaysWhatIsNotKept: what retention has taken is not guessed.
func TestReportSaysWhatIsNotKept(t *testing.T) {
	b, c := periodBench(t)
	c.oldest = c.from.Add(36 * time.Hour) // Tuesday noon
	c.observed = []slo.Span{{From: c.from, To: c.from.Add(5 * 24 * time.Hour)}}
	got := b.report("/api/v1/report?period=2026-W46")
	a := got.SLOs[0]
	require.Equal(t, c.oldest, *a.KeptFrom)
	require.InDelta(t, 84.0/168, a.Coverage, 1e-9, "kept from Tuesday noon, observed until Saturday")
	require.EqualValues(t, 132_000, a.Events)
	require.Equal(t, "2026-11-11", got.SLAs[0].KeptFrom.Format(time.DateOnly), "agreements leave out the whole day")
	body := b.get("/report?period=2026-W46").Body.String()
	require.Contains(t, body, "since 10 Nov 12:00")
	require.Contains(t, body, "do not go back to the start of the period")

	gone := b.report("/api/v1/report?period=2026-10")
	require.EqualValues(t, report.NoData, gone.SLOs[0].Verdict)
	require.Zero(t, gone.SLOs[0].Coverage)
	require.EqualValues(t, report.NoData, gone.SLAs[0].Verdict)
	require.Nil(t, gone.SLAs[0].Score)
}

// TestReportTellsDroppedEvents: what limits dropped lowers the coverage.
func TestReportTellsDroppedEvents(t *testing.T) {
	b, _ := periodBench(t)
	b.web.Opt.Kept = func(_ context.Context, counters []string, sp slo.Span) ([]float64, error) {
		require.True(t, slices.IsSorted(counters))
		require.Equal(t, 7*24*time.Hour, sp.Duration())
		out := make([]float64, len(counters))
		for i, c := range counters {
			out[i] = 1
			if c == "shop/availability" {
				out[i] = 0.75
			}
		}
		return out, nil
	}
	got := b.report("/api/v1/report?period=2026-W46")
	require.Equal(t, 0.75, got.SLOs[0].Coverage)
	require.Equal(t, 1.0, got.SLOs[2].Coverage)
	require.Equal(t, 0.75, got.SLAs[0].Coverage)
	require.Equal(t, 0.75, *got.SLAs[0].Components[0].Coverage)
	require.Equal(t, 1.0, *got.SLAs[0].Components[1].Coverage)
	b.web.Opt.Kept = func(context.Context, []string, slo.Span) ([]float64, error) { return nil, errors.New("busy") }
	b.rep.Version++
	require.Equal(t, http.StatusServiceUnavailable, b.get("/api/v1/report?period=2026-W46").Code)
}

func TestReportZones(t *testing.T) {
	b, _ := periodBench(t)
	got := b.report("/api/v1/report?period=2026-W46&zone=Europe/Moscow")
	require.Equal(t, "Europe/Moscow", got.SLOs[0].Zone)
	require.Equal(t, "2026-11-08T21:00:00Z", got.SLOs[0].From.Format(time.RFC3339))
	tokyo, err := time.LoadLocation("Asia/Tokyo")
	require.NoError(t, err)
	a := *b.rep.SLAs[0].SLA
	a.Window = slo.Window{Calendar: slo.Month, Location: tokyo}
	b.rep.SLAs[0].SLA, b.rep.SLAs[1].SLA = &a, &a
	b.rep.Version++
	got = b.report("/api/v1/report?period=2026-W47")
	require.True(t, got.Running)
	require.Equal(t, "Asia/Tokyo", got.SLAs[0].Zone)
	require.Equal(t, "2026-11-15T15:00:00Z", got.SLOs[0].From.Format(time.RFC3339), "a part of the agreement has its zone")
	require.Equal(t, noon, *got.SLOs[0].To)
	require.Equal(t, "UTC", got.SLAs[2].Zone)
	for _, bad := range []string{"Local", "../etc/passwd", "Nowhere/Town", "a b", strings.Repeat("a", 100)} {
		require.Equal(t, http.StatusBadRequest, b.get("/api/v1/report?period=2026-W46&zone="+url.QueryEscape(bad)).Code, bad)
	}
}

func TestReportAnswers(t *testing.T) {
	b, c := periodBench(t)
	k := newContract(t, b)
	for target, status := range map[string]int{
		"?period=2026-W46": 200, "?period=2026-W46&days=true&service=shop": 200, "?period=2026-11": 200,
		"?period=2030-01": 200, "?period=2026-W46&service=none": 200,
		"": 400, "?period=2026-W54": 400, "?period=2026-W46&format=pdf": 400, "?period=2026-W46&days=yes": 400,
		"?period=2026-W46&zone=x": 400,
	} {
		k.answer(b, http.MethodGet, "/api/v1/report"+target, status)
	}
	require.False(t, b.report("/api/v1/report?period=2030-01").Begun)
	require.Contains(t, b.get("/report?period=2030-01").Body.String(), "has not begun yet")
	require.Contains(t, b.get("/report?service=none").Body.String(), "no SLOs or SLAs of this service")
	for _, target := range []string{"/report?period=2026-W54", "/report?zone=nope"} {
		rec := b.get(target)
		require.Equal(t, http.StatusBadRequest, rec.Code, target)
		require.Contains(t, rec.Body.String(), `role="alert"`)
		check(t, rec.Body.String())
	}
	// Page, CSV and JSON of one period cost one read.
	b.rep.Version++
	before := c.asked
	b.get("/report?period=2026-W45")
	once := c.asked - before
	require.Positive(t, once)
	b.get("/api/v1/report?period=2026-W45")
	b.get("/api/v1/report?period=2026-W45&format=csv")
	require.Equal(t, before+once, c.asked)
	// Not modified until the next report.
	rec := b.get("/report?period=2026-W45")
	require.Equal(
		t, http.StatusNotModified, b.get("/report?period=2026-W45", "If-None-Match", rec.Header().Get("ETag")).Code)

	b.web.Opt.Counts = func(context.Context, []fold.ReadRequest) ([]fold.ReadResult, error) {
		return nil, errors.New("busy")
	}
	k.answer(b, http.MethodGet, "/api/v1/report?period=2026-W44", 503)
	page := b.get("/report?period=2026-W44")
	require.Equal(t, http.StatusServiceUnavailable, page.Code)
	require.Empty(t, page.Header().Get("ETag"))
	b.web.Opt.Counts = nil
	k.answer(b, http.MethodGet, "/api/v1/report?period=2026-W44", 501)
	require.Contains(t, b.get("/report").Body.String(), "has no history")
	b.rep = nil
	k.answer(b, http.MethodGet, "/api/v1/report?period=2026-W44", 503)
	require.Equal(t, http.StatusServiceUnavailable, b.get("/report").Code)
}

func TestReportCSV(t *testing.T) {
	b, _ := periodBench(t)
	rec := b.get("/api/v1/report?period=2026-W46&format=csv")
	require.Equal(t, "text/csv; charset=utf-8; header=present", rec.Header().Get("Content-Type"))
	require.Equal(t, `attachment; filename="sloengine-report-2026-W46.csv"`, rec.Header().Get("Content-Disposition"))
	raw := rec.Body.Bytes()
	require.Equal(t, bytes.Count(raw, []byte("\n")), bytes.Count(raw, []byte("\r\n")), "lines end in CR LF")
	lines := readCSV(t, raw, api.CSVColumns)
	kinds := map[string]int{}
	for _, l := range lines {
		kinds[l["kind"]]++
	}
	require.Equal(t, map[string]int{"slo": 6, "ledger": 12, "sla": 4, "component": 12, "limit": 2}, kinds)
	got := b.report("/api/v1/report?period=2026-W46")
	i := slices.IndexFunc(lines, func(l map[string]string) bool {
		return l["kind"] == "slo" && l["group"] == "product=a" && l["name"] == "availability"
	})
	require.Equal(t, strconv.FormatUint(got.SLOs[0].Budget.Counts.Bad, 10), lines[i]["bad"])
	require.Equal(t, "366", lines[i]["raw_bad"])
	sli, err := strconv.ParseFloat(lines[i]["indicator"], 64)
	require.NoError(t, err)
	require.Equal(t, *got.SLOs[0].Budget.SLI, sli, "not rounded")
	require.Equal(t, "2026-11-09T00:00:00Z", lines[i]["from"])
	score, err := strconv.ParseFloat(lines[0]["score"], 64)
	require.NoError(t, err)
	require.False(t, math.Abs(score-*got.SLAs[0].Score) > 0)
}

// readCSV reads the lines below the names of the columns, which it checks.
func readCSV(t *testing.T, raw []byte, columns []string) []map[string]string {
	lines, err := csv.NewReader(bytes.NewReader(raw)).ReadAll()
	require.NoError(t, err)
	require.Equal(t, columns, lines[0])
	var out []map[string]string
	for _, l := range lines[1:] {
		m := map[string]string{}
		for i, cell := range l {
			m[columns[i]] = cell
		}
		out = append(out, m)
	}
	return out
}

// TestReportHostileNames: whatever a name holds, no cell is a formula and no page
// runs anything.
func TestReportHostileNames(t *testing.T) {
	for i, bad := range append(slices.Clone(hostile), "=HYPERLINK(1)", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", " =1", "＝1",
		"a,\"b\"\r\nc", "|calc") {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			b, c := periodBench(t)
			group := slo.Group{bad}
			for k := range b.rep.SLOs {
				s := *b.rep.SLOs[k].SLO
				s.Description, s.GroupBy = bad, []string{bad + "x"}
				b.rep.SLOs[k].SLO = &s
			}
			c.hours["shop/availability|"+bad] = func(int) []uint64 { return []uint64{10, 1} }
			b.rep.SLOs[0].Group, b.rep.SLOs[0].Informative = group, group.IsOther()
			a := *b.rep.SLAs[0].SLA
			a.Name, a.Description, a.GroupBy = bad, bad, []string{bad + "x"}
			a.Components = slices.Clone(a.Components)
			a.Components[0].Name = bad
			b.rep.SLAs[0].SLA = &a
			b.rep.SLAs[0].SetGroup(group)
			b.rep.Thresholds[0].Threshold = &slo.Threshold{Service: bad, Name: bad, Warning: time.Minute,
				Match: slo.Selector{slotest.Matcher(t, "type", slo.OpEqual, bad)}}
			esc := url.QueryEscape(bad)
			for _, target := range []string{
				"/slas", "/slas?service=" + esc + "&state=" + esc + "&q=" + esc + "&sort=" + esc + "&group." + esc + "=" + esc,
				"/report?period=2026-W46", "/report?period=" + esc, "/report?period=2026-W46&service=" + esc,
				"/report?period=2026-W46&zone=" + esc, b.web.ui.SLAHref(&b.rep.SLAs[0]), "/sla?service=" + esc + "&sla=" + esc,
			} {
				rec := b.get(target)
				require.Less(t, rec.Code, 500, target)
				check(t, rec.Body.String())
				for _, forbidden := range []string{"<img src=x", "\u202e", "\u2066", "\u200f", "\x00", "\x1b"} {
					require.NotContains(t, rec.Body.String(), forbidden, target)
				}
			}
			require.Equal(t, http.StatusOK, b.get(b.web.ui.SLAHref(&b.rep.SLAs[0])).Code, "the group's own link leads to it")
			require.Equal(t, http.StatusOK, b.get("/api/v1/report?period=2026-W46").Code)
			lines := readCSV(t, b.get("/api/v1/report?period=2026-W46&format=csv").Body.Bytes(), api.CSVColumns)
			ofLedgers := 0
			for _, l := range lines {
				if l["kind"] == "ledger" {
					ofLedgers++
				}
			}
			require.Positive(t, ofLedgers)
			require.Len(t, lines, 24+ofLedgers)
			for _, l := range lines {
				for name, cell := range l {
					if trimmed := strings.TrimLeft(cell, " "); trimmed != "" {
						require.NotContains(t, "=+-@\t\r", trimmed[:1], "%s is %q", name, cell)
					}
				}
			}
		})
	}
}

// A thousand groups over a month are read in bites.
func TestReportReadsInBites(t *testing.T) {
	b, c := periodBench(t)
	r := b.rep.SLOs[0]
	b.rep.SLOs, b.rep.SLAs = nil, nil
	for i := range 1500 {
		r.Group = slo.Group{strconv.Itoa(10_000 + i)}
		c.hours["shop/availability|"+r.Group.Key()] = func(int) []uint64 { return []uint64{uint64(i), 1} }
		b.rep.SLOs = append(b.rep.SLOs, r)
	}
	got := b.report("/api/v1/report?period=2026-W46")
	require.Len(t, got.SLOs, 1500)
	require.LessOrEqual(t, c.most, 2*history.MaxAsk)
	for i, x := range got.SLOs {
		require.EqualValues(t, 166*i, x.Budget.Counts.Good, "each group has its own numbers")
	}
	rec := b.get("/report?period=2026-W46")
	require.Contains(t, rec.Body.String(), "The CSV has 1000 more rows")
}

// BenchmarkSLAPages is each page rebuilt for a report of 1,000 groups, but for the
// time that the engine takes to count.
func BenchmarkSLAPages(b *testing.B) {
	for name, target := range map[string]string{"list": "/slas",
		"detail": "/sla?group.product=p-0001&service=insurance-unpaid&sla=unpaid", "report": weekReport,
		"csv": "/api/v1/report?format=csv&period=2026-W46"} {
		b.Run(name, func(b *testing.B) {
			x := newSLABench(b)
			rep := richAgreements(b)
			x.rep = &sla.Report{Version: 1, Time: rep.Time}
			for k := range 4 {
				for i := range 250 {
					r := rep.SLOs[3*k]
					r.Group = slo.Group{fmt.Sprintf("p-%04d", i)}
					x.rep.SLOs = append(x.rep.SLOs, r)
				}
			}
			for i := range 250 {
				r := rep.SLAs[1]
				r.Group = slo.Group{fmt.Sprintf("p-%04d", i)}
				x.rep.SLAs = append(x.rep.SLAs, r)
			}
			row := []uint64{1000, 1, 0, 0, 0}
			x.web.Opt.Counts = func(_ context.Context, qs []fold.ReadRequest) ([]fold.ReadResult, error) {
				out := make([]fold.ReadResult, len(qs))
				for i, q := range qs {
					out[i] = fold.ReadResult{Known: true, Observed: []slo.Span{{From: pastOldest, To: noon}}, Oldest: pastOldest}
					rows := make([][]uint64, len(q.Spans))
					for k := range rows {
						rows[k] = row
					}
					for range q.Groups {
						out[i].Groups = append(out[i].Groups, rows)
					}
				}
				return out, nil
			}
			for b.Loop() {
				x.rep.Version++
				require.Equal(b, http.StatusOK, x.get(target, "Accept-Encoding", "gzip").Code)
			}
		})
	}
}
