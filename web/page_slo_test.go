package web

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/alerts"
	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/internal/testkit/slotest"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/sla/history"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/fold"
	"github.com/sloengine/sloengine/slo/spec"
	"github.com/sloengine/sloengine/web/api/v1"
	"github.com/sloengine/sloengine/web/format"
	"github.com/sloengine/sloengine/web/site"
	"github.com/sloengine/sloengine/web/status"
	"github.com/sloengine/sloengine/web/ui"
)

func TestSLOPagesGolden(t *testing.T) {
	hash := regexp.MustCompile(`\.[0-9a-f]{8}\.`)
	for _, c := range []struct {
		name, target string
		prepare      func(*bench)
	}{
		{"slo", medcare + "&range=1h", func(*bench) {}},
		{"slo_latency", latencyPage + "&from=1795046400&to=1795050000", func(b *bench) { b.rep = banded(t) }},
		{"slo_nodata", medcare, empty},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			c.prepare(b)
			rec := b.get(c.target)
			require.Equal(t, http.StatusOK, rec.Code)
			check(t, rec.Body.String())
			got := hash.ReplaceAllString(rec.Body.String(), ".HASH.")
			testkit.Golden(t, filepath.Join("testdata", c.name+".html"), got)
		})
	}
}

// TestNumbersEqualTheAPI: every number that a page has in common with the API is
// the same in both.
func TestNumbersEqualTheAPI(t *testing.T) {
	b := newBench(t)
	for i := range b.rep.SLOs {
		r := &b.rep.SLOs[i]
		body := b.get(b.web.SLOHref(r) + "&range=7d").Body.String()
		var one v1.SLOAnswer
		require.NoError(t, json.Unmarshal(b.get(b.web.ui.APIHref(r)).Body.Bytes(), &one))
		require.Contains(t, body, "<td class=\"num\" data-name=\"Bad\">"+format.Count(one.SLO.Budget.Counts.Bad)+"</td>")
		if !one.SLO.Budget.HasData {
			continue
		}
		require.Contains(t, body, format.Percent(*one.SLO.Budget.Remaining, 1))
		require.Contains(t, body, format.Percent(*one.SLO.Budget.SLI, format.Decimals(r.SLO.Objective)))
		for _, burn := range one.SLO.Burns {
			require.Contains(t, body, format.BurnRate(*burn.Rate))
		}
		href := regexp.MustCompile(`<p class="more"><a href="([^"]+/history[^"]+)"`).FindStringSubmatch(body)
		require.NotNil(t, href)
		var got v1.History
		rec := b.get(strings.ReplaceAll(href[1], "&amp;", "&"))
		require.Equal(t, http.StatusOK, rec.Code, rec.Body.String())
		require.NoError(t, json.Unmarshal(rec.Body.Bytes(), &got))
		require.Greater(t, len(got.Points), 100)
		for _, p := range got.Points {
			when := format.NewStamp(p.Start, b.now)
			row := `<time datetime="` + when.ISO + `">` + when.Text + `</time></th><td class="num">` + format.Count(p.Good) +
				`</td><td class="num`
			require.Contains(t, body, row, "%s %s", r.SLO.ID, r.Group)
		}
	}
}

func TestDetailSaysWhatIsMissing(t *testing.T) {
	b := newBench(t, func(o *site.Options) { o.Traffic = history.NewTrafficLog() })
	has := func(target string, want ...string) {
		t.Helper()
		body := strings.Join(strings.Fields(b.get(target).Body.String()), " ")
		for _, x := range want {
			require.Contains(t, body, x, target)
		}
	}
	has(medcare+"&from=2026-08-01&to=2026-08-02", "no longer retained. Choose a later range")
	has(medcare+"&from=2026-11-14T12:30&to=2026-11-14T16:00", "The engine did not count in this range")
	has(medcare+"&from=never", "The range has an invalid start", `role="alert"`)
	has("/slo?id=insurance-unpaid/throughput&group.product=TRVL10", "no valid event has arrived")
	has("/slo?id=mdm/availability", "This SLO has no groups. With group_by",
		"only known since the process started")
	has(medcare+"&range=7d", "Resolved alerts are retained for 1d",
		"Counts of the earliest 56 days are no longer retained", "Planned maintenance", "b-shade")
	b.eng.State, b.eng.Progress = status.Recovering, 0.3
	has(medcare, "the last report before the restart", "wrap stale")
	b.eng.State, b.now = status.Ready, noon.Add(10*time.Minute)
	has(medcare, "These numbers are stale")
}

func TestOnlyLinksOfTheWebAreShown(t *testing.T) {
	for _, to := range []string{"javascript:alert(1)", "//example.org", "https://", "data:text/html,x", ""} {
		require.Empty(t, site.AddLink(nil, "x", to), to)
	}
	require.Len(t, site.AddLink(nil, "x", "http://example.org"), 1)
}

func TestRulesToCopyAreTheGeneratedOnes(t *testing.T) {
	b := newBench(t)
	b.rep.SLOs[0].SLO.MaxGroups = 1000
	src := ui.NewSource(b.rep.SLOs[0].SLO, "http://127.0.0.1:8080", noon.Truncate(24*time.Hour))
	require.Empty(t, src.Problem)
	require.Contains(t, src.Recording, "slo:sli_error:ratio_rate30d")
	require.Contains(t, src.Alerts, "alert: ErrorBudgetBurn")
	got, problems := spec.Load([]spec.File{{Name: "copied.yaml", Data: []byte(src.Spec)}})
	require.Empty(t, problems.Errors())
	require.Len(t, got.SLOs, 1)
	require.Equal(t, b.rep.SLOs[0].SLO.Objective, got.SLOs[0].Objective)
	require.Equal(t, b.rep.SLOs[0].SLO.Indicator.Valid.String(), got.SLOs[0].Indicator.Valid.String())

	// A calendar window needs tables of times, and gets them.
	month := ui.NewSource(site.FindSLO(b.rep, "mdm/availability", nil).SLO, "", noon)
	require.Empty(t, month.Problem)
	require.NotEmpty(t, month.Recording)

	var c ui.SourceCache
	s := b.rep.SLOs[0].SLO
	require.Same(t, c.Get(s, "", noon), c.Get(s, "", noon.Add(time.Minute)), "written once a day")
	require.NotSame(t, c.Get(s, "", noon), c.Get(s, "", noon.Add(24*time.Hour)))

	for _, q := range ui.PromQueries(&b.rep.SLOs[0]) {
		require.Contains(t, q.Expr, `product="MEDCARE"`, q.Name)
	}
	long := ui.ShowLines([]byte(strings.Repeat("a: b\n", ui.ShownBlock)))
	require.Less(t, len(long), ui.ShownBlock+200)
	require.Contains(t, long, "sloengine generate writes the complete file")
}

func TestBurningGoesByTheSLOsOwnTiers(t *testing.T) {
	b := newBench(t)
	r := site.FindSLO(b.rep, "insurance-unpaid/availability", slo.Group{"TRVL10"})
	require.True(t, ui.Burning(r))
	own := *r.SLO
	own.Alerting.Page.Disabled, own.Alerting.Ticket.Disabled = true, true
	quiet := *r
	quiet.SLO = &own
	require.False(t, ui.Burning(&quiet), "tiers that are switched off")
	own = *r.SLO
	own.Alerting.Tiers = []slo.Tier{{Page: true, Long: 12 * time.Hour, Short: time.Hour, Share: 0.01}}
	require.False(t, ui.Burning(&quiet), "the rate over its window is not known")
	quiet.TierBurns = []slo.Burn{{Window: 12 * time.Hour, Rate: 5, HasData: true}}
	require.True(t, ui.Burning(&quiet))
	tiers, _ := alerts.Tiers(&own)
	rows := ui.BurnRows(&quiet, tiers)
	require.Equal(t, "12h", rows[5].Window, "in its place among the others")
	require.True(t, rows[5].Over)
	require.Equal(t, "firing", ui.TierRows(&quiet, tiers)[0].Verdict)
}

// The worst burn is red if it is fast, and not because of anything else that is at risk.
func TestBurnClass(t *testing.T) {
	s := &slo.SLO{ID: "shop/up", Objective: slotest.Objective(t, "99"), Window: slo.Window{Rolling: 5 * 24 * time.Hour}}
	burns := func(rate float64) []slo.Burn {
		var out []slo.Burn
		for _, w := range slo.BurnWindows {
			out = append(out, slo.Burn{Window: w, Rate: rate, HasData: true})
		}
		return out
	}
	r := &sla.SLOReport{SLO: s, State: slo.StateAtRisk, Burns: burns(0.46)}
	require.True(t, ui.Burning(r), "the ticket tier of 5 days has a factor of 0.17")
	require.Empty(t, ui.BurnClass(r))
	r.Burns = burns(1.5)
	require.Equal(t, "hot", ui.BurnClass(r))
	s.Window.Rolling = 30 * 24 * time.Hour
	s.Alerting.Ticket.Disabled = true
	require.Equal(t, "warn", ui.BurnClass(r), "faster than the budget, and slower than any tier")
	r.Burns = nil
	require.Empty(t, ui.BurnClass(r))
}

func BenchmarkSLOPage(b *testing.B) {
	for _, name := range []string{"1d", "30d", "90d"} {
		b.Run(name, func(b *testing.B) {
			x := newBench(b)
			x.rep = banded(b)
			// The made-up past costs far more than an engine's; it is read once.
			known := map[string][]fold.ReadResult{}
			x.web.Opt.Counts = keepCounts(known, x.counts)
			target := strings.ReplaceAll(latencyPage, "SOMLT", "MEDCARE") + "&range=" + name
			x.get(target)
			for b.Loop() {
				x.rep.Version++ // a new report, and with it a new page
				require.Equal(b, http.StatusOK, x.get(target, "Accept-Encoding", "gzip").Code)
			}
		})
	}
}

// Events that arrive between two reports change nothing on these pages, so a reader who asks again gets 304.
func TestPagesAreThoseOfTheReport(t *testing.T) {
	b := newBench(t)
	for _, target := range []string{sloPage, "/sla?service=insurance-unpaid&sla=unpaid&group.product=SOMLT",
		"/report?period=2026-11"} {
		tag := b.get(target).Header().Get("ETag")
		require.NotEmpty(t, tag, target)
		b.eng.Ingest.Received++
		require.Equal(t, http.StatusNotModified, b.get(target, "If-None-Match", tag).Code, target)
		b.eng.Spec.Hash += "x"
		require.Equal(t, http.StatusOK, b.get(target, "If-None-Match", tag).Code, target)
	}
}

// BenchmarkSLOPageAgain is a page whose reader has it, while events arrive.
func BenchmarkSLOPageAgain(b *testing.B) {
	w := newBench(b)
	tag := w.get(sloPage).Header().Get("ETag")
	b.ReportAllocs()
	for b.Loop() {
		w.eng.Ingest.Received++
		w.get(sloPage, "If-None-Match", tag)
	}
}

const sloPage = "/slo?id=insurance-unpaid/availability&group.product=SOMLT"

// TestBesideIncrease: the page of an SLO on counters says what its source found, and how to split a difference.
func TestBesideIncrease(t *testing.T) {
	var counters func(id slo.ID) []status.SourceCounters
	b := newBench(t, func(o *site.Options) {
		o.Counters = func(id slo.ID) []status.SourceCounters { return counters(id) }
	})
	r := &b.rep.SLOs[0]
	require.NotContains(t, b.get(b.web.SLOHref(r)).Body.String(), "Beside increase()")
	b = newBench(t, func(o *site.Options) {
		o.Counters = func(id slo.ID) []status.SourceCounters { return counters(id) }
	})
	r = &b.rep.SLOs[0]
	one := *r.SLO
	one.Indicator = slo.Indicator{Kind: slo.KindPrometheus, PromTotal: "a", PromBad: "b", PromSource: "metrics"}
	for i := range b.rep.SLOs {
		if b.rep.SLOs[i].SLO.ID == one.ID {
			b.rep.SLOs[i].SLO = &one
		}
	}
	counters = func(id slo.ID) []status.SourceCounters {
		require.Equal(t, one.ID, id)
		return []status.SourceCounters{{URL: "http://prometheus:9090/x y", ScrapeSeconds: 60, Began: b.now.Add(-time.Hour),
			Samples: 1234, NewSeries: 3, FirstValues: 40, Resets: 2, AfterResets: 7, Gaps: 1, InGaps: 500, Cut: 9,
			CutAt: b.now.Add(-time.Minute), CutGroup: "route=<b>"}}
	}
	body := b.get(b.web.SLOHref(r)).Body.String()
	check(t, body)
	for _, want := range []string{"Beside increase()", "1,234 samples", "3 more counters", "40 in their first values",
		"2 times", "1 gap", "9 events", "route=&lt;b&gt;", "sloengine reconcile --url ", "--slo " + string(one.ID),
		"--prometheus &#39;http://prometheus:9090/x y&#39;"} {
		require.Contains(t, body, want)
	}

	counters = func(slo.ID) []status.SourceCounters {
		return []status.SourceCounters{{URL: "http://eu:9090", Samples: 1000, Resets: 2, Gaps: 1},
			{URL: "http://<us>:9090", Samples: 500, Resets: 1, Cut: 3, CutAt: b.now, Left: "it is down"}}
	}
	b.eng.Spec.Hash += "x"
	body = b.get(b.web.SLOHref(r)).Body.String()
	check(t, body)
	for _, want := range []string{"1,500 samples", "of http://eu:9090, with 2 resets and 1 gap", "3 times",
		"of http://&lt;us&gt;:9090, with 1 reset and 0 gaps; it is down", "3 events"} {
		require.Contains(t, body, want)
	}
	require.NotContains(t, body, "--prometheus")
}
