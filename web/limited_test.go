package web

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/alerts/incident"
	"github.com/sloengine/sloengine/alerts/notify"
	"github.com/sloengine/sloengine/alerts/silence"
	"github.com/sloengine/sloengine/alerts/state"
	"github.com/sloengine/sloengine/ingest/counting"
	"github.com/sloengine/sloengine/reliability/dlq"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/fold"
	"github.com/sloengine/sloengine/slo/traces"
	"github.com/sloengine/sloengine/web/site"
	"github.com/sloengine/sloengine/web/status"
)

// secretService is a service that a limited reader must not find anywhere.
const secretService = "zebra"

// leaks is a text of or about it, wherever one can be.
const leaks = "giraffe"

// secretTrace is a trace of that service.
var secretTrace = traces.ID{0xee}

type quietSilences struct {
	list     []silence.Silence
	previews []notify.Preview
}

func (q quietSilences) Silences() []silence.Silence { return q.list }
func (q quietSilences) Previews() ([]notify.Preview, bool) {
	return q.previews, true
}
func (q quietSilences) AddSilence(s silence.Silence) (silence.Silence, error) {
	return s, nil
}
func (q quietSilences) ExpireSilence(string) (silence.Silence, error) { return silence.Silence{}, nil }
func (q quietSilences) HasReceivers() bool                            { return true }
func (q quietSilences) Inhibiting() func(*state.Alert) string         { return nil }
func (q quietSilences) Silencing() func(*state.Alert) (ids []string)  { return nil }

// limitedBench is an engine of two services, and the router of a reader of one of them.
func limitedBench(t *testing.T) (*bench, http.Handler) {
	t.Helper()
	book := newMemoryBook()
	op := func(service, title string) {
		_, err := book.Do(context.Background(),
			incident.Operation{Kind: incident.OpenByHand, Key: title, Severity: incident.Critical, By: "Ann",
				Title: title, Service: service})
		require.NoError(t, err)
	}
	op(secretService, "incident of "+leaks)
	op("", "of no service, "+leaks)
	op("insurance-unpaid", "incident of mine")
	b := newBench(t, func(o *site.Options) {
		o.Incidents = book
		o.Silences = quietSilences{list: []silence.Silence{
			{ID: "s1", Matchers: silence.Equal("service", secretService), Comment: leaks, Starts: noon.Add(-time.Hour),
				Ends: noon.Add(time.Hour)},
			{ID: "s2", Matchers: `severity="page"`, Comment: leaks, Starts: noon.Add(-time.Hour), Ends: noon.Add(time.Hour)},
			{ID: "s3", Matchers: silence.Equal("service", "insurance-unpaid"), Comment: "mine", Starts: noon.Add(-time.Hour),
				Ends: noon.Add(time.Hour)},
		}, previews: []notify.Preview{
			{At: noon, Receiver: "oncall", Subject: "message of mine", Services: []string{"insurance-unpaid"}},
			{At: noon, Receiver: "oncall", Subject: leaks, Text: leaks, Services: []string{"insurance-unpaid", secretService}},
			{At: noon, Receiver: "oncall", Subject: leaks, Text: leaks, Services: []string{""}},
		}}
		entry := func(id, service string) dlq.Entry {
			return dlq.Entry{ID: id, Origin: dlq.Fold, Reason: "refused", Saved: noon, Service: service, Type: "t",
				Event: json.RawMessage(`{"service":"` + service + `"}`)}
		}
		o.DLQ = newDeadLetterStore(t, entry("d-mine", "insurance-unpaid"), entry("d-"+leaks, secretService),
			dlq.Entry{ID: "range-" + leaks, Origin: dlq.Sink, Sink: leaks, Reason: "lag", Saved: noon, Seq: 1, SeqEnd: 9})
		o.Generations = func(context.Context) ([]fold.Generation, error) {
			return []fold.Generation{{ID: secretService + "/availability", Service: secretService},
				{ID: "insurance-unpaid/availability", Service: "insurance-unpaid"}}, nil
		}
		store := traces.NewStore()
		store.Add("insurance-unpaid/availability", noon.UnixNano(), &traces.Trace{ID: traces.ID{0xab}, Time: noon,
			Group: slo.Group{"SOMLT"}, Service: "insurance-unpaid", Type: "application", Outcome: "failure"})
		store.Add(secretService+"/availability", noon.UnixNano(), &traces.Trace{ID: secretTrace, Time: noon,
			Service: secretService, Type: leaks, Outcome: "failure"})
		o.Traces = store
		o.Parked = func() []fold.Generation { return []fold.Generation{{ID: leaks, Service: secretService}} }
		o.Public = func(slo.ID, map[string]string) bool { return true }
	})
	for i := range b.rep.SLOs {
		if b.rep.SLOs[i].SLO.ID == "mdm/availability" {
			other := *b.rep.SLOs[i].SLO
			other.ID, other.Description = secretService+"/availability", leaks
			b.rep.SLOs[i].SLO = &other
		}
	}
	b.rep.Warnings = []string{"about " + leaks}
	b.rep.Outlooks = &sla.Outlooks{Failed: leaks, Since: noon}
	b.rep.Traffic = append(b.rep.Traffic, sla.TrafficReport{Service: secretService, Type: leaks, Outcome: "success",
		Count: 7}, sla.TrafficReport{Service: "insurance-unpaid", Type: "application", Outcome: "success", Count: 8})
	b.alerts = append(b.alerts, state.Alert{
		Fingerprint: "00000000000000ff", Name: "ErrorBudgetBurnPage", Severity: "page", Service: secretService,
		SLO: secretService + "/availability", State: state.Firing, ActiveSince: noon,
		Labels: []state.Label{{Name: "alertname", Value: "ErrorBudgetBurnPage"}, {Name: "service", Value: secretService}},
	}, state.Alert{Fingerprint: "00000000000000fe", Name: leaks, Engine: true, State: state.Firing, ActiveSince: noon})
	b.eng.Reason = "cannot open " + leaks
	b.eng.Fold.Full = []counting.FullStatus{{SLO: secretService + "/" + leaks, MaxGroups: 1},
		{SLO: "insurance-unpaid/availability", MaxGroups: 7}}
	b.eng.Fold.Crowded = []counting.CrowdedStatus{{SLO: secretService + "/" + leaks}, {SLO: "insurance-unpaid/throughput"}}
	b.eng.Rebuild = &counting.RebuildProgress{SLOs: []string{secretService + "/" + leaks, "insurance-unpaid/latency"},
		Held:    []string{secretService + "/" + leaks},
		Waiting: []string{secretService + "/" + leaks, "insurance-unpaid/latency"},
		Failing: leaks}
	b.eng.Budgets = []status.BudgetStatus{{Service: secretService, Lately: true},
		{Service: "insurance-unpaid", Lately: true}}
	b.eng.Fleet = nil
	pass := func(*gin.Context) {}
	h, err := b.web.Limited([]string{"insurance-unpaid"}, pass, anyRequest)
	require.NoError(t, err)
	return b, h
}

// limitedRoutes says of every address what a reader of some services gets: 200, 403 where it is about all services, 404
// where the path names another one.
var limitedRoutes = []struct {
	path   string
	status int
}{
	{"/", 200}, {"/?q=" + secretService, 200}, {"/?service=" + secretService, 200}, {"/slas", 200}, {"/services", 200},
	{"/report", 200}, {"/report?period=2026-11", 200}, {"/alerts", 200}, {"/alerts?service=" + secretService, 200},
	{"/alert?id=ErrorBudgetBurnPagefiring", 200}, {"/alert?id=00000000000000ff", 404}, {"/alert?id=00000000000000fe", 404},
	{"/slo?id=insurance-unpaid/availability&group.product=SOMLT", 200},
	{"/slo?id=" + secretService + "/availability", 404},
	{"/slo/events?id=insurance-unpaid/availability&group.product=SOMLT", 501},
	{"/slo/events?id=" + secretService + "/availability", 404},
	{"/slo/try?id=insurance-unpaid/availability", 501},
	{"/slo/try?id=" + secretService + "/availability", 404},
	{"/sla?id=insurance-unpaid/insurance", 404}, {"/sla?id=" + secretService + "/x", 404},
	{"/engine", 403}, {"/api/v1/engine", 403}, {"/api/v1/rejects", 403}, {"/api/v1/seen", 403},
	{"/api/v1/annotations", 403},
	{"/engine/dead-letters", 200}, {"/engine/dead-letter?id=d-mine", 200}, {"/engine/dead-letter?id=d-" + leaks, 404},
	{"/engine/dead-letters/confirm", 403}, {"/incidents", 200}, {"/incidents/new", 403}, {"/incident/publish", 403},
	{"/silences", 200},
	{"/silences/new", 403},
	{"/incident?id=INC-2026-11-0002", 404}, {"/incident?id=INC-2026-11-0004", 200}, {"/acknowledge/INC-2026-11-0002", 403},
	{"/acknowledge/INC-2026-11-0002?signature=good", 404},
	{"/api/v1/slos", 200}, {"/api/v1/slos?service=" + secretService, 200},
	{"/api/v1/slos/" + secretService + "/availability", 404},
	{"/api/v1/slos/" + secretService + "/availability/history", 404},
	{"/api/v1/slos/insurance-unpaid/availability?group.product=SOMLT", 200},
	{"/api/v1/slos/insurance-unpaid/availability/history?group.product=SOMLT", 200},
	{"/api/v1/slos/" + secretService + "/availability/ledger", 404},
	{"/api/v1/slos/insurance-unpaid/availability/ledger?group.product=SOMLT", 200},
	{"/api/v1/slos/" + secretService + "/availability/events", 404},
	{"/api/v1/slos/insurance-unpaid/availability/events", 501},
	{"/api/v1/slas", 200}, {"/api/v1/thresholds", 200}, {"/api/v1/limits", 200}, {"/api/v1/alerts", 200},
	{"/api/v1/generations", 200},
	{"/api/v1/report?period=2026-11", 200}, {"/api/v1/report?period=2026-11&format=csv", 200},
	{"/api/v1/report/days.csv?period=2026-11", 200}, {"/api/v1/incidents", 200}, {"/api/v1/incidents.csv", 200},
	{"/api/v1/incidents/measures", 200},
	{"/api/v1/incidents/INC-2026-11-0002", 404}, {"/api/v1/incidents/INC-2026-11-0003", 404},
	{"/api/v1/incidents/INC-2026-11-0004", 200},
	{"/api/v1/dlq", 200}, {"/api/v1/dlq?service=" + secretService, 200}, {"/api/v1/dlq/stats", 200},
	{"/api/v1/dlq/d-mine", 200}, {"/api/v1/dlq/d-" + leaks, 404},
	{"/api/v1/silences", 200}, {"/api/v2/silences", 200}, {"/api/v2/silence/x", 404}, {"/metrics", 200}, {"/public", 200},
	{"/public.json", 200}, {"/public/incidents.atom", 200}, {"/public/summary.json", 200},
	{"/public/components.json", 200}, {"/public/incidents.json", 200}, {"/public/scheduled-maintenances.json", 200},
	{"/public/logo", 404}, {"/public/style.css", 404},
	{"/badge/insurance-unpaid/availability.svg", 200}, {"/badge/" + secretService + "/availability.svg", 404},
	{"/-/healthy", 200}, {"/-/ready", 200}, {"/static/none", 404}, {"/openapi.json", 200}, {"/events/stream", 0},
	{"/api/v1/ratelimit/x", 403}, {"/api/v1/sums", 403}, {"/debug/pprof/", 403}, {"/nowhere", 403},
}

func TestLimitedReadersSeeTheirServicesOnly(t *testing.T) {
	b, h := limitedBench(t)
	tried := map[string]bool{}
	for _, r := range limitedRoutes {
		path, _, _ := strings.Cut(r.path, "?")
		tried[path] = true
		if r.status == 0 {
			continue // a stream of versions
		}
		req := httptest.NewRequest(http.MethodGet, r.path, nil)
		req.Host = "127.0.0.1:8080"
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, req)
		answer := rec.Body.String()
		require.Equal(t, r.status, rec.Code, "%s: %s", r.path, answer[:min(len(answer), 500)])
		if r.path != "/openapi.json" { // which is about no data
			// Only what the reader wrote may come back.
			for _, secret := range []string{leaks, secretService, secretTrace.String()} {
				at := regexp.MustCompile(`\b` + secret + `\b`).FindStringIndex(answer)
				if at != nil && !strings.Contains(r.path, secret) {
					t.Errorf("%s shows %s: %s", r.path, secret, answer[max(0, at[0]-200):min(len(answer), at[1]+100)])
				}
			}
		}
		// The same address shows the other service to everybody else, so the test can fail.
		if r.status == 200 && slices.Contains([]string{"/", "/api/v1/slos", "/api/v1/alerts", "/api/v1/generations",
			"/api/v1/incidents", "/incidents", "/api/v1/silences", "/api/v2/silences", "/metrics", "/public", "/report",
			"/api/v1/dlq"}, r.path) {
			require.True(t, strings.Contains(b.get(r.path).Body.String(), secretService), r.path)
			require.True(t, strings.Contains(answer, "insurance-unpaid"), r.path)
		}
	}
	// Every address that is read is in the table.
	for _, r := range b.router.Routes() {
		if r.Method != http.MethodGet {
			continue
		}
		want := strings.Split(r.Path, "/")
		found := slices.ContainsFunc(limitedRoutes, func(x struct {
			path   string
			status int
		}) bool {
			path, _, _ := strings.Cut(x.path, "?")
			have := strings.Split(path, "/")
			return len(have) == len(want) && !slices.ContainsFunc(want, func(part string) bool {
				i := slices.Index(want, part)
				return !strings.HasPrefix(part, ":") && have[i] != part
			})
		})
		require.True(t, found, "%s is not in limitedRoutes", r.Path)
	}
	stats := httptest.NewRecorder()
	h.ServeHTTP(stats, httptest.NewRequest(http.MethodGet, "/api/v1/dlq/stats", nil))
	require.Contains(t, stats.Body.String(), `"count":1`)

	// Of the parts of the engine there are those about the services.
	ready := httptest.NewRecorder()
	h.ServeHTTP(ready, httptest.NewRequest(http.MethodGet, "/-/ready", nil))
	var answer health
	require.NoError(t, json.Unmarshal(ready.Body.Bytes(), &answer))
	var parts []string
	for _, d := range answer.Degraded {
		parts = append(parts, d.Part+" "+d.Name)
	}
	require.Equal(
		t, []string{"budget insurance-unpaid", "slo insurance-unpaid/availability", "slo insurance-unpaid/throughput"}, parts)
}

// What a site of all services has gained is nothing that a limited reader gets unasked.
func TestLimitedSitesHaveNothingByThemselves(t *testing.T) {
	full := site.Options{}
	v := reflect.ValueOf(&full).Elem()
	fields := reflect.VisibleFields(v.Type()) // those of the embedded ones, too
	for i := range fields {
		if f := v.FieldByIndex(fields[i].Index); f.Kind() == reflect.Func {
			f.Set(reflect.MakeFunc(f.Type(), func([]reflect.Value) []reflect.Value { panic("asked") }))
		}
	}
	out := reflect.ValueOf(newScope([]string{"a"}).restrict(full))
	var open []string
	for i := range fields {
		if f := out.FieldByIndex(fields[i].Index); f.Kind() == reflect.Func && !f.IsNil() {
			open = append(open, fields[i].Name)
		}
	}
	require.Equal(t, []string{"Report", "Source", "Counts", "Kept", "Onsets", "Events", "Try", "Counters", "Engine",
		"Brief", "Findings", "Alerts", "Generations",
		"Spans", "Caller", "Audit", "Public", "PublicSLA", "Now", "LogError"}, open,
		"whatever is new here needs a filter in scope.go")
}

// A reader whose services changed must not get what was made for the former ones.
func TestScopesShareNoAnswers(t *testing.T) {
	b, mine := limitedBench(t)
	other, err := b.web.Limited([]string{secretService}, func(*gin.Context) {}, anyRequest)
	require.NoError(t, err)
	get := func(h http.Handler, header ...string) *httptest.ResponseRecorder {
		req := httptest.NewRequest(http.MethodGet, "/api/v1/slos", nil)
		req.Header.Set("Authorization", "Bearer the-same-token-of-both")
		if len(header) == 2 {
			req.Header.Set(header[0], header[1])
		}
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, req)
		return rec
	}
	first := get(mine)
	require.True(t, strings.Contains(first.Body.String(), "insurance-unpaid/"))
	second := get(other, "If-None-Match", first.Header().Get("ETag"))
	require.Equal(t, 200, second.Code)
	require.False(t, strings.Contains(second.Body.String(), "insurance-unpaid/"))
	require.True(t, strings.Contains(second.Body.String(), secretService+"/availability"))
}
