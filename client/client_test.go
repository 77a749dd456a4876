package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/reliability/breaker"
	"github.com/sloengine/sloengine/reliability/deadline"
	"github.com/sloengine/sloengine/reliability/nettest"
	"github.com/sloengine/sloengine/reliability/retry"
)

func TestSend(t *testing.T) {
	for _, compression := range []Compression{Gzip, Zstd, None} {
		t.Run(string(compression), func(t *testing.T) {
			e := newEngine(t)
			c := start(t, e.serve(), func(o *Options) {
				o.Compression, o.Token, o.BatchEvents = compression, "s3cret", 100
			})
			events := make([]Event, 250)
			for i := range events {
				events[i] = Event{Type: "order", Attributes: []Attr{{Name: "n", Value: fmt.Sprint(i)}}}
			}
			before := time.Now()
			require.NoError(t, c.Send(t.Context(), events...))
			require.Equal(t, 250, e.count())
			require.EqualValues(t, 3, e.requests.Load())
			require.EqualValues(t, 250, c.m.accepted.Get())
			require.Empty(t, events[0].ID, "the caller's events stay as they are")
			for _, got := range e.events {
				require.Len(t, got.ID, 26)
				require.Equal(t, "shop", got.Service)
				require.WithinRange(t, got.Time, before, time.Now())
			}
			h := e.headers[0]
			require.Equal(t, "Bearer s3cret", h.Get("Authorization"))
			at, err := deadline.Parse(h.Get(deadline.Header))
			require.NoError(t, err)
			require.WithinRange(t, at, before, before.Add(c.o.Timeout+time.Second))
		})
	}
}

func TestDeadlineOfTheCallIsPassedOn(t *testing.T) {
	e := newEngine(t)
	c := start(t, e.serve(), nil)
	ctx, cancel := context.WithTimeout(t.Context(), 700*time.Millisecond)
	defer cancel()
	want, _ := ctx.Deadline()
	require.NoError(t, c.SendStrict(ctx, ev("a")))
	at, err := deadline.Parse(e.headers[0].Get(deadline.Header))
	require.NoError(t, err)
	require.WithinDuration(t, want, at, 5*time.Millisecond)
	require.False(t, at.After(want))
}

// faults are the ways in which a server can be unwell.
var faults = []struct {
	name   string
	reason Reason
	fault  fault
}{
	{"500", Unavailable, func(w http.ResponseWriter, _ *http.Request, _ [][]byte) bool {
		w.WriteHeader(500)
		return true
	}},
	{"503 with Retry-After", Unavailable, func(w http.ResponseWriter, _ *http.Request, _ [][]byte) bool {
		w.Header().Set("Retry-After", "1")
		problem(w, 503, "disk_full", "the disk is full")
		return true
	}},
	{"429", Overloaded, func(w http.ResponseWriter, _ *http.Request, _ [][]byte) bool {
		w.Header().Set("Retry-After", "1")
		problem(w, 429, "limited", "slower")
		return true
	}},
	{"hangs", TimedOut, func(_ http.ResponseWriter, r *http.Request, _ [][]byte) bool {
		<-r.Context().Done()
		return true
	}},
	{"a login page", Unavailable, func(w http.ResponseWriter, _ *http.Request, _ [][]byte) bool {
		_, _ = w.Write([]byte("<html>please log in"))
		return true
	}},
	{"202 about something else", Unavailable, func(w http.ResponseWriter, _ *http.Request, _ [][]byte) bool {
		w.WriteHeader(202)
		_, _ = w.Write([]byte(`{"received":0}`))
		return true
	}},
	{"202 and half an answer", Unavailable, func(w http.ResponseWriter, _ *http.Request, _ [][]byte) bool {
		w.Header().Set("Content-Length", "100")
		w.WriteHeader(202)
		_, _ = w.Write([]byte(`{"received":1,`))
		return true
	}},
	{"dies midway", Unavailable, func(w http.ResponseWriter, _ *http.Request, _ [][]byte) bool {
		conn, _, _ := http.NewResponseController(w).Hijack()
		_ = conn.(*net.TCPConn).SetLinger(0)
		_ = conn.Close()
		return true
	}},
	{"401", Refused, func(w http.ResponseWriter, _ *http.Request, _ [][]byte) bool {
		problem(w, 401, "unauthorized", "no valid token")
		return true
	}},
	{"redirects", Refused, func(w http.ResponseWriter, _ *http.Request, _ [][]byte) bool {
		w.Header().Set("Location", "https://elsewhere")
		w.WriteHeader(302)
		return true
	}},
}

func TestFaultsFailOpen(t *testing.T) {
	for _, f := range faults {
		if f.reason == Refused {
			continue // tried again after 10 s: TestRefusedClientWaits
		}
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			e := newEngine(t)
			e.set(f.fault)
			c := start(t, e.serve(), func(o *Options) {
				o.Spool.Dir = t.TempDir()
				o.Timeout = 300 * time.Millisecond
				o.RequestTimeout = 200 * time.Millisecond
				o.Breaker.Consecutive.Open = 50 * time.Millisecond
				o.Breaker.Rate.Off = true
			})
			for i := range 8 {
				began := time.Now()
				require.NoError(t, c.Send(t.Context(), ev(fmt.Sprint("s", i))))
				require.Less(t, time.Since(began), 450*time.Millisecond)
				c.SendAsync(ev(fmt.Sprint("a", i)))
			}
			testkit.Eventually(t, "the queue's events go to the spool", func() bool { return c.Status().QueueEvents == 0 })
			require.Zero(t, e.count())
			require.Positive(t, c.spoolBytes())

			e.set(nil)
			testkit.Eventually(t, "all arrive", func() bool { return e.count() == 16 })
			testkit.Eventually(t, "the spool is empty", func() bool { return c.spoolBytes() == 0 })
			c.nothingLost()
		})
	}
}

func TestFaultsStrict(t *testing.T) {
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			e := newEngine(t)
			e.set(f.fault)
			c := start(t, e.serve(), func(o *Options) {
				o.Spool.Dir = t.TempDir()
				o.Timeout = 300 * time.Millisecond
			})
			err := c.SendStrict(t.Context(), ev("a"))
			require.Error(t, err)
			require.Equal(t, f.reason, reasonOf(err), "%v", err)
			require.Zero(t, c.spoolBytes())
			require.Empty(t, c.failures(), "the caller was told")
		})
	}
}

func TestServerAway(t *testing.T) {
	url := "http://" + nettest.FreeAddress(t)

	t.Run("strict", func(t *testing.T) {
		c := start(t, url, func(o *Options) { o.FailClosed = true })
		err := c.Send(t.Context(), ev("a"))
		require.ErrorContains(t, err, "connection refused")
		require.Equal(t, Unavailable, reasonOf(err))
	})
	t.Run("as the context says", func(t *testing.T) {
		open, closed := start(t, url, func(o *Options) {
			o.Breaker.Consecutive.Failures = 100
		}), start(t, url, func(o *Options) { o.FailClosed = true })
		strict, lenient := FailOnError(t.Context(), true), FailOnError(t.Context(), false)
		require.ErrorContains(t, open.Send(strict, ev("a")), "connection refused")
		require.Zero(t, open.Status().QueueEvents, "the caller was told")
		require.NoError(t, open.Send(lenient, ev("b")))
		require.NoError(t, closed.Send(lenient, ev("c")))
		require.Equal(t, 1, closed.Status().QueueEvents)
		require.Error(t, closed.Send(FailOnError(lenient, true), ev("d")), "the innermost decides")
		ran := errors.New("ran")
		require.Equal(t, ran, closed.Observe(lenient, ev("e"), func() error { return ran }))
		require.Error(t, open.Observe(strict, ev("f"), func() error { return nil }))
	})
	t.Run("in memory without a spool", func(t *testing.T) {
		c := start(t, url, func(o *Options) { o.QueueEvents = 10; o.Breaker.Consecutive.Failures = 2 })
		for i := range 14 {
			require.NoError(t, c.Send(t.Context(), ev(fmt.Sprint(i))))
		}
		require.Equal(t, 10, c.Status().QueueEvents)
		require.Equal(t, 4, c.lost(FromSend, BreakerOpen))
		require.Len(t, c.failures(), 4)
		require.Equal(t, "10", c.failures()[0].ID)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		require.ErrorContains(t, c.Close(ctx), "10 events lost")
		require.Equal(t, 10, c.lost(FromSend, Stopped))
	})
}

// A hung server takes a call no more time than it has.
func TestDeadlineIsKept(t *testing.T) {
	for _, spool := range []bool{true, false} {
		t.Run(fmt.Sprint("spool ", spool), func(t *testing.T) {
			e := newEngine(t)
			e.set(faults[3].fault)
			c := start(t, e.serve(), func(o *Options) {
				o.RequestTimeout, o.Breaker.Consecutive.Open = 300*time.Millisecond, 300*time.Millisecond
				if spool {
					o.Spool.Dir = t.TempDir()
				}
			})
			worst, late := time.Duration(0), 0
			for i := range 10 {
				ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
				began := time.Now()
				require.NoError(t, c.Send(ctx, ev(fmt.Sprint(i))))
				took := time.Since(began)
				worst = max(worst, took)
				if took > 70*time.Millisecond {
					late++
				}
				cancel()
			}
			t.Logf("worst: %s", worst)
			require.Less(t, worst, 250*time.Millisecond)
			require.LessOrEqual(t, late, 2, "a busy machine")
			require.NotEqual(t, breaker.Closed, c.Status().Breaker.State, "short deadlines trip the breaker too")
			if !spool {
				require.Equal(t, 10, c.Status().QueueEvents)
			}
			e.set(nil)
			c.nothingLost()
			testkit.Eventually(t, "all arrive", func() bool { return e.count() == 10 })
		})
	}
}

// Business code often reports what failed with the very context that ended.
func TestEndedContext(t *testing.T) {
	expired, cancel := context.WithTimeout(t.Context(), -time.Second)
	defer cancel()
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for name, ctx := range map[string]context.Context{"expired": expired, "cancelled": cancelled} {
		for _, dir := range []string{t.TempDir(), ""} {
			t.Run(name+fmt.Sprint(dir != ""), func(t *testing.T) {
				e := newEngine(t)
				c := start(t, e.serve(), func(o *Options) { o.Spool.Dir = dir })
				require.NoError(t, c.Send(ctx, ev(name)))
				require.Error(t, c.SendStrict(ctx, ev("strict")))
				testkit.Eventually(t, "it arrives", func() bool { return e.has(name) })
				require.False(t, e.has("strict"))
				c.nothingLost()
				require.NoError(t, c.Close(t.Context()))
			})
		}
	}
}

func TestRejectedEvents(t *testing.T) {
	setup := func(t *testing.T) (*engine, *rig) {
		e := newEngine(t)
		tries := map[string]int{}
		e.item = func(v *event.Event) *event.ItemError {
			switch {
			case strings.HasPrefix(v.ID, "bad"):
				return &event.ItemError{Code: event.CodeUnknownType, Detail: "no such type"}
			case strings.HasPrefix(v.ID, "later"):
				if tries[v.ID]++; tries[v.ID] < 3 {
					return &event.ItemError{Code: "limited", Detail: "over quota", Retryable: true}
				}
			}
			return nil
		}
		return e, start(t, e.serve(), nil)
	}
	t.Run("open", func(t *testing.T) {
		e, c := setup(t)
		require.NoError(t, c.Send(t.Context(), ev("a"), ev("bad1"), ev("later1"), ev("b")))
		require.Equal(t, 3, e.count())
		require.Equal(t, map[string]int{"a": 1, "b": 1, "later1": 1}, e.seen)
		require.Equal(t, 1, c.lost(FromSend, Permanent))
		require.EqualValues(t, 3, c.m.accepted.Get())
		require.EqualValues(t, 1, c.m.rejected.Get())
		require.Zero(t, c.m.limited.Get())
		f := c.failures()[0]
		require.Equal(t, event.CodeUnknownType, f.Code)
		require.Equal(t, "bad1", f.ID)
		require.Contains(t, string(f.Event), `"id":"bad1"`)
		require.ErrorContains(t, f.Err, "no such type")
	})
	t.Run("strict", func(t *testing.T) {
		_, c := setup(t)
		err := c.SendStrict(t.Context(), ev("later2"), ev("a"), ev("bad2"))
		var rejected *RejectedError
		require.ErrorAs(t, err, &rejected)
		require.Len(t, rejected.Items, 1)
		require.Equal(t, 2, rejected.Items[0].Index)
		require.Equal(t, retry.ClassPermanent, retry.ClassOf(err))
		require.Empty(t, c.failures())
	})
	t.Run("more than the answer lists", func(t *testing.T) {
		e, c := setup(t)
		var events []Event
		for i := range 300 {
			events = append(events, ev(fmt.Sprint("bad", i)), ev(fmt.Sprint("ok", i)))
		}
		require.NoError(t, c.Send(t.Context(), events...))
		require.Equal(t, 300, e.count())
		require.Equal(t, 300, c.lost(FromSend, Permanent))
		require.EqualValues(t, 300, c.m.accepted.Get())
		require.EqualValues(t, 300, c.m.rejected.Get())
		require.Zero(t, c.m.duplicates.Get())
	})
	t.Run("all", func(t *testing.T) {
		_, c := setup(t)
		c.SendAsync(ev("bad"))
		require.NoError(t, c.Flush(t.Context()))
		require.Equal(t, 1, c.lost(FromAsync, Permanent))
	})
}

// A batch that cannot be read is halved until the event is found.
func TestHalving(t *testing.T) {
	poison := func(status int, code string) fault {
		return func(w http.ResponseWriter, _ *http.Request, lines [][]byte) bool {
			if bytes.Contains(bytes.Join(lines, nil), []byte("poison")) {
				problem(w, status, code, "cannot be read")
				return true
			}
			return false
		}
	}
	for name, f := range map[string]fault{
		"400": poison(400, "invalid_json"),
		"413": func(w http.ResponseWriter, _ *http.Request, lines [][]byte) bool {
			if len(bytes.Join(lines, nil)) > 2000 {
				w.WriteHeader(413)
				return true
			}
			return false
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEngine(t)
			e.set(f)
			c := start(t, e.serve(), nil)
			var events []Event
			for i := range 200 {
				events = append(events, ev(fmt.Sprint(i)))
			}
			big := Event{ID: "poison", Type: "order", Attributes: []Attr{{Name: "x", Value: strings.Repeat("y", 3000)}}}
			events[77], events[150] = big, big
			events[150].ID = "poison2"
			err := c.SendStrict(t.Context(), events...)
			var rejected *RejectedError
			require.ErrorAs(t, err, &rejected)
			require.Len(t, rejected.Items, 2)
			require.Equal(t, 77, rejected.Items[0].Index)
			require.Equal(t, 150, rejected.Items[1].Index)
			require.Equal(t, 198, e.count())
			require.Less(t, e.requests.Load(), int64(60))
		})
	}
	t.Run("everything is refused", func(t *testing.T) {
		e := newEngine(t)
		e.set(func(w http.ResponseWriter, _ *http.Request, _ [][]byte) bool { w.WriteHeader(400); return true })
		c := start(t, e.serve(), nil)
		var events []Event
		for i := range 500 {
			events = append(events, ev(fmt.Sprint(i)))
		}
		require.NoError(t, c.Send(t.Context(), events...))
		require.Equal(t, 500, c.lost(FromSend, Permanent))
		require.LessOrEqual(t, e.requests.Load(), int64(2*maxSplits+1))
	})
	t.Run("too large to be sent", func(t *testing.T) {
		e := newEngine(t)
		c := start(t, e.serve(), nil)
		huge := Event{ID: "huge", Type: "order", Attributes: []Attr{{Name: "x", Value: strings.Repeat("y", maxEventBytes)}}}
		require.NoError(t, c.Send(t.Context(), ev("a"), huge, ev("b")))
		require.False(t, c.SendAsync(huge))
		require.Equal(t, 2, e.count())
		require.Equal(t, 1, c.lost(FromSend, Permanent))
		require.Equal(t, 1, c.lost(FromAsync, Permanent))
	})
}

func TestTokenFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(name, []byte("old\n"), 0o600))
	e := newEngine(t)
	e.set(func(w http.ResponseWriter, r *http.Request, _ [][]byte) bool {
		if r.Header.Get("Authorization") != "Bearer new-one" {
			problem(w, 401, "unauthorized", "unknown token")
			return true
		}
		return false
	})
	c := start(t, e.serve(), func(o *Options) { o.TokenFile = name })
	require.NoError(t, os.WriteFile(name, []byte("new-one\n"), 0o600))
	require.NoError(t, c.SendStrict(t.Context(), ev("a")), "a rotated token is found at the first 401")
}

func TestOptions(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	for _, tc := range []struct {
		want   string
		change func(*Options)
	}{
		{"URL must begin with http", func(o *Options) { o.URL = "slo.example.com" }},
		{"URL contains a user name", func(o *Options) { o.URL = "https://me:secret@slo.example.com" }},
		{"must not have a query", func(o *Options) { o.URL = "https://slo.example.com?dry_run=true" }},
		{"either Token or TokenFile", func(o *Options) { o.Token, o.TokenFile = "a", "b" }},
		{"is empty", func(o *Options) { o.TokenFile = empty }},
		{"invalid in an HTTP header", func(o *Options) { o.Token = "a b" }},
		{"invalid service", func(o *Options) { o.Service = "a b" }},
		{"invalid BatchEvents 10001", func(o *Options) { o.BatchEvents = 10001 }},
		{"want gzip, zstd or none", func(o *Options) { o.Compression = "br" }},
		{"invalid Spool.MaxBytes 5", func(o *Options) { o.Spool = SpoolOptions{Dir: "x", MaxBytes: 5} }},
		{"must be positive", func(o *Options) { o.Timeout = -1 }},
		{"TLS has no effect", func(o *Options) { o.HTTPClient, o.TLS = http.DefaultClient, &tls.Config{} }},
		{"jitter", func(o *Options) { o.Retry.Jitter = "some" }},
		{"cannot succeed", func(o *Options) { o.Breaker.Rate.Successes = 9 }},
	} {
		o := Options{URL: "http://localhost"}
		tc.change(&o)
		_, err := New(o)
		require.ErrorContains(t, err, tc.want)
		require.NotContains(t, err.Error(), "secret")
	}
}

func TestBatchesAreFull(t *testing.T) {
	c, err := New(Options{URL: "http://127.0.0.1:1", BatchEvents: 2})
	require.NoError(t, err)
	defer c.Close(t.Context())
	var sizes []int
	for _, b := range c.batches(make([]Event, 5), &settlement{}) {
		sizes = append(sizes, b.Len())
	}
	require.Equal(t, []int{2, 2, 1}, sizes)
}

// TestPausesDoNotShorten: the longest pause that was asked for holds.
func TestPausesDoNotShorten(t *testing.T) {
	d := &deliverer{started: time.Now()}
	d.pause(time.Hour)
	d.pause(time.Second)
	require.Greater(t, d.pauseLeft(), maxPause/2)
	require.LessOrEqual(t, d.pauseLeft(), maxPause)
}
