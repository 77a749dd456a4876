package web

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/reliability/dlq"
	"github.com/sloengine/sloengine/web/deadletters"
	"github.com/sloengine/sloengine/web/respond"
	"github.com/sloengine/sloengine/web/site"
	"github.com/sloengine/sloengine/web/status"
)

func deadLetterIDs(t *testing.T, body []byte) (out []string, next string) {
	var list deadletters.List
	require.NoError(t, json.Unmarshal(body, &list))
	for _, e := range list.Items {
		out = append(out, e.ID)
	}
	return out, list.Next
}

func TestListDeadLetters(t *testing.T) {
	b := newBench(t)
	k := newContract(t, b)
	fold, event, span := "fold-812-3", "sink-warehouse-900-0", "sink-warehouse-950~990"
	for query, want := range map[string][]string{
		"": {span, event, fold}, "?order=oldest": {fold, event, span}, "?order=newest&limit=3": {span, event, fold},
		"?origin=fold": {fold}, "?sink=warehouse": {span, event}, "?service=mdm": {fold}, "?type=application": {event},
		"?severity=critical":         {event},
		"?reason=attribute+too+long": {fold}, "?class=timeout": {event}, "?sink=nowhere": nil,
		"?sink=&cursor=":             {span, event, fold},
		"?from=2026-11-20T10:00:00Z": {span, event}, "?to=2026-11-20T11:30:00Z&origin=sink": {event},
		"?from=2026-11-20T13:00:00%2B03:00": {span, event},
	} {
		got, next := deadLetterIDs(t, k.answer(b, http.MethodGet, "/api/v1/dlq"+query, 200))
		require.Equal(t, want, got, query)
		require.Empty(t, next, query)
	}
	for query, place := range map[string]string{
		"?servce=mdm": "parameter servce:", "?origin=sinks": "parameter origin:", "?sink=a&sink=b": "parameter sink:",
		"?limit=0": "parameter limit:", "?limit=1001": "parameter limit:",
		"?limit=ten": "parameter limit:", "?order=up": "parameter order:", "?from=yesterday": "parameter from:",
		"?to=x": "parameter to:", "?cursor=%21": "cursor:", "?order=oldest&cursor=bjE": "cursor:",
		"?from=2026-11-20T10:00:00Z&to=2026-11-20T10:00:00Z": "from:", "?sink=%zz": "invalid query string",
		"?a;b": "invalid query string", "?Sink=a": "parameter Sink:",
		"?sink=" + strings.Repeat("x", 1025): "parameter sink:", "?%3Cscript%3E=1": "parameter <script>:",
	} {
		var p respond.ProblemDocument
		rec := b.get("/api/v1/dlq" + query)
		require.Equal(t, http.StatusBadRequest, rec.Code, query)
		require.Equal(t, "application/problem+json", rec.Header().Get("Content-Type"))
		require.NoError(t, json.Unmarshal(rec.Body.Bytes(), &p))
		require.Contains(t, p.Detail, place, query)
	}
}

func TestListDeadLettersPageByPage(t *testing.T) {
	l := newDeadLetterStore(t, manyDeadLetters(25)...)
	b := newBench(t, func(o *site.Options) { o.DLQ = l })
	k := newContract(t, b)
	for _, order := range []string{"oldest", "newest"} {
		var seen []string
		cursor, pages := "", 0
		for {
			got, next := deadLetterIDs(t, k.answer(b, http.MethodGet, "/api/v1/dlq?limit=4&service=s1&order="+order+"&cursor="+
				url.QueryEscape(cursor), 200))
			seen, pages = append(seen, got...), pages+1
			if cursor = next; next == "" {
				break
			}
			require.Len(t, got, 4)
		}
		require.Equal(t, 2, pages, "8 of 25")
		require.Len(t, seen, 8)
		first, last := "sink-w-0001-0", "sink-w-0022-0"
		if order == "newest" {
			first, last = last, first
		}
		require.Equal(t, first, seen[0])
		require.Equal(t, last, seen[7])
	}
}

func TestShowDeadLetterAndStats(t *testing.T) {
	b := newBench(t)
	k := newContract(t, b)
	var e dlq.Entry
	require.NoError(t, json.Unmarshal(k.answer(b, http.MethodGet, "/api/v1/dlq/sink-warehouse-900-0", 200), &e))
	require.Equal(t, "no answer within 5s", e.Error)
	require.Equal(t, 4, e.Attempts)
	require.JSONEq(
		t, `{"service":"insurance-unpaid","type":"application","attributes":{"product":"<b>"}}`, string(e.Event))
	require.NotContains(t, b.get("/api/v1/dlq").Body.String(), "<b>", "a browser that guesses types finds no markup")

	var s dlq.Stats
	require.NoError(t, json.Unmarshal(k.answer(b, http.MethodGet, "/api/v1/dlq/stats", 200), &s))
	require.Equal(t, int64(3), s.Count)
	require.Equal(t, map[string]int64{"warehouse": 2}, s.BySink)
	require.Equal(t, noon.Add(-3*time.Hour).Truncate(time.Millisecond), s.Oldest)
}

func TestReplayDeadLetters(t *testing.T) {
	var audit []string
	l := newDeadLetterStore(t, manyDeadLetters(30)...)
	b := newBench(t, func(o *site.Options) {
		o.DLQ = l
		o.Audit = func(c *gin.Context, action, detail string, err error) {
			require.Equal(t, "127.0.0.1:8080", c.Request.Host)
			audit = append(audit, auditLine(action, detail, err))
		}
	})
	k := newContract(t, b)
	replay := func(body string) (r dlq.ReplayResult) {
		require.NoError(t, json.Unmarshal(k.sent(b, "/api/v1/dlq/replay", body, 200), &r))
		return r
	}
	require.Equal(t, dlq.ReplayResult{DryRun: true, Matched: 30, Replayed: 30}, replay(`{"all":true,"dry_run":true}`))
	require.Equal(t, dlq.ReplayResult{DryRun: true, Matched: 10, Replayed: 10},
		replay(`{"query":{"service":"s1"},"dry_run":true}`))
	require.Empty(t, l.taken)
	require.Empty(t, audit, "a dry run changes nothing")

	got := replay(`{"ids":["sink-w-0003-0","none","sink-w-0003-0"]}`)
	require.Equal(t, 1, got.Replayed)
	require.Equal(t, 1, got.NotFound)
	require.Equal(t, []string{"sink-w-0003-0"}, l.taken)

	l.fails = func(e *dlq.Entry) error {
		if e.ID == "sink-w-0004-0" {
			return errors.New("still away")
		}
		return nil
	}
	got = replay(`{"query":{"service":"s1","to":"2026-11-20T11:40:00Z"}}`)
	require.Equal(t, 1, got.Failed)
	require.Equal(t, []string{"sink-w-0004-0: still away"}, got.Errors)
	l.fails = nil
	require.Equal(t, 29-got.Replayed, replay(`{"all":true}`).Replayed)
	require.Len(t, l.taken, 30)
	s, err := l.Stats(context.Background())
	require.NoError(t, err)
	require.Zero(t, s.Count)

	require.Equal(t, "dlq.replay ids=2 [sink-w-0003-0 none] replayed=1 failed=0 held_back=0", audit[0])
	require.Equal(t, `dlq.replay query service="s1" to="2026-11-20T11:40:00Z" replayed=2 failed=1 held_back=0`, audit[1])
	require.Equal(t, "dlq.replay all replayed=27 failed=0 held_back=0", audit[2])
}

func TestDiscardAndPurgeDeadLetters(t *testing.T) {
	var audit []string
	l := newDeadLetterStore(t, manyDeadLetters(30)...)
	b := newBench(t, func(o *site.Options) {
		o.DLQ, o.Audit = l, func(_ *gin.Context, action, detail string, err error) {
			audit = append(audit, auditLine(action, detail, err))
		}
	})
	k := newContract(t, b)
	left := func() int64 {
		s, err := l.Stats(context.Background())
		require.NoError(t, err)
		return s.Count
	}
	for _, step := range []struct {
		path, body, want string
		left             int64
	}{
		{"discard", `{"ids":["sink-w-0003-0","none"],"dry_run":true}`, `{"dry_run":true,"discarded":1,"not_found":1}`, 30},
		{"discard", `{"ids":["sink-w-0003-0","none"]}`, `{"dry_run":false,"discarded":1,"not_found":1}`, 29},
		{"discard", `{"query":{"service":"s1","origin":"sink"},"dry_run":true}`,
			`{"dry_run":true,"discarded":10,"not_found":0}`, 29},
		{"discard", `{"query":{"service":"s1","origin":"sink"}}`, `{"dry_run":false,"discarded":10,"not_found":0}`, 19},
		{"purge", `{"before":"2026-11-20T11:40:07Z","dry_run":true}`,
			`{"dry_run":true,"before":"2026-11-20T11:40:07Z","purged":6}`, 19},
		{"purge", `{"older_than":"20m3s"}`, `{"dry_run":false,"before":"2026-11-20T11:40:07Z","purged":6}`, 13},
		{"discard", `{"all":true}`, `{"dry_run":false,"discarded":13,"not_found":0}`, 0},
	} {
		require.JSONEq(t, step.want, string(k.sent(b, "/api/v1/dlq/"+step.path, step.body, 200)), step.body)
		require.Equal(t, step.left, left(), step.body)
	}
	require.Equal(t, []string{
		"dlq.discard ids=2 [sink-w-0003-0 none] discarded=1", `dlq.discard query origin="sink" service="s1" discarded=10`,
		"dlq.purge before=2026-11-20T11:40:07Z purged=6", "dlq.discard all discarded=13",
	}, audit)
	require.Empty(t, l.taken, "nothing went back")
}

// Nothing but a body that says exactly what is meant may change anything.
func TestBodiesThatAreRefused(t *testing.T) {
	l := newDeadLetterStore(t, manyDeadLetters(3)...)
	b := newBench(t, func(o *site.Options) {
		o.DLQ, o.Audit = l, func(_ *gin.Context, action, _ string, _ error) { t.Fatal(action) }
	})
	long := `{"ids":["` + strings.Repeat(`a","`, 1000) + `a"]}`
	both := []struct{ body, place string }{
		{``, "body: byte 1:"}, {`null`, "want a JSON object"}, {`[]`, "want a JSON object"}, {`{`, "byte"},
		{`{"dry_run":true`, "byte 16:"}, {`{"dry_run":true}}`, "unexpected data after"},
		{`{"dry_run":true} {}`, "unexpected data after"},
		{`{"dry_run":tru}`, "byte"}, {`{dry_run:true}`, "byte"}, {"{\"dry_run\":true,\"\x00\":1}", "byte"},
		{`{"ALL":true}`, "ALL: unknown field"}, {`{"<b>":true}`, "<b>: unknown field"},
	}
	for _, tc := range append([]struct{ body, place string }{
		{`{}`, "exactly one"}, {`{"all":false}`, "exactly one"}, {`{"dry_run":true}`, "exactly one"},
		{`{"all":true,"ids":["a"]}`, "exactly one"}, {`{"all":true,"query":{"sink":"a"}}`, "exactly one"},
		{`{"all":"yes"}`, "all: want true or false"}, {`{"all":null}`, "all: want true or false"},
		{`{"all":true,"dry_run":1}`, "dry_run: want true or false"}, {`{"all":true,"dryrun":true}`, "dryrun: unknown field"},
		{`{"all":true,"dry_run":true,"dry_run":false}`, "dry_run: duplicate field"},
		{`{"query":{}}`, `query: needs at least one filter`}, {`{"query":{"servce":"a"}}`, "query: servce: unknown field"},
		{`{"query":{"sink":""}}`, "query: sink: must not be empty"}, {`{"query":{"sink":7}}`, "query: sink: want a string"},
		{`{"query":{"sink":null}}`, "query: sink: want a string"}, {`{"query":{"origin":"x"}}`, "query: origin:"},
		{`{"query":{"sink":"a","sink":"b"}}`, "query: sink: duplicate field"}, {`{"query":[]}`, "query: want a JSON object"},
		{`{"query":{"limit":"1"}}`, "query: limit: unknown field"}, {`{"query":{"from":"x"}}`, "query: from:"},
		{`{"query":{"from":"2026-11-20T10:00:00Z","to":"2026-11-20T09:00:00Z"}}`, "query: from: must be before to"},
		{`{"ids":[]}`, "ids: got 0 ids"}, {`{"ids":"a"}`, "ids: want a list"}, {`{"ids":[1]}`, "ids: want a list"},
		{`{"ids":null}`, "ids: want a list"}, {`{"ids":["a",""]}`, `ids: invalid id "" at position 2`},
		{`{"ids":["a/../b"]}`, `ids: invalid id "a/../b" at position 1`},
		{`{"ids":["` + strings.Repeat("a", 201) + `"]}`, "at position 1"}, {long, "ids: got 1001 ids"},
	}, both...) {
		for _, path := range []string{"/api/v1/dlq/replay", "/api/v1/dlq/discard"} {
			refused(t, b.send(path, tc.body), http.StatusBadRequest, tc.place, tc.body)
		}
	}
	for _, tc := range append([]struct{ body, place string }{
		{`{}`, "want before"}, {`{"dry_run":true}`, "want before"}, {`{"before":"x"}`, "before: want RFC 3339"},
		{`{"before":"2027-01-01T00:00:00Z"}`, "before: must not be in the future"}, {`{"before":7}`, "before: want a time"},
		{`{"older_than":"7 days"}`, "older_than:"}, {`{"older_than":"0s"}`, "older_than:"},
		{`{"older_than":"-1h"}`, "older_than:"},
		{`{"older_than":"7d","before":"2026-11-20T10:00:00Z"}`, "either before or older_than"},
		{`{"before":"2026-11-20T10:00:00Z","older_than":"7d"}`, "either before or older_than"},
		{`{"all":true}`, "all: unknown field"},
	}, both...) {
		refused(t, b.send("/api/v1/dlq/purge", tc.body), http.StatusBadRequest, tc.place, tc.body)
	}
	s, err := l.Stats(context.Background())
	require.NoError(t, err)
	require.Equal(t, int64(3), s.Count)
	require.Empty(t, l.taken)
}

func refused(t *testing.T, rec *httptest.ResponseRecorder, status int, place, body string) {
	t.Helper()
	require.Equal(t, status, rec.Code, "%.200s: %s", body, rec.Body)
	var p respond.ProblemDocument
	require.NoError(t, json.Unmarshal(rec.Body.Bytes(), &p))
	require.Contains(t, p.Detail, place, "%.200s", body)
}

func TestFailuresOfTheStoreAreTold(t *testing.T) {
	var logged, audit []string
	b := newBench(t, func(o *site.Options) {
		o.DLQ = broken{errors.New("disk on \x1b[31mfire")}
		o.LogError = func(msg string, err error) { logged = append(logged, msg) }
		o.Audit = func(_ *gin.Context, action, detail string, err error) {
			audit = append(audit, auditLine(action, detail, err))
		}
	})
	refused(t, b.send("/api/v1/dlq/replay", `{"all":true}`), 503,
		"could not be replayed completely (7 were replayed, 2 failed)", "")
	refused(t, b.send("/api/v1/dlq/discard", `{"all":true}`), 503, "(3 were discarded)", "")
	refused(t, b.send("/api/v1/dlq/purge", `{"older_than":"1h"}`), 503, "(3 were purged)", "")
	require.Equal(t, []string{"replay dead letters", "discard dead letters", "purge dead letters"}, logged)
	require.Equal(t, `dlq.replay all replayed=7 failed=2 held_back=0 error="disk on \x1b[31mfire"`, audit[0])
	require.NotContains(t, b.send("/api/v1/dlq/replay", `{"all":true}`).Body.String(), "fire",
		"what the store says is for the log")
	require.Equal(t, http.StatusOK, b.get("/engine").Code)
	require.Contains(t, b.get("/engine").Body.String(), "could not be read")

	n := len(logged)
	b.eng.State = status.Recovering // the store is not open yet: no fault
	refused(t, b.get("/api/v1/dlq"), 503, "still recovering", "")
	require.Contains(t, b.get("/engine").Body.String(), "once the engine has recovered")
	require.Len(t, logged, n)
}

func TestWhoMayChangeDeadLetters(t *testing.T) {
	l := newDeadLetterStore(t, manyDeadLetters(3)...)
	deny := map[site.Permission]bool{}
	b := newBench(t, func(o *site.Options) {
		o.DLQ = l
		o.Allow = func(p site.Permission) gin.HandlerFunc {
			return func(c *gin.Context) {
				if deny[p] {
					c.AbortWithStatus(http.StatusForbidden)
				}
			}
		}
	})
	paths := []string{"/api/v1/dlq/replay", "/api/v1/dlq/discard", "/api/v1/dlq/purge", "/engine/dlq"}
	deny[site.Operate] = true
	for _, path := range paths {
		require.Equal(t, http.StatusForbidden, b.send(path, `{"all":true}`).Code, path)
		require.GreaterOrEqual(t, b.get(path).Code, 400, "%s by GET", path)
	}
	require.Equal(t, http.StatusOK, b.get("/api/v1/dlq").Code)
	deny[site.Operate], deny[site.Read] = false, true
	for _, path := range []string{"/api/v1/dlq", "/api/v1/dlq/stats", "/api/v1/dlq/x"} {
		require.Equal(t, http.StatusForbidden, b.get(path).Code, path)
	}
	deny[site.Read] = false

	// What a page of another site can make a browser send.
	for _, header := range [][]string{
		{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Origin", "https://evil.example"},
		{"Origin", "null"}, {"Content-Type", "text/plain"}, {"Content-Type", ""},
		{"Content-Type", "application/x-www-form-urlencoded"}, {"Content-Type", "multipart/form-data; boundary=x"},
		{"Content-Type", "text/plain; application/json"}, {"Content-Encoding", "gzip"},
	} {
		for _, path := range paths {
			rec := b.send(path, `{"all":true}`, header...)
			require.Contains(t, []int{400, 403, 415}, rec.Code, "%s %v", path, header)
		}
	}
	s, err := l.Stats(context.Background())
	require.NoError(t, err)
	require.Equal(t, int64(3), s.Count)
	for _, header := range [][]string{{"Sec-Fetch-Site", "same-origin"}, {"Sec-Fetch-Site", "none"},
		{"Origin", "http://127.0.0.1:8080"}, {"Content-Type", "application/json; charset=utf-8"}} {
		require.Equal(t, http.StatusOK, b.send(paths[0], `{"all":true,"dry_run":true}`, header...).Code, "%v", header)
	}
}

func TestFormOfThePage(t *testing.T) {
	l := newDeadLetterStore(t, manyDeadLetters(5)...)
	b := newBench(t, func(o *site.Options) { o.DLQ, o.ExternalPath = l, "/slo-engine" })
	form := func(body string, header ...string) *httptest.ResponseRecorder {
		return b.send(
			"/engine/dlq", body, append([]string{"Content-Type", "application/x-www-form-urlencoded"}, header...)...)
	}
	own := []string{"Sec-Fetch-Site", "same-origin"}
	for _, header := range [][]string{nil, {"Sec-Fetch-Site", "none"}, {"Sec-Fetch-Site", "same-site"},
		{"Sec-Fetch-Site", "cross-site"}, {"Origin", "null"}, {"Origin", "http://evil.example"},
		{"Sec-Fetch-Site", "cross-site", "Origin", "http://127.0.0.1:8080"}} {
		rec := form("action=discard&id=sink-w-0001-0", header...)
		require.Equal(t, http.StatusForbidden, rec.Code, "%v", header)
		require.Contains(t, rec.Body.String(), "Nothing was done")
	}
	for _, body := range []string{
		"", "action=discard", "id=sink-w-0001-0", "action=purge&id=sink-w-0001-0",
		"action=replay&action=discard&id=sink-w-0001-0", "action=discard&id=", "action=discard&id=%3Cb%3E",
		"action=discard&id=sink-w-0001-0&all=true", "action=discard&id=sink-w-0001-0&sink=w", "action=discard&sink=",
		"action=discard&sink=w&sink=x", "action=discard&servce=s1", "action=discard&all=yes", "action=discard&origin=x",
		"action=discard&before=2026-11-20T10:00:00Z",
		"action=purge", "action=purge&all=true", "action=purge&before=2027-11-20T10:00:00Z", "action=purge&before=x",
		"action=purge&older_than=0s", "action=purge&older_than=1d&before=2026-11-20T10:00:00Z",
		"action=discard&sink=w&from=2026-11-20T10:00:00Z&to=2026-11-20T09:00:00Z",
		"action=discard&id=%zz", "action=discard&id=" + strings.Repeat("a&id=", site.MaxBody/5),
		"action=discard" + strings.Repeat("&id=a", 1001),
	} {
		rec := form(body, own...)
		require.Equal(t, http.StatusBadRequest, rec.Code, "%.60s", body)
		check(t, rec.Body.String())
	}
	require.Equal(t, http.StatusBadRequest,
		b.send("/engine/dlq?action=discard&id=sink-w-0001-0", "",
			append([]string{"Content-Type", "application/x-www-form-urlencoded"}, own...)...).Code,
		"nothing of the address counts")

	rec := form("action=discard&id=sink-w-0001-0&id=none", own...)
	require.Equal(t, http.StatusSeeOther, rec.Code)
	require.Equal(t, "/slo-engine/engine/dead-letters?did=discard&done=1&gone=1", rec.Header().Get("Location"))
	l.fails = func(*dlq.Entry) error { return errors.New("no") }
	rec = form("action=replay&id=sink-w-0002-0", "Origin", "http://127.0.0.1:8080") // plain HTTP: no Sec-Fetch-Site
	require.Equal(t, "/slo-engine/engine/dead-letters?did=replay&failed=1", rec.Header().Get("Location"))
	l.fails = nil
	form("action=replay&id=sink-w-0002-0&id=sink-w-0000-0", own...)
	require.Equal(t, []string{"sink-w-0002-0", "sink-w-0000-0"}, l.taken)

	page := b.get("/engine/dead-letters?did=replay&done=2&failed=1&gone=1&old=4&more=1").Body.String()
	check(t, page)
	require.Contains(t, page,
		"2 replayed. 1 failed again and remain. 4 were too old to be replayed. 1 no longer existed. Time ran out before "+
			"all were done")
	require.Contains(t, page, `action="/slo-engine/engine/dead-letters/confirm"`)
	require.Contains(t, page, `value="sink-w-0004-0"`)
	require.Contains(t, page, "2 in total")
	require.NotContains(t, b.get("/engine/dead-letters?did=%3Cb%3E&done=x").Body.String(), `role="status"`)

	// All that match, and the old ones.
	require.Equal(t, "/slo-engine/engine/dead-letters?did=discard&done=1",
		form("action=discard&service=s0&to=2026-11-20T11:59:00Z", own...).Header().Get("Location"))
	require.Equal(t, "/slo-engine/engine/dead-letters?did=purge&done=1",
		form("action=purge&before=2026-11-20T12:00:00Z", own...).Header().Get("Location"))
	require.Equal(t, "/slo-engine/engine/dead-letters?did=replay",
		form("action=replay&all=true", own...).Header().Get("Location"))

	b.web.Opt.DLQ = broken{errors.New("busy")}
	require.Equal(t, http.StatusServiceUnavailable, form("action=replay&id=a", own...).Code)
	b.web.Opt.DLQ = nil
	require.Equal(t, http.StatusNotImplemented, form("action=replay&id=a", own...).Code)
	require.NotContains(t, b.get("/engine").Body.String(), `id="dead"`)
}
