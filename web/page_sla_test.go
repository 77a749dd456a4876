package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/sla/report"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/fold"
	"github.com/sloengine/sloengine/web/api"
	"github.com/sloengine/sloengine/web/format"
	"github.com/sloengine/sloengine/web/ui"
)

func TestSLAPagesGolden(t *testing.T) {
	hash := regexp.MustCompile(`\.[0-9a-f]{8}\.`)
	for name, target := range map[string]string{"slas_rich": "/slas?sort=score&dir=desc",
		"sla": "/sla?group.product=SOMLT&service=insurance-unpaid&sla=unpaid", "sla_missing": trvlSLA + "&days=14",
		"report": weekReport, "report_month": "/report?period=2026-11&zone=Europe/Moscow"} {
		t.Run(name, func(t *testing.T) {
			b := newSLABench(t)
			b.rep = richAgreements(t)
			rec := b.get(target)
			require.Equal(t, http.StatusOK, rec.Code)
			check(t, rec.Body.String())
			got := hash.ReplaceAllString(rec.Body.String(), ".HASH.")
			testkit.Golden(t, filepath.Join("testdata", name+".html"), got)
		})
	}
}

// agreementRows are the rows of the list of agreements, in order.
func agreementRows(t *testing.T, b *bench, target string) []string {
	t.Helper()
	rec := b.get(target)
	require.Equal(t, http.StatusOK, rec.Code)
	var out []string
	for n := range check(t, rec.Body.String()).Descendants() {
		if n.Data == "tr" && len(n.Attr) > 0 && n.Attr[0].Key == "id" && strings.HasPrefix(n.Attr[0].Val, "s") {
			out = append(out, strings.Join(strings.Fields(text(n)), " "))
		}
	}
	return out
}

func TestSLAsSortAndFilter(t *testing.T) {
	b := newSLABench(t)
	b.rep = richAgreements(t)
	all := agreementRows(t, b, "/slas")
	require.Len(t, all, 5)
	require.True(t, strings.HasPrefix(all[0], "breached score below 90 insurance-unpaid / unpaid product SOMLT"), all[0])
	require.True(t, strings.HasPrefix(all[1], "breached insurance-unpaid / gold"), "breached though the score is high")
	require.True(t, strings.HasPrefix(all[4], "not judged insurance-unpaid / silver product (all others)"), all[4])
	require.Contains(t, all[0], "availability 16.75/40 −23.25")
	require.Contains(t, all[0], "availability cost 23.25 of 40 points")
	require.Contains(t, strings.Join(all, "\n"), "throughput no data, weight 20")
	require.Contains(t, strings.Join(all, "\n"), "80 to 100", "the scores that the missing components could give")

	for query, want := range map[string]int{
		"service=insurance-unpaid": 5, "service=none": 0, "state=critical": 2, "state=warning": 2, "state=breached": 2,
		"state=met": 2, "state=not_judged": 1, "state=no_data": 0, "state=nonsense": 5,
		"q=GOLD": 1, "q=trvl": 1, "q=throughput": 5, "group.product=SOMLT": 1, "group.nope=x": 0, "q=zzz": 0,
		"start=99": 5, "start=-3": 5,
	} {
		require.Len(t, agreementRows(t, b, "/slas?"+query), want, query)
	}
	for _, key := range []string{"worst", "name", "score", "lost"} {
		up, down := agreementRows(t, b, "/slas?sort="+key), agreementRows(t, b, "/slas?dir=desc&sort="+key)
		require.ElementsMatch(t, all, up, key)
		require.NotEqual(t, up, down, key)
	}
	require.Equal(t, all[0], agreementRows(t, b, "/slas?sort=score")[0])
	require.Equal(t, all[0], agreementRows(t, b, "/slas?sort=lost")[0])
}

// TestLowScoreIsNoState: an agreement whose components all meet their objectives is met, also below an alert threshold.
func TestLowScoreIsNoState(t *testing.T) {
	b := newSLABench(t)
	r := &b.rep.SLAs[0]
	r.Score, r.Level, r.Breached = 94, sla.LevelWarning, false
	rows := agreementRows(t, b, "/slas?state=met&sort=score")
	require.True(t, strings.HasPrefix(rows[0], "met score below 95 insurance-unpaid / unpaid"), rows[0])
}

func TestSLAsPages(t *testing.T) {
	b := newSLABench(t)
	one := b.rep.SLAs[1]
	b.rep.SLAs = nil
	for i := range 2*ui.CardsPerPage + 7 {
		r := one
		r.Group = slo.Group{fmt.Sprint("product-", i)}
		b.rep.SLAs = append(b.rep.SLAs, r)
	}
	seen := map[string]bool{}
	target := "/slas?sort=name&q=insurance"
	for range 3 {
		for _, r := range agreementRows(t, b, target) {
			seen[r] = true
		}
		next := regexp.MustCompile(`<a href="([^"]+)" rel="next">`).FindStringSubmatch(b.get(target).Body.String())
		if next == nil {
			break
		}
		target = strings.ReplaceAll(next[1], "&amp;", "&")
		require.Contains(t, target, "sort=name")
		require.Contains(t, target, "q=insurance")
	}
	require.Len(t, seen, 2*ui.CardsPerPage+7)
}

func TestSLADetail(t *testing.T) {
	b := newSLABench(t)
	b.rep = richAgreements(t)
	for target, code := range map[string]int{
		trvlSLA: 200, trvlSLA + "&days=90": 200, trvlSLA + "&days=x": 200, "/sla": 404,
		"/sla?service=insurance-unpaid&sla=nope":   404,
		"/sla?service=insurance-unpaid&sla=unpaid": 302, "/sla?service=insurance-unpaid&sla=unpaid&group.product=X": 302,
		trvlSLA + "&group.more=x": 302,
	} {
		require.Equal(t, code, b.get(target).Code, target)
	}
	body := b.get(trvlSLA).Body.String()
	for _, want := range []string{"Missing data", "throughput, 20% of the weight: no data, left out of the score",
		"would be 80 if the missing components had failed completely, and 100 if", "3 of 4"} {
		require.Contains(t, body, want)
	}
	gold := b.get("/sla?group.product=MEDCARE&service=insurance-unpaid&sla=gold").Body.String()
	require.Contains(t, gold, "Breached although the score is above its alert thresholds")
	other := b.get(b.web.ui.SLAHref(&b.rep.SLAs[4])).Body.String()
	require.Contains(t, other, "it never alerts and is never breached")
	require.NotContains(t, other, "the SLA is breached")

	rec := b.get(trvlSLA)
	require.Equal(t, http.StatusNotModified, b.get(trvlSLA, "If-None-Match", rec.Header().Get("ETag")).Code)

	// Without its history the page says so, and goes on.
	b.rep.Version++
	b.web.Opt.Counts = func(context.Context, []fold.ReadRequest) ([]fold.ReadResult, error) {
		return nil, errors.New("busy")
	}
	require.Contains(t, b.get(trvlSLA).Body.String(), "could not be read")
	b.web.Opt.Counts = nil
	require.Contains(t, b.get(trvlSLA).Body.String(), "has no history")
	b.rep = nil
	require.Equal(t, http.StatusServiceUnavailable, b.get(trvlSLA).Code)
}

// TestSLAHistory: days have the scores of their own counts; those of which a component
// is gone have none.
func TestSLAHistory(t *testing.T) {
	b, c := periodBench(t)
	r := &b.rep.SLAs[0]
	days, err := report.DayScores(t.Context(), b.web.Opt.Counts, b.rep, r, 14, time.UTC)
	require.NoError(t, err)
	require.Len(t, days, 14)
	for _, d := range days {
		require.True(t, d.Has())
		require.InDelta(t, 90, d.Report.Score, 1e-9, d.From)
		require.Equal(t, 1.0, d.Seen)
	}
	require.Equal(t, noon.UTC(), days[13].To, "today so far")

	c.oldest = time.Date(2026, 11, 12, 6, 0, 0, 0, time.UTC)
	days, err = report.DayScores(t.Context(), b.web.Opt.Counts, b.rep, r, 14, time.UTC)
	require.NoError(t, err)
	require.False(t, days[5].Has(), "a part of 12 November is gone")
	require.True(t, days[6].Has())
	body := b.get(b.web.ui.SLAHref(r) + "&days=14").Body.String()
	require.Contains(t, body, "no longer retained")
	require.Contains(t, body, "6 days at the start are left out")
	require.Contains(t, b.get(b.web.ui.SLAHref(&b.rep.SLAs[2])).Body.String(),
		"outside is measured by Prometheus and is not in these scores")
}

// TestSLANumbersAreTheAPIs: page and API come from one report.
func TestSLANumbersAreTheAPIs(t *testing.T) {
	b := newSLABench(t)
	b.rep = richAgreements(t)
	for i := range b.rep.SLAs {
		r := &b.rep.SLAs[i]
		body := b.get(b.web.ui.SLAHref(r)).Body.String()
		api := api.NewSLA(r, nil)
		require.Contains(t, body, `<span class="big"><bdi>`+format.Score(*api.Score)+`</bdi></span>`)
		for _, c := range api.Components {
			if c.HasData {
				require.Contains(t, body, ">"+format.PointsLost(*c.Lost)+"</td>")
			}
		}
	}
	require.Equal(t, sla.LevelOK, b.rep.SLAs[4].Level)
}
