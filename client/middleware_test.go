package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/internal/testkit"
)

func TestMiddleware(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, bytes.Repeat([]byte("x"), 200_000), 0o600))
	mux := http.NewServeMux()
	handle := func(pattern string, f http.HandlerFunc) { mux.HandleFunc(pattern, f) }
	handle("GET /items/{id}", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") })
	handle("POST /items", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(201) })
	handle("GET /nothing", func(http.ResponseWriter, *http.Request) {})
	handle("GET /fails", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", 503) })
	handle("GET /early", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(404)
	})
	handle("GET /panics", func(http.ResponseWriter, *http.Request) { panic("boom") })
	handle("GET /panics-late", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello"); panic("boom") })
	handle("GET /slow", func(http.ResponseWriter, *http.Request) { testkit.Pause(30 * time.Millisecond) })
	handle("GET /file", func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, file) })
	handle("GET /copy", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.Copy(w, strings.NewReader("copied")) })
	handle("GET /flush", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "a")
		require.NoError(t, http.NewResponseController(w).Flush())
		w.(http.Flusher).Flush()
		require.NoError(t, http.NewResponseController(w).SetWriteDeadline(time.Now().Add(time.Minute)), "through Unwrap")
	})
	handle("GET /hijack", func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		require.NoError(t, err)
		defer conn.Close()
		fmt.Fprint(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: close\r\n\r\nmine")
	})

	e := newEngine(t)
	c := start(t, e.serve(), nil)
	hook := MiddlewareOptions{
		Skip: func(r *http.Request) bool { return r.URL.Path == "/-/healthy" },
		Event: func(e *Event, r *http.Request) {
			e.Set("channel", "web")
			if r.URL.Path == "/nothing" {
				panic("in the hook")
			}
		},
	}
	web := httptest.NewUnstartedServer(Middleware(c.Client, hook)(mux))
	web.Config.ErrorLog = log.New(io.Discard, "", 0)
	web.Start()
	defer web.Close()

	for _, tc := range []struct {
		method, path  string
		route, status string
		outcome       event.Outcome
		body          string // "" isn't looked at
	}{
		{"GET", "/items/42", "/items/{id}", "200", event.Success, "hello"},
		{"POST", "/items", "/items", "201", event.Success, ""},
		{"GET", "/nothing", "/nothing", "200", event.Success, ""},
		{"GET", "/fails", "/fails", "503", event.Failure, ""},
		{"GET", "/early", "/early", "404", event.Success, ""},
		{"GET", "/unknown", "", "404", event.Success, ""},
		{"MADEUP", "/unknown", "", "404", event.Success, ""},
		{"GET", "/panics", "/panics", "500", event.Failure, ""},
		{"GET", "/panics-late", "/panics-late", "200", event.Failure, ""},
		{"GET", "/slow", "/slow", "200", event.Success, ""},
		{"GET", "/file", "/file", "200", event.Success, strings.Repeat("x", 200_000)},
		{"GET", "/copy", "/copy", "200", event.Success, "copied"},
		{"GET", "/flush", "/flush", "200", event.Success, "a"},
		{"GET", "/hijack", "/hijack", "", event.Success, ""},
	} {
		t.Run(tc.method+tc.path, func(t *testing.T) {
			before := e.count()
			req, err := http.NewRequestWithContext(t.Context(), tc.method, web.URL+tc.path, nil)
			require.NoError(t, err)
			resp, err := web.Client().Do(req)
			if err == nil {
				body, _ := io.ReadAll(resp.Body)
				resp.Body.Close()
				if tc.body != "" {
					require.Equal(t, tc.body, string(body))
				}
			} else {
				require.ErrorContains(t, err, "EOF", "the panic went on and cut the connection")
			}
			testkit.Eventually(t, "the event arrives", func() bool { return e.count() > before })
			got := e.last()
			require.Equal(t, "request", got.Type)
			require.Equal(t, "shop", got.Service)
			require.Equal(t, tc.route, got.Attr("route"))
			require.Equal(t, tc.status, got.Attr("status"))
			require.Equal(t, tc.outcome, got.Outcome)
			require.Equal(t, "web", got.Attr("channel"))
			require.Equal(t, tc.status != "", got.HasDuration)
			if tc.method == "MADEUP" {
				tc.method = "other"
			}
			require.Equal(t, tc.method, got.Attr("method"))
			if tc.path == "/slow" {
				require.GreaterOrEqual(t, got.Duration, 30*time.Millisecond)
			}
		})
	}
	n := e.count()
	resp, err := web.Client().Get(web.URL + "/-/healthy")
	require.NoError(t, err)
	resp.Body.Close()
	require.NoError(t, c.Flush(t.Context()))
	require.Equal(t, n, e.count(), "skipped")
	require.Empty(t, c.failures())
}

// The panic that reaches the outer world is the handler's own.
func TestMiddlewarePanics(t *testing.T) {
	e := newEngine(t)
	c := start(t, e.serve(), nil)
	boom := errors.New("boom")
	h := Middleware(c.Client, MiddlewareOptions{})(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		panic(boom)
	}))
	require.PanicsWithValue(t, boom, func() {
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
	})
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	h = Middleware(c.Client, MiddlewareOptions{})(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(200)
		panic(http.ErrAbortHandler)
	}))
	require.PanicsWithValue(t, http.ErrAbortHandler, func() {
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil).WithContext(gone))
	})
	require.NoError(t, c.Flush(t.Context()))
	require.Len(t, e.events, 2)
	require.Equal(t, event.Failure, e.events[0].Outcome)
	require.Equal(t, event.Success, e.events[1].Outcome, "the client had gone")
}

// A writer that can't be hijacked says so, instead of failing.
func TestRecorderWithoutHijack(t *testing.T) {
	r := &recorder{ResponseWriter: httptest.NewRecorder()}
	_, _, err := r.Hijack()
	require.ErrorIs(t, err, http.ErrNotSupported)
	require.False(t, r.hijacked)
	var _ interface {
		http.Hijacker
		http.Flusher
		io.ReaderFrom
		io.StringWriter
	} = r
}

func TestObserve(t *testing.T) {
	e := newEngine(t)
	url := e.serve()
	c := start(t, url, nil)
	boom := errors.New("boom")
	require.NoError(t, c.Observe(t.Context(), ev("ok"), func() error { testkit.Pause(20 * time.Millisecond); return nil }))
	require.Equal(t, event.Success, e.last().Outcome)
	require.GreaterOrEqual(t, e.last().Duration, 20*time.Millisecond)
	require.Equal(t, boom, c.Observe(t.Context(), ev("fails"), func() error { return boom }))
	require.Equal(t, event.Failure, e.last().Outcome)
	require.PanicsWithValue(t, boom, func() { _ = c.Observe(t.Context(), ev("panics"), func() error { panic(boom) }) })
	require.Equal(t, "panics", e.last().ID)
	require.Equal(t, event.Failure, e.last().Outcome)

	e.set(down)
	require.NoError(t, c.Observe(t.Context(), ev("away"), func() error { return nil }))
	strict := start(t, url, func(o *Options) { o.FailClosed = true })
	err := strict.Observe(t.Context(), ev("away"), func() error { return boom })
	require.ErrorIs(t, err, boom)
	require.ErrorContains(t, err, "503")
	e.set(nil)
}
