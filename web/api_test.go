package web

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"
	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/ingest/counting"
	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/fold"
	"github.com/sloengine/sloengine/slo/spec"
	"github.com/sloengine/sloengine/slo/traces"
	"github.com/sloengine/sloengine/web/api/v1"
	"github.com/sloengine/sloengine/web/site"
	"github.com/sloengine/sloengine/web/status"
)

// contract checks requests and answers against the served OpenAPI document.
type contract struct {
	t      *testing.T
	router routers.Router
	seen   map[string]bool // "GET /path 200" that a test has covered
}

// The validator's own pattern refuses the lower-case t and z of RFC 3339.
func init() {
	openapi3.DefineStringFormatValidator(
		"date-time", openapi3.NewRegexpFormatValidator("(?i)"+openapi3.FormatOfStringDateTime))
}

func newContract(t *testing.T, b *bench) *contract {
	rec := b.get("/openapi.json")
	require.Equal(t, http.StatusOK, rec.Code)
	doc, err := openapi3.NewLoader().LoadFromData(rec.Body.Bytes())
	require.NoError(t, err)
	require.NoError(t, doc.Validate(context.Background()))
	require.Equal(t, "1.0.0", doc.Info.Version)
	doc.Servers = openapi3.Servers{{URL: "http://127.0.0.1:8080"}}
	router, err := gorillamux.NewRouter(doc)
	require.NoError(t, err)
	return &contract{t, router, map[string]bool{}}
}

func (k *contract) request(r *http.Request) *openapi3filter.RequestValidationInput {
	k.t.Helper()
	route, params, err := k.router.FindRoute(r)
	require.NoError(k.t, err, "%s %s", r.Method, r.URL)
	return &openapi3filter.RequestValidationInput{Request: r, PathParams: params, Route: route,
		Options: &openapi3filter.Options{
			AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, IncludeResponseStatus: true,
		}}
}

// answer checks one real answer, status, content type and body.
func (k *contract) answer(b *bench, method, target string, want int, header ...string) []byte {
	k.t.Helper()
	rec := b.do(method, target, header...)
	require.Equal(k.t, want, rec.Code, "%s %s: %s", method, target, rec.Body)
	r, err := http.NewRequest(method, "http://127.0.0.1:8080"+target, nil)
	require.NoError(k.t, err)
	in := k.request(r)
	if want < 400 {
		require.NoError(k.t, openapi3filter.ValidateRequest(context.Background(), in), target)
	}
	require.NoError(k.t, openapi3filter.ValidateResponse(context.Background(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: in, Status: rec.Code, Header: rec.Header(),
		Body: io.NopCloser(bytes.NewReader(rec.Body.Bytes())), Options: in.Options,
	}), "%s %s", method, target)
	if want >= 400 && in.Route.Path[:3] != "/-/" {
		require.Equal(k.t, "application/problem+json", rec.Header().Get("Content-Type"), target)
	}
	k.seen[method+" "+in.Route.Path] = true
	return rec.Body.Bytes()
}

func TestAnswersKeepTheContract(t *testing.T) {
	b := newBench(t)
	b.eng.Spec.Failed, b.eng.Spec.Problems = noon,
		[]spec.Problem{{Position: spec.Position{File: "a.yaml", Line: 1, Column: 2}, Severity: "error", Message: "m"}}
	b.rep.Warnings = []string{"w"}
	k := newContract(t, b)
	const one = "/api/v1/slos/insurance-unpaid/availability"
	for target, status := range map[string]int{
		"/api/v1/slos": 200, "/api/v1/slos?service=mdm&state=ok&q=avail&limit=5": 200, "/api/v1/slos?state=bad": 400,
		"/api/v1/slos?limit=0": 400, "/api/v1/slos?limit=1000": 200, "/api/v1/slos?limit=1001": 400,
		"/api/v1/slos?limit=x":    400,
		"/api/v1/slos?cursor=%21": 400, "/api/v1/slos?cursor=e30x": 400,
		"/api/v1/slos?label.team=unpaid&group.product=SOMLT": 200,
		one + "?group.product=MEDCARE":                       200, "/api/v1/slos/mdm/availability": 200, one: 404,
		one + "?group.product=NOPE":            404,
		"/api/v1/slos/no/no":                   404,
		one + "/history?group.product=MEDCARE": 200,
		one + "/history?group.product=MEDCARE&from=2026-11-19T00:00:00Z&to=2026-11-20T00:00:00%2B03:00&step=30m": 200,
		one + "/history?group.product=MEDCARE&from=1763596800&step=3600":                                         400,
		one + "/history?group.product=MEDCARE&step=1s":                                                           400,
		one + "/history?group.product=MEDCARE&to=x":                                                              400,
		one + "/history?group.product=MEDCARE&from=x":                                                            400,
		one + "/history?group.product=MEDCARE&step=x":                                                            400,
		one + "/history?group.product=MEDCARE&to=2020-01-01T00:00:00Z&from=2021-01-01T00:00:00Z":                 400,
		one + "/history": 404, one + "/ledger": 404, one + "/ledger?group.product=MEDCARE": 200,
		"/api/v1/slas": 200, "/api/v1/slas?service=none": 200, "/api/v1/thresholds": 200,
		"/api/v1/thresholds?service=none": 200, "/api/v1/limits": 200, "/api/v1/report?period=2026-W46": 200,
		daysPath + "?period=2026-W46": 200, "/api/v1/alerts": 200, "/api/v1/engine": 200, "/api/v1/dlq": 200,
		"/api/v1/dlq?limit=5": 200, "/api/v1/dlq?limit=-1": 400,
		"/-/healthy": 200, "/-/ready": 200,
	} {
		k.answer(b, http.MethodGet, target, status)
	}
	k.answer(b, http.MethodPost, "/-/reload", 501)
	b.web.Opt.Reload = func(context.Context) error { return nil }
	k.answer(b, http.MethodPost, "/-/reload", 200)
	k.answer(b, http.MethodPost, "/-/reload", 403, "Sec-Fetch-Site", "cross-site")
	b.web.Opt.Reload = func(context.Context) error { return specError{} }
	require.Contains(t, string(k.answer(b, http.MethodPost, "/-/reload", 422)), `"line":7`)

	k.generations(b)
	k.rejects(b)
	k.uncounted(b)
	k.annotations(t)
	k.incidents(b)
	k.public(b)
	k.subscriptions(b)
	k.silences(b)
	k.backtest(b)

	// Without a report, without data, and with numbers that are none.
	full := b.rep
	b.rep, b.eng = nil, status.Engine{State: status.Recovering}
	for target, status := range map[string]int{"/api/v1/slos": 200, "/api/v1/slas": 200, "/api/v1/thresholds": 200,
		"/api/v1/engine": 200, one + "?group.product=MEDCARE": 503, one + "/history?group.product=MEDCARE": 503,
		one + "/ledger?group.product=MEDCARE": 503,
		"/-/ready":                            503} {
		k.answer(b, http.MethodGet, target, status)
	}
	b.rep = full
	empty(b)
	b.rep.SLOs[0].Coverage, b.rep.SLOs[0].Rate = math.NaN(), math.Inf(1)
	k.answer(b, http.MethodGet, "/api/v1/slos", 200)

	k.deadLetters(b)
	b.web.Opt.Counts = func(context.Context, []fold.ReadRequest) ([]fold.ReadResult, error) {
		return nil, errors.New("busy")
	}
	k.answer(b, http.MethodGet, one+"/history?group.product=MEDCARE", 503)
	k.answer(b, http.MethodGet, one+"/ledger?group.product=MEDCARE", 503)
	b.web.Opt.Counts = nil
	k.answer(b, http.MethodGet, one+"/history?group.product=MEDCARE", 501)
	k.answer(b, http.MethodGet, one+"/ledger?group.product=MEDCARE", 501)
	k.events(b, one+"/events")

	// Every operation of the document has been asked, but for those of other packages.
	var doc struct {
		Paths map[string]map[string]any `json:"paths"`
	}
	require.NoError(t, json.Unmarshal(b.get("/openapi.json").Body.Bytes(), &doc))
	for path, ops := range doc.Paths {
		if slices.Contains([]string{"/api/v1/events", "/v1/traces", "/v1/logs", "/v1/metrics", "/api/v1/write",
			"/api/v1/backup", "/api/v1/audit",
			"/api/v1/erase", "/api/v1/rate-limits/{context}", "/api/v1/reports/{name}/send", "/api/v1/sums", "/api/v1/counts"},
			path) {
			continue
		}
		for method := range ops {
			require.True(t, k.seen[map[string]string{"get": "GET", "post": "POST"}[method]+" "+path],
				"%s %s is never asked", method, path)
		}
	}
}

// events asks for events of the log.
func (k *contract) events(b *bench, path string) {
	k.answer(b, http.MethodGet, path, 501)
	at := time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)
	e := event.Event{ID: "1", Type: "order", Time: at, Outcome: event.Failure, Count: 1, Weight: 2, HasDuration: true,
		Duration: time.Second, Attributes: []event.Attr{{Name: "bank", Value: "X"}}}
	var asked counting.EventQuery
	var fails error
	b.web.Opt.Events = func(_ context.Context, q *counting.EventQuery) (*counting.EventAnswer, error) {
		asked = *q
		return &counting.EventAnswer{Since: at, Records: 3, Unread: "it took 3s", BadSum: 10, GoodSum: 90,
			Bad:         []counting.FoundEvent{{Event: e, Received: at, Group: slo.Group{"MEDCARE"}, Trace: traces.ID{1}}},
			Differences: []slo.Difference{{Attribute: "bank", Value: "X", Same: []string{"eu=1"}, Lift: 3, Without: 0.001}},
		}, fails
	}
	for query, status := range map[string]int{"": 200, "?group.product=MEDCARE&verdict=all&last=6h&limit=1000": 200,
		"?compare=true&where=%7Bbank%3D%22X%22%7D": 200, "?from=2026-11-20T00:00:00Z&to=1763700000": 400,
		"?group.product=NOPE": 404, "?last=x": 400, "?from=x": 400, "?to=x": 400, "?verdict=x": 400, "?limit=1001": 400,
		"?compare=x": 400, "?where=%7Bx": 400, "?where=x%3D~%22(%22": 400} {
		k.answer(b, http.MethodGet, path+query, status)
	}
	body := string(k.answer(b, http.MethodGet, path+"?compare=true&verdict=good&limit=7&where=bank%3D%22X%22", 200))
	require.Contains(k.t, body, `Without bank=X (the same events as eu=1) the burn rate would be`)
	require.Contains(k.t, body, `"attributes":{"bank":"X"}`)
	require.Equal(k.t, []any{0, 7, true, `{bank="X"}`}, []any{asked.Bad, asked.Good, asked.Compare, asked.Where.String()})
	for err, status := range map[error]int{counting.ErrNoSLO: 404, fold.ErrNotJudged: 422, errors.New("disk"): 503} {
		fails = err
		k.answer(b, http.MethodGet, path, status)
	}
}

type specError struct{}

func (specError) Error() string { return "1 error in the spec" }
func (specError) SpecProblems() []spec.Problem {
	return []spec.Problem{
		{Position: spec.Position{File: "a.yaml", Line: 7, Column: 1}, Severity: "error", Message: "unknown key"}}
}

func TestEventsAreDocumented(t *testing.T) {
	b := newBench(t)
	k := newContract(t, b)
	event := `{"id":"pol-42-issued","time":"2026-11-20T09:00:00.123Z","service":"insurance-unpaid","type":"application",
 "outcome":"failure","severity":"critical","duration_ms":812,"count":1,
 "attributes":{"product":"MEDCARE","stage":"CREATE_APPLICATION","error_type":"MDM_ERROR","status":503,"retried":true}}`
	for body, ok := range map[string]bool{
		event: true, "[" + event + "," + event + "]": true, `{"service":"a","type":"b","time":1763629200}`: true,
		`{"service":"a","type":"b","durations":[[5,2],[10,1]]}`: true,
		`{"service":"a"}`: false, `{"service":"a","type":"b","outcome":"maybe"}`: false,
		`{"service":"a","type":"b","colour":"red"}`: false, `{"service":"a","type":"b","count":0}`: false,
	} {
		r, err := http.NewRequest(http.MethodPost, "http://127.0.0.1:8080/api/v1/events?backfill=true",
			bytes.NewReader([]byte(body)))
		require.NoError(t, err)
		r.Header.Set("Content-Type", "application/json")
		err = openapi3filter.ValidateRequest(context.Background(), k.request(r))
		require.Equal(t, ok, err == nil, "%s: %v", body, err)
	}
	answer :=
		`{"received":1000,"accepted":997,"duplicates":1,"limited":0,"sampled":0,"dead_lettered":0,"rejected":2,` +
			`"errors":[{"index":17,"line":18,"id":"x","code":"time_too_old","detail":"d","retryable":false}],` +
			`"errors_truncated":true,"unlisted":[{"from":18,"to":18,"code":"time_too_old"}]}`
	problem := `{"type":"about:blank","title":"Unprocessable Entity","status":422,"detail":"all rejected",` + answer[1:]
	for _, c := range []struct {
		status    int
		typ, body string
	}{{202, "application/json", answer}, {200, "application/json", answer}, {422, "application/problem+json", problem},
		{503, "application/problem+json", problem}} {
		r, err := http.NewRequest(http.MethodPost, "http://127.0.0.1:8080/api/v1/events", nil)
		require.NoError(t, err)
		in := k.request(r)
		require.NoError(t, openapi3filter.ValidateResponse(context.Background(), &openapi3filter.ResponseValidationInput{
			RequestValidationInput: in, Status: c.status, Header: http.Header{"Content-Type": {c.typ}},
			Body: io.NopCloser(bytes.NewReader([]byte(c.body))), Options: in.Options,
		}))
	}
}

func TestPagesOfSLOs(t *testing.T) {
	b := newBench(t)
	var list v1.SLOList
	var seen []string
	cursor := ""
	for range 10 {
		rec := b.get("/api/v1/slos?limit=4&cursor=" + url.QueryEscape(cursor))
		require.Equal(t, http.StatusOK, rec.Code)
		list = v1.SLOList{}
		require.NoError(t, json.Unmarshal(rec.Body.Bytes(), &list))
		require.LessOrEqual(t, list.Total, 13)
		for _, x := range list.Items {
			seen = append(seen, string(x.ID)+x.Group["product"])
		}
		if cursor = list.Next; cursor == "" {
			break
		}
		if len(seen) == 4 {
			b.rep.SLOs = append(b.rep.SLOs[:3:3], b.rep.SLOs[4:]...) // the cursor's own SLO is gone
		}
	}
	require.Len(t, seen, 13)
	distinct := map[string]bool{}
	for _, s := range seen {
		distinct[s] = true
	}
	require.Len(t, distinct, 13, "none twice, none left out")
}

func TestValuesOfTheAPI(t *testing.T) {
	b := newBench(t)
	var got v1.SLOAnswer
	require.NoError(
		t, json.Unmarshal(b.get("/api/v1/slos/insurance-unpaid/availability?group.product=MEDCARE").Body.Bytes(), &got))
	r := b.rep.SLOs[0]
	require.Equal(t, r.Budget.SLI, *got.SLO.Budget.SLI)
	require.Equal(t, r.Raw.Remaining, *got.SLO.Raw.Remaining)
	require.Equal(t, 7200.0, got.SLO.Corrected)
	require.Equal(t, "99.9", got.SLO.Percent)
	require.Equal(t, v1.Source{File: "specs/insurance.yaml", Line: 12}, *got.SLO.Source)
	require.Equal(t, uint64(4211), got.Report.Version)
	require.Len(t, got.SLO.Burns, len(slo.BurnWindows)+1)
	require.Equal(t, "period", got.SLO.Burns[7].Window)

	require.NoError(
		t, json.Unmarshal(b.get("/api/v1/slos/insurance-unpaid/throughput?group.product=TRVL10").Body.Bytes(), &got))
	require.Equal(t, slo.StateNoData, got.SLO.State)
	require.Nil(t, got.SLO.Budget.SLI, "no data is null, neither 0 nor 1")
	require.Nil(t, got.SLO.LastEvent)

	var slas v1.SLAList
	require.NoError(t, json.Unmarshal(b.get("/api/v1/slas").Body.Bytes(), &slas))
	require.Equal(t, "availability", *slas.Items[1].Worst)
	require.Nil(t, slas.Items[0].Worst)
	require.Equal(t, 1, slas.Items[2].Missing)
}

func TestUnknownAddresses(t *testing.T) {
	b := newBench(t)
	for target, typ := range map[string]string{"/api/v1/nope": "application/problem+json",
		"/api/": "application/problem+json", "/-/nope": "application/problem+json", "/nope": "text/html; charset=utf-8"} {
		rec := b.get(target)
		require.Equal(t, http.StatusNotFound, rec.Code, target)
		require.Equal(t, typ, rec.Header().Get("Content-Type"), target)
		require.NotEmpty(t, rec.Header().Get("Content-Security-Policy"))
	}
	for target, method := range map[string]string{"/api/v1/slos": http.MethodPost, "/": http.MethodDelete,
		"/-/reload": http.MethodGet} {
		rec := b.do(method, target)
		require.Equal(t, http.StatusMethodNotAllowed, rec.Code, target)
		require.Equal(t, "application/problem+json", rec.Header().Get("Content-Type"), target)
		require.NotEmpty(t, rec.Header().Get("Allow"), target)
	}
}

func TestPermissions(t *testing.T) {
	b := newBench(t, func(o *site.Options) {
		o.Reload = func(context.Context) error { return nil }
		o.Allow = func(p site.Permission) gin.HandlerFunc {
			return func(c *gin.Context) {
				if c.GetHeader("X-May") != string(p) {
					c.AbortWithStatus(http.StatusUnauthorized)
				}
			}
		}
	})
	for _, target := range []string{"/", "/slas", medcare, "/engine", "/metrics", "/api/v1/slos",
		"/api/v1/slos/mdm/availability", "/api/v1/slos/mdm/availability/history", "/api/v1/slas", "/api/v1/limits",
		"/api/v1/engine", "/api/v1/dlq"} {
		require.Equal(t, http.StatusUnauthorized, b.get(target).Code, target)
		require.Equal(t, http.StatusOK, b.get(target, "X-May", "read").Code, target)
	}
	require.Equal(t, http.StatusUnauthorized, b.do(http.MethodPost, "/-/reload", "X-May", "read").Code)
	require.Equal(t, http.StatusOK, b.do(http.MethodPost, "/-/reload", "X-May", "operate").Code)
	for _, open := range []string{"/-/healthy", "/-/ready", "/openapi.json"} {
		require.Equal(t, http.StatusOK, b.get(open).Code, open)
	}
}

// What anybody may ask for says nothing that a token is needed for: no place in the file system,
// no version, no time, no text of an error.
func TestOpenAnswersSayNothingOfTheInside(t *testing.T) {
	hushed := "/srv/hushed/"
	b := newBench(t, func(o *site.Options) {
		o.Version = site.Version{Version: "9.8.7-hushed", Revision: "hushed-rev", Go: "go9.8-hushed"}
		o.Allow = func(p site.Permission) gin.HandlerFunc {
			return func(c *gin.Context) {
				if c.GetHeader("X-May") != string(p) {
					c.AbortWithStatus(http.StatusUnauthorized)
				}
			}
		}
		o.May = func(c *gin.Context, p site.Permission) bool { return c.GetHeader("X-May") == string(p) }
	})
	b.eng.Started = time.Date(2031, 2, 3, 4, 5, 6, 0, time.UTC)
	b.eng.Spec.Failed = noon
	b.eng.Spec.Problems = []spec.Problem{
		{Position: spec.Position{File: hushed + "a.yaml", Line: 3, Column: 4}, Message: "hushed message"}}
	b.rep.Warnings = []string{"hushed warning"}
	b.eng.NotificationsOff = true
	b.eng.Fold.Full = []counting.FullStatus{{SLO: "hushed/slo", MaxGroups: 1}}
	b.eng.Budgets = []status.BudgetStatus{{Service: "hushed-budget", Lately: true}}
	b.eng.Receivers = []status.AlertmanagerStatus{{Name: "hushed-receiver", FailingSince: noon}}
	b.eng.Sinks = []status.SinkStatus{{Name: "hushed-sink", HeldSeconds: 1}}
	for _, state := range []status.State{status.Ready, status.Poisoned, status.Failed, status.DiskLow, status.ClockJump,
		status.Recovering, status.Stopping} {
		b.eng.State, b.eng.Reason = state, "open "+hushed+"wal/1.seg: hushed error"
		for _, target := range []string{"/nothing", "/nothing?theme=dark", "/slo/x", "/api/nothing", "/engine/nothing",
			"/static/nothing", "/-/nothing", "/-/healthy", "/-/ready", "/openapi.json", "/badge/nothing.svg", "/", "/slo",
			"/engine", "/metrics"} {
			for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut,
				http.MethodDelete, http.MethodOptions} {
				body := b.do(method, target).Body.String()
				for _, word := range []string{"hushed", "9.8.7", "2031", noon.Format("2006-01-02"),
					noon.Format("15:04"), "The last reload"} {
					require.NotContains(t, body, word, "%s %s while %s", method, target, state)
				}
			}
		}
		// Who may read is told.
		page := b.get("/nothing", "X-May", "read").Body.String()
		check(t, page)
		require.Contains(t, page, hushed+"a.yaml:3:4: hushed message")
		require.Contains(t, page, "9.8.7-hushed")
		require.Contains(t, b.get("/-/healthy", "X-May", "read").Body.String(), "hushed error")
		require.NotContains(t, b.get("/-/ready").Body.String(), "notifications_off")
		for _, part := range []string{"hushed/slo", "hushed-budget", "hushed-receiver", "hushed-sink", "notifications_off"} {
			require.Contains(t, b.get("/-/ready", "X-May", "read").Body.String(), part)
		}
		require.Contains(t, b.get("/openapi.json", "X-May", "read").Body.String(), "9.8.7-hushed")
	}
	page := b.get("/nothing").Body.String()
	check(t, page)
	require.Contains(t, page, "There is no page at this address.")
}

func TestHealth(t *testing.T) {
	for _, c := range []struct {
		state          status.State
		reason         string
		healthy, ready int
		want           string
	}{
		{status.Ready, "", 200, 200, ""},
		{status.Stale, "", 200, 200, ""},
		{status.Starting, "", 200, 503, "starting"},
		{status.Recovering, "", 200, 503, "42% done"},
		{status.DiskLow, "900 MiB free", 200, 503, "900 MiB free"},
		{status.ClockJump, "", 200, 503, "clock jumped ahead"}, // a restart would confirm the wrong time
		{status.Poisoned, "", 503, 503, "durable"},
		{status.Stopping, "", 200, 503, "stopping"},
		{status.Failed, "", 503, 503, "failed"},
		{"", "", 200, 503, "unknown"},
	} {
		b := newBench(t)
		b.eng.State, b.eng.Reason, b.eng.Progress = c.state, c.reason, 0.42
		require.Equal(t, c.healthy, b.get("/-/healthy").Code, c.state)
		rec := b.get("/-/ready")
		require.Equal(t, c.ready, rec.Code, c.state)
		require.Contains(t, rec.Body.String(), c.want)
		require.Equal(t, "no-store", rec.Header().Get("Cache-Control"))
	}
}

func TestRequestIDReachesProblems(t *testing.T) {
	b := newBench(t)
	router := gin.New()
	router.Use(func(c *gin.Context) { c.Header("X-Request-Id", "abc-123") })
	b.web.Register(router)
	b.router = router
	require.Contains(t, b.get("/api/v1/slos?limit=x").Body.String(), `"request_id":"abc-123"`)
}

// The old path of the event thresholds answers the same and says that it is deprecated.
func TestOldPathOfThresholds(t *testing.T) {
	b := newBench(t)
	now, old := b.get("/api/v1/thresholds"), b.get("/api/v1/limits")
	require.Equal(t, http.StatusOK, old.Code)
	require.NotEmpty(t, now.Body.String())
	require.Equal(t, now.Body.String(), old.Body.String())
	require.Empty(t, now.Header().Get("Deprecation"))
	require.Equal(t, "@1795305600", old.Header().Get("Deprecation"))
	require.Equal(t, `</api/v1/thresholds>; rel="successor-version"`, old.Header().Get("Link"))
}
