package fleet

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/sla/evaluator"
	"github.com/sloengine/sloengine/slo/fold"
	"github.com/sloengine/sloengine/slo/spec"
)

// benchSpec has 10,000 groups: 4,000 of each SLO of events and 2,000 of one that judges slices.
const benchSpec = `
version: sloengine/v1
service: shop
slos:
  - {name: availability, objective: 99, window: 30d, group_by: [customer], max_groups: 4000,
      indicator: {events: {valid: '{type="order"}', bad: '{outcome="failure"}'}}}
  - {name: latency, objective: 90, window: 30d, group_by: [customer], max_groups: 4000,
      indicator: {latency: {valid: '{type="order"}', threshold: 1s}}}
  - {name: throughput, objective: 80, window: 30d, group_by: [part], max_groups: 2000,
      indicator: {throughput: {valid: '{type="order"}', at_least: 12, per: 1m}}}
`

// benchFleet is three engines that counted for a day, in which each group had a few events, and goes on for ten seconds
// at a time.
func benchFleet(b *testing.B) (parts []*counter, all *evaluator.Evaluator, cfg *fold.Config, step func() time.Time) {
	sp, problems := spec.Load([]spec.File{{Name: "spec.yaml", Data: []byte(benchSpec)}})
	require.NoError(b, problems.Err())
	in := evaluator.Inputs{SLOs: sp.SLOs, Services: []fold.Service{{Name: "shop"}}}
	cfg, err := evaluator.Compile(in)
	require.NoError(b, err)
	var o Options
	for range 3 {
		c := newCounter(b, in, cfg)
		parts = append(parts, c)
		u, err := url.Parse(c.URL)
		require.NoError(b, err)
		o.Engines = append(o.Engines, u)
	}
	now, n := began, 0
	pass := func(d time.Duration, events int) {
		now = now.Add(d)
		for i, c := range parts {
			c.fold.Advance(now.UnixNano(), fold.Tick)
			for k := range events {
				n++
				e := &event.Event{Service: "shop", Type: "order", Time: now, Count: 1, Duration: time.Duration(k%3) * time.Second,
					HasDuration: true}
				e.Set("customer", fmt.Sprintf("customer-%d", (n*7+i)%4000))
				e.Set("part", fmt.Sprintf("part-%d", n%2000))
				take1(b, c.fold, now, fold.Live, e)
			}
		}
	}
	for range 24 * 60 * 3 {
		pass(20*time.Second, 30)
	}
	o.Timeout = time.Minute
	f, err := New(o)
	require.NoError(b, err)
	require.NoError(b, f.SetSpec("hash", cfg))
	all, err = evaluator.New(evaluator.Options{Source: f.Sums})
	require.NoError(b, err)
	require.NoError(b, all.SetSpec(in))
	return parts, all, cfg, func() time.Time { pass(10*time.Second, 1000); return now }
}

// BenchmarkView is a report on three engines of 10,000 groups each, with the engines' share of the work.
func BenchmarkView(b *testing.B) {
	_, all, _, step := benchFleet(b)
	begin := time.Now()
	_, err := all.Tick(b.Context(), step())
	require.NoError(b, err)
	b.Logf("first report, with all slices of a day: %s", time.Since(begin))
	for b.Loop() {
		b.StopTimer()
		now := step()
		b.StartTimer()
		_, err := all.Tick(context.Background(), now)
		require.NoError(b, err)
	}
}

// BenchmarkAnswer is what one engine does for a report: in the goroutine that counts, and beside it.
func BenchmarkAnswer(b *testing.B) {
	parts, _, cfg, step := benchFleet(b)
	c := parts[0]
	since, held, encoded, size, packed := uint64(0), time.Duration(0), time.Duration(0), 0, 0
	for i := 0; b.Loop(); i++ {
		b.StopTimer()
		req := c.eval.Request(step(), false)
		req.Unjudged = true
		b.StartTimer()
		begin := time.Now()
		a := Answer{Run: "run", Sums: c.fold.Sums(req), Raw: c.fold.Raw(fold.RawRequest{Since: since, Bytes: 4 << 20})}
		since = a.Raw.Clock
		middle := time.Now()
		data := Encode(&a)
		if i == 0 {
			continue // it tells of all slices
		}
		held, encoded, size = held+middle.Sub(begin), encoded+time.Since(middle), size+len(data)
		if packed == 0 {
			b.StopTimer()
			var buf bytes.Buffer
			z, _ := gzip.NewWriterLevel(&buf, gzip.BestSpeed)
			_, _ = z.Write(data)
			_ = z.Close()
			packed = buf.Len()
			_, err := Decode(data, cfg, &req)
			require.NoError(b, err)
			require.False(b, strings.HasPrefix(string(data), "{"))
			b.StartTimer()
		}
	}
	n := float64(max(1, b.N-1))
	b.ReportMetric(held.Seconds()*1000/n, "held-ms/op")
	b.ReportMetric(encoded.Seconds()*1000/n, "encode-ms/op")
	b.ReportMetric(float64(size)/n, "bytes/op")
	b.ReportMetric(float64(packed), "gzip-bytes")
}
