package web

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/alerts/backtest"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/web/api"
	"github.com/sloengine/sloengine/web/site"
)

const tryID = "insurance-unpaid/availability"

// tried is what a replay of 30 days says: nine pages of the running spec, two of the candidate.
func tried() *backtest.Result {
	from := noon.Add(-30 * 24 * time.Hour)
	one := 1.0
	side := func(objective string, pages int, precision, spent float64) *backtest.Side {
		s := &backtest.Side{Objective: objective, Window: "30d", Score: backtest.Score{Pages: pages,
			PagesPerWeek: float64(pages) * 7 / 30, NightPages: pages / 3, Incidents: 2, Found: 2, Precision: &precision,
			Recall: &one, Detection: &one}}
		for h := range 30 * 24 {
			left := 1 - spent*float64(h)/720
			d := backtest.Day{At: from.Add(time.Duration(h)*time.Hour + 59*time.Minute), Remaining: &left, Coverage: 1}
			if s.Hours = append(s.Hours, d); h%24 == 23 {
				s.Days = append(s.Days, d)
			}
		}
		for i := range pages {
			end := from.Add(time.Duration(i*72+40)*time.Hour + 50*time.Minute)
			a := backtest.Alert{Name: "ErrorBudgetBurnPage", Page: true, Tier: "1h",
				Start: end.Add(-45 * time.Minute), End: &end, Group: slo.Group{"<TRVL10>"}}
			if i < 2 {
				a.Incident = fmt.Sprintf("INC-%d", i)
			}
			s.Alerts = append(s.Alerts, a)
		}
		return s
	}
	r := &backtest.Result{From: from, To: noon, Events: 1_300_000, Ticks: 259_200,
		Notes: []string{"The log begins <late>."}}
	r.Subjects = []backtest.Subject{{ID: tryID, Kind: backtest.KindSLO,
		Pair: backtest.Pair{Before: side("99.9", 9, 2.0/9, 1.8), After: side("99.5", 2, 1, 0.36)}}}
	for i := range 2 {
		end := from.Add(time.Duration(i*72+41) * time.Hour)
		r.Incidents = append(r.Incidents, backtest.Incident{ID: fmt.Sprintf("INC-%d", i), Service: "insurance-unpaid",
			SLOs: []string{tryID}, Onset: end.Add(-time.Hour), End: &end})
	}
	return r
}

func tryAddress(objective, tiers string) string {
	return "/slo/try?" + url.Values{"id": {tryID}, "objective": {objective}, "window": {"as it is"}, "tiers": {tiers},
		"min_events": {"0"}, "false_pages": {"1"}, "last": {"30d"}}.Encode()
}

// TestTryPage: the form has what the SLO has, wrong values are named, and a replay is waited for and shown.
func TestTryPage(t *testing.T) {
	t.Parallel()
	var asked []backtest.Request
	var answer backtest.Status
	b := newBench(t, func(o *site.Options) {
		o.Try = func(q backtest.Request) backtest.Status {
			asked = append(asked, q)
			return answer
		}
	})
	page := func(target string, status int) string {
		t.Helper()
		rec := b.get(target, "Accept", "text/html")
		require.Equal(t, status, rec.Code, rec.Body.String())
		require.Equal(t, "no-store", rec.Header().Get("Cache-Control"))
		return rec.Body.String()
	}
	require.Contains(t, b.get("/slo?id="+tryID+"&group.product=SOMLT", "Accept", "text/html").Body.String(),
		`<a href="/slo/try?id=insurance-unpaid%2Favailability">`)
	body := page("/slo/try?id="+tryID, 200)
	for _, want := range []string{`value="99.9"`, "page 1h 5m 2%\npage 6h 30m 5%\nticket 1d 2h 10%\nticket 3d 6h 10%\n",
		"30d, as it is"} {
		require.Contains(t, body, want)
	}
	require.Empty(t, asked, "nothing is replayed before somebody asks")

	for address, want := range map[string]string{
		tryAddress("<b>", ""):               "Objective: want a percentage",
		tryAddress("99.9", "page 1h"):       "want lines such as page 1h 5m 2%",
		tryAddress("99.9", "page 5m 1h 2%"): "short",
		"/slo/try?" + url.Values{"id": {tryID}, "objective": {"99"}, "window": {"3y"}, "min_events": {"-1"},
			"false_pages": {"NaN"}, "last": {"99y"}}.Encode(): "Window: choose one",
	} {
		require.Contains(t, page(address, 400), want)
	}
	require.Empty(t, asked)

	answer = backtest.Status{Progress: 0.34}
	rec := b.get(tryAddress("99.5", "page 1h 5m 4%"), "Accept", "text/html")
	require.Equal(t, "2", rec.Header().Get("Refresh"))
	require.Contains(t, rec.Body.String(), "Replayed 34% of the time.")
	require.Equal(t, []slo.Tier{{Page: true, Long: time.Hour, Short: 5 * time.Minute, Share: 0.04}},
		asked[0].After.SLOs[0].Alerting.Tiers)
	require.Equal(t, []string{"99.9", "99.5"},
		[]string{asked[0].Before.SLOs[0].Objective.Percent(), asked[0].After.SLOs[0].Objective.Percent()})
	require.True(t, asked[0].Own)
	require.Equal(t, 30*24*time.Hour, asked[0].Last)
	answer.Busy = true
	require.Contains(t, page(tryAddress("99.5", ""), 200), "for somebody else, 34% of it so far")
	require.NotEqual(t, asked[0].Key, asked[1].Key)
	require.Empty(t, asked[1].After.SLOs[0].Alerting.Tiers, "the usual ones")

	answer = backtest.Status{Err: errors.New("the log has no record")}
	require.Contains(t, page(tryAddress("99.5", ""), http.StatusServiceUnavailable), "the log has no record")
	answer = backtest.Status{Result: tried()}
	body = page(tryAddress("99.5", ""), 200)
	for _, want := range []string{"99.9% over 30d", "99.5% over 30d", "100% (2 of 2)", "22%",
		"objective: 99.5", "&lt;late&gt;",
		"&lt;TRVL10&gt;", "fired ", "INC-1", "b-incident", `class="l-c2"`, ">2.1<", ">0.5<"} {
		require.Contains(t, body, want)
	}
	require.NotContains(t, body, "<TRVL10>")
	require.NotContains(t, body, "types: any", "what is copied would change the types of the service")
	page("/slo/try?id=no/such", 404)
	theirs := newScope([]string{"insurance-unpaid"}).restrict(b.web.Opt)
	require.NotNil(t, theirs.Try(asked[0]).Result)
	require.Error(t, newScope([]string{"other"}).restrict(b.web.Opt).Try(asked[0]).Err)
	b.web.Opt.Try = nil
	require.Contains(t, page("/slo/try?id="+tryID, http.StatusNotImplemented), "Nothing to try it on")
}

// TestBrowserTry: the form and its result fit, with and without scripts.
func TestBrowserTry(t *testing.T) {
	t.Parallel()
	x := newLiveBench(t, nil, func(o *site.Options) {
		o.Try = func(backtest.Request) backtest.Status { return backtest.Status{Result: tried()} }
	})
	b := startBrowser(t)
	for _, c := range []struct {
		name, scheme string
		width        int64
	}{{"try.png", "light", 1280}, {"try-tablet.png", "light", 820}, {"try-phone.png", "dark", 390}} {
		b.prefers(t, c.scheme, true)
		b.Open(t, x.base+tryAddress("99.5", "page 1h 5m 4%"), c.width, 900)
		b.requireFits(t, c.width)
		if c.width == 820 {
			b.axe(t)
		}
		b.picture(t, c.name, true)
	}
	b.RequireClean(t, x.base)
	b.scripts(t, false)
	b.Open(t, x.base+"/slo/try?id="+url.QueryEscape(tryID), 390, 900)
	b.requireFits(t, 390)
	b.Do(t, chromedp.Click("main button.go"))
	b.eventually(t, `location.search.includes('objective=99.9') && !!document.querySelector('#compared')`, "it was tried")
}

// backtest tries a spec on the past.
func (k *contract) backtest(b *bench) {
	k.t.Helper()
	body := func(text string) string {
		data, err := json.Marshal(api.BacktestRequest{Spec: text, Last: "7d", Zone: "Europe/Moscow"})
		require.NoError(k.t, err)
		return string(data)
	}
	const slo = "slos: [{name: a, objective: 99, window: 30d, indicator: " +
		"{events: {valid: '{type=\"order\"}', bad: '{outcome=\"failure\"}'}}}]\n"
	good := body("version: sloengine/v1\nservice: insurance-unpaid\n" + slo)
	k.sent(b, api.BacktestPath, good, 501)
	var asked []backtest.Request
	answer := backtest.Status{Began: true}
	b.web.Opt.Try = func(q backtest.Request) backtest.Status {
		asked = append(asked, q)
		return answer
	}
	var audited []string
	was := b.web.Opt.Audit
	b.web.Opt.Audit = func(_ *gin.Context, action, detail string, _ error) {
		audited = append(audited, action+" "+detail)
	}
	defer func() { b.web.Opt.Audit, b.web.Opt.Try = was, nil }()
	k.sent(b, api.BacktestPath, good, 202)
	answer = backtest.Status{Busy: true, Progress: 0.3}
	require.JSONEq(k.t, `{"progress":0.3,"busy":true,"result":null}`, string(k.sent(b, api.BacktestPath, good, 202)))
	require.Equal(k.t, asked[0].Key, asked[1].Key)
	require.Equal(k.t, 7*24*time.Hour, asked[0].Last)
	require.Nil(k.t, asked[0].Before, "the spec in force")
	require.False(k.t, asked[0].Own)
	require.Equal(k.t, []string{`backtest services=["insurance-unpaid"] last=7d`}, audited, "once, where it begins")
	answer = backtest.Status{Result: tried()}
	answer.Result.Incidents, answer.Result.Missing = []backtest.Incident{}, []string{}
	for i := range answer.Result.Subjects {
		for _, s := range []*backtest.Side{answer.Result.Subjects[i].Before, answer.Result.Subjects[i].After} {
			s.Proposals = []backtest.Proposal{{Objective: "99", Why: "less than a week was observed"}}
		}
	}
	answer.Result.Total.After = answer.Result.Subjects[0].After
	require.Contains(k.t, string(k.sent(b, api.BacktestPath, good, 200)), `"pages":2`)
	answer = backtest.Status{Err: errors.New("the log has no <record>")}
	require.Contains(k.t, string(k.sent(b, api.BacktestPath, good, 422)), "the log has no")
	require.Contains(k.t, string(k.sent(b, api.BacktestPath, body("version: sloengine/v1\nservice: a\nslo: 1"), 422)),
		`"line":3`)
	answer = backtest.Status{}
	for _, bad := range []string{`{}`, `{"spec":""}`, `{"spec":1}`, `{"spec":"a","last":"30s"}`,
		`{"spec":"a","last":"9999d"}`, `{"spec":"a","zone":"Mars"}`, `{"spec":"a","zone":"Local"}`,
		`{"spec":"a","incidents":[{"id":"1"}]}`, `{"before":"x"}`} {
		k.sent(b, api.BacktestPath, bad, 400)
	}
	k.sent(b, api.BacktestPath, good, 403, "Sec-Fetch-Site", "cross-site")
	k.sent(b, api.BacktestPath, good, 415, "Content-Type", "text/plain")
	k.sent(b, api.BacktestPath, strings.Repeat(" ", api.MaxBacktestBody+1), 413)

	// A reader of one service tries specs of this one only, and sees nothing else.
	asked = nil
	h, err := b.web.Limited([]string{"insurance-unpaid"}, func(*gin.Context) {}, anyRequest)
	require.NoError(k.t, err)
	ask := func(text string) int {
		req := httptest.NewRequest(http.MethodPost, api.BacktestPath, strings.NewReader(text))
		req.Header.Set("Content-Type", "application/json")
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, req)
		return rec.Code
	}
	require.Equal(k.t, 202, ask(good))
	require.Equal(k.t, 403, ask(body("version: sloengine/v1\nservice: "+secretService+"\n"+slo)))
	require.Equal(k.t, 403, ask(body("version: sloengine/v1\nservice: insurance-unpaid\n"+slo+
		"---\nversion: sloengine/v1\nservice: "+secretService+"\n"+slo)))
	require.Len(k.t, asked, 1)
	require.True(k.t, asked[0].Own)
	require.True(k.t, strings.HasPrefix(asked[0].Key, "own"), "nobody gets an answer for readers of all services")
}
