package web

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/web/site"
	"github.com/sloengine/sloengine/web/status"
)

func (h *hub) on() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.running
}

func TestHubFansOut(t *testing.T) {
	h := newHub(3)
	_, err := h.join()
	require.ErrorIs(t, err, errStreamsOff, "nobody may join before Run")
	h.start()
	var subs []*subscriber
	for range 3 {
		s, err := h.join()
		require.NoError(t, err)
		subs = append(subs, s)
	}
	_, err = h.join()
	require.ErrorIs(t, err, errStreamsFull)

	h.publish("a")
	h.publish("a")
	h.publish("b")
	for _, s := range subs {
		require.Equal(t, "a", <-s.messages, "the same message is sent once")
		require.Equal(t, "b", <-s.messages)
		require.Empty(t, s.messages)
	}
	h.leave(subs[0])
	require.Equal(t, 2, h.count())
	_, err = h.join()
	require.NoError(t, err, "there is room again")

	h.stop()
	for _, s := range subs[1:] {
		_, ok := <-s.messages
		require.False(t, ok)
		require.False(t, s.slow)
		h.leave(s)
	}
	require.Zero(t, h.count())
	_, err = h.join()
	require.ErrorIs(t, err, errStreamsOff)
}

func TestHubDropsTheSlow(t *testing.T) {
	h := newHub(2)
	h.start()
	slow, err := h.join()
	require.NoError(t, err)
	quick, err := h.join()
	require.NoError(t, err)
	for i := range streamBuffer + 1 {
		h.publish(fmt.Sprint(i))
		require.Equal(t, fmt.Sprint(i), <-quick.messages)
	}
	require.Equal(t, 1, h.count())
	for i := range streamBuffer {
		require.Equal(t, fmt.Sprint(i), <-slow.messages)
	}
	_, ok := <-slow.messages
	require.False(t, ok)
	require.True(t, slow.slow)
	h.leave(slow)
	h.stop()
	_, ok = <-quick.messages
	require.False(t, ok)
}

func TestHubFromManySides(t *testing.T) {
	h := newHub(50)
	h.start()
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			for range 200 {
				s, err := h.join()
				if err != nil {
					continue
				}
				select {
				case <-s.messages:
				default:
				}
				h.leave(s)
			}
		})
	}
	for i := range 500 {
		h.publish(fmt.Sprint(i))
	}
	wg.Wait()
	require.Zero(t, h.count())
	h.stop()
}

// Run looks once a second, says each new report once, and nothing else.
func TestRunPublishesReports(t *testing.T) {
	b := newBench(t)
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		b.web.Opt.Report = func() *sla.Report {
			mu.Lock()
			defer mu.Unlock()
			return b.rep
		}
		next := func() {
			mu.Lock()
			defer mu.Unlock()
			r := *b.rep
			r.Version++
			b.rep = &r
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- b.web.Run(ctx) }()
		synctest.Wait()
		s, err := b.web.streams.join()
		require.NoError(t, err)
		time.Sleep(10 * streamPoll)
		synctest.Wait()
		require.Len(t, s.messages, 1, "the present version, once")
		require.Contains(t, <-s.messages, `"version":4211`)
		next()
		time.Sleep(streamPoll)
		synctest.Wait()
		m := <-s.messages
		require.Contains(t, m, "event: report\ndata: {\"version\":4212,\"key\":\"")
		require.Contains(t, m, b.web.View().Key())
		require.True(t, strings.HasSuffix(m, "\n\n"))
		cancel()
		require.NoError(t, <-done)
		_, ok := <-s.messages
		require.False(t, ok, "the end of Run ends the streams")
	})
}

func TestKeySaysWhatChanged(t *testing.T) {
	b := newBench(t)
	key := b.web.View().Key()
	for name, change := range map[string]func(){
		"report":   func() { r := *b.rep; r.Version++; b.rep = &r },
		"restart":  func() { r := *b.rep; r.Time = r.Time.Add(time.Second); b.rep = &r },
		"state":    func() { b.eng.State = status.DiskLow },
		"progress": func() { b.eng.State, b.eng.Progress = status.Recovering, 0.5 },
		"stale":    func() { b.now = noon.Add(time.Hour) },
		"reload":   func() { b.eng.Spec.Failed = noon },
		"none":     func() { b.rep = nil },
	} {
		b.rep, b.eng, b.now = insurance(t), readyStatus(), noon.Add(3*time.Second)
		change()
		require.NotEqual(t, key, b.web.View().Key(), name)
	}
	b.rep, b.eng, b.now = insurance(t), readyStatus(), noon.Add(4*time.Second)
	b.eng.Ingest.Accepted++
	require.Equal(t, key, b.web.View().Key(), "ingest figures and the clock alone are no news")
}

// streamer reads a stream line by line.
func streamer(t testing.TB, base string) (*http.Response, *bufio.Reader) {
	t.Helper()
	res, err := http.Get(base + "/events/stream")
	require.NoError(t, err)
	return res, bufio.NewReader(res.Body)
}

func TestStream(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	t.Run("one", func(t *testing.T) {
		l := newLiveBench(t, nil, func(o *site.Options) { o.MaxStreams = 2 })
		res, r := streamer(t, l.base)
		require.Equal(t, http.StatusOK, res.StatusCode)
		require.Equal(t, "text/event-stream; charset=utf-8", res.Header.Get("Content-Type"))
		require.Equal(t, "no-store", res.Header.Get("Cache-Control"))
		require.Empty(t, res.Header.Get("Content-Encoding"))
		event := func() string {
			var out string
			for {
				line, err := r.ReadString('\n')
				require.NoError(t, err)
				if line == "\n" {
					return out
				}
				out += line
			}
		}
		require.Equal(t, "retry: 3000\nevent: report\ndata: {\"version\":4211,\"key\":\""+l.web.View().Key()+"\"}\n", event(),
			"the present version at once")
		l.publish(func(*sla.Report) {})
		for {
			if e := event(); strings.Contains(e, `"version":4212`) { // the first tick may repeat the present one
				require.NotContains(t, e, "availability", "no content")
				break
			}
		}
		second, _ := streamer(t, l.base)
		third, body := streamer(t, l.base)
		require.Equal(t, http.StatusServiceUnavailable, third.StatusCode)
		require.Equal(t, "10", third.Header.Get("Retry-After"))
		text, err := body.ReadString('\n')
		require.NoError(t, err)
		require.Contains(t, text, "polling")
		var out strings.Builder
		for _, s := range l.web.Opt.Sets {
			s.WritePrometheus(&out)
		}
		require.Contains(t, out.String(), "sloengine_web_streams 2\n")
		require.Contains(t, out.String(), "sloengine_web_streams_total{result=\"opened\"} 2\n")
		require.Contains(t, out.String(), "sloengine_web_streams_total{result=\"refused\"} 1\n")
		for _, x := range []*http.Response{res, second, third} {
			x.Body.Close()
		}
		require.Eventually(t, func() bool {
			return l.web.streams.count() == 0
		}, testkit.Patience, time.Millisecond, "a closed tab leaves")
		require.Equal(t, http.StatusOK, l.do(http.MethodHead, "/events/stream").Code)
	})
	t.Run("permission", func(t *testing.T) {
		var asked atomic.Int32
		l := newLiveBench(t, nil, func(o *site.Options) { o.Allow = countingAllow(&asked) })
		res, _ := streamer(t, l.base)
		res.Body.Close()
		require.Equal(t, http.StatusForbidden, res.StatusCode)
		require.EqualValues(t, 1, asked.Load())
		require.Zero(t, l.web.streams.count())
	})
	t.Run("stop", func(t *testing.T) {
		b := newBench(t)
		base := b.serve(t)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- b.web.Run(ctx) }()
		require.Eventually(t, b.web.streams.on, testkit.Patience, time.Millisecond)
		res, r := streamer(t, base)
		cancel()
		require.NoError(t, <-done)
		_, err := io.ReadAll(r)
		require.NoError(t, err, "the stream ends in order, so that a server can shut down")
		res.Body.Close()
		after := b.get("/events/stream")
		require.Equal(t, http.StatusServiceUnavailable, after.Code)
	})
	http.DefaultClient.CloseIdleConnections()
}

// BenchmarkStreams is what a hundred open tabs cost for each report: the event to
// each, and the page that each then asks for. cpu-ms/report is the process' own
// time, clients included; with a report every ten seconds, 500 are 5 % of a core.
func BenchmarkStreams(b *testing.B) {
	const tabs = 100
	x := newBench(b)
	x.rep = many(b, 1000)
	var rep atomic.Pointer[sla.Report]
	rep.Store(x.rep)
	x.web.Opt.Report = rep.Load
	srv := serveHandler(b, x.router)
	x.web.streams.start()
	defer x.web.streams.stop()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: tabs, DisableCompression: true}}
	var heard sync.WaitGroup
	for range tabs {
		res, r := streamer(b, srv)
		defer res.Body.Close()
		go func() {
			first := true
			for {
				line, err := r.ReadString('\n')
				if err != nil {
					return
				}
				if !strings.HasPrefix(line, "data:") {
					continue
				}
				if first {
					first = false
					continue
				}
				req, _ := http.NewRequest(http.MethodGet, srv+"/", nil)
				req.Header.Set("Accept-Encoding", "gzip")
				if page, err := client.Do(req); err == nil {
					_, _ = io.Copy(io.Discard, page.Body)
					page.Body.Close()
				}
				heard.Done()
			}
		}()
	}
	require.Eventually(b, func() bool { return x.web.streams.count() == tabs }, testkit.Patience, time.Millisecond)
	before := cpuTime()
	for b.Loop() {
		next := *rep.Load()
		next.Version++
		rep.Store(&next)
		heard.Add(tabs)
		x.web.streams.publish(message(x.web.View()))
		heard.Wait()
	}
	b.ReportMetric(float64((cpuTime()-before).Milliseconds())/float64(b.N), "cpu-ms/report")
}

// cpuTime is what this process has used, user and system.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// countingAllow refuses everybody and counts who asked.
func countingAllow(asked *atomic.Int32) func(site.Permission) gin.HandlerFunc {
	return func(p site.Permission) gin.HandlerFunc {
		return func(c *gin.Context) {
			if p == site.Read {
				asked.Add(1)
			}
			c.AbortWithStatus(http.StatusForbidden)
		}
	}
}

// A stream whose reader may not read any more ends within seconds, and does not wait for its hour.
func TestStreamsEndWithTheirPermission(t *testing.T) {
	b := newBench(t)
	var revoked atomic.Bool
	may := func(*http.Request) bool { return !revoked.Load() }
	b.web.Opt.May = func(c *gin.Context, p site.Permission) bool { return may(c.Request) }
	limited, err := b.web.Limited([]string{"mdm"}, func(*gin.Context) {}, may)
	require.NoError(t, err)
	for _, h := range []http.Handler{b.router, limited} {
		revoked.Store(false)
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			go func() { _ = b.web.Run(ctx) }()
			synctest.Wait()
			done := make(chan struct{})
			go func() {
				defer close(done)
				h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/events/stream", nil).WithContext(ctx))
			}()
			time.Sleep(streamLife / 2)
			synctest.Wait()
			require.Equal(t, 1, b.web.streams.count())
			revoked.Store(true)
			at := time.Now()
			<-done
			require.LessOrEqual(t, time.Since(at), streamCheck)
			cancel()
			synctest.Wait()
		})
	}
}
