package web

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/alerts"
	"github.com/sloengine/sloengine/alerts/incident"
	"github.com/sloengine/sloengine/alerts/state"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/web/api/v1"
	"github.com/sloengine/sloengine/web/format"
	"github.com/sloengine/sloengine/web/site"
	"github.com/sloengine/sloengine/web/status"
	"github.com/sloengine/sloengine/web/ui"
)

func alertNames(t *testing.T, body []byte) (names []string, total int, next string) {
	var list struct {
		Total int `json:"total"`
		Items []struct{ Name, State string }
		Next  string `json:"next_cursor"`
	}
	require.NoError(t, json.Unmarshal(body, &list))
	for _, x := range list.Items {
		names = append(names, x.Name+" "+x.State)
	}
	return names, list.Total, list.Next
}

// A group on which a page fires is shown as firing, never as ok, whatever is left of its budget.
func TestFiringComesBeforeTheBudget(t *testing.T) {
	b := newBench(t)
	const paging, other = "group.product=TRVL10&id=insurance-unpaid%2Favailability",
		"group.product=MEDCARE&id=insurance-unpaid%2Favailability"
	row := func(page, of string) string {
		page, _, _ = strings.Cut(page, of)
		return page[strings.LastIndex(page, "<tr id="):]
	}
	for i := range b.rep.SLOs {
		b.rep.SLOs[i].State = slo.StateOK
	}
	page := b.get("/?rows=groups").Body.String()
	_, page, _ = strings.Cut(page, `<table class="levels slim">`)
	require.Contains(t, row(page, strings.ReplaceAll(paging, "&", "&amp;")), `<span class="mark bad">`)
	require.Contains(t, row(page, strings.ReplaceAll(other, "&", "&amp;")), `<span class="mark ok">`)

	count := func(query string) int { return strings.Count(b.get("/?rows=groups"+query).Body.String(), "<tr id=") }
	all := count("")
	require.Equal(t, 1, count("&state=firing"))
	require.Equal(t, all-1, count("&state=ok")+count("&state=waiting"), "it is never ok")
	require.Zero(t, count("&state=exhausted"))

	require.Regexp(t, `</div>\n<span class="mark bad">.*firing</span>`, b.get("/slo?"+paging).Body.String())
	require.Regexp(t, `<span class="mark bad">[^>]*>.*firing</span> <bdi title="TRVL10">`,
		b.get("/slo?"+other).Body.String(), "a link to the group")

	k := newContract(t, b)
	var list struct{ Items []v1.SLO }
	require.NoError(
		t, json.Unmarshal(k.answer(b, http.MethodGet, "/api/v1/slos?slo=insurance-unpaid/availability", 200), &list))
	for _, x := range list.Items {
		require.Equal(t, x.Group["product"] == "TRVL10", x.Paging)
		require.Equal(t, slo.StateOK, x.State, "the state is that of the budget")
	}
	tag := b.get("/api/v1/slos").Header().Get("ETag")
	calm := &state.View{Step: 1}
	b.web.Opt.Alerts = func() *state.View { return calm }
	require.Equal(t, http.StatusOK, b.get("/api/v1/slos", "If-None-Match", tag).Code,
		"an alert that ends changes the answer")
}

func TestAlertsOfTheAPI(t *testing.T) {
	b := newBench(t)
	k := newContract(t, b)
	all := []string{"ErrorBudgetBurnPage firing", "ErrorBudgetExhausted firing", "SLONoData firing",
		"CompositeSLAWarning pending", "ErrorBudgetBurnPage resolved"}
	for query, want := range map[string][]string{
		"": all, "?state=firing": all[:3], "?state=resolved": all[4:], "?severity=warning": {all[2], all[3]},
		"?service=mdm": nil,
		"?slo=insurance-unpaid/availability&state=firing": all[:2],
	} {
		got, total, next := alertNames(t, k.answer(b, http.MethodGet, "/api/v1/alerts"+query, 200))
		require.Equal(t, want, got, query)
		require.Equal(t, len(want), total)
		require.Empty(t, next)
	}
	for query, status := range map[string]int{"?state=odd": 400, "?limit=0": 400, "?cursor=%21": 400} {
		k.answer(b, http.MethodGet, "/api/v1/alerts"+query, status)
	}
	var seen []string
	cursor := ""
	for range 5 {
		got, total, next := alertNames(t, k.answer(b, http.MethodGet, "/api/v1/alerts?limit=2&cursor="+cursor, 200))
		require.Equal(t, 5, total)
		seen = append(seen, got...)
		if cursor = next; next == "" {
			break
		}
	}
	require.Equal(t, all, seen, "page by page")

	var list struct{ Items []v1.Alert }
	require.NoError(t, json.Unmarshal(k.answer(b, http.MethodGet, "/api/v1/alerts", 200), &list))
	page := list.Items[0]
	require.Equal(t, slo.ID("insurance-unpaid/availability"), *page.SLO)
	require.Nil(t, page.Agreement)
	require.Equal(t, map[string]string{"product": "TRVL10"}, page.Group)
	require.Equal(t, "page-1h", page.Labels["slo_tier"])
	require.Equal(t, 120.0, *page.Detection)
	require.Nil(t, page.ResolvedAt)
	require.Nil(t, list.Items[3].FiredAt)
	require.Equal(t, "unpaid", *list.Items[3].Agreement)

	b.rep = nil
	k.answer(b, http.MethodGet, "/api/v1/alerts", 200)
	b.web.Opt.Alerts = nil
	got, _, _ := alertNames(t, k.answer(b, http.MethodGet, "/api/v1/alerts", 200))
	require.Empty(t, got)
}

func TestAlertsChangeTheTag(t *testing.T) {
	b := newBench(t)
	for _, target := range []string{"/", "/api/v1/alerts", "/slo?id=insurance-unpaid/availability&group.product=TRVL10"} {
		b.alerts = someAlerts()
		before := b.get(target).Header().Get("ETag")
		require.Equal(t, http.StatusNotModified, b.get(target, "If-None-Match", before).Code)
		b.alerts[3].State, b.alerts[3].ResolvedAt = state.Resolved, noon
		require.Equal(t, http.StatusOK, b.get(target, "If-None-Match", before).Code, "%s: same report, other alerts", target)
	}
}

func TestAlertsOnPages(t *testing.T) {
	b := newBench(t)
	list := b.get("/").Body.String()
	require.Less(t, strings.Index(list, "ErrorBudgetBurnPage"), strings.Index(list, "ErrorBudgetExhausted"), "worst first")
	require.NotContains(t, list, "</svg>resolved<")
	require.Contains(t, b.get("/?service=mdm").Body.String(), "ErrorBudgetBurnPage", "no filter hides what fires")

	detail := b.get("/slo?id=insurance-unpaid/availability&group.product=TRVL10").Body.String()
	require.Contains(t, detail, "</svg>firing<")
	require.Contains(t, detail, "</svg>resolved<")
	shown, _, _ := strings.Cut(detail, `id="source"`) // below are the rules, which name all alerts
	require.NotContains(t, shown, "ErrorBudgetExhausted", "another group's")
	require.Contains(t, b.get("/slo?id=insurance-unpaid/throughput&group.product=TRVL10").Body.String(), "all groups")
	require.Contains(t, b.get("/slo?id=mdm/availability").Body.String(), "or was recently resolved")

	one := b.alerts[3]
	b.alerts = nil
	require.Contains(t, b.get("/").Body.String(), "No alert is firing or pending.")
	for range ui.ShownAlerts + 3 {
		b.alerts = append(b.alerts, one)
	}
	require.Contains(t, b.get("/").Body.String(), ">All alerts, 3 more</a>")
	b.web.Opt.Alerts = nil
	require.NotContains(t, b.get("/").Body.String(), `id="alerts"`)
}

func TestAlertStateMetric(t *testing.T) {
	b := newBench(t)
	for i, bad := range hostile {
		b.alerts = append(b.alerts, state.Alert{Name: "X", State: state.Pending, Fingerprint: string(rune('a' + i)),
			ActiveSince: noon, Labels: []state.Label{{Name: "alertname", Value: "X"}, {Name: "http.code", Value: bad},
				{Name: "le", Value: "1"}}})
	}
	fs := parse(t, b.get("/metrics").Body.String())
	got, ok := value(fs["slo_alert_state"],
		map[string]string{"alertname": "ErrorBudgetBurnPage", "severity": "page", "slo_tier": "page-1h", "product": "TRVL10"})
	require.True(t, ok)
	require.Equal(t, 2.0, got)
	got, ok = value(fs["slo_alert_state"], map[string]string{"alertname": "CompositeSLAWarning"})
	require.True(t, ok)
	require.Equal(t, 1.0, got)
	require.Len(t, fs["slo_alert_state"].Metric, 4+len(hostile), "the resolved one is not there")
	b.eng.State = status.Recovering
	require.Nil(t, parse(t, b.get("/metrics").Body.String())["slo_alert_state"])
}

func BenchmarkAlertsOnTheList(b *testing.B) {
	x := newBench(b)
	one := x.alerts[0]
	x.alerts = nil
	for i := range 10_000 {
		one.Fingerprint, one.ResolvedAt = time.Duration(i).String(), noon.Add(-time.Duration(i)*time.Second)
		x.alerts = append(x.alerts, one)
	}
	for b.Loop() {
		require.Equal(b, 200, x.get("/api/v1/alerts").Code)
	}
}

// What holds an alert back is said in numbers, on the page and in the API.
func TestHeldAlerts(t *testing.T) {
	b := newBench(t)
	k := newContract(t, b)
	live := alerts.Live{Kind: alerts.LiveBurn,
		Tier: alerts.Tier{Tier: slo.Tier{Page: true, Long: time.Hour, Short: 5 * time.Minute}, Name: "page-1h",
			Threshold: 0.0144}, MinEvents: 20}
	few := alerts.Reading{Ratio: 0.5, Observed: 0.02, Events: 18, HasData: true}
	exhausted := alerts.Live{Kind: alerts.LiveExhausted}
	_, why := exhausted.Spent(slo.Budget{HasData: true, Consumed: 500}, 30*24*time.Hour, 0.001, 18, false)
	by, group := []string{"product"}, slo.Group{"TRVL10"}
	b.held = []state.Held{
		{Name: "ErrorBudgetBurnPage", Severity: "page", Tier: "page-1h", Service: "insurance-unpaid",
			SLO: "insurance-unpaid/availability", GroupBy: by, Group: group, Value: 0.5,
			Why: live.HeldBurn(func(time.Duration) alerts.Reading {
				return few
			})},
		{Name: "ErrorBudgetExhausted", Severity: "ticket", Service: "insurance-unpaid", SLO: "insurance-unpaid/availability",
			GroupBy: by, Group: group, Value: -499, Why: why},
	}
	var list struct {
		Held      []v1.HeldAlert
		HeldTotal int `json:"held_total"`
	}
	require.NoError(t, json.Unmarshal(k.answer(b, http.MethodGet, "/api/v1/alerts?severity=page", 200), &list))
	require.Equal(t, 1, list.HeldTotal)
	page := list.Held[0]
	require.Equal(t, "page-1h", page.Tier)
	require.Equal(t, map[string]string{"product": "TRVL10"}, page.Group)
	var texts []string
	for _, h := range page.Why {
		texts = append(texts, h.Text)
	}
	require.Equal(t, []string{
		"2 % of 1h observed, so 1 % of it is bad, more than 1.44 % needed",
		"2 % of 5m observed, so 1 % of it is bad, more than 1.44 % needed",
		"min_events: 18 of 20 events in 1h",
	}, texts)
	require.InDelta(t, 0.01, *page.Why[0].Have, 1e-9)
	require.EqualValues(t, alerts.HoldMinEvents, page.Why[2].Reason)

	body := b.get("/slo?id=insurance-unpaid/availability&group.product=TRVL10").Body.String()
	for _, text := range append(
		texts, "ErrorBudgetExhausted is held back: 0.1 % of 30d observed, so 50 % of its budget is spent") {
		require.Contains(t, body, text)
	}
	require.NotContains(t, b.get("/slo?id=insurance-unpaid/availability&group.product=MEDCARE").Body.String(), "held back")
}

// evaluated are the alerts that the engine's own evaluation finds in the report of a bench.
func evaluated(t *testing.T, b *bench) []state.Alert {
	m, err := state.New(state.Options{})
	require.NoError(t, err)
	busy := site.FindSLO(b.rep, "insurance-unpaid/availability", slo.Group{"TRVL10"})
	*busy = newSLOReport(busy.SLO, busy.Group, 96_120_000, 31_000, 18)
	for i := range b.rep.SLOs {
		for k := range b.rep.SLOs[i].Burns {
			b.rep.SLOs[i].Burns[k].Observed = 1
		}
	}
	for range 10 {
		m.Step(b.rep)
		b.rep.Time = b.rep.Time.Add(time.Minute)
	}
	return m.View().Active
}

// The page of an alert says what is compared in numbers, and links to what a person does next.
func TestAlertPage(t *testing.T) {
	book := newMemoryBook()
	b, _ := withSilences(t, func(o *site.Options) { o.Incidents = book })
	b.alerts = evaluated(t, b)
	at := slices.IndexFunc(b.alerts, func(a state.Alert) bool {
		return a.Label("slo_tier") == "page-1h" && a.State == state.Firing && a.Group[0] == "TRVL10"
	})
	require.GreaterOrEqual(t, at, 0)
	a := &b.alerts[at]
	a.FiredAt = noon
	book.apply(incident.Batch{Operations: []incident.Operation{{Kind: incident.Fire, Title: "x",
		Onset:   noon.Add(-3 * time.Minute),
		OnsetBy: incident.OnsetByCounts, Alert: &incident.Alert{Fingerprint: a.Fingerprint, Name: a.Name, Service: a.Service,
			SLO: string(a.SLO), Group: a.Group, Severity: incident.Critical, Fired: noon,
			Runbook: "https://example.org/docs/runbooks/ErrorBudgetBurnPage.md"}}}})
	id := book.View().Of(a.Fingerprint).ID
	page := "/alert?id=" + a.Fingerprint
	body := b.get(page).Body.String()
	check(t, body)
	r := site.FindSLO(b.rep, a.SLO, a.Group)
	for _, d := range []time.Duration{time.Hour, 5 * time.Minute} {
		burn := r.Burn(d)
		require.Regexp(t, "error ratio over "+slo.FormatDuration(d)+`</th>.*`+
			format.Percent(float64(burn.Counts.Bad)/float64(burn.Counts.Valid()), 2)+` <span class="note">`+
			format.BurnRate(burn.Rate)+`</span></td>.*above 1.44% <span class="note">14.4×</span>`, body)
	}
	for _, link := range []string{
		"/incident?id=" + id + "#act\"><span>Acknowledge " + id, "/incident?id=" + id + "\"><span>Incident",
		"/docs/runbooks/ErrorBudgetBurnPage.md\" rel=\"noopener noreferrer\">Runbook",
		"/silences/new?alert=" + a.Fingerprint + "\"><span>Silence",
		"/slo?from=" + strconv.FormatInt(noon.Add(-20*time.Minute).Unix(), 10) +
			"&amp;group.product=TRVL10&amp;id=insurance-unpaid%2Favailability#history",
	} {
		require.Contains(t, body, link)
	}
	require.Contains(t, body, "burns its error budget fast")
	for _, of := range []string{"/", burningGroup, "/alerts", "/incident?id=" + id} {
		require.Contains(t, b.get(of).Body.String(), `href="`+page+`"`, of)
		require.Contains(t, b.get(of).Body.String(), "/docs/runbooks/ErrorBudgetBurnPage.md", of)
	}
	require.Equal(t, http.StatusNotFound, b.get("/alert?id=x").Code)

	a.State, a.ResolvedAt = state.Resolved, noon
	require.Contains(t, b.get(page).Body.String(), "&amp;to="+strconv.FormatInt(noon.Add(15*time.Minute).Unix(), 10))
	b.alerts = nil
	rec := b.get(page)
	require.Equal(t, http.StatusFound, rec.Code, "the incident remains")
	require.Equal(t, "/incident?id="+id, rec.Header().Get("Location"))
}

// Alerts of every kind have a page, whether the report still has what they compare or not.
func TestEveryAlertHasItsCondition(t *testing.T) {
	b := newBench(t)
	b.alerts = evaluated(t, b)
	full := b.rep
	kinds := map[alerts.LiveKind]bool{}
	for i := range b.alerts {
		a := &b.alerts[i]
		kinds[a.Definition().Kind] = true
		for _, rep := range []*sla.Report{full, {Time: noon}} {
			b.rep = rep
			rec := b.get("/alert?id=" + a.Fingerprint)
			require.Equal(t, http.StatusOK, rec.Code)
			require.Contains(t, rec.Body.String(), `id="condition"`, a.Name)
		}
	}
	require.Greater(t, len(kinds), 1)
}

// Page and API pick alerts by the group that they are about, and by a part of their texts.
func TestAlertsAreFiltered(t *testing.T) {
	b := newBench(t)
	rows := func(query string) int {
		return strings.Count(b.get("/alerts"+query).Body.String(), `<td class="state">`)
	}
	require.Equal(t, 5, rows(""))
	for query, want := range map[string]int{"?group.product=TRVL10": 3, "?group.product=SOMLT": 1, "?group.region=eu": 0,
		"?q=exhaus": 1, "?q=somlt": 1, "?state=resolved": 1, "?severity=page&group.product=TRVL10": 2, "?service=x": 0} {
		require.Equal(t, want, rows(query), query)
		_, total, _ := alertNames(t, b.get("/api/v1/alerts"+query).Body.Bytes())
		require.Equal(t, want, total, query)
	}
	body := b.get("/alerts?group.product=SOMLT").Body.String()
	check(t, body)
	require.Contains(t, body, `<option value="SOMLT" selected>`)
	require.Contains(t, b.get("/").Body.String(), `href="/alerts"`)
}

// The page of an SLO begins with its open incident, and has what fires above the burn rates.
func TestSLOPageBeginsWithWhatFails(t *testing.T) {
	book := newMemoryBook()
	b := newBench(t, func(o *site.Options) { o.Incidents = book })
	before := b.get(medcare)
	body := before.Body.String()
	require.Contains(t, body, `<a href="/incident?id=INC-2026-11-0001">INC-2026-11-0001</a> <bdi>Orders fail</bdi> `+
		`<span class="note">since 11:55 UTC, not acknowledged</span>`)
	require.Less(t, strings.Index(body, "Orders fail"), strings.Index(body, `<dl class="figures slo">`))
	require.Greater(t, strings.Index(body, `id="alerts"`), strings.Index(body, `id="burn"`), "no alert is on this group")
	require.NotContains(t, b.get(burningGroup).Body.String(), "Orders fail", "another group's")
	body = b.get(burningGroup).Body.String()
	require.Less(t, strings.Index(body, `id="alerts"`), strings.Index(body, `id="burn"`))

	book.now = noon.Add(time.Second)
	_, err := book.Do(t.Context(), incident.Operation{Kind: incident.AckIt, ID: "INC-2026-11-0001", By: "Ann",
		How: incident.ByPage})
	require.NoError(t, err)
	after := b.get(medcare, "If-None-Match", before.Header().Get("ETag"))
	require.Equal(t, http.StatusOK, after.Code)
	require.Contains(t, after.Body.String(), "acknowledged by Ann 12:00 UTC")
}

// A search finds alerts, incidents and agreements beside SLOs and groups, and shows a limited number of each.
func TestSearchFindsMoreThanSLOs(t *testing.T) {
	book := newMemoryBook()
	b := newBench(t, func(o *site.Options) { o.Incidents = book })
	found := func(q string) string {
		body := b.get("/?q=" + q).Body.String()
		check(t, body)
		_, list, _ := strings.Cut(body, `<ul class="found"`)
		list, _, _ = strings.Cut(list, "</ul>")
		return list
	}
	require.Contains(t, found("orders"), `<a href="/incident?id=INC-2026-11-0001">`)
	require.Contains(t, found("inc-2026-11"), "Orders fail")
	require.Contains(t, found("exhausted"), `alert <a href="/alert?id=ErrorBudgetExhaustedfiring">`)
	somlt := found("somlt")
	require.Contains(t, somlt, "alert <a")
	require.Contains(t, somlt, `agreement <a href="/sla?group.product=SOMLT&amp;service=insurance-unpaid&amp;sla=unpaid">`)
	require.NotContains(t, somlt, "MEDCARE")
	require.Empty(t, found(""))
	require.Empty(t, found("nothing-has-this"))
	for range 20 {
		b.alerts = append(b.alerts, b.alerts[0])
	}
	require.Equal(t, 5, strings.Count(found("errorbudget"), "alert <a"))
}
