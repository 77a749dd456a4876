package web

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/ingest/source"
	"github.com/sloengine/sloengine/reliability/dlq"
	"github.com/sloengine/sloengine/sla/delivery"
	"github.com/sloengine/sloengine/web/site"
	"github.com/sloengine/sloengine/web/status"
)

// deadLetterStore is a store with a replayer whose targets a test can make fail.
type deadLetterStore struct {
	site.DLQ
	store *dlq.Memory
	taken []string                 // replayed ids, in order
	fails func(e *dlq.Entry) error // nil takes everything
}

func newDeadLetterStore(t testing.TB, entries ...dlq.Entry) *deadLetterStore {
	l := &deadLetterStore{}
	now := func() time.Time { return noon }
	var err error
	l.store, err = dlq.NewMemory(dlq.MemoryOptions{Now: now})
	require.NoError(t, err)
	require.NoError(t, l.store.Save(context.Background(), entries))
	take := func(_ context.Context, entries []dlq.Entry) []error {
		errs := make([]error, len(entries))
		for i := range entries {
			if l.fails != nil {
				errs[i] = l.fails(&entries[i])
			}
			if errs[i] == nil {
				l.taken = append(l.taken, entries[i].ID)
			}
		}
		return errs
	}
	replayer, err := dlq.NewReplayer(dlq.ReplayOptions{Store: l.store, Rate: 1e6,
		Targets: map[dlq.Origin]dlq.Target{dlq.Fold: take, dlq.Sink: take}, Now: now})
	require.NoError(t, err)
	l.DLQ = storeDLQ{l.store, replayer}
	return l
}

// auditLine is an entry of the audit log as one text.
func auditLine(action, detail string, err error) string {
	if err != nil {
		detail = strings.TrimSpace(detail + " error=" + strconv.QuoteToASCII(err.Error()))
	}
	return action + " " + detail
}

// storeDLQ is a DLQ over a store.
type storeDLQ struct {
	dlq.Store
	replayer *dlq.Replayer
}

func (d storeDLQ) Replay(ctx context.Context, q dlq.Query, dryRun bool) (dlq.ReplayResult, error) {
	return d.replayer.Replay(ctx, q, dryRun)
}
func (d storeDLQ) ReplayIDs(ctx context.Context, ids []string, dryRun bool) (dlq.ReplayResult, error) {
	return d.replayer.ReplayIDs(ctx, ids, dryRun)
}
func (d storeDLQ) DiscardMatching(ctx context.Context, q dlq.Query, dryRun bool) (int, error) {
	return dlq.DiscardMatching(ctx, d.Store, q, dryRun)
}
func (d storeDLQ) Purge(ctx context.Context, before time.Time, dryRun bool) (int, error) {
	if dryRun {
		return dlq.DiscardMatching(ctx, d.Store, dlq.Query{To: before}, true)
	}
	return d.Store.Purge(ctx, before)
}

// someDeadLetters are three: of the fold, and of a sink with and without a readable event.
func someDeadLetters(t testing.TB) *deadLetterStore {
	return newDeadLetterStore(t,
		dlq.Entry{ID: "fold-812-3", Origin: dlq.Fold, Reason: "attribute too long", Saved: noon.Add(-3 * time.Hour), Seq: 812,
			Index: 3, Service: "mdm", Type: "call", Event: json.RawMessage(`{"service":"mdm","type":"call"}`)},
		dlq.Entry{
			ID: "sink-warehouse-900-0", Origin: dlq.Sink, Sink: "warehouse", Reason: "expired", Class: "timeout",
			Error: "no answer within 5s", Attempts: 4, First: noon.Add(-2 * time.Hour), Last: noon.Add(-time.Hour),
			Saved: noon.Add(-time.Hour), Seq: 900, Service: "insurance-unpaid", Type: "application", Severity: "critical",
			Event: json.RawMessage(`{"service":"insurance-unpaid","type":"application","attributes":{"product":"<b>"}}`),
		},
		dlq.Entry{ID: "sink-warehouse-950~990", Origin: dlq.Sink, Sink: "warehouse", Reason: "expired",
			Saved: noon.Add(-time.Minute), Seq: 950, SeqEnd: 990},
	)
}

// manyDeadLetters are n entries of a sink, oldest first.
func manyDeadLetters(n int) (entries []dlq.Entry) {
	for i := range n {
		entries = append(entries, dlq.Entry{
			ID: fmt.Sprintf("sink-w-%04d-0", i), Origin: dlq.Sink, Sink: "w", Reason: "rejected",
			Service: fmt.Sprint("s", i%3), Type: "t",
			Saved: noon.Add(time.Duration(i-n) * time.Minute), Seq: uint64(i + 1), Event: json.RawMessage(`{"service":"s"}`),
		})
	}
	return entries
}

// broken is a store that does not answer.
type broken struct{ err error }

func (s broken) List(context.Context, dlq.Query) (dlq.Page, error) { return dlq.Page{}, s.err }
func (s broken) Get(context.Context, string) (dlq.Entry, error)    { return dlq.Entry{}, s.err }
func (s broken) Stats(context.Context) (dlq.Stats, error)          { return dlq.Stats{}, s.err }
func (s broken) Replay(context.Context, dlq.Query, bool) (dlq.ReplayResult, error) {
	return dlq.ReplayResult{Replayed: 7, Failed: 2}, s.err
}
func (s broken) ReplayIDs(context.Context, []string, bool) (dlq.ReplayResult, error) {
	return dlq.ReplayResult{}, s.err
}
func (s broken) Discard(context.Context, []string) (int, error)                { return 3, s.err }
func (s broken) DiscardMatching(context.Context, dlq.Query, bool) (int, error) { return 3, s.err }
func (s broken) Purge(context.Context, time.Time, bool) (int, error)           { return 3, s.err }

const jsonType = "application/json"

// send makes a request with a body.
func (b *bench) send(target, body string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, target, strings.NewReader(body))
	r.Host = "127.0.0.1:8080"
	r.Header.Set("Content-Type", jsonType)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	rec := httptest.NewRecorder()
	b.router.ServeHTTP(rec, r)
	return rec
}

// sent checks one real answer to a body against the contract, and a good body too.
func (k *contract) sent(b *bench, target, body string, want int, header ...string) []byte {
	k.t.Helper()
	rec := b.send(target, body, header...)
	require.Equal(k.t, want, rec.Code, "%s %s: %s", target, body, rec.Body)
	r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1:8080"+target, strings.NewReader(body))
	r.Header.Set("Content-Type", jsonType)
	in := k.request(r)
	if want < 400 {
		require.NoError(k.t, openapi3filter.ValidateRequest(context.Background(), in), "%s %s", target, body)
	}
	require.NoError(k.t, openapi3filter.ValidateResponse(context.Background(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: in, Status: rec.Code, Header: rec.Header(),
		Body: io.NopCloser(bytes.NewReader(rec.Body.Bytes())), Options: in.Options,
	}), "%s %s", target, body)
	require.Equal(k.t, "no-store", rec.Header().Get("Cache-Control"))
	if want >= 400 {
		require.Equal(k.t, "application/problem+json", rec.Header().Get("Content-Type"), target)
	}
	k.seen["POST "+in.Route.Path] = true
	return rec.Body.Bytes()
}

// deadLetters asks all that the API has about dead letters.
func (k *contract) deadLetters(b *bench) {
	for target, status := range map[string]int{
		"/api/v1/dlq/stats": 200, "/api/v1/dlq/fold-812-3": 200, "/api/v1/dlq/sink-warehouse-950~990": 200,
		"/api/v1/dlq/none": 404, "/api/v1/dlq/a%00b": 404,
	} {
		k.answer(b, http.MethodGet, target, status)
	}
	for path, bodies := range map[string]map[string]int{
		"/api/v1/dlq/replay": {`{"all":true,"dry_run":true}`: 200, `{"ids":["none"]}`: 200, `{}`: 400},
		"/api/v1/dlq/discard": {`{"query":{"origin":"sink","from":"2026-11-20T11:30:00Z"},"dry_run":true}`: 200,
			`{"ids":["none"]}`: 200, `{}`: 400},
		"/api/v1/dlq/purge": {
			`{"older_than":"7d","dry_run":true}`: 200, `{"before":"2026-11-20T10:00:00Z"}`: 200, `{}`: 400},
	} {
		for body, status := range bodies {
			k.sent(b, path, body, status)
		}
		k.sent(b, path, `{}`, 403, "Sec-Fetch-Site", "cross-site")
		k.sent(b, path, `{}`, 415, "Content-Type", "text/plain")
		k.sent(b, path, strings.Repeat(" ", site.MaxBody+1), 413)
	}
	for _, store := range []site.DLQ{broken{errors.New("busy")}, nil} {
		status := http.StatusServiceUnavailable
		if store == nil {
			status = http.StatusNotImplemented
		}
		b.web.Opt.DLQ = store
		for _, target := range []string{"/api/v1/dlq", "/api/v1/dlq/stats", "/api/v1/dlq/x"} {
			k.answer(b, http.MethodGet, target, status)
		}
		k.sent(b, "/api/v1/dlq/replay", `{"all":true}`, status)
		k.sent(b, "/api/v1/dlq/discard", `{"ids":["a"],"dry_run":true}`, status)
		k.sent(b, "/api/v1/dlq/purge", `{"older_than":"7d"}`, status)
	}
}

// hostileEngine puts a hostile text wherever the engine page shows one.
func hostileEngine(b *bench, bad string) {
	b.web.Opt.DLQ = hostileDLQ{broken{}, bad}
	s := &b.eng
	s.Limits = []status.LimitStatus{{Layer: bad, Rule: bad}}
	s.Offenders = []status.OffenderStatus{{Context: bad, Value: bad, Hits: 1}}
	s.Redis = &status.RedisStatus{LastError: bad}
	s.Breakers = []status.BreakerStatus{{Name: bad, State: bad, Reason: bad}}
	s.Bulkheads = []status.BulkheadStatus{{Name: bad}}
	s.Sinks = []status.SinkStatus{
		{Name: bad, Kind: bad, LastError: bad, DeadLetters: map[string]uint64{bad: 1}, Breaker: bad}}
	s.Sources = []status.SourceStatus{{Name: bad, Kind: bad, Topics: []status.SourceTopic{{Name: bad}},
		Troubles: []status.SourceTrouble{{Kind: source.Kind(bad), Name: bad, Brief: bad, Reason: bad, Since: noon}}}}
	s.Alertmanagers = []status.AlertmanagerStatus{
		{Name: bad, URL: bad, FailingSince: noon, Cause: bad, Brief: bad, Breaker: bad}}
	s.Reports = []status.ReportStatus{{Name: bad, Every: bad,
		Targets: []status.ReportTarget{{Kind: delivery.Kind(bad), Name: bad, Period: bad, Outcome: delivery.Outcome(bad),
			FailingSince: noon, Cause: bad, Brief: bad}}}}
	s.DeadLetters = &status.DeadLetterStatus{Storage: bad, ByReason: map[string]int64{bad: 1}}
}

type hostileDLQ struct {
	broken
	bad string
}

func (h hostileDLQ) List(context.Context, dlq.Query) (dlq.Page, error) {
	event, _ := json.Marshal(h.bad)
	return dlq.Page{Entries: []dlq.Entry{
		{ID: h.bad, Origin: dlq.Origin(h.bad), Sink: h.bad, Reason: h.bad, Class: h.bad, Error: h.bad,
			Service: h.bad, Event: event},
		{ID: "plain", Origin: dlq.Sink, Reason: h.bad, Raw: []byte(h.bad)},
	}}, nil
}
