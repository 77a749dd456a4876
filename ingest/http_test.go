package ingest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/require"
	"github.com/zeebo/xxh3"

	"github.com/sloengine/sloengine/ingest/engine"
	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/ingest/record"
	"github.com/sloengine/sloengine/ingest/rejects"
	"github.com/sloengine/sloengine/ingest/trace"
	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/reliability/fsys/fsystest"
	"github.com/sloengine/sloengine/reliability/ratelimit"
)

// fakeCommitter knows ids like the engine does, and keeps them forever.
type fakeCommitter struct {
	mu      sync.Mutex
	known   map[xxh3.Uint128]bool
	batches int
	events  int
	last    event.View
	traces  *trace.Batch // of the last batch
	fail    error
	before  func(ctx context.Context) error
}

func (f *fakeCommitter) Admit(ctx context.Context, b *event.Batch, _ *ratelimit.Tickets,
	_ []int32) (engine.Result, error) {
	return f.Commit(ctx, b)
}

func (f *fakeCommitter) Commit(ctx context.Context, b *event.Batch) (engine.Result, error) {
	if f.before != nil {
		if err := f.before(ctx); err != nil {
			return engine.Result{}, err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fail != nil {
		return engine.Result{}, f.fail
	}
	if f.known == nil {
		f.known = map[xxh3.Uint128]bool{}
	}
	f.batches++
	f.traces = b.Traces
	var res engine.Result
	for i, item := range b.Events {
		if item.HasKey && f.known[item.Key] {
			res.Duplicates++
			continue
		}
		f.known[item.Key] = f.known[item.Key] || item.HasKey
		if _, err := f.last.Parse(bytes.Clone(b.Event(i))); err != nil {
			return engine.Result{}, err
		}
		res.Accepted++
	}
	f.events += res.Accepted
	return res, nil
}

var testNow = time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)

type rig struct {
	*fakeCommitter
	handler *Handler
	engine  *gin.Engine
	set     *metrics.Set
	log     *bytes.Buffer
}

func newRig(t testing.TB, change func(*HandlerOptions)) *rig {
	t.Helper()
	gin.SetMode(gin.ReleaseMode)
	r := &rig{fakeCommitter: &fakeCommitter{}, set: metrics.NewSet(), log: &bytes.Buffer{}}
	o := HandlerOptions{
		Committer: r.fakeCommitter,
		Metrics:   NewHTTPMetrics(r.set),
		Logger:    slog.New(slog.NewTextHandler(r.log, nil)),
		Now:       func() time.Time { return testNow },
	}
	if change != nil {
		change(&o)
	}
	var err error
	r.handler, err = NewHandler(o)
	require.NoError(t, err)
	r.engine = gin.New()
	r.handler.Register(r.engine)
	return r
}

type headers map[string]string

func (r *rig) post(query, body string, h headers) *httptest.ResponseRecorder {
	req := httptest.NewRequest("POST", EventsPath+query, strings.NewReader(body))
	req.Header.Set("Content-Type", "application/json")
	for k, v := range h {
		if v == "" {
			req.Header.Del(k)
			continue
		}
		req.Header.Set(k, v)
	}
	w := httptest.NewRecorder()
	r.engine.ServeHTTP(w, req)
	return w
}

func (r *rig) metric(t *testing.T, series string) int {
	t.Helper()
	var out bytes.Buffer
	r.set.WritePrometheus(&out)
	for line := range strings.SplitSeq(out.String(), "\n") {
		if rest, ok := strings.CutPrefix(line, series+" "); ok {
			n, err := strconv.ParseFloat(rest, 64)
			require.NoError(t, err)
			return int(n)
		}
	}
	t.Fatalf("no series %s in\n%s", series, out.String())
	return 0
}

// decodeAnswer reads an answer of either kind strictly and checks the properties of all answers.
func decodeAnswer(t testing.TB, w *httptest.ResponseRecorder) Problem {
	t.Helper()
	var p Problem
	dec := json.NewDecoder(bytes.NewReader(w.Body.Bytes()))
	dec.DisallowUnknownFields()
	require.NoError(t, dec.Decode(&p), w.Body)
	require.NotNil(t, p.Errors, "errors is [] when there are none: %s", w.Body)
	require.Equal(t, p.Received, p.Accepted+p.Duplicates+p.Limited+p.Sampled+p.DeadLettered+p.Rejected, "%s", w.Body)
	if p.ErrorsTruncated {
		require.Less(t, len(p.Errors), p.Rejected)
	} else {
		require.Len(t, p.Errors, p.Rejected+p.Limited)
	}
	require.NotEmpty(t, w.Header().Get("X-Request-Id"))
	if w.Code >= 400 {
		require.Equal(t, "application/problem+json", w.Header().Get("Content-Type"))
		require.Equal(t, w.Code, p.Status)
		require.Equal(t, w.Header().Get("X-Request-Id"), p.Instance)
		require.Equal(t, "urn:sloengine:problem:"+p.Code, p.Type)
		require.NotEmpty(t, p.Title)
		require.NotEmpty(t, p.Detail)
	} else {
		require.Equal(t, "application/json", w.Header().Get("Content-Type"))
		require.Empty(t, p.Type)
	}
	retry := w.Header().Get("Retry-After")
	if w.Code == 503 || w.Code == 429 {
		n, err := strconv.Atoi(retry)
		require.NoError(t, err)
		require.Positive(t, n)
	} else if p.Limited == 0 {
		require.Empty(t, retry)
	}
	return p
}

const goodEvent = `{"id":"pol-42-issued","time":"2026-11-20T08:59:00.123Z","service":"insurance-unpaid",
"type":"application",
 "outcome":"failure","severity":"critical","duration_ms":812,"count":1,
 "attributes":{"product":"MEDCARE","stage":"CREATE_APPLICATION","error_type":"MDM_ERROR","channel":"front",
 "status":503}}`

func TestTheAnswerHasOneShape(t *testing.T) {
	r := newRig(t, nil)
	w := r.post("", goodEvent, nil)
	require.Equal(t, 202, w.Code)
	require.Equal(t,
		`{"received":1,"accepted":1,"duplicates":0,"limited":0,"sampled":0,"dead_lettered":0,"rejected":0,"errors":[],`+
			`"errors_truncated":false}`+"\n", w.Body.String())
	require.Equal(t, "insurance-unpaid", string(r.last.Service))

	w = r.post("", goodEvent, nil)
	require.Equal(t, 202, w.Code, "a duplicate is known, not an error")
	require.Equal(t, 1, decodeAnswer(t, w).Duplicates)

	w = r.post("", `{"time":"2026-11-18T08:00:00Z","id":"x","service":"s","type":"t"}`,
		headers{"Content-Type": "application/x-ndjson", "X-Request-Id": "req-1"})
	require.Equal(t, 422, w.Code)
	p := decodeAnswer(t, w)
	require.Equal(t, "all_rejected", p.Code)
	want :=
		`{"type":"urn:sloengine:problem:all_rejected","title":"Every event was rejected","status":422,"detail":"1 of 1 ` +
			`events were rejected (see errors)","instance":"req-1","code":"all_rejected","received":1,"accepted":0,` +
			`"duplicates":0,"limited":0,"sampled":0,"dead_lettered":0,"rejected":1,"errors":[{"index":0,"line":1,"id":"x",` +
			`"code":"time_too_old","detail":`
	require.Equal(t, want, w.Body.String()[:min(len(want), w.Body.Len())])
	require.Equal(t, event.CodeTimeTooOld, p.Errors[0].Code)

	require.Equal(t, 1, r.metric(t, `sloengine_ingest_events_total{result="accepted"}`))
	require.Equal(t, 1, r.metric(t, `sloengine_ingest_events_total{result="duplicate"}`))
	require.Equal(t, 1, r.metric(t, `sloengine_ingest_events_total{result="rejected"}`))
	require.Equal(t, 1, r.metric(t, `sloengine_ingest_rejected_total{code="time_too_old"}`))
	require.Equal(t, 2, r.metric(t, `sloengine_ingest_requests_total{code="202"}`))
	require.Equal(t, 1, r.metric(t, `sloengine_ingest_requests_total{code="422"}`))
	require.Equal(t, 3, r.metric(t, `sloengine_ingest_request_duration_seconds_count`))
	require.Zero(t, r.metric(t, `sloengine_ingest_in_flight_requests`))
	require.Zero(t, r.metric(t, `sloengine_ingest_in_flight_bytes`))
}

func line(id string) string {
	return `{"id":"` + id + `","time":"2026-11-20T08:59:00Z","service":"s","type":"t"}`
}

func TestStatuses(t *testing.T) {
	cloud :=
		`{"specversion":"1.0","id":"c1","source":"/s","type":"t","time":"2026-11-20T08:59:00Z","data":{"service":"s",` +
			`"type":"t"}}`
	bad := `{"service":"s","type":"t","outcome":"perhaps"}`
	tests := []struct {
		name, query, body string
		h                 headers
		fail              error
		status            int
		code              string
		accepted, dups    int
		rejected          int
	}{
		{name: "object", body: line("a"), status: 202, accepted: 1},
		{name: "array", body: "[" + line("a") + "," + line("b") + "]", status: 202, accepted: 2},
		{name: "empty array", body: "[]", status: 202},
		{name: "ndjson", body: line("a") + "\n\n" + line("b") + "\r\n", h: headers{"Content-Type": "application/x-ndjson"},
			status: 202, accepted: 2},
		{name: "a bad line among good ones", body: line("a") + "\n{nope\n" + bad + "\n" + line("a"),
			h: headers{"Content-Type": "application/x-ndjson"}, status: 202, accepted: 1, dups: 1, rejected: 2},
		{name: "charset", body: line("a"), h: headers{"Content-Type": `Application/JSON; charset="UTF-8"`},
			status: 202, accepted: 1},
		{name: "cloudevent", body: cloud, h: headers{"Content-Type": "application/cloudevents+json"},
			status: 202, accepted: 1},
		{name: "cloudevents", body: "[" + cloud + "]", h: headers{"Content-Type": "application/cloudevents-batch+json"},
			status: 202, accepted: 1},
		{name: "no content type", body: line("a"), h: headers{"Content-Type": ""}, status: 415,
			code: "unsupported_media_type"},
		{name: "text", body: line("a"), h: headers{"Content-Type": "text/plain"}, status: 415,
			code: "unsupported_media_type"},
		{name: "cross-site", body: line("a"), h: headers{"Sec-Fetch-Site": "cross-site"}, status: 403, code: "cross_site"},
		{name: "same-site", body: line("a"), h: headers{"Sec-Fetch-Site": "same-site"}, status: 403, code: "cross_site"},
		{name: "foreign origin", body: line("a"), h: headers{"Origin": "https://evil.example"},
			status: 403, code: "cross_site"},
		{name: "hidden origin", body: line("a"), h: headers{"Origin": "null"}, status: 403, code: "cross_site"},
		{name: "own page", body: line("a"), h: headers{"Sec-Fetch-Site": "same-origin"}, status: 202, accepted: 1},
		{name: "own origin", body: line("a"), h: headers{"Origin": "http://example.com"}, status: 202, accepted: 1},
		{name: "form", body: line("a"), h: headers{"Content-Type": "application/x-www-form-urlencoded"}, status: 415,
			code: "unsupported_media_type"},
		{name: "latin1", body: line("a"), h: headers{"Content-Type": "application/json; charset=latin1"}, status: 415,
			code: "unsupported_media_type"},
		{name: "brotli", body: line("a"), h: headers{"Content-Encoding": "br"}, status: 415, code: "unsupported_encoding"},
		{name: "not gzip", body: line("a"), h: headers{"Content-Encoding": "gzip"}, status: 400, code: "bad_body"},
		{name: "all bad", body: "[" + bad + "," + bad + "]", status: 422, code: "all_rejected", rejected: 2},
		{name: "unparsable", body: "[" + line("a") + ",", status: 400, code: "invalid_json"},
		{name: "empty", body: "", status: 400, code: "empty_body"},
		{name: "empty ndjson", body: "\n\n", h: headers{"Content-Type": "application/x-ndjson"},
			status: 400, code: "empty_body"},
		{name: "dry run", query: "?dry_run=true", body: "[" + line("a") + "," + bad + "]", status: 200,
			accepted: 1, rejected: 1},
		{name: "dry run, all bad", query: "?dry_run=true", body: bad, status: 422, code: "all_rejected", rejected: 1},
		{name: "dry run, unparsable", query: "?dry_run=true", body: "{", status: 400, code: "invalid_json"},
		{name: "dry run misspelt", query: "?dry_run=yes", body: line("a"), status: 400, code: "bad_query"},
		{name: "dry run off", query: "?dry_run=false", body: line("a"), status: 202, accepted: 1},
		{name: "query broken", query: "?dry_run=%zz", body: line("a"), status: 400, code: "bad_query"},
		{name: "old", body: `{"service":"s","type":"t","time":"2026-11-01T00:00:00Z"}`, status: 422,
			code: "all_rejected", rejected: 1},
		{name: "backfill", query: "?backfill=true", body: `{"service":"s","type":"t","time":"2026-11-01T00:00:00Z"}`,
			status: 202, accepted: 1},
		{name: "covers", query: "?backfill=true&covers=2026-11-01T00:00:00Z/2026-11-08T00:00:00z", body: line("a"),
			status: 202, accepted: 1},
		{name: "covers a moment",
			query: "?backfill=true&covers=2026-11-01T03:00:00%2b03:00/2026-11-01T00:00:00Z&" +
				"covers=2026-11-01T03:00:00+03:00/2026-11-02T00:00:00Z", body: line("a"), status: 202, accepted: 1},
		{name: "covers of now", query: "?covers=2026-11-01T00:00:00Z/2026-11-08T00:00:00Z", body: line("a"),
			status: 400, code: "bad_query"},
		{name: "covers backwards", query: "?backfill=true&covers=2026-11-08T00:00:00Z/2026-11-01T00:00:00Z", body: line("a"),
			status: 400, code: "bad_query"},
		{name: "covers half", query: "?backfill=true&covers=2026-11-08T00:00:00Z/", body: line("a"),
			status: 400, code: "bad_query"},
		{name: "covers too much", query: "?backfill=true" +
			strings.Repeat("&covers=2026-11-01T00:00:00Z/2026-11-08T00:00:00Z", event.MaxCovers+1), body: line("a"),
			status: 400, code: "bad_query"},
		{name: "overloaded", body: line("a"), fail: engine.ErrOverloaded, status: 503, code: "overloaded"},
		{name: "disk full", body: line("a"), fail: fmt.Errorf("append: %w", engine.ErrDiskFull),
			status: 503, code: "disk_full"},
		{name: "recovering", body: line("a"), fail: engine.ErrNotReady, status: 503, code: "not_ready"},
		{name: "poisoned", body: line("a"), fail: engine.ErrPoisoned, status: 503, code: "poisoned"},
		{name: "unexpected", body: line("a"), fail: errors.New("boom"), status: 500, code: "internal"},
		{name: "nothing to store needs no engine", body: bad, fail: engine.ErrNotReady, status: 422,
			code: "all_rejected", rejected: 1},
		{name: "deadline ahead", body: line("a"), h: headers{"X-Request-Deadline": "2026-11-20T09:00:01Z"},
			status: 202, accepted: 1},
		{name: "deadline passed", body: line("a"), h: headers{"X-Request-Deadline": "2026-11-20T09:00:00Z"}, status: 504,
			code: "deadline_passed"},
		{name: "unix deadline", body: line("a"), h: headers{"X-Request-Deadline": "1795165199.5"}, status: 504,
			code: "deadline_passed"},
		{name: "unix deadline ahead", body: line("a"), h: headers{"X-Request-Deadline": "99999999999"},
			status: 202, accepted: 1},
		{name: "not a deadline", body: line("a"), h: headers{"X-Request-Deadline": "soon"},
			status: 400, code: "bad_deadline"},
		{name: "NaN deadline", body: line("a"), h: headers{"X-Request-Deadline": "NaN"}, status: 400, code: "bad_deadline"},
		{name: "deadline while storing", body: line("a"), h: headers{"X-Request-Deadline": "2026-11-20T09:00:01Z"},
			fail: context.DeadlineExceeded, status: 504, code: "deadline_passed"},
		{name: "announced too large", body: strings.Repeat(" ", 2<<20), status: 413, code: "body_too_large"},
		{name: "too many events", body: "[" + strings.Repeat(line("a")+",", 100) + line("a") + "]", status: 413,
			code: "batch_too_large"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, func(o *HandlerOptions) {
				o.MaxBodyBytes = 1 << 20
				o.SizeLimits.MaxBatchEvents = 100
				// The deadline given to the committer is on the real clock.
				o.Now = func() time.Time { return testNow }
			})
			r.fail = tt.fail
			w := r.post(tt.query, tt.body, tt.h)
			p := decodeAnswer(t, w)
			require.Equal(t, tt.status, w.Code, w.Body)
			require.Equal(t, tt.code, p.Code)
			require.Equal(t, tt.accepted, p.Accepted)
			require.Equal(t, tt.dups, p.Duplicates)
			require.Equal(t, tt.rejected, p.Rejected)
			require.Equal(t, 1, r.metric(t, fmt.Sprintf(`sloengine_ingest_requests_total{code="%d"}`, tt.status)))
			require.Equal(t, strings.Contains(tt.query, "dry_run=true") && w.Code != 400, p.DryRun)
			if p.DryRun || tt.status >= 400 {
				require.Zero(t, r.events)
			}
			if tt.status == 415 && tt.code == "unsupported_media_type" {
				require.Contains(t, p.Detail, supportedMedia)
			}
			if tt.status == 415 && tt.code == "unsupported_encoding" {
				require.Equal(t, supportedEncodings, w.Header().Get("Accept-Encoding"))
			}
			require.Zero(t, r.handler.budget.used.Load())
			require.Empty(t, r.handler.decoding)
		})
	}
}

// TestCoversReachTheLog: they are in every record of the request, and the engine reads the same values there.
func TestCoversReachTheLog(t *testing.T) {
	var got []record.Events
	state := &folded{ids: map[string]uint64{}, each: func(payload []byte) {
		e, err := record.ParseEvents(payload)
		require.NoError(t, err)
		got = append(got, e)
	}}
	real := runEngine(t, fsystest.New(), "/data", func(o *engine.Options) { o.State = state })
	r := newRig(t, func(o *HandlerOptions) { o.Committer, o.Now = real.Engine, time.Now })
	past := `{"service":"s","type":"t","id":"`
	query :=
		"?backfill=true&covers=2026-11-01T00:00:00Z/2026-11-08T00:00:00Z&covers=2026-11-09T00:00:00Z/2026-11-09T00:00:01Z"
	require.Equal(t, 202, r.post(query, past+`a"}`, nil).Code)
	require.Equal(t, 202, r.post("?backfill=true", past+`b"}`, nil).Code)
	real.stop()
	require.Len(t, got, 2)
	day := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	ns := func(days int) int64 { return day.AddDate(0, 0, days).UnixNano() }
	require.Equal(t, []event.Span{{From: ns(0), To: ns(7)}, {From: ns(8), To: ns(8) + 1e9}}, got[0].Covers)
	require.Empty(t, got[1].Covers)
	require.False(t, got[0].Whole || got[1].Whole)
}

func TestUnparsableBodySaysWhere(t *testing.T) {
	r := newRig(t, nil)
	p := decodeAnswer(t, r.post("", "[\n"+line("a")+",\n  oops]", nil))
	require.Equal(t, 400, p.Status)
	require.Equal(t, 3, p.Line)
	require.Equal(t, 3, p.Column)
	require.Positive(t, p.Offset)
	require.Contains(t, p.Detail, "line 3, column 3")
	require.Zero(t, r.batches, "an array is all decoded before anything is stored")
}

func TestAssignedIDs(t *testing.T) {
	r := newRig(t, nil)
	p := decodeAnswer(t, r.post("", `{"service":"s","type":"t"}`, nil))
	require.Equal(t, 1, p.Assigned)
	require.NotEmpty(t, p.ID)
	require.Equal(t, p.ID, string(r.last.ID))

	p = decodeAnswer(t, r.post("", `[{"service":"s","type":"t"},{"service":"s","type":"t"},`+line("a")+`]`, nil))
	require.Equal(t, 2, p.Assigned)
	require.Empty(t, p.ID)

	m, seen := idMaker{}, map[string]bool{}
	for i := range 5000 {
		id := m.next(i)
		require.False(t, seen[id])
		seen[id] = true
		if i%1000 == 999 {
			m.reset()
		}
	}
	for id := range seen {
		require.True(t, strings.HasPrefix(id, processID+"-e"), id)
	}
}

func TestRequestIDs(t *testing.T) {
	r := newRig(t, nil)
	require.Equal(
		t, "abc/DEF:1.2_3-4", r.post("", line("a"), headers{"X-Request-Id": "abc/DEF:1.2_3-4"}).Header().Get("X-Request-Id"))
	for _, hostile := range []string{"a b", "a\"b", "a\x01b", "é", strings.Repeat("x", 129), "<script>"} {
		got := r.post("", line("a"), headers{"X-Request-Id": hostile}).Header().Get("X-Request-Id")
		require.True(t, strings.HasPrefix(got, processID), got)
	}
	r.post("", "{", headers{"X-Request-Id": "find-me"})
	require.Contains(t, r.log.String(), "request_id=find-me")
}

func TestTokensOnEvents(t *testing.T) {
	r := newRig(t, func(o *HandlerOptions) {
		o.Auth = NewAuth(AuthOptions{Tokens: testTokens(t), Metrics: o.Metrics, Logger: o.Logger})
	})
	shop := `{"id":"1","service":"shop","type":"t"}`
	other := `{"id":"2","service":"payments","type":"t"}`
	as := func(secret string) headers { return headers{"Authorization": "Bearer " + secret} }
	tests := []struct {
		name, query, body string
		h                 headers
		status            int
	}{
		{"no token", "", shop, nil, 401},
		{"unknown", "", shop, as("wrong-wrong-wrong"), 401},
		{"may only read", "", shop, as(readSecret), 403},
		{"send", "", shop, as(sendSecret), 202},
		{"backfill not permitted", "?backfill=true", shop, as(sendSecret), 403},
		{"backfill", "?backfill=true", other, as(operateSecret), 202},
		{"foreign service", "", other, as(sendSecret), 422},
		{"some of it", "", "[" + shop + "," + other + "]", as(sendSecret), 202},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := r.post(tt.query, tt.body, tt.h)
			p := decodeAnswer(t, w)
			require.Equal(t, tt.status, w.Code, w.Body)
			if w.Code == 401 || w.Code == 403 {
				require.NotEmpty(t, w.Header().Get("WWW-Authenticate"))
			}
			for _, e := range p.Errors {
				require.Equal(t, event.CodeServiceNotAllowed, e.Code)
			}
		})
	}
	require.Equal(t, 1, r.metric(t, `sloengine_ingest_auth_failures_total{reason="missing"}`))
	require.Equal(t, 1, r.metric(t, `sloengine_ingest_auth_failures_total{reason="unknown"}`))
	require.Equal(t, 2, r.metric(t, `sloengine_ingest_auth_failures_total{reason="permission"}`))
	require.NotContains(t, r.log.String(), sendSecret)
	require.NotContains(t, r.log.String(), "wrong-wrong-wrong")
}

func TestEncodedBodies(t *testing.T) {
	r := newRig(t, nil)
	var lines strings.Builder
	for i := range 1000 {
		lines.WriteString(line(strconv.Itoa(i)) + "\n")
	}
	ndjson := "application/x-ndjson"
	plain := r.post("", lines.String(), headers{"Content-Type": ndjson})
	require.Equal(t, 1000, decodeAnswer(t, plain).Accepted)
	gz := r.post("", string(gzipBytes(t, []byte(lines.String()))),
		headers{"Content-Type": ndjson, "Content-Encoding": "gzip"})
	require.Equal(t, 1000, decodeAnswer(t, gz).Duplicates)
	zs := r.post("", string(zstdBytes(t, []byte(lines.String()))),
		headers{"Content-Type": ndjson, "Content-Encoding": "zstd"})
	require.Equal(t, 1000, decodeAnswer(t, zs).Duplicates)

	cut := gzipBytes(t, []byte(lines.String()))
	p := decodeAnswer(t, r.post("", string(cut[:len(cut)/2]), headers{"Content-Type": ndjson, "Content-Encoding": "gzip"}))
	require.Equal(t, 400, p.Status)
	require.Contains(t, p.Detail, "gzip")
	require.Zero(t, p.Received)
}

func TestHostileBodies(t *testing.T) {
	r := newRig(t, func(o *HandlerOptions) { o.MaxBodyBytes = 1 << 20 })
	ndjson := "application/x-ndjson"
	bomb := make([]byte, 64<<20)
	tests := []struct {
		name   string
		body   string
		h      headers
		status int
	}{
		{"gzip bomb", string(gzipBytes(t, bomb)), headers{"Content-Encoding": "gzip"}, 413},
		{"zstd bomb", string(zstdBytes(t, bomb)), headers{"Content-Encoding": "zstd"}, 413},
		{"deep arrays", strings.Repeat("[", 1<<19), nil, 400},
		{"deep objects", strings.Repeat(`{"a":`, 1<<17), nil, 0},
		{"deep attributes", `{"service":"s","type":"t","attributes":` + strings.Repeat(`{"a":`, 1<<16) + "1" +
			strings.Repeat("}", 1<<16) + "}", nil, 400},
		{"many tiny values", "[" + strings.Repeat("0,", 400_000) + "0]", nil, 413},
		{"many tiny lines", strings.Repeat("0\n", 400_000), headers{"Content-Type": ndjson}, 413},
		{"ten thousand bad lines", strings.Repeat("{}\n", 10_000), headers{"Content-Type": ndjson}, 422},
		{"one endless string", `{"service":"` + strings.Repeat("x", 1<<19), nil, 400},
		{"zero bytes", string(make([]byte, 1000)), nil, 400},
		{"broken utf-8", "{\"service\":\"s\xff\",\"type\":\"t\"}", nil, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			start := time.Now()
			w := r.post("", tt.body, tt.h)
			p := decodeAnswer(t, w)
			require.GreaterOrEqual(t, w.Code, 400, w.Body)
			require.Less(t, w.Code, 500, w.Body)
			if tt.status != 0 {
				require.Equal(t, tt.status, w.Code, w.Body)
			}
			require.LessOrEqual(t, len(p.Errors), 100)
			require.Less(t, w.Body.Len(), 64<<10, "what is answered is bounded too")
			require.Less(t, time.Since(start), 5*time.Second)
			require.Zero(t, r.handler.budget.used.Load())
		})
	}
	require.Zero(t, r.events)
	p := decodeAnswer(t, r.post("", strings.Repeat("{}\n", 10_000), headers{"Content-Type": ndjson}))
	require.Equal(t, 10_000, p.Rejected)
	require.True(t, p.ErrorsTruncated)
	require.Equal(t, []event.Run{{From: 100, To: 9_999, Code: event.CodeMissingField}}, p.Unlisted)
	require.Zero(t, r.metric(t, `sloengine_ingest_rejected_total{code="unlisted"}`), "every code is known")

	// Good and bad in turn are more ranges than an answer has.
	w := r.post("", strings.Repeat("{}\n"+line("a")+"\n", 5_000), headers{"Content-Type": ndjson})
	require.Less(t, w.Body.Len(), 64<<10)
	p = decodeAnswer(t, w)
	require.Equal(t, 5_000, p.Rejected)
	require.Len(t, p.Unlisted, 500)
	require.Equal(t, 4_400, r.metric(t, `sloengine_ingest_rejected_total{code="unlisted"}`))
}

func TestPanicIsAnsweredAndGivesEverythingBack(t *testing.T) {
	r := newRig(t, nil)
	r.before = func(context.Context) error { panic("a bug") }
	w := r.post("", line("a"), nil)
	require.Equal(t, 500, w.Code)
	require.Contains(t, r.log.String(), "a bug")
	require.Equal(t, 1, r.metric(t, `sloengine_ingest_requests_total{code="500"}`))
	require.Zero(t, r.metric(t, `sloengine_ingest_in_flight_bytes`))
	r.before = nil
	require.Equal(t, 202, r.post("", line("a"), nil).Code)
}

func TestNoMemoryLeftIs503(t *testing.T) {
	r := newRig(t, func(o *HandlerOptions) { o.MaxBodyBytes = 64 << 10; o.MaxInFlightBytes = 128 << 10 })
	require.True(t, r.handler.budget.take(126<<10))
	p := decodeAnswer(t, r.post("", line("a"), nil))
	require.Equal(t, 503, p.Status)
	r.handler.budget.give(126 << 10)
	require.Equal(t, 202, r.post("", line("a"), nil).Code)
}

func TestBatchOfAFailedCommitIsNotReused(t *testing.T) {
	r := newRig(t, nil)
	var kept *event.Batch
	r.handler.o.Committer = commitFunc(func(_ context.Context, b *event.Batch) (engine.Result, error) {
		kept = b
		return engine.Result{}, engine.ErrOverloaded
	})
	require.Equal(t, 503, r.post("", line("a"), nil).Code)
	for range 10 {
		r.handler.o.Committer = r.fakeCommitter
		require.Equal(t, 202, r.post("", line("b"), nil).Code)
	}
	var v event.View
	_, err := v.Parse(kept.Event(0))
	require.NoError(t, err)
	require.Equal(t, "a", string(v.ID), "the engine may still look at it")
}

type commitFunc func(context.Context, *event.Batch) (engine.Result, error)

func (f commitFunc) Commit(ctx context.Context, b *event.Batch) (engine.Result, error) {
	return f(ctx, b)
}

func (f commitFunc) Admit(ctx context.Context, b *event.Batch, _ *ratelimit.Tickets, _ []int32) (engine.Result, error) {
	return f(ctx, b)
}

func TestHandlerOptionsThatCannotWork(t *testing.T) {
	c := &fakeCommitter{}
	for _, o := range []HandlerOptions{
		{}, {Committer: c, MaxBodyBytes: -1}, {Committer: c, MaxBodyBytes: 65 << 20}, {Committer: c, MaxWireBytes: 17 << 20},
		{Committer: c, MaxInFlightBytes: 16 << 20}, {Committer: c, BodyTimeout: -1}, {Committer: c, Decoders: -1},
	} {
		_, err := NewHandler(o)
		require.Error(t, err)
	}
}

// serveTCP runs the handler behind a real server, where clients can be slow.
func serveTCP(t *testing.T, r *rig) string {
	t.Helper()
	server := &http.Server{Handler: r.engine}
	Harden(server)
	require.Equal(t, ReadHeaderTimeout, server.ReadHeaderTimeout)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close(); <-done })
	return listener.Addr().String()
}

func TestSlowClientIsTurnedAway(t *testing.T) {
	r := newRig(t, func(o *HandlerOptions) { o.BodyTimeout = 100 * time.Millisecond })
	addr := serveTCP(t, r)
	conn, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	defer conn.Close()
	_, err = io.WriteString(conn, "POST "+EventsPath+
		" HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 10000000\r\n\r\n{")
	require.NoError(t, err)
	require.Eventually(t, func() bool { return r.handler.inFlight.Load() == 1 }, testkit.Patience, time.Millisecond)
	require.LessOrEqual(t, r.handler.budget.used.Load(), int64(eagerBuffer))
	answer, err := io.ReadAll(conn)
	require.NoError(t, err)
	require.Contains(t, string(answer), "408 Request Timeout")
	require.Contains(t, string(answer), `"code":"body_too_slow"`)
	require.Eventually(t, func() bool { return r.handler.budget.used.Load() == 0 }, testkit.Patience, time.Millisecond)
}

// A read deadline left over from the body would cancel a request that waits long for the disk.
func TestLongCommitIsNotCutByTheBodyTimeout(t *testing.T) {
	r := newRig(t, func(o *HandlerOptions) { o.BodyTimeout = 50 * time.Millisecond })
	r.before = func(ctx context.Context) error {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(200 * time.Millisecond):
			return nil
		}
	}
	url := "http://" + serveTCP(t, r) + EventsPath
	for range 2 {
		resp, err := http.Post(url, "application/json", strings.NewReader(line("a")))
		require.NoError(t, err)
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		require.Equal(t, 202, resp.StatusCode)
	}
}

// A whole request is stored also when its sender has closed the connection, or its half of it,
// while the events wait for the log.
func TestEventsOfAClosedConnectionAreStored(t *testing.T) {
	r := newRig(t, func(o *HandlerOptions) { o.LeftTimeout = time.Second }) // ends before the deadline of the request
	entered := make(chan struct{}, 2)
	tries := 0
	r.before = func(ctx context.Context) error {
		entered <- struct{}{}
		if tries++; tries == 1 {
			<-ctx.Done()
			return fmt.Errorf("wait for the log: %w", context.Cause(ctx))
		}
		return ctx.Err()
	}
	conn := sendRaw(t, serveTCP(t, r), len(line("a")), line("a"))
	<-entered
	require.NoError(t, conn.CloseWrite())
	answer, err := io.ReadAll(conn)
	require.NoError(t, err)
	require.Contains(t, string(answer), "202 Accepted")
	require.Contains(t, string(answer), `"accepted":1`)
	require.Equal(t, 1, r.events)
}

// A request that must be answered soon is served to its end whether its sender leaves or not, so nothing watches the
// sender.
func TestRequestsWithADeadlineSoonGoOn(t *testing.T) {
	r := newRig(t, nil)
	r.before = func(ctx context.Context) error {
		if ctx.Done() != nil {
			return errors.New("the context can end")
		}
		return nil
	}
	url := "http://" + serveTCP(t, r) + EventsPath
	for deadline, want := range map[string]int{
		"": 202, testNow.Add(time.Second).Format(time.RFC3339): 202, testNow.Add(time.Minute).Format(time.RFC3339): 500,
	} {
		req, err := http.NewRequest(http.MethodPost, url, strings.NewReader(line("a")))
		require.NoError(t, err)
		req.Header = http.Header{"Content-Type": {"application/json"}, "X-Request-Deadline": {deadline}}
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		resp.Body.Close()
		require.Equal(t, want, resp.StatusCode, deadline)
	}
}

// A log that takes nothing must not hold the events of disconnected senders forever, and events
// that are not stored are not reported as a success.
func TestClosedConnectionWaitsForABoundedTime(t *testing.T) {
	r := newRig(t, func(o *HandlerOptions) { o.LeftTimeout = 50 * time.Millisecond })
	r.before = func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) }
	conn := sendRaw(t, serveTCP(t, r), len(line("a")), line("a"))
	require.NoError(t, conn.CloseWrite())
	answer, err := io.ReadAll(conn)
	require.NoError(t, err)
	require.Contains(t, string(answer), "HTTP/1.1 499 ")
	require.Contains(t, string(answer), `"code":"client_closed_request"`)
	require.Zero(t, r.events)
	require.Equal(t, 1, r.metric(t, `sloengine_ingest_requests_total{code="499"}`))
}

func TestClientThatLeavesWithinItsBodyIsCounted(t *testing.T) {
	r := newRig(t, nil)
	addr := serveTCP(t, r)
	conn := sendRaw(t, addr, 1000, "[")
	require.NoError(t, conn.CloseWrite())
	answer, err := io.ReadAll(conn)
	require.NoError(t, err)
	require.Contains(t, string(answer), "400 Bad Request")
	require.Contains(t, string(answer), `"code":"bad_body"`)

	conn = sendRaw(t, addr, 1000, "[")
	require.Eventually(t, func() bool { return r.handler.inFlight.Load() == 1 }, testkit.Patience, time.Millisecond)
	require.NoError(t, conn.SetLinger(0)) // a reset
	require.NoError(t, conn.Close())
	require.Eventually(t, func() bool {
		return r.metric(t, `sloengine_ingest_requests_total{code="499"}`) == 1
	}, testkit.Patience, time.Millisecond)
	require.Zero(t, r.events)
}

// sendRaw sends a request whose body should have so many bytes.
func sendRaw(t *testing.T, addr string, length int, body string) *net.TCPConn {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(10*time.Second)))
	_, err = fmt.Fprintf(conn,
		"POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		EventsPath, length, body)
	require.NoError(t, err)
	return conn.(*net.TCPConn)
}

func TestTooLargeWithoutAnnouncement(t *testing.T) {
	r := newRig(t, func(o *HandlerOptions) { o.MaxBodyBytes = 64 << 10 })
	url := "http://" + serveTCP(t, r) + EventsPath
	req, err := http.NewRequest("POST", url, struct{ io.Reader }{strings.NewReader(strings.Repeat(" ", 65<<10))})
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Equal(t, 413, resp.StatusCode)
}

// Every reason to refuse has a title of its own. Codes without one are those of bodies that cannot be parsed.
func TestUnavailableHasATitle(t *testing.T) {
	for _, why := range engine.Unavailable {
		require.Contains(t, problemTitles, why.Code)
	}
}

func TestRejectsAreNotedWithTheirSender(t *testing.T) {
	table := rejects.New(func() bool { return false }, func() time.Time { return testNow })
	r := newRig(t, func(o *HandlerOptions) { o.Rejects = table })
	const old = `{"service":"shop","type":"order","id":"old","time":"2020-01-01T00:00:00Z"}`
	require.Equal(t, 202, r.post("", line("b")+"\n"+old, headers{"Content-Type": "application/x-ndjson"}).Code)
	require.Equal(t, 422, r.post("", old, nil).Code)
	require.Equal(t, 422, r.post("?dry_run=true", old, nil).Code)
	require.Equal(t, 400, r.post("", "[{", nil).Code)
	require.Equal(t, 415, r.post("", "x", headers{"Content-Type": "text/plain"}).Code)
	got := map[string]rejects.Code{}
	for _, c := range table.Snapshot() {
		got[c.Code] = c
	}
	require.Len(t, got, 3)
	tooOld := got["time_too_old"]
	require.EqualValues(t, 2, tooOld.Events, "a dry run is no event")
	require.Zero(t, tooOld.Requests, "a request whose events are all rejected counts as these")
	require.Equal(t, rejects.Sender{Address: "192.0.2.1"}, tooOld.Senders[0].Sender)
	require.Equal(t, "shop", tooOld.Senders[0].Service)
	require.JSONEq(t, old, tooOld.Senders[0].Sample)
	require.EqualValues(t, 1, got["invalid_json"].Requests)
	require.EqualValues(t, 1, got["unsupported_media_type"].Requests)
}
