package web

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/alerts/incident"
	"github.com/sloengine/sloengine/alerts/silence"
	"github.com/sloengine/sloengine/alerts/state"
	"github.com/sloengine/sloengine/ingest/counting"
	"github.com/sloengine/sloengine/reliability/dlq"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/sla/annotation"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/fold"
	"github.com/sloengine/sloengine/web/deadletters"
	"github.com/sloengine/sloengine/web/site"
	"github.com/sloengine/sloengine/web/status"
)

// stingyDLQ reads a few entries for each page, as a store does that has read as much as one page may cost: its pages
// are short or empty before the end.
type stingyDLQ struct{ site.DLQ }

func (d stingyDLQ) List(ctx context.Context, q dlq.Query) (dlq.Page, error) {
	all := dlq.Query{Newest: q.Newest, Limit: min(3, max(q.Limit, 1)), Cursor: q.Cursor}
	page, err := d.DLQ.List(ctx, all)
	page.Entries = slices.DeleteFunc(page.Entries, func(e dlq.Entry) bool { return !q.Match(&e) })
	return page, err
}

// mixed is a list with foreign items at random places among the own ones, or without them.
func mixed[T any](rnd *rand.Rand, foreign bool, own, others []T) []T {
	out := slices.Clone(own)
	if foreign {
		for _, x := range others {
			out = slices.Insert(out, rnd.IntN(len(out)+1), x)
		}
	}
	return out
}

// countingDLQ counts how often a store is read as a whole.
type countingDLQ struct {
	site.DLQ
	scans int
}

func (d *countingDLQ) DiscardMatching(ctx context.Context, q dlq.Query, dryRun bool) (int, error) {
	d.scans++
	return d.DLQ.DiscardMatching(ctx, q, dryRun)
}

func anyRequest(*http.Request) bool { return true }

func ask(h http.Handler, target string) *httptest.ResponseRecorder {
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, target, nil))
	return rec
}

// Statistics for several services read the store once, and again only after it has changed.
func TestLimitedStatisticsAreCountedOnce(t *testing.T) {
	dead := newDeadLetterStore(t, manyDeadLetters(30)...)
	store := &countingDLQ{DLQ: dead}
	b := newBench(t, func(o *site.Options) { o.DLQ = store })
	h, err := b.web.Limited([]string{"s0", "s1"}, func(*gin.Context) {}, anyRequest)
	require.NoError(t, err)
	for range 3 {
		require.JSONEq(t, `{"backend":"memory","count":20,"bytes":0,"by_origin":{},"by_reason":{},"by_sink":{}}`,
			ask(h, "/api/v1/dlq/stats").Body.String())
	}
	require.Equal(t, 1, store.scans)
	_, err = dead.store.Discard(t.Context(), []string{"sink-w-0000-0"})
	require.NoError(t, err)
	require.Contains(t, ask(h, "/api/v1/dlq/stats").Body.String(), `"count":19`)
	require.Equal(t, 2, store.scans)
}

// A cursor tells nothing of what lies between two entries, and is good for the same services only.
func TestCursorsOfLimitedReadersAreSealed(t *testing.T) {
	b := newBench(t, func(o *site.Options) { o.DLQ = newDeadLetterStore(t, manyDeadLetters(2000)...) })
	next := func(h http.Handler, target string) string {
		var page deadletters.List
		rec := ask(h, target)
		require.Equal(t, http.StatusOK, rec.Code, rec.Body)
		require.NoError(t, json.Unmarshal(rec.Body.Bytes(), &page))
		return page.Next
	}
	mine, err := b.web.Limited([]string{"s0"}, func(*gin.Context) {}, anyRequest)
	require.NoError(t, err)
	other, err := b.web.Limited([]string{"s1"}, func(*gin.Context) {}, anyRequest)
	require.NoError(t, err)
	first, far := next(mine, "/api/v1/dlq?limit=1&order=oldest"), next(mine, "/api/v1/dlq?limit=500&order=oldest")
	require.Len(t, first, len(far))
	require.NotEqual(t, first, next(mine, "/api/v1/dlq?limit=1&order=oldest"))
	require.NotEmpty(t, next(mine, "/api/v1/dlq?limit=1&order=oldest&cursor="+first))
	open := next(b.router, "/api/v1/dlq?limit=1")
	for _, c := range []string{open, "x", first[1:], next(other, "/api/v1/dlq?limit=1&order=oldest")} {
		require.Equal(t, http.StatusBadRequest, ask(mine, "/api/v1/dlq?limit=1&order=oldest&cursor="+c).Code, c)
	}
	require.Equal(t, http.StatusBadRequest, ask(b.router, "/api/v1/dlq?limit=1&cursor="+first).Code)
}

// sharedEngine is an engine of two services of the reader and, if foreign is set, of others whose names are similar.
// change makes something else of it.
func sharedEngine(t *testing.T, rnd *rand.Rand, foreign bool, change ...func(*site.Options)) http.Handler {
	t.Helper()
	mine := []string{"insurance-unpaid", "mdm"}
	others := []string{"mdm2", "insurance", "unpaid-insurance", "insurance-unpaid-2", "micro-mdm"}
	other := func() string { return others[rnd.IntN(len(others))] }
	b := newBench(t, append([]func(*site.Options){func(o *site.Options) {
		book := newMemoryBook()
		open := func(service, title string) {
			_, err := book.Do(context.Background(),
				incident.Operation{Kind: incident.OpenByHand, Key: title, Severity: incident.Critical, By: "Ann",
					Title: title, Service: service})
			require.NoError(t, err)
		}
		for i := range 5 {
			open(mine[i%2], fmt.Sprint("mine ", i))
		}
		if foreign { // later, because their numbers are those of all services
			for i := range 7 {
				open(append(others, "")[i%6], fmt.Sprint("other ", i))
			}
		}
		o.Incidents = book

		hold := func(id, matchers string) silence.Silence {
			return silence.Silence{ID: id, Matchers: matchers, Starts: noon.Add(-time.Hour), Ends: noon.Add(time.Hour),
				Author: "a", Comment: "c"}
		}
		o.Silences = quietSilences{list: mixed(rnd, foreign,
			[]silence.Silence{hold("s1", `service="mdm"`), hold("s2", `severity="page",service=insurance-unpaid`),
				hold("s3", `{ service = "mdm" }`)},
			[]silence.Silence{
				hold("o1", `microservice="mdm"`), hold("o2", `service=~"mdm|mdm2"`), hold("o3", `service!="mdm"`),
				hold("o4", `alertname="service=\"mdm\""`),
				hold("o5", `service="mdm2"`), hold("o6", `severity="page"`), hold("o7", `service="mdm",service="mdm2"`),
				hold("o8", `service=~"mdm2",x="service=\"mdm\""`),
			})}

		var dead, foreignDead []dlq.Entry
		for i := range 11 {
			dead = append(dead, dlq.Entry{
				ID: fmt.Sprint("mine-", i), Origin: dlq.Fold, Reason: "refused", Saved: noon.Add(-time.Duration(i) * time.Minute),
				Service: mine[i%2], Type: "t", Event: json.RawMessage(`{"n":1}`),
			})
		}
		for i := range 5 + rnd.IntN(30) {
			e := dlq.Entry{ID: fmt.Sprint("other-", i), Origin: dlq.Sink, Sink: "hidden", Reason: "expired",
				Saved: noon.Add(-time.Duration(i) * time.Minute), Service: other(), Type: "t",
				Event: json.RawMessage(`{"service":"mdm"}`)}
			if i%4 == 0 {
				e.Service = ""
			}
			foreignDead = append(foreignDead, e)
		}
		o.DLQ = stingyDLQ{newDeadLetterStore(t, mixed(rnd, foreign, dead, foreignDead)...)}
		generation := func(service string) fold.Generation {
			return fold.Generation{ID: service + "/availability", Service: service}
		}
		o.Generations = func(context.Context) ([]fold.Generation, error) {
			return mixed(rnd, foreign, []fold.Generation{generation("mdm")},
				[]fold.Generation{generation(other()), generation(other())}), nil
		}
		o.Public = func(slo.ID, map[string]string) bool { return true }
		o.PublicSLA = func(*sla.Agreement) bool { return true }
	}}, change...)...)
	rep := b.rep
	// The reader's two services are all that the fixture has. Others get copies of them.
	var slos []sla.SLOReport
	for i := range rep.SLOs {
		x := rep.SLOs[i]
		def := *x.SLO
		def.ID = slo.NewID(other(), def.ID.Name())
		x.SLO = &def
		slos = append(slos, x)
	}
	rep.SLOs = mixed(rnd, foreign, rep.SLOs, slos)
	slices.SortStableFunc(rep.SLOs, func(a, b sla.SLOReport) int {
		return strings.Compare(string(a.SLO.ID), string(b.SLO.ID))
	})
	var slas []sla.SLAReport
	for i := range rep.SLAs {
		x := rep.SLAs[i]
		def := *x.SLA
		def.Service = other()
		x.SLA = &def
		slas = append(slas, x)
	}
	rep.SLAs = mixed(rnd, foreign, rep.SLAs, slas)
	var thresholds []sla.ThresholdReport
	for i := range rep.Thresholds {
		x := rep.Thresholds[i]
		def := *x.Threshold
		def.Service = other()
		x.Threshold = &def
		thresholds = append(thresholds, x)
	}
	rep.Thresholds = mixed(rnd, foreign, rep.Thresholds, thresholds)
	rep.Traffic = mixed(rnd, foreign,
		append(rep.Traffic, sla.TrafficReport{Service: "mdm", Type: "t", Outcome: "success", Count: 8}),
		[]sla.TrafficReport{{Service: other(), Type: "x", Outcome: "success", Count: 3}})
	rep.Durations = mixed(rnd, foreign, rep.Durations,
		[]sla.DurationReport{
			{Service: other(), Type: "x", Outcome: "success", Buckets: []time.Duration{time.Second}, Counts: []uint64{1, 2}}})
	rep.InFlight = mixed(rnd, foreign, rep.InFlight, []slo.InFlight{{SLO: slo.NewID(other(), "x"), Max: 10}})
	if foreign {
		rep.Warnings = append(rep.Warnings, "about "+other())
		rep.Watermark, rep.Took = noon, time.Second // others' events are counted, too
	}
	var alerts []state.Alert
	for i := range b.alerts {
		x := b.alerts[i]
		x.Service, x.Fingerprint = other(), x.Fingerprint+"-other"
		x.SLO = slo.NewID(x.Service, "availability")
		alerts = append(alerts, x)
	}
	b.alerts = mixed(rnd, foreign, b.alerts,
		append(alerts, state.Alert{Fingerprint: "fe", Name: "EngineNotReady", Engine: true,
			State: state.Firing, ActiveSince: noon}))
	b.held = mixed(rnd, foreign, []state.Held{{Name: "h", Service: "mdm"}}, []state.Held{{Name: "h", Service: other()}})
	if foreign {
		b.eng.Ingest.Received += 1000
		b.eng.Fold.Full = []counting.FullStatus{{SLO: other() + "/availability", MaxGroups: 1}}
		b.eng.Budgets = []status.BudgetStatus{{Service: other(), Lately: true}}
		b.eng.Spec.Hash = "another"
		b.eng.Spec.Problems = nil
		b.eng.Troubles = []status.TroubleStatus{{Part: "log", Reason: "other", Since: noon}}
	}
	h, err := b.web.Limited(mine, func(*gin.Context) {}, anyRequest)
	require.NoError(t, err)
	return h
}

// lists are all addresses that list something, with the filters and pages that they know.
var lists = []string{
	"/", "/?q=mdm", "/?service=mdm2", "/?sort=burn", "/?state=ok", "/slas", "/services", "/report?period=2026-11",
	"/alerts", "/alerts?q=a",
	"/report?period=2026-11&service=mdm2", "/incidents", "/incidents?state=open", "/silences",
	"/engine/dead-letters", "/engine/dead-letters?service=mdm", "/engine/dead-letters?service=mdm2",
	"/engine/dead-letters?sink=hidden", "/engine/dead-letters?reason=expired",
	"/api/v1/slos", "/api/v1/slos?limit=1", "/api/v1/slos?limit=2&service=mdm2", "/api/v1/slas", "/api/v1/thresholds",
	"/api/v1/limits", "/api/v1/alerts", "/api/v1/alerts?limit=1", "/api/v1/alerts?service=mdm2", "/api/v1/generations",
	"/api/v1/report?period=2026-11", "/api/v1/report?period=2026-11&format=csv", "/api/v1/report/days.csv?period=2026-11",
	"/api/v1/incidents", "/api/v1/incidents?limit=1", "/api/v1/incidents?service=mdm2", "/api/v1/incidents.csv",
	"/api/v1/incidents/measures",
	"/api/v1/dlq", "/api/v1/dlq?limit=1", "/api/v1/dlq?limit=2&order=oldest", "/api/v1/dlq?limit=3&service=mdm",
	"/api/v1/dlq?limit=1&service=mdm2", "/api/v1/dlq?limit=1&service=", "/api/v1/dlq?limit=11",
	"/api/v1/dlq?sink=hidden&limit=1", "/api/v1/dlq?reason=expired&limit=1&order=oldest", "/api/v1/dlq?origin=sink",
	"/api/v1/dlq?from=2026-11-20T09:45:00Z&limit=1",
	"/api/v1/dlq/stats", "/api/v1/silences", "/api/v2/silences", "/metrics", "/public", "/public.json",
	"/public/incidents.atom", "/public/summary.json", "/public/components.json", "/public/incidents.json",
	"/public/scheduled-maintenances.json", "/-/ready", "/-/healthy",
	"/slo?id=insurance-unpaid/availability&group.product=SOMLT",
	"/api/v1/slos/insurance-unpaid/availability?group.product=SOMLT",
	"/api/v1/slos/insurance-unpaid/availability/history?group.product=SOMLT",
	"/api/v1/slos/insurance-unpaid/availability/ledger?group.product=SOMLT",
	"/api/v1/slos/insurance-unpaid/availability/events",
}

var cursors = regexp.MustCompile(`("next_cursor":|[?&;]cursor=)"?([A-Za-z0-9_-]+)`)

// walk reads a list to its end. Cursors of dead letters are left out of what it returns, since they are sealed.
func walk(t *testing.T, h http.Handler, path string) (pages []string) {
	sealed := strings.Contains(path, "dlq") || strings.Contains(path, "dead-letters")
	for target := path; target != ""; {
		require.Less(t, len(pages), 100, "%s does not end", path)
		req := httptest.NewRequest(http.MethodGet, target, nil)
		req.Host = "127.0.0.1:8080"
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, req)
		require.Contains(t, []int{http.StatusOK, http.StatusNotImplemented}, rec.Code, "%s: %s", target, rec.Body)
		body := rec.Body.String()
		next := cursors.FindStringSubmatch(body)
		if sealed {
			body = cursors.ReplaceAllString(body, "$1(sealed)")
		}
		header := maps.Clone(rec.Header())
		pages = append(pages, fmt.Sprintf("%d %v\n%s", rec.Code, header, body))
		if target = ""; next != nil {
			join := "?"
			if strings.Contains(path, "?") {
				join = "&"
			}
			target = path + join + "cursor=" + next[2]
		}
	}
	return pages
}

// cannotTell compares all lists of two sites, byte for byte.
func cannotTell(t *testing.T, seed uint64, alone, shared http.Handler) {
	t.Helper()
	for _, path := range lists {
		want, got := walk(t, alone, path), walk(t, shared, path)
		for i := range min(len(want), len(got)) {
			if want[i] != got[i] {
				at := 0
				for at < min(len(want[i]), len(got[i])) && want[i][at] == got[i][at] {
					at++
				}
				from := max(0, at-200)
				t.Errorf("seed %d, %s, page %d: alone\n%s\nbeside others\n%s", seed, path, i+1,
					want[i][from:min(len(want[i]), at+200)], got[i][from:min(len(got[i]), at+200)])
			}
		}
		assert.Len(t, got, len(want), "seed %d: pages of %s", seed, path)
	}
}

// A reader of some services gets the same answers, byte for byte, from an engine that has other services and from one
// that does not.
func TestLimitedReadersCannotTellWhetherThereAreOthers(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3) {
		cannotTell(t, seed, sharedEngine(t, rand.New(rand.NewPCG(seed, 1)), false),
			sharedEngine(t, rand.New(rand.NewPCG(seed, 2)), true))
	}
	for _, r := range limitedRoutes { // every address that the reader gets, but for single things
		path, _, _ := strings.Cut(r.path, "?")
		single := regexp.MustCompile(
			`[?&]id=|/dlq/d-|/incidents/INC|/slos/|^/badge/|^/openapi.json|^/acknowledge/`).MatchString(r.path)
		require.True(t, r.status != 200 || single || slices.ContainsFunc(lists, func(l string) bool {
			return strings.HasPrefix(l, path)
		}), r.path)
	}
}

// The same holds for a view of engines, some of which count for others only: neither the engines, nor what each counted
// or noted, nor that one is missing shows.
func TestLimitedReadersOfAViewCannotTellWhetherThereAreOthers(t *testing.T) {
	t.Parallel()
	view := func(foreign bool) func(*site.Options) {
		return func(o *site.Options) {
			ofThree(o)
			o.Incidents, o.Silences, o.Generations = nil, nil, nil
			notes := fixedNotes{{ID: "n1", At: noon, Kind: annotation.Note, Service: "mdm", Text: "mine"}}
			if foreign {
				notes = append(
					notes, annotation.Annotation{ID: "n2", At: noon, Kind: annotation.Note, Service: "mdm2", Text: "other"})
			} else {
				eng := o.Engine()
				eng.Fleet = eng.Fleet[:1]
				o.Engine, o.Parts = func() status.Engine { return eng }, nil
			}
			o.Annotations = notes
		}
	}
	cannotTell(t, 1, sharedEngine(t, rand.New(rand.NewPCG(1, 1)), false, view(false)),
		sharedEngine(t, rand.New(rand.NewPCG(1, 2)), true, view(true)))
}

// fixedNotes are the annotations of the engines of a view.
type fixedNotes []annotation.Annotation

func (n fixedNotes) List(service string, sp slo.Span) []annotation.Annotation {
	return annotation.Select(n, service, sp)
}
func (n fixedNotes) Changes() uint64 { return uint64(len(n)) }
