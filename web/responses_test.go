package web

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo/fold"
	"github.com/sloengine/sloengine/web/deadletters"
	"github.com/sloengine/sloengine/web/site"
)

// A report is encoded once, also while events change the figures of the engine.
func TestAReportIsEncodedOnce(t *testing.T) {
	b := newBench(t)
	for _, target := range []string{"/api/v1/slos", "/api/v1/slas", "/api/v1/thresholds", "/api/v1/alerts", "/", "/slas",
		"/public", "/public.json"} {
		before := b.made()
		first := b.get(target)
		for range 5 {
			b.eng.Ingest.Received++
			again := b.get(target)
			require.Equal(t, first.Body.String(), again.Body.String())
			require.Equal(t, first.Header(), again.Header(), target)
		}
		require.Equal(t, 1, b.made()-before, target)
		b.do(http.MethodGet, target, "Accept-Encoding", "gzip")
		require.Equal(t, 2, b.made()-before, target)
	}
	// The next report is another one.
	text := b.get("/api/v1/slos").Body.String()
	rep := *b.rep
	rep.Version++
	b.rep = &rep
	require.NotEqual(t, text, b.get("/api/v1/slos").Body.String())
	require.Contains(t, b.get("/metrics").Body.String(), `sloengine_web_responses_total{result="shared"}`)
}

// made is how many responses were made so far.
func (b *bench) made() (n int) {
	var text bytes.Buffer
	for _, set := range b.web.Opt.Sets {
		set.WritePrometheus(&text)
	}
	for line := range strings.Lines(text.String()) {
		if rest, ok := strings.CutPrefix(line, `sloengine_web_responses_total{result="made"} `); ok {
			n, _ = strconv.Atoi(strings.TrimSpace(rest))
		}
	}
	return n
}

// A refused request is told when to try again, in the form that the caller understands.
func TestRefusedResponses(t *testing.T) {
	b := newBench(t)
	var asked atomic.Int32
	block, done := make(chan struct{}), make(chan struct{}, 4)
	b.web.Opt.Report = func() *sla.Report {
		if asked.Add(1) <= 4 { // as many as may be made at a time
			<-block
		}
		return b.rep
	}
	for i := range 4 {
		go func() {
			b.router.ServeHTTP(
				httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/api/v1/slos?limit="+strconv.Itoa(i+1), nil))
			done <- struct{}{}
		}()
	}
	testkit.Eventually(t, "all places are taken", func() bool { return asked.Load() == 4 })
	impatient, cancel := context.WithCancel(t.Context())
	cancel()
	for target, typ := range map[string]string{
		"/": "text/plain", "/slas": "text/plain", "/api/v1/slos": "application/problem+json",
		"/api/v1/report?period=2026-11&format=csv": "application/problem+json", "/public": "text/plain",
	} {
		rec := httptest.NewRecorder()
		b.router.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, target, nil).WithContext(impatient))
		require.Equal(t, http.StatusServiceUnavailable, rec.Code, target)
		require.NotEmpty(t, rec.Header().Get("Retry-After"), target)
		require.True(t, strings.HasPrefix(rec.Header().Get("Content-Type"), typ), target)
		require.Empty(t, rec.Header().Get("ETag"), target)
		require.Equal(t, "no-store", rec.Header().Get("Cache-Control"), target)
	}
	require.Equal(t, http.StatusOK, b.get("/-/ready").Code, "always answered")
	close(block)
	for range 4 {
		<-done
	}
	require.Equal(t, http.StatusOK, b.get("/").Code)
	_, err := New(site.Options{Numbers: b.opt.Numbers, Condition: b.opt.Condition, Now: b.opt.Now,
		Bounds: site.Bounds{MaxResponseBytes: 5}})
	require.ErrorContains(t, err, "MaxResponseBytes")
}

// A page of dead letters ends early if its entries are large, and the next one goes on.
func TestPagesOfLargeDeadLetters(t *testing.T) {
	entries := manyDeadLetters(300)
	for i := range entries {
		entries[i].Event = json.RawMessage(`{"service":"s","filler":"` + strings.Repeat("x", 60<<10) + `"}`)
	}
	b := newBench(t, func(o *site.Options) { o.DLQ = newDeadLetterStore(t, entries...) })
	seen := map[string]bool{}
	cursor := ""
	for pages := 1; ; pages++ {
		rec := b.get("/api/v1/dlq?limit=1000&cursor=" + cursor)
		require.Equal(t, http.StatusOK, rec.Code)
		require.Less(t, rec.Body.Len(), 8<<20)
		var list deadletters.List
		require.NoError(t, json.Unmarshal(rec.Body.Bytes(), &list))
		for _, e := range list.Items {
			require.False(t, seen[e.ID])
			seen[e.ID] = true
		}
		if cursor = list.Next; cursor == "" {
			require.Equal(t, 3, pages)
			break
		}
	}
	require.Len(t, seen, 300)
}

// What a report takes while it is made counts against the memory of responses.
func TestReportsAreMadeWithinTheMemoryOfResponses(t *testing.T) {
	inUse := func(b *bench) (n float64) {
		var text bytes.Buffer
		for _, set := range b.web.Opt.Sets {
			set.WritePrometheus(&text)
		}
		_, rest, found := strings.Cut(text.String(), "sloengine_web_response_bytes ")
		require.True(t, found)
		line, _, _ := strings.Cut(rest, "\n")
		n, err := strconv.ParseFloat(line, 64)
		require.NoError(t, err)
		return n
	}
	for _, target := range []string{"/api/v1/report?period=2026-11", "/report?period=2026-11"} {
		var most float64
		var b *bench
		b = newBench(t, func(o *site.Options) {
			counts := o.Counts
			o.Counts = func(ctx context.Context, queries []fold.ReadRequest) ([]fold.ReadResult, error) {
				most = max(most, inUse(b))
				return counts(ctx, queries)
			}
		})
		rows := len(b.rep.SLOs) + len(b.rep.SLAs)
		require.Equal(t, http.StatusOK, b.get(target).Code)
		require.GreaterOrEqual(t, most, float64(rows*14<<10), target)
		require.Less(t, inUse(b), float64(1<<20), "only what is kept is left")
	}
}
