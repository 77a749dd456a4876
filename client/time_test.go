package client

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/reliability/breaker"
	"github.com/sloengine/sloengine/reliability/deadline"
	"github.com/sloengine/sloengine/reliability/retry"
)

// inProcess calls the engine without sockets, so that a bubble's clock can run.
func (e *engine) inProcess() *http.Client {
	return &http.Client{Transport: transport(func(r *http.Request) (*http.Response, error) {
		w := httptest.NewRecorder()
		done := make(chan struct{})
		go func() { defer close(done); e.ServeHTTP(w, r) }()
		select {
		case <-done:
			return w.Result(), r.Context().Err()
		case <-r.Context().Done():
			<-done
			return nil, r.Context().Err()
		}
	})}
}

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func bubble(t *testing.T, change func(*Options), f func(t *testing.T, e *engine, c *rig)) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		e := newEngine(t)
		c := start(t, "http://engine", func(o *Options) {
			o.HTTPClient, o.BatchWait, o.Compression = e.inProcess(), 200*time.Millisecond, None
			o.Spool.Dir = dir
			if change != nil {
				change(o)
			}
		})
		f(t, e, c)
		require.NoError(t, c.Close(t.Context()))
	})
}

func noSpool(o *Options) { o.Spool.Dir = "" }

func TestBatchWait(t *testing.T) {
	bubble(t, func(o *Options) { noSpool(o); o.BatchEvents = 10 }, func(t *testing.T, e *engine, c *rig) {
		began := time.Now()
		for i := range 25 {
			c.SendAsync(ev(fmt.Sprint(i)))
			time.Sleep(10 * time.Millisecond)
		}
		synctest.Wait()
		require.Equal(t, 20, e.count(), "full batches go at once")
		// The last one was begun after 200 ms.
		time.Sleep(time.Until(began.Add(399 * time.Millisecond)))
		synctest.Wait()
		require.Equal(t, 20, e.count())
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		require.Equal(t, 25, e.count(), "others after the wait")
		require.EqualValues(t, 3, e.requests.Load())

		c.SendAsync(ev("x"))
		flushed := time.Now()
		require.NoError(t, c.Flush(t.Context()))
		require.Zero(t, time.Since(flushed), "Flush doesn't wait for company")
		require.True(t, e.has("x"))
	})
}

func TestRetries(t *testing.T) {
	bubble(t, func(o *Options) {
		noSpool(o)
		o.Retry = retry.Options{Base: 100 * time.Millisecond, Jitter: retry.None}
	}, func(t *testing.T, e *engine, c *rig) {
		e.set(func(w http.ResponseWriter, _ *http.Request, _ [][]byte) bool {
			if e.requests.Load() > 2 {
				return false
			}
			w.WriteHeader(503)
			return true
		})
		began := time.Now()
		require.NoError(t, c.SendStrict(t.Context(), ev("a")))
		require.Equal(t, 300*time.Millisecond, time.Since(began)) // 100 + 200
		require.EqualValues(t, 3, e.requests.Load())
	})
}

// One answer with Retry-After keeps all requests back, not only that one.
func TestRetryAfter(t *testing.T) {
	bubble(t, nil, func(t *testing.T, e *engine, c *rig) {
		began := time.Now()
		var mu sync.Mutex
		var at []time.Duration
		requests := func() []time.Duration {
			mu.Lock()
			defer mu.Unlock()
			return at
		}
		e.set(func(w http.ResponseWriter, _ *http.Request, _ [][]byte) bool {
			mu.Lock()
			defer mu.Unlock()
			at = append(at, time.Since(began))
			if len(at) > 1 {
				return false
			}
			w.Header().Set("Retry-After", "7")
			problem(w, 429, "limited", "slower")
			return true
		})
		require.NoError(t, c.Send(t.Context(), ev("a")))
		require.NoError(t, c.Send(t.Context(), ev("b")))
		c.SendAsync(ev("c"))
		err := c.SendStrict(t.Context(), ev("strict"))
		require.ErrorContains(t, err, "asked for a pause")
		require.Equal(t, Overloaded, reasonOf(err))
		require.Less(t, time.Since(began), time.Second, "no call waits beyond the deadline")
		time.Sleep(6900*time.Millisecond - time.Since(began))
		synctest.Wait()
		require.Len(t, requests(), 1)
		time.Sleep(time.Second)
		synctest.Wait()
		require.Greater(t, len(requests()), 1)
		require.GreaterOrEqual(t, requests()[1], 7*time.Second)
		for _, id := range []string{"a", "b", "c"} {
			require.True(t, e.has(id), id)
		}
		require.Zero(t, c.spoolBytes())
	})
}

// While something lies in the spool, no call of the application is a probe.
func TestBreakerAndSpool(t *testing.T) {
	bubble(t, nil, func(t *testing.T, e *engine, c *rig) {
		hang := func(_ http.ResponseWriter, r *http.Request, _ [][]byte) bool { <-r.Context().Done(); return true }
		e.set(hang)
		for i := 0; c.Status().Breaker.State == breaker.Closed; i++ {
			began := time.Now()
			require.NoError(t, c.Send(t.Context(), ev(fmt.Sprint("slow", i))))
			require.LessOrEqual(t, time.Since(began), 2*time.Second)
			require.Less(t, i, 6)
		}
		for i := range 300 { // half a minute
			began := time.Now()
			require.NoError(t, c.Send(t.Context(), ev(fmt.Sprint("quick", i))))
			require.Zero(t, time.Since(began), "straight to the disk")
			time.Sleep(100 * time.Millisecond)
		}
		require.Zero(t, e.count())
		e.set(nil)
		recovered := time.Now()
		for c.spoolBytes() > 0 {
			time.Sleep(100 * time.Millisecond)
			require.Less(t, time.Since(recovered), 30*time.Second)
		}
		t.Logf("empty %s after the server was well", time.Since(recovered))
		for range 3 { // what the spool left to probe
			require.NoError(t, c.Send(t.Context(), ev("after")))
		}
		require.Equal(t, breaker.Closed, c.Status().Breaker.State)
		require.True(t, e.has("slow0") && e.has("quick0") && e.has("quick299"))
		require.Empty(t, c.failures())
	})
}

// A server that is just back isn't run over.
func TestReplayRate(t *testing.T) {
	bubble(t, func(o *Options) {
		o.Spool.EventsPerSecond, o.BatchEvents = 100, 50
	}, func(t *testing.T, e *engine, c *rig) {
		c.d.pause(10 * time.Second)
		var events []Event
		for i := range 1000 {
			events = append(events, ev(fmt.Sprint(i)))
		}
		require.NoError(t, c.Send(t.Context(), events...))
		time.Sleep(10 * time.Second)
		before := 0
		for range 9 {
			time.Sleep(time.Second)
			synctest.Wait()
			require.LessOrEqual(t, e.count()-before, 150)
			before = e.count()
		}
		require.InDelta(t, 900, before, 100)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.Equal(t, 1000, e.count())
		require.Zero(t, c.spoolBytes())
	})
}

// A wrong token loses nothing: events wait until somebody has put it right.
func TestRefusedClientWaits(t *testing.T) {
	bubble(t, nil, func(t *testing.T, e *engine, c *rig) {
		e.set(func(w http.ResponseWriter, _ *http.Request, _ [][]byte) bool {
			problem(w, 403, "forbidden", "this token may not send")
			return true
		})
		for i := range 60 {
			require.NoError(t, c.Send(t.Context(), ev(fmt.Sprint(i))))
			time.Sleep(time.Second)
		}
		require.LessOrEqual(t, e.requests.Load(), int64(14), "one try in ten seconds, by the spool and by Send")
		e.set(nil)
		time.Sleep(11 * time.Second)
		synctest.Wait()
		require.Equal(t, 60, e.count())
		require.Empty(t, c.failures())
	})
}

// If the clocks differ, the server finds every deadline passed.
func TestClocksDiffer(t *testing.T) {
	bubble(t, noSpool, func(t *testing.T, e *engine, c *rig) {
		e.set(func(w http.ResponseWriter, r *http.Request, _ [][]byte) bool {
			value := r.Header.Get(deadline.Header)
			if value == "" {
				return false
			}
			at, err := deadline.Parse(value)
			require.NoError(t, err)
			if time.Now().Add(time.Minute).Before(at) { // the server's clock is a minute ahead
				return false
			}
			problem(w, 504, "deadline_passed", "the deadline has passed")
			return true
		})
		for i := range 20 {
			require.NoError(t, c.SendStrict(t.Context(), ev(fmt.Sprint(i))))
		}
		require.EqualValues(t, 21, e.requests.Load())
		require.Equal(t, breaker.Closed, c.Status().Breaker.State)
		time.Sleep(10 * time.Minute)
		require.NoError(t, c.SendStrict(t.Context(), ev("again")))
		require.EqualValues(t, 23, e.requests.Load(), "tried again after a while")
	})
}

func TestHeldInMemory(t *testing.T) {
	bubble(t, noSpool, func(t *testing.T, e *engine, c *rig) {
		e.set(down)
		for i := range 100 {
			c.SendAsync(ev(fmt.Sprint(i)))
			time.Sleep(time.Second)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, c.Flush(ctx), context.DeadlineExceeded)
		e.set(nil)
		began := time.Now()
		require.NoError(t, c.Flush(t.Context()))
		require.Less(t, time.Since(began), 30*time.Second)
		require.Equal(t, 100, e.count())
		require.Empty(t, c.failures())
	})
}

func TestFailuresAreLoggedNowAndThen(t *testing.T) {
	bubble(t, func(o *Options) {
		noSpool(o)
		o.OnError = func(Failure) { panic("in the hook") }
	}, func(t *testing.T, _ *engine, c *rig) {
		logged := 0
		for range 100 {
			if _, ok := c.r.mayLog(QueueFull); ok {
				logged++
			}
			time.Sleep(time.Second)
		}
		require.Equal(t, 10, logged)
		c.r.one(FromAsync, QueueFull, "", nil, []byte("{}\n"))
	})
}
