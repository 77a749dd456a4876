package client

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/sloengine/sloengine/client/post"
	"github.com/sloengine/sloengine/internal/testkit"
)

// yes acknowledges everything, at little cost.
func yes(tb testing.TB) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body io.Reader = r.Body
		if r.Header.Get("Content-Encoding") == "gzip" {
			z, err := gzip.NewReader(body)
			if err != nil {
				w.WriteHeader(400)
				return
			}
			body = z
		}
		data, _ := io.ReadAll(body)
		n := strings.Count(string(data), "\n")
		w.WriteHeader(202)
		_ = json.NewEncoder(w).Encode(post.Answer{Received: n, Tally: post.Tally{Accepted: n}})
	}))
	tb.Cleanup(s.Close)
	return s.URL
}

var benchEvent = Event{
	Type: "application", Severity: "critical", Duration: 812 * time.Millisecond, HasDuration: true,
	Attributes: []Attr{{Name: "product", Value: "MEDCARE"}, {Name: "stage", Value: "CREATE"},
		{Name: "channel", Value: "front"}, {Name: "status", Value: "200"}},
}

// BenchmarkSendAsync is what a caller pays; the queue is emptied without a network.
func BenchmarkSendAsync(b *testing.B) {
	for _, id := range []string{"", "given"} {
		b.Run("id="+id, func(b *testing.B) {
			o := Options{URL: "http://nowhere", Service: "shop", QueueEvents: 1 << 29, QueueBytes: 1 << 40}
			o.applyDefaults()
			if err := o.validate(); err != nil {
				b.Fatal(err)
			}
			c := &Client{o: o, m: o.Metrics, q: newQueue(&o)}
			c.scratch.New = func() any { return new([]byte) }
			ctx, cancel := context.WithCancel(b.Context())
			done := make(chan struct{})
			go func() {
				defer close(done)
				for batch := c.q.next(ctx); batch != nil; batch = c.q.next(ctx) {
					c.q.done(batch, true)
				}
			}()
			e := benchEvent
			e.ID = id
			b.ReportAllocs()
			for b.Loop() {
				c.SendAsync(e)
			}
			cancel()
			<-done
			c.q.close()
		})
	}
}

// BenchmarkThroughput is events per second to a server that says yes, in this process.
func BenchmarkThroughput(b *testing.B) {
	for _, compression := range []Compression{None, Gzip} {
		b.Run(string(compression), func(b *testing.B) {
			c := start(b, yes(b), func(o *Options) { o.Compression = compression })
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				testkit.Eventually(b, "room in the queue", func() bool { return c.Status().QueueEvents <= 40_000 })
				for range 100 {
					if !c.SendAsync(benchEvent) {
						b.Fatal("lost")
					}
				}
				n += 100
			}
			if err := c.Flush(b.Context()); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "events/s")
		})
	}
}

// BenchmarkSend is one acknowledged event per call; beside it, one that goes to the spool.
func BenchmarkSend(b *testing.B) {
	b.Run("server", func(b *testing.B) {
		c := start(b, yes(b), nil)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				_ = c.Send(b.Context(), benchEvent)
			}
		})
	})
	for _, callers := range []int{1, 32} {
		b.Run(fmt.Sprintf("spool/%d", callers), func(b *testing.B) {
			c := start(b, "http://nowhere", func(o *Options) {
				o.Spool.Dir, o.Spool.MaxBytes, o.Timeout = b.TempDir(), 1<<40, time.Minute
			})
			c.d.paused.Store(int64(time.Hour))
			b.SetParallelism(callers)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					_ = c.Send(b.Context(), benchEvent)
				}
			})
		})
	}
}

// BenchmarkMiddleware is what a request pays.
func BenchmarkMiddleware(b *testing.B) {
	c := start(b, yes(b), func(o *Options) { o.OnError = nil })
	next := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(200) })
	h := Middleware(c.Client, MiddlewareOptions{})(next)
	r := httptest.NewRequest("GET", "/items/1", nil)
	r.Pattern = "GET /items/{id}"
	w := httptest.NewRecorder()
	b.ReportAllocs()
	for b.Loop() {
		h.ServeHTTP(w, r)
	}
}
