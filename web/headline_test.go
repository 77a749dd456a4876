package web

import (
	"encoding/json"
	"html"
	"net/http"
	"net/http/httptest"
	"regexp"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/alerts/incident"
	"github.com/sloengine/sloengine/alerts/state"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/web/api/v1"
)

// fires lets a page fire two minutes after its onset.
func (m *memoryBook) fires(id slo.ID, group string, onset time.Time) {
	a := &incident.Alert{Fingerprint: string(id) + group, Name: "ErrorBudgetBurnPage", Service: id.Service(),
		SLO: string(id), Severity: incident.Critical, Fired: onset.Add(2 * time.Minute)}
	if group != "" {
		a.Group = []string{group}
	}
	m.apply(incident.Batch{Operations: []incident.Operation{{Kind: incident.Fire, Title: "Trouble", Onset: onset,
		OnsetBy: incident.OnsetByCounts, Alert: a}}})
}

// failing is a site where mdm fails and takes two products down, as the spec declares.
func failing(t *testing.T) (*bench, *memoryBook) {
	b := newBench(t)
	book := &memoryBook{Book: incident.NewBook(), now: noon}
	b.web.Opt.Incidents = book
	for i := range b.rep.SLOs {
		if s := b.rep.SLOs[i].SLO; s.ID == "insurance-unpaid/availability" {
			s.CausedBy = []slo.Cause{{SLO: "mdm/availability"}}
		}
	}
	book.fires("insurance-unpaid/availability", "SOMLT", noon.Add(-5*time.Minute))
	book.fires("insurance-unpaid/availability", "TRVL10", noon.Add(-4*time.Minute))
	book.fires("mdm/availability", "", noon.Add(-6*time.Minute))
	return b, book
}

var (
	headlineOf = regexp.MustCompile(`<h1>(.*?)</h1>`)
	anyTag     = regexp.MustCompile(`<[^>]*>`)
)

// saidOn is the headline of a page without its tags.
func saidOn(t *testing.T, page string) string {
	t.Helper()
	m := headlineOf.FindStringSubmatch(page)
	require.NotNil(t, m)
	return html.UnescapeString(anyTag.ReplaceAllString(m[1], ""))
}

// headlineJSON is what the API says of what fails.
func headlineJSON(t *testing.T, rec *httptest.ResponseRecorder) *v1.Failing {
	t.Helper()
	var list v1.SLOList
	require.NoError(t, json.Unmarshal(rec.Body.Bytes(), &list))
	return list.Failing
}

func TestHeadlineNamesTheCause(t *testing.T) {
	b, book := failing(t)
	const want = "mdm/availability failing since 11:54 UTC (<1% of events in 5m): 2 products affected. Not acknowledged."
	page := b.get("/").Body.String()
	require.Equal(t, want, saidOn(t, page))
	for _, link := range []string{`href="/slo?id=mdm%2Favailability"`, `href="/incident?id=INC-2026-11-0002"`,
		`<time datetime="2026-11-20T11:54:07Z">11:54 UTC</time>`} {
		require.Contains(t, headlineOf.FindString(page), link)
	}
	said := headlineJSON(t, b.get("/api/v1/slos?limit=1&service=insurance-unpaid"))
	require.Equal(t, want, said.Summary)
	require.Len(t, said.Faults, 1, "the filter of a list hides no trouble")
	cause := said.Faults[0]
	require.Equal(t, "mdm/availability", string(*cause.SLO))
	require.Equal(t, "INC-2026-11-0002", cause.Incident)
	require.Equal(t, noon.Add(-6*time.Minute), cause.Since)
	require.Len(t, cause.Affected, 2)
	require.Equal(t, map[string]string{"product": "SOMLT"}, cause.Affected[0].Group)

	tag, apiTag := b.get("/").Header().Get("ETag"), b.get("/api/v1/slos").Header().Get("ETag")
	_, err := book.Do(t.Context(), incident.Operation{Kind: incident.AckIt, ID: "INC-2026-11-0002", By: "Ann",
		How: incident.ByPage})
	require.NoError(t, err)
	require.Contains(t, saidOn(t, b.get("/", "If-None-Match", tag).Body.String()), "1 of 2 incidents acknowledged.")
	require.Equal(t, http.StatusOK, b.get("/api/v1/slos", "If-None-Match", apiTag).Code)
}

// A reader of one service learns nothing of a cause in another, not even that there is one.
func TestHeadlineOfALimitedReader(t *testing.T) {
	b, book := failing(t)
	limited, err := b.web.Limited([]string{"insurance-unpaid"}, func(*gin.Context) {}, anyRequest)
	require.NoError(t, err)
	get := func(target string) *httptest.ResponseRecorder {
		rec := httptest.NewRecorder()
		limited.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, target, nil))
		return rec
	}
	const want = "2 products failing since 11:55 UTC: SOMLT and TRVL10. Not acknowledged."
	foreign := regexp.MustCompile(`mdm(/|%2[Ff])availability|INC-2026-11-0002|caused`)
	require.Regexp(t, foreign, b.get("/").Body.String())
	page := get("/").Body.String()
	require.Equal(t, want, saidOn(t, page))
	require.NotRegexp(t, foreign, page)
	answer := get("/api/v1/slos")
	require.Equal(t, want, headlineJSON(t, answer).Summary)
	require.NotRegexp(t, foreign, answer.Body.String())

	alone := incident.NewBook() // the same without the cause
	*book = memoryBook{Book: alone, now: noon}
	book.fires("insurance-unpaid/availability", "SOMLT", noon.Add(-5*time.Minute))
	book.fires("insurance-unpaid/availability", "TRVL10", noon.Add(-4*time.Minute))
	require.Equal(t, page, get("/").Body.String())
	public := b.get("/public").Body.String()
	require.NotRegexp(t, foreign, public)
	require.NotContains(t, public, "affected")
}

// Senders of events choose the values of groups. On the page they are text, whatever they look like.
func TestHeadlineIsEscaped(t *testing.T) {
	b := newBench(t)
	book := &memoryBook{Book: incident.NewBook(), now: noon}
	b.web.Opt.Incidents = book
	const hostile = `<script>alert("x")</script>`
	for i := range b.rep.SLOs {
		if r := &b.rep.SLOs[i]; r.SLO.ID == "insurance-unpaid/availability" && r.Group[0] == "TRVL10" {
			r.Group = slo.Group{hostile}
		}
	}
	book.fires("insurance-unpaid/availability", hostile, noon.Add(-5*time.Minute))
	page := b.get("/").Body.String()
	require.Equal(t, hostile+" failing since 11:55 UTC (9% of events in 5m). Not acknowledged.", saidOn(t, page))
	require.NotContains(t, page, "<script>alert")
	require.Contains(t, headlineJSON(t, b.get("/api/v1/slos")).Summary, hostile+" failing")

	_, err := book.Do(t.Context(), incident.Operation{Kind: incident.OpenByHand, Key: "k", By: "Ann",
		Severity: incident.Critical, Title: "\u202e<b>tier</b>"})
	require.NoError(t, err)
	page = b.get("/").Body.String()
	require.Contains(t, saidOn(t, page), `\u{202e}<b>tier</b>`)
	require.NotContains(t, page, "<b>tier")
}

// What the engine itself suffers from is below what users suffer from, and is of its service.
func TestAlertsOfTheEngineComeLast(t *testing.T) {
	b, book := failing(t)
	own := state.Alert{Fingerprint: "00000000000000fe", Name: "RateLimitTypeFlood", Severity: "page", Urgent: true,
		Engine: true, State: state.Firing, ActiveSince: noon.Add(-time.Hour), FiredAt: noon.Add(-time.Hour)}
	b.alerts = append(b.alerts, own)
	book.apply(incident.Batch{Operations: []incident.Operation{{Kind: incident.Fire, Title: "flood",
		Onset: noon.Add(-time.Hour), Alert: &incident.Alert{Fingerprint: own.Fingerprint, Name: own.Name,
			Service:  incident.EngineService,
			Severity: incident.Critical, Fired: own.FiredAt}}}})
	page := b.get("/").Body.String()
	require.Contains(t, saidOn(t, page), "mdm/availability failing")
	require.Regexp(t, `(?s)id="alerts".*id="levels".*id="own".*RateLimitTypeFlood`, page)
	require.NotRegexp(t, `(?s)id="alerts".*RateLimitTypeFlood.*id="levels"`, page)
	require.Contains(t, anyTag.ReplaceAllString(page, ""), "The engine itself: RateLimitTypeFlood firing since 11:00 UTC.")

	services := b.get("/services").Body.String()
	require.Regexp(t, `(?s)sloengine.*1 paging alert is firing`, anyTag.ReplaceAllString(services, ""))
	require.Contains(t, saidOn(t, services), "2 paging alerts firing", "one of the two is the engine's")
	*book = memoryBook{Book: incident.NewBook(), now: noon}
	require.Equal(t, "1 SLO firing, 1 exhausted, 1 at risk", saidOn(t, b.get("/").Body.String()))
}

// A forecast is made of hours. Since when an incident runs, its alerts know to the minute.
func TestForecastBeginsAtTheOnset(t *testing.T) {
	b, book := failing(t)
	withForecasts(b)
	const of = "insurance-unpaid/availability?group.product=TRVL10"
	page := b.get("/slo?id=insurance-unpaid/availability&group.product=TRVL10").Body.String()
	require.Contains(t, page, "An incident has been running since 11:56 UTC at a burn rate of 18.0×")
	since := func() time.Time {
		var one v1.SLOAnswer
		require.NoError(t, json.Unmarshal(b.get("/api/v1/slos/"+of).Body.Bytes(), &one))
		return one.SLO.Forecast.Running.Since
	}
	require.Equal(t, noon.Add(-4*time.Minute), since())
	*book = memoryBook{Book: incident.NewBook(), now: noon}
	b.rep.Version++
	require.Equal(t, noon.Add(-2*time.Hour), since(), "without an alert only the hour is known")
}

// When it started, when the first alert fired and when the first page fired are three times.
func TestTimesOfAnIncident(t *testing.T) {
	b := newBench(t)
	book := &memoryBook{Book: incident.NewBook(), now: noon}
	b.web.Opt.Incidents = book
	fire := func(severity incident.Severity, fired time.Time) {
		book.apply(incident.Batch{Operations: []incident.Operation{{Kind: incident.Fire, Title: "Trouble",
			Onset: noon.Add(-10 * time.Minute), OnsetBy: incident.OnsetByCounts, Alert: &incident.Alert{
				Fingerprint: string(severity), Name: string(severity) + "Burn", Service: "mdm", SLO: "mdm/availability",
				Severity: severity, Fired: fired}}}})
	}
	fire(incident.Warning, noon.Add(-8*time.Minute))
	var one struct {
		Onset, Detected time.Time
		Paged           *time.Time
	}
	ask := func() string {
		answer := b.get("/api/v1/incidents/INC-2026-11-0001")
		one.Paged = nil
		require.NoError(t, json.Unmarshal(answer.Body.Bytes(), &one))
		return anyTag.ReplaceAllString(b.get("/incident?id=INC-2026-11-0001").Body.String(), " ")
	}
	page := ask()
	require.Nil(t, one.Paged)
	require.NotContains(t, page, "First paging alert")
	fire(incident.Critical, noon.Add(-5*time.Minute))
	page = ask()
	require.Equal(t, []time.Time{noon.Add(-10 * time.Minute), noon.Add(-8 * time.Minute), noon.Add(-5 * time.Minute)},
		[]time.Time{one.Onset, one.Detected, *one.Paged})
	require.Regexp(t, `(?s)Started.*11:50:07.*First alert: warningBurn.*11:52:07.*First paging alert.*11:55:07`, page)
}

// A group whose budget is exhausted counts as exhausted, also while a page fires on it, in headline, tile and list.
func TestHeadlineAndTilesAgree(t *testing.T) {
	b := newBench(t)
	for i := range b.rep.SLOs {
		r := &b.rep.SLOs[i]
		if r.State = slo.StateOK; r.SLO.ID == "insurance-unpaid/availability" && r.Group[0] == "TRVL10" {
			r.State = slo.StateExhausted
		}
	}
	page := b.get("/?rows=groups").Body.String()
	require.Equal(t, "1 group firing, 1 exhausted", saidOn(t, page))
	tiles := map[string]string{}
	for _, m := range regexp.MustCompile(`<span class="n">(\d+)</span> <span class="w">([^<]+)</span>`).
		FindAllStringSubmatch(page, -1) {
		tiles[m[2]] = m[1]
	}
	require.Equal(t, map[string]string{"firing": "1", "exhausted": "1", "at risk": "0", "no data": "0", "ok": "11",
		"waiting for data": "1"}, tiles)
	for state, rows := range map[string]int{"firing": 1, "exhausted": 1, "ok": 11} {
		require.Len(t, regexp.MustCompile(`<tr [^>]*id="r`).FindAllString(b.get("/?rows=groups&state="+state).Body.String(),
			-1), rows, state)
	}
}
