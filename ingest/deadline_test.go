package ingest

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/ingest/engine"
	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/reliability/deadline"
	"github.com/sloengine/sloengine/reliability/fsys/fsystest"
)

// A disk that stalls: requests that have no deadline of their own are answered with 504
// within the default one, and nothing of them is stored.
func TestStalledDiskIsA504(t *testing.T) {
	var stall atomic.Bool
	stalled, goOn := make(chan struct{}, 1), make(chan struct{})
	r := runEngine(t, fsystest.New(), "/data", func(opt *engine.Options) {
		opt.CrashPoint = func(p engine.CrashPoint) {
			if p == engine.CrashBeforeAppend && stall.CompareAndSwap(true, false) {
				stalled <- struct{}{}
				<-goOn
			}
		}
	})
	rig := newRig(t, func(o *HandlerOptions) {
		o.Committer, o.Now, o.Deadline = r.Engine, time.Now, 150*time.Millisecond
	})
	body := `{"id":"late","service":"shop","type":"order"}`
	stall.Store(true)
	first := make(chan int, 1)
	go func() {
		first <- rig.post("", strings.Replace(body, "late", "first", 1),
			headers{deadline.Header: deadline.Format(time.Now().Add(time.Minute))}).Code
	}()
	<-stalled
	began := time.Now()
	w := rig.post("", body, nil)
	require.Equal(t, http.StatusGatewayTimeout, w.Code, w.Body)
	require.GreaterOrEqual(t, time.Since(began), 100*time.Millisecond)
	require.Less(t, time.Since(began), 5*time.Second)
	require.Contains(t, w.Body.String(),
		"the default deadline of 150ms (no X-Request-Deadline header) passed before the events were stored")
	require.Equal(t, 1, rig.metric(t, `sloengine_deadline_expired_total{where="ingest"}`))
	w = rig.post("", body, headers{deadline.Header: deadline.Format(time.Now().Add(60 * time.Millisecond))})
	require.Equal(t, http.StatusGatewayTimeout, w.Code, w.Body)
	require.Contains(t, w.Body.String(), "X-Request-Deadline passed")
	close(goOn)
	require.Equal(t, http.StatusAccepted, <-first)
	w = rig.post("", body, nil)
	require.Equal(t, http.StatusAccepted, w.Code, w.Body)
	require.Equal(t, 1, decodeAnswer(t, w).Accepted, "it was not stored before")
	r.stop()
	require.Equal(t, map[string]uint64{"first": 1, "late": 1}, r.state.ids)
}

// The committer receives the deadline less the reserve; with both switched off there is none.
func TestDeadlineForTheCommitter(t *testing.T) {
	for name, tt := range map[string]struct {
		deadline, reserve time.Duration
		header            string
		want              time.Time
	}{
		"default":        {0, 0, "", testNow.Add(deadline.Default - 10*time.Millisecond)},
		"set":            {time.Minute, time.Second, "", testNow.Add(59 * time.Second)},
		"off":            {-1, 0, "", time.Time{}},
		"of the request": {time.Minute, 20 * time.Millisecond, "2026-11-20T09:00:01Z", testNow.Add(980 * time.Millisecond)},
	} {
		t.Run(name, func(t *testing.T) {
			var got time.Time
			rig := newRig(t, func(o *HandlerOptions) {
				o.Deadline, o.Reserve = tt.deadline, tt.reserve
				o.Committer = commitFunc(func(_ context.Context, b *event.Batch) (engine.Result, error) {
					got = b.Deadline
					return engine.Result{Accepted: len(b.Events)}, nil
				})
			})
			w := rig.post("", line("a"), headers{deadline.Header: tt.header})
			require.Equal(t, http.StatusAccepted, w.Code, w.Body)
			require.Equal(t, tt.want, got)
		})
	}
}

// TestWaitToDecodeEnds: a request that waits for others to be decoded ends at its deadline and when its sender has
// gone, and nothing of it is stored.
func TestWaitToDecodeEnds(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *HandlerOptions) { o.Decoders, o.Now, o.Deadline = 1, time.Now, 0 })
	r.handler.decoding <- struct{}{}
	w := r.post("", line("a"), headers{deadline.Header: deadline.Format(time.Now().Add(50 * time.Millisecond))})
	require.Equal(t, http.StatusGatewayTimeout, w.Code, w.Body)
	require.Contains(t, w.Body.String(), "X-Request-Deadline passed before the body was decoded")

	gone, leave := context.WithCancel(t.Context())
	leave()
	req := httptest.NewRequestWithContext(gone, http.MethodPost, EventsPath, strings.NewReader(line("b")))
	req.Header.Set("Content-Type", "application/json")
	w = httptest.NewRecorder()
	r.engine.ServeHTTP(w, req)
	require.Equal(t, statusClientGone, w.Code, w.Body)
	require.Zero(t, r.events)
	require.Len(t, r.handler.decoding, 1, "only the place that the test has taken")
}
