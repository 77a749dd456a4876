package servicebudget

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/ingest/event"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// batch has one event for each service, of that many bytes and a little more.
func batch(size int, services ...string) *event.Batch {
	b := &event.Batch{}
	for i, s := range services {
		e := event.Event{ID: fmt.Sprint(i), Time: noon, Service: s, Type: "order"}
		e.Set("text", strings.Repeat("x", size))
		item := event.Item{Index: i, Start: len(b.Buf)}
		b.Buf = event.AppendBinary(b.Buf, &e)
		item.End = len(b.Buf)
		b.Events = append(b.Events, item)
	}
	return b
}

func TestBytesOfOneServiceStarveNoOther(t *testing.T) {
	set := metrics.NewSet()
	b := New(1<<20, set)
	b.Set([]Rule{{Service: "noisy", Bytes: 1000}, {Service: Any, Bytes: 1 << 20}})
	take := func(at time.Duration, services ...string) *Over {
		lease, over := b.Take(batch(1000, services...), noon.Add(at))
		lease.Release()
		return over
	}
	taken := 0
	for take(0, "noisy") == nil {
		taken++
	}
	require.Equal(t, 10, taken, "ten seconds of bursts")
	over := take(0, "noisy")
	require.Equal(t, Bytes, over.Budget)
	require.Equal(t, `the service "noisy" exceeds its budget of 1000 bytes of events per second`, over.Error())
	require.Greater(t, over.Retry, time.Duration(0))
	require.Less(t, over.Retry, 2*time.Second)
	require.Nil(t, take(0, "quiet"))

	// A batch of both is refused as a whole, and takes nothing from the quiet one.
	before := b.services["quiet"].left
	require.NotNil(t, take(0, "quiet", "noisy"))
	require.NotNil(t, take(0, "noisy", "quiet"))
	require.Equal(t, before, b.services["quiet"].left)
	require.Zero(t, b.services["quiet"].waiting)
	require.Nil(t, take(over.Retry, "noisy"), "what Retry says is true")
	require.NotNil(t, take(over.Retry, "noisy"))
	// The rate is that of the rule.
	taken = 0
	for s := range 100 {
		if take(time.Duration(10+s)*time.Second, "noisy") == nil {
			taken++
		}
	}
	require.InDelta(t, 100, taken, 15)

	var text bytes.Buffer
	set.WritePrometheus(&text)
	require.Contains(t, text.String(), `sloengine_service_refused_total{service="noisy",budget="bytes"}`)
	require.Contains(t, text.String(), `sloengine_service_bytes_total{service="quiet"}`)
	st := b.Status(noon.Add(110 * time.Second))
	require.Len(t, st, 1)
	require.Equal(t, "noisy", st[0].Service)
	require.Empty(t, New(1, metrics.NewSet()).Status(noon))
}

func TestShareOfTheQueue(t *testing.T) {
	b := New(10_000, metrics.NewSet())
	b.Set([]Rule{{Service: Any, Queue: 0.25}})
	first, over := b.Take(batch(1000, "noisy"), noon)
	require.Nil(t, over)
	second, over := b.Take(batch(1000, "noisy"), noon)
	require.Nil(t, over)
	_, over = b.Take(batch(1000, "noisy"), noon)
	require.Equal(t, &Over{"noisy", Queue, 2500, time.Second}, over)
	other, over := b.Take(batch(5000, "quiet"), noon)
	require.Nil(t, over, "an empty share takes a request of any size")
	first.Release()
	third, over := b.Take(batch(1000, "noisy"), noon)
	require.Nil(t, over)
	second.Release()
	third.Release()
	other.Release()
	require.Zero(t, b.services["noisy"].waiting+b.services["quiet"].waiting)
}

func TestServicesAreBounded(t *testing.T) {
	b := New(1<<20, metrics.NewSet())
	b.Set([]Rule{{Service: Any, Bytes: 1}})
	for i := range maxServices + 10 {
		_, _ = b.Take(batch(1, fmt.Sprintf("s%d", i), "s0", "another-one"), noon)
	}
	require.LessOrEqual(t, len(b.services), maxServices+1)
	b.Set(nil)
	_, over := b.Take(batch(1, "s0"), noon)
	require.Nil(t, over)
}

func TestTakeAllocatesNothing(t *testing.T) {
	b, in := New(1<<40, metrics.NewSet()), batch(100, "shop", "shop", "shop")
	for _, rules := range [][]Rule{nil, {{Service: Any, Bytes: 1 << 40, Queue: 1}}} {
		b.Set(rules)
		require.Zero(t, testing.AllocsPerRun(100, func() {
			lease, _ := b.Take(in, noon)
			lease.Release()
		}))
	}
}

func BenchmarkTake(b *testing.B) {
	names := make([]string, 1000)
	for i := range names {
		names[i] = "shop"
	}
	in := batch(100, names...)
	for name, rules := range map[string][]Rule{"off": nil, "on": {{Service: Any, Bytes: 1 << 50, Queue: 1}}} {
		b.Run(name, func(b *testing.B) {
			x := New(1<<40, metrics.NewSet())
			x.Set(rules)
			b.ReportAllocs()
			for b.Loop() {
				lease, _ := x.Take(in, noon)
				lease.Release()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/event")
		})
	}
}
