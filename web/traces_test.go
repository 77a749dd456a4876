package web

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/alerts/incident"
	"github.com/sloengine/sloengine/alerts/state"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/traces"
	"github.com/sloengine/sloengine/web/api/v1"
	"github.com/sloengine/sloengine/web/site"
)

// withTraces adds n traces of a group, of events that are a second apart and end at noon.
func withTraces(store *traces.Store, r *sla.SLOReport, n int) {
	for i := range n {
		at := noon.Add(time.Duration(i-n) * time.Second)
		store.Add(r.SLO.ID, at.UnixNano(), &traces.Trace{ID: traces.ID{0xab, 15: byte(i + 1)}, Time: at, Group: r.Group,
			Duration: 1234 * time.Millisecond, Service: r.SLO.ID.Service(), Type: "<b>order", Outcome: "failure"})
	}
}

// TestFailingTraces: the page lists the newest traces of bad events of the group with links, the API all of them.
func TestFailingTraces(t *testing.T) {
	t.Parallel()
	store := traces.NewStore()
	b := newBench(t, func(o *site.Options) {
		o.Traces, o.TraceURL = store, `https://tempo.example/trace/{trace_id}?q="&x=<`
	})
	r, other := &b.rep.SLOs[0], &b.rep.SLOs[1]
	require.Equal(t, r.SLO.ID, other.SLO.ID)
	page := func() string {
		t.Helper()
		rec := b.get("/slo?id="+string(r.SLO.ID)+"&group.product="+r.Group[0], "Accept", "text/html")
		require.Equal(t, http.StatusOK, rec.Code)
		return rec.Body.String()
	}
	list := func() (out v1.SLOAnswer) {
		t.Helper()
		require.NoError(t, json.Unmarshal(b.get(apiOf(r)).Body.Bytes(), &out))
		newContract(t, b).answer(b, http.MethodGet, apiOf(r), http.StatusOK)
		return out
	}
	require.NotContains(t, page(), "Failing traces")
	require.Equal(t, []v1.Trace{}, list().Traces)

	withTraces(store, r, 8)
	store.Add(other.SLO.ID, noon.UnixNano(), &traces.Trace{ID: traces.ID{0xcd}, Time: noon, Group: other.Group,
		Duration: -1})
	b.rep.Version++
	body := page()
	require.Equal(t, 5, strings.Count(body, `<a href="https://tempo.example/trace/ab`))
	require.Contains(t, body, `<a href="https://tempo.example/trace/ab000000000000000000000000000008?q=%22&amp;x=%3c"`)
	require.NotContains(t, body, "ab000000000000000000000000000003", "it is older than five others")
	require.Contains(t, body, "3 more as JSON")
	require.Contains(t, body, "&lt;b&gt;order")
	require.Contains(t, body, "1.23s")
	require.NotContains(t, body, "cd00000000", "it is of another group")

	got := list().Traces
	require.Len(t, got, 8)
	seconds := 1.234
	require.Equal(t, v1.Trace{ID: "ab000000000000000000000000000008", Time: noon.Add(-time.Second), Type: "<b>order",
		Outcome: "failure", Duration: &seconds,
		URL: `https://tempo.example/trace/ab000000000000000000000000000008?q="&x=<`}, got[0])

	b.now = noon.Add(traces.Retention - 3*time.Second)
	require.Len(t, list().Traces, 3, "older ones are not shown")
	b.now = noon.Add(traces.Retention + time.Hour)
	require.Empty(t, list().Traces)
}

// TestTracesWithoutAnAddress: ids are shown as text where web.trace_url is not set.
func TestTracesWithoutAnAddress(t *testing.T) {
	t.Parallel()
	store := traces.NewStore()
	b := newBench(t, func(o *site.Options) { o.Traces = store })
	r := &b.rep.SLOs[0]
	withTraces(store, r, 1)
	body := b.get("/slo?id="+string(r.SLO.ID)+"&group.product="+r.Group[0], "Accept", "text/html").Body.String()
	require.Contains(t, body, `<th scope="row"><code>ab000000000000000000000000000001</code></th>`)
	require.NotContains(t, b.get(apiOf(r)).Body.String(), `"url"`)
}

// TestTracesOfServices: a reader of some services gets no trace of another one, wherever it is asked for.
func TestTracesOfServices(t *testing.T) {
	store := traces.NewStore()
	for _, id := range []slo.ID{"shop/a", "web/a"} {
		store.Add(id, noon.UnixNano(), &traces.Trace{ID: traces.ID{1}, Time: noon, Service: id.Service()})
	}
	scoped := newScope([]string{"shop"}).restrict(site.Options{Numbers: site.Numbers{Traces: store}}).Traces
	require.Len(t, scoped.Of("shop/a", nil, noon), 1)
	require.Empty(t, scoped.Of("web/a", nil, noon))
	require.Len(t, scoped.All(noon), 1)
	require.Equal(t, slo.ID("shop/a"), scoped.All(noon)[0].SLO)

	b, h := limitedBench(t)
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/api/v1/slos/insurance-unpaid/availability?group.product=SOMLT",
		nil))
	require.Contains(t, rec.Body.String(), `"trace_id":"ab`)
	require.Contains(t, b.get("/api/v1/slos/"+secretService+"/availability").Body.String(),
		secretTrace.String(), "the others see it")
}

// TestLinksToFailingTraces: the pages of an alert and of an incident lead to the failing traces of their groups, if
// there are any.
func TestLinksToFailingTraces(t *testing.T) {
	store := traces.NewStore()
	b, book := withIncidents(t)
	someIncidents(book)
	b.web.Opt.Traces = store
	const link = `href="/slo?group.product=MEDCARE&amp;id=insurance-unpaid%2Favailability#traces"`
	require.NotContains(t, b.get(firstIncident).Body.String(), "#traces")
	require.NotContains(t, b.get("/alert?id="+burningAlert).Body.String(), "#traces")
	b.rep.Version++
	store.Add("insurance-unpaid/availability", noon.UnixNano(), &traces.Trace{ID: traces.ID{1}, Time: noon,
		Group: slo.Group{"MEDCARE"}})
	require.Contains(t, b.get(firstIncident).Body.String(), link)
	i := slices.IndexFunc(b.alerts, func(a state.Alert) bool { return a.Fingerprint == burningAlert })
	a := &b.alerts[i]
	store.Add(a.SLO, noon.UnixNano(), &traces.Trace{ID: traces.ID{3}, Time: noon, Group: a.Group})
	require.Contains(t, b.get("/alert?id="+burningAlert).Body.String(), `#traces"><span>Failing traces</span></a>`)
}

// TestWhy: the pages of an alert, its SLO and its incident, and the first one, say what is different about the bad
// events.
func TestWhy(t *testing.T) {
	b, book := withIncidents(t)
	i := slices.IndexFunc(b.alerts, func(a state.Alert) bool { return a.Fingerprint == burningAlert })
	a := &b.alerts[i]
	book.apply(incident.Batch{Operations: []incident.Operation{{Kind: incident.Fire, Title: "It burns", Onset: a.FiredAt,
		OnsetBy: incident.OnsetByAlert, Alert: &incident.Alert{Fingerprint: a.Fingerprint, Name: a.Name, Service: a.Service,
			SLO: string(a.SLO), Group: a.Group, Severity: incident.Critical, Fired: a.FiredAt}}}})
	open := book.View().Of(a.Fingerprint)
	for _, page := range []string{"/", "/alert?id=" + burningAlert, "/incident?id=" + open.ID,
		"/slo?" + site.GroupQuery(a.GroupBy, a.Group).Encode() + "&id=" + string(a.SLO)} {
		a.Why = ""
		b.rep.Version++
		require.NotContains(t, b.get(page, "Accept", "text/html").Body.String(), "Without bank", page)
		a.Why = "Without bank=<b>X the burn rate would be 0.8 instead of 21."
		b.rep.Version++
		require.Contains(t, b.get(page, "Accept", "text/html").Body.String(),
			"Without bank=&lt;b&gt;X the burn rate would be", page)
	}
}
