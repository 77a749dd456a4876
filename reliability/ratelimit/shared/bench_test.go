package shared

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/reliability/ratelimit"
)

// BenchmarkTake charges groups of events by a real Redis on this machine: b.N groups.
func BenchmarkTake(b *testing.B) {
	one := func(n int64) ratelimit.Limit { return ratelimit.Limit{N: n, Window: time.Minute} }
	const plenty = 1_000_000_000
	for _, layers := range []struct {
		name string
		limits
		users int
	}{
		{"1layer", limits{}, 0},
		{"3layers/1000users", limits{global: one(plenty), user: one(plenty)}, 1000},
		{"3layers/10000users", limits{global: one(plenty), user: one(plenty)}, 10_000},
		{"3layers/1000users/over", limits{global: one(1000), user: one(10)}, 1000},
	} {
		for _, size := range []int{100, 1000, 10_000} {
			b.Run(fmt.Sprintf("%s/group%d", layers.name, size), func(b *testing.B) {
				st := newServer(b).store()
				p := layers.policy(b)
				var groups []*ratelimit.Tickets
				for range 20 {
					events := make([]event, size)
					for i := range events {
						events[i].kind = "page.view"
						if layers.users > 0 {
							events[i].user = fmt.Sprint("u", rand.IntN(layers.users))
						}
					}
					groups = append(groups, tickets(p, events...))
				}
				i := 0
				b.ReportAllocs()
				for b.Loop() {
					require.NoError(b, st.Take(context.Background(), time.Time{}, groups[i%20:i%20+1]))
					i++
				}
				events := float64(b.N) * float64(size)
				b.ReportMetric(events/b.Elapsed().Seconds(), "events/s")
				b.ReportMetric(b.Elapsed().Seconds()*1e6/events, "us/event")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}
