package client

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sloengine/sloengine/client/post"
	"github.com/sloengine/sloengine/ingest/event"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv("CLIENT_TEST_CHILD"); dir != "" {
		child(dir)
		return
	}
	goleak.VerifyTestMain(m)
}

// engine is as much of a server as the client can see: it knows ids, and answers for
// every event. A fault, if there is one, comes first.
type engine struct {
	t testing.TB

	mu      sync.Mutex
	seen    map[string]int // how often an event arrived, by id
	events  []event.Event  // new ones, in order
	headers []http.Header

	requests atomic.Int64
	fault    atomic.Pointer[fault] // answers instead; false lets the request through
	item     func(*event.Event) *event.ItemError
}

type fault func(w http.ResponseWriter, r *http.Request, lines [][]byte) bool

func newEngine(t testing.TB) *engine { return &engine{t: t, seen: map[string]int{}} }

// serve starts a real server.
func (e *engine) serve() string {
	s := httptest.NewServer(e)
	e.t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s.URL
}

func (e *engine) set(f fault) {
	if f == nil {
		e.fault.Store(nil)
		return
	}
	e.fault.Store(&f)
}

func (e *engine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.requests.Add(1)
	var body io.Reader = r.Body
	switch r.Header.Get("Content-Encoding") {
	case "gzip":
		z, err := gzip.NewReader(body)
		if err != nil {
			problem(w, 400, "bad_body", "")
			return
		}
		body = z
	case "zstd":
		z, err := zstd.NewReader(body)
		if err != nil {
			problem(w, 400, "bad_body", "")
			return
		}
		defer z.Close()
		body = z
	}
	data, err := io.ReadAll(body)
	if err != nil {
		return // the client has gone
	}
	lines := bytes.Split(bytes.TrimSuffix(data, []byte("\n")), []byte("\n"))
	if f := e.fault.Load(); f != nil && (*f)(w, r, lines) {
		return
	}
	e.take(w, r, lines)
}

func (e *engine) take(w http.ResponseWriter, r *http.Request, lines [][]byte) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.headers = append(e.headers, r.Header)
	a := post.Answer{Received: len(lines), Errors: []event.ItemError{}}
	for i, line := range lines {
		var ev event.Event
		if err := ev.UnmarshalJSON(line); err != nil {
			e.t.Errorf("event that cannot be read: %.200s: %v", line, err)
			problem(w, 400, "invalid_json", err.Error())
			return
		}
		if e.item != nil {
			if bad := e.item(&ev); bad != nil {
				bad.Index, bad.ID = i, ev.ID
				a.Rejected++
				if len(a.Errors) < 100 {
					a.Errors = append(a.Errors, *bad)
				} else {
					a.ErrorsTruncated = true
				}
				continue
			}
		}
		if e.seen[ev.ID]++; e.seen[ev.ID] > 1 {
			a.Duplicates++
		} else {
			a.Accepted++
			e.events = append(e.events, ev)
		}
	}
	w.Header().Set("Content-Type", "application/json")
	if a.Rejected == a.Received {
		w.WriteHeader(http.StatusUnprocessableEntity)
	} else {
		w.WriteHeader(http.StatusAccepted)
	}
	_ = json.NewEncoder(w).Encode(a)
}

func problem(w http.ResponseWriter, status int, code, detail string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"code": code, "detail": detail, "status": status})
}

func (e *engine) count() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.seen)
}

func (e *engine) has(id string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.seen[id] > 0
}

func (e *engine) last() event.Event {
	e.mu.Lock()
	defer e.mu.Unlock()
	require.NotEmpty(e.t, e.events)
	return e.events[len(e.events)-1]
}

// rig is a client with its metrics and what OnError was told.
type rig struct {
	*Client
	t   testing.TB
	set *metrics.Set

	mu     sync.Mutex
	failed []Failure
}

func start(t testing.TB, url string, change func(*Options)) *rig {
	t.Helper()
	r := &rig{t: t, set: metrics.NewSet()}
	o := Options{URL: url, Service: "shop", Metrics: NewMetrics(r.set), Logger: slog.New(slog.DiscardHandler),
		BatchWait: 20 * time.Millisecond}
	o.Retry.Base = 5 * time.Millisecond
	o.OnError = func(f Failure) {
		f.Event = bytes.Clone(f.Event)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.failed = append(r.failed, f)
	}
	if change != nil {
		change(&o)
	}
	c, err := New(o)
	require.NoError(t, err)
	r.Client = c
	t.Cleanup(func() { _ = c.Close(t.Context()) }) // the context has ended: at once
	return r
}

func (r *rig) failures() []Failure {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Failure(nil), r.failed...)
}

// nothingLost allows for a disk that is slower than a short deadline: such an event is
// counted, and arrives all the same.
func (r *rig) nothingLost() {
	r.t.Helper()
	for _, f := range r.failures() {
		require.Equal(r.t, SpoolTimeout, f.Reason, "%s: %v", f.ID, f.Err)
	}
}

func (r *rig) lost(from Origin, why Reason) int { return int(r.m.failures[from][why].Get()) }

func (r *rig) spoolBytes() int64 { return r.m.spoolBytes.Load() }

func ev(id string) Event { return Event{ID: id, Type: "order"} }
