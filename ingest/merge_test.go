package ingest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/ingest/engine"
	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/reliability/dlq"
	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/reliability/ratelimit"
)

// Senders whose requests hold one event each, all over the limit: with a window they
// become a few records, whose ids are known after a kill.
func TestFloodOfSingleEventsIsMerged(t *testing.T) {
	const senders, each = 64, 12
	flood := func(t *testing.T, merge time.Duration) int {
		set := metrics.NewSet()
		strategy, limit, hour := ratelimit.OnExceededAggregate, int64(1), time.Hour
		policy, err := ratelimit.Compile(
			ratelimit.Config{Default: ratelimit.Values{Limit: &limit, Window: &hour, OnExceeded: &strategy}})
		require.NoError(t, err)
		l, err := ratelimit.New(ratelimit.Options{Policy: policy, Metrics: ratelimit.NewMetrics(set)})
		require.NoError(t, err)
		r := runEngine(t, fsys.OS(), t.TempDir(), func(opt *engine.Options) {
			opt.Limiter = l
			opt.MergeBy = func([]byte) ([]string, time.Duration) { return nil, time.Hour }
			opt.MergeWindow = func() time.Duration { return merge }
		})
		state := r.state
		h, err := NewHandler(HandlerOptions{
			Committer: r.Engine, Limiter: l, Logger: slog.New(slog.DiscardHandler), Metrics: NewHTTPMetrics(set),
			SaveCritical: func(context.Context, []dlq.Entry) error { return nil },
		})
		require.NoError(t, err)
		gin.SetMode(gin.ReleaseMode)
		router := gin.New()
		h.Register(router)
		server := httptest.NewServer(router)
		defer server.Close()
		client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: senders}}
		defer client.CloseIdleConnections()
		now := time.Now().UTC().Format(time.RFC3339)
		send := func(id string) string {
			body := fmt.Sprintf(`{"id":%q,"service":"shop","type":"order","time":%q}`, id, now)
			resp, err := client.Post(server.URL+EventsPath, "application/json", strings.NewReader(body))
			if err != nil {
				return err.Error()
			}
			defer resp.Body.Close()
			answer, _ := io.ReadAll(resp.Body)
			return fmt.Sprint(resp.StatusCode, " ", string(answer))
		}
		var wait sync.WaitGroup
		var wrong atomic.Pointer[string]
		for s := range senders {
			wait.Go(func() {
				for i := range each {
					if a := send(fmt.Sprintf("%d-%d", s, i)); !strings.HasPrefix(a, "202") || !strings.Contains(a, `"accepted":1`) {
						wrong.Store(&a)
					}
				}
			})
		}
		wait.Wait()
		if w := wrong.Load(); w != nil {
			require.Fail(t, *w)
		}
		require.Eventually(t, func() bool { return r.Position() >= r.Health().Log.Durable },
			testkit.Patience, time.Millisecond)
		var stored int
		var counted uint64
		require.NoError(t, r.Do(context.Background(), func() { stored, counted = state.stored, state.events }))
		require.EqualValues(t, senders*each, counted, "every event counts once")
		var out bytes.Buffer
		set.WritePrometheus(&out)
		if merge > 0 {
			merged := ""
			for line := range strings.Lines(out.String()) {
				if n, ok := strings.CutPrefix(line, "sloengine_ratelimit_aggregated_total "); ok {
					merged = strings.TrimSpace(n)
				}
			}
			require.NotEmpty(t, merged)
			var n int
			_, _ = fmt.Sscan(merged, &n)
			require.LessOrEqual(t, n, senders*each-1, "merged events, and the first one passed")
			require.GreaterOrEqual(t, n, senders*each-stored, "merged events are those that share a stored one")
		}
		for s := range senders {
			require.Contains(t, send(fmt.Sprintf("%d-%d", s, s%each)), `"duplicates":1`)
		}
		r.stop()
		return state.stored
	}
	// Without a window only those merge that the same sync brings together.
	single := flood(t, 0)
	merged := flood(t, 100*time.Millisecond)
	t.Logf("%d events of %d senders: %d stored without a window, %d with one of 100ms", senders*each,
		senders, single, merged)
	require.LessOrEqual(t, merged, senders*each/8, "records of %d events", senders*each)
}
