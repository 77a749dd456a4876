package notify

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// BenchmarkResend is 10,000 alerts sent again to one peer, without the network: which are due, their texts, and their
// JSON. cpu-ms is the time of the processor, which other processes do not change.
func BenchmarkResend(b *testing.B) {
	w := newWorld(b, products(10_000)...)
	for _, g := range w.groups {
		w.bad[g] = true
	}
	n, err := New(Options{Settings: settingsFor("http://127.0.0.1:9093")})
	require.NoError(b, err)
	n.Update(w.tick())
	p := n.peers[0]
	var bytes int
	began := processorTime(b)
	b.ReportAllocs()
	for b.Loop() {
		now, news := time.Now(), n.news.Load()
		due := p.due(news, now)
		for _, o := range due {
			o.entry.sent = time.Time{} // it is due again
		}
		require.Len(b, due, 10_000)
		bytes = 0
		for len(due) > 0 {
			due = due[p.encode(due, news, now):]
			bytes += len(p.body)
		}
	}
	b.ReportMetric(float64(processorTime(b)-began)/float64(b.N)/1e6, "cpu-ms/op")
	b.ReportMetric(float64(bytes)/1e6, "MB/op")
}

func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
