package send

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"
	"github.com/zeebo/xxh3"

	"github.com/sloengine/sloengine/client/post"
	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/internal/testkit"
)

var testNow = time.Date(2026, 11, 20, 9, 30, 0, 0, time.UTC)

// server takes events as the real one does, and knows every id for ever.
type server struct {
	*httptest.Server
	t *testing.T

	mu       sync.Mutex
	counted  map[xxh3.Uint128]event.Event
	requests int
	headers  http.Header
	query    string
	limits   event.SizeLimits
	// before may answer a request in place of the server, by returning true.
	before func(n int, w http.ResponseWriter, body []byte) bool
	// after is called when the events are counted but not yet answered.
	after func(n int, w http.ResponseWriter) bool
	// edit changes an answer before it is sent.
	edit func(n int, b *event.Batch, a *post.Answer)
}

func newServer(t *testing.T) *server {
	s := &server{t: t, counted: map[xxh3.Uint128]event.Event{}}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := s.body(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests++
	n := s.requests
	s.headers, s.query = r.Header.Clone(), r.URL.RawQuery
	if s.before != nil && s.before(n, w, body) {
		return
	}
	var d event.Decoder
	var b event.Batch
	opt := event.DecodeOptions{Now: testNow, Backfill: r.URL.Query().Get("backfill") == "true", SizeLimits: s.limits}
	if err := d.Decode(event.NDJSON, body, opt, &b); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	a := post.Answer{Received: b.Received, Tally: post.Tally{Rejected: b.Rejected}, Errors: b.Errors,
		ErrorsTruncated: b.ErrorsTruncated, Unlisted: b.Unlisted}
	if s.edit != nil {
		s.edit(n, &b, &a)
	}
	for i, item := range b.Events {
		if _, known := s.counted[item.Key]; known {
			a.Duplicates++
			continue
		}
		var v event.View
		if _, err := v.Parse(b.Event(i)); err != nil {
			s.t.Error(err)
		}
		var e event.Event
		v.Event(&e)
		s.counted[item.Key] = e
		a.Accepted++
	}
	if s.after != nil && s.after(n, w) {
		return
	}
	status := http.StatusAccepted
	if a.Rejected == a.Received && a.Received > 0 {
		status = http.StatusUnprocessableEntity
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(&a)
}

func (s *server) body(r *http.Request) ([]byte, error) {
	var in io.Reader = r.Body
	switch r.Header.Get("Content-Encoding") {
	case "gzip":
		z, err := gzip.NewReader(r.Body)
		if err != nil {
			return nil, err
		}
		in = z
	case "zstd":
		z, err := zstd.NewReader(r.Body)
		if err != nil {
			return nil, err
		}
		defer z.Close()
		in = z
	}
	return io.ReadAll(in)
}

func (s *server) total() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.counted)
}

// ids gives the ids that were counted, sorted out by nothing.
func (s *server) ids() map[string]event.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]event.Event{}
	for _, e := range s.counted {
		out[e.ID] = e
	}
	return out
}

// sent is one run and what it printed.
type sent struct {
	Summary
	err    error
	stdout string
	log    string
}

// options are those of a test: small batches, fast polling.
func (s *server) options(files ...string) Options {
	base, err := url.Parse(s.URL)
	require.NoError(s.t, err)
	return Options{Server: base, Files: files, Output: "json", Now: func() time.Time { return testNow },
		BatchEvents: 10, BatchWait: 20 * time.Millisecond, Poll: 5 * time.Millisecond, Stderr: io.Discard}
}

func run(t *testing.T, o Options) sent {
	t.Helper()
	var out, log testkit.Buffer
	o.Stdout = &out
	o.Logger = slog.New(slog.NewTextHandler(&log, nil))
	res := sent{err: Run(t.Context(), o)}
	res.stdout, res.log = out.String(), log.String()
	if o.Output == "json" && res.stdout != "" {
		require.NoError(t, json.Unmarshal([]byte(res.stdout), &res.Summary), res.stdout)
	}
	return res
}

func write(t *testing.T, name string, lines ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600))
	return path
}

// eventLines are n events without ids.
func eventLines(n int) []string {
	lines := make([]string, n)
	for i := range lines {
		lines[i] = fmt.Sprintf(`{"time":"2026-11-20T09:%02d:%02dZ","service":"shop","type":"order","attributes":{"n":%d}}`,
			i/60%30, i%60, i)
	}
	return lines
}

func accessLines(n int) []string {
	lines := make([]string, n)
	for i := range lines {
		lines[i] = fmt.Sprintf(`192.0.2.%d - - [20/Nov/2026:08:%02d:%02d +0000] "GET /p/%d HTTP/1.1" %d %d "-" "agent"`,
			i%200, i/60%60, i%60, i, []int{200, 200, 404, 500}[i%4], i)
	}
	return lines
}
