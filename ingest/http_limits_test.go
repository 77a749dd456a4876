package ingest

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/ingest/engine"
	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/reliability/deadline"
	"github.com/sloengine/sloengine/reliability/dlq"
	"github.com/sloengine/sloengine/reliability/fsys/fsystest"
	"github.com/sloengine/sloengine/reliability/ratelimit"
)

// limitedRig has an engine behind the handler, and a limit of 3 events an hour of each type.
func limitedRig(t *testing.T, strategy ratelimit.Strategy) *rig {
	l := rateLimiter(t, 3, strategy, 0.5)
	e := runEngine(t, fsystest.New(), "/data", func(opt *engine.Options) { opt.Limiter = l })
	return newRig(t, func(o *HandlerOptions) {
		o.Committer, o.Limiter, o.Now = e.Engine, l, time.Now
		o.SaveCritical = func(context.Context, []dlq.Entry) error { return nil }
		o.Critical = func(v *event.View) bool { return string(v.Severity) == "critical" }
	})
}

// A dry run is judged by the rate limits as they are, and charges nothing.
func TestDryRunJudgesLimits(t *testing.T) {
	r := limitedRig(t, ratelimit.OnExceededDrop)
	body := "[" + order("a") + "," + order("b") + "," + order("c") + "," + order("d") + "," +
		strings.Replace(order("e"), `"id"`, `"severity":"critical","id"`, 1) + "]"
	for range 3 {
		w := r.post("?dry_run=true", body, nil)
		p := decodeAnswer(t, w)
		require.Equal(t, 200, w.Code, w.Body)
		require.Equal(t, 3, p.Accepted)
		require.Equal(t, 1, p.Limited)
		require.Equal(t, 1, p.DeadLettered)
		require.Equal(t, 5, p.Received)
		require.Equal(t, CodeRateLimitDropped, p.Errors[0].Code)
	}
	w := r.post("", body, nil)
	p := decodeAnswer(t, w)
	require.Equal(t, 202, w.Code, w.Body)
	require.Equal(t, 3, p.Accepted)
	w = r.post("?dry_run=true", order("x"), nil)
	require.Equal(t, 200, w.Code)
	require.Equal(t, 1, decodeAnswer(t, w).Limited, "now the limit is used up")

	r = limitedRig(t, ratelimit.OnExceededThrottle)
	w = r.post("?dry_run=true", "["+order("a")+","+order("b")+","+order("c")+","+order("d")+"]", nil)
	require.Equal(t, 200, w.Code, w.Body)
	require.Equal(t, 1, decodeAnswer(t, w).Limited)
	require.NotEmpty(t, w.Header().Get("Retry-After"))
}

// A sender that repeats a critical event fills no storage. Without an id, the server cannot know that it is a retry.
func TestOneDeadLetterOfACriticalEvent(t *testing.T) {
	l := rateLimiter(t, 3, ratelimit.OnExceededDrop, 0.5)
	critical := func(v *event.View) bool { return string(v.Severity) == "critical" }
	e := runEngine(t, fsystest.New(), "/data", func(opt *engine.Options) { opt.Limiter, opt.Critical = l, critical })
	store, err := dlq.NewMemory(dlq.MemoryOptions{})
	require.NoError(t, err)
	r := newRig(t, func(o *HandlerOptions) {
		o.Committer, o.Limiter, o.Now, o.SaveCritical, o.Critical = e.Engine, l, time.Now, store.Save, critical
	})
	require.Equal(t, 202, r.post("", "["+order("a")+","+order("b")+","+order("c")+"]", nil).Code)
	for i := range 20 {
		w := r.post("", strings.Replace(order("d"), `"id"`, `"severity":"critical","id"`, 1), nil)
		require.Equal(t, 1, decodeAnswer(t, w).DeadLettered, w.Body)
		if i < 2 {
			w = r.post("", `{"service":"s","type":"t","severity":"critical"}`, nil)
			require.Equal(t, 1, decodeAnswer(t, w).DeadLettered, w.Body)
		}
	}
	stats, err := store.Stats(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 3, stats.Count)
}

// The body of a 429 says which limit, how much of it is left, and until when.
func TestRateLimitedBody(t *testing.T) {
	r := limitedRig(t, ratelimit.OnExceededThrottle)
	w := r.post("", "["+order("a")+","+order("b")+","+order("c")+"]", nil)
	require.Equal(t, 202, w.Code, w.Body)
	require.Nil(t, decodeAnswer(t, w).RateLimit)
	w = r.post("", order("d"), headers{deadline.Header: deadline.Format(time.Now().Add(200 * time.Millisecond))})
	require.Equal(t, 429, w.Code, w.Body)
	limit := decodeAnswer(t, w).RateLimit
	require.NotNil(t, limit)
	reset := limit.Reset
	require.Equal(
		t, &RateLimit{Rule: "(default)", Layer: "type", Limit: 3, Remaining: 0, Window: 3600, Reset: reset}, limit)
	require.Equal(t, w.Header().Get("Retry-After"), strconv.Itoa(reset))
	require.Contains(t, w.Header().Get("Ratelimit"), fmt.Sprintf("t=%d", reset))
}

func order(id string) string { return fmt.Sprintf(`{"id":%q,"service":"s","type":"t"}`, id) }
