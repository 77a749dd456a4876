package redact

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/ingest/event"
)

const benchEvent = `{"id":"pol-42-issued","service":"unpaid","type":"application","outcome":"failure",` +
	`"severity":"critical","duration_ms":812,"attributes":{"product":"MEDCARE","stage":"CREATE_APPLICATION",` +
	`"error_type":"MDM_ERROR","channel":"front","status":503,"user":"jane@example.org","ip":"192.0.2.77"}}` + "\n"

func BenchmarkApply(b *testing.B) {
	const n = 1000
	for _, c := range []struct {
		name  string
		rules []Rule
	}{
		{"other type", []Rule{{Attributes: []string{"user"}, Types: []string{"login"}, Action: Remove}}},
		{"other attribute", []Rule{{Attributes: []string{"email*"}, Action: Remove}}},
		{"remove", []Rule{{Attributes: []string{"user"}, Action: Remove}}},
		{"hash", []Rule{{Attributes: []string{"user"}, Action: Hash, Key: key}}},
		{"pattern on all", []Rule{{Attributes: []string{"*"}, Action: Mask, Pattern: `[\w.+-]+@[\w.-]+`}}},
		{"hash, truncate_ip, remove", []Rule{{Attributes: []string{"user"}, Action: Hash, Key: key},
			{Attributes: []string{"ip"}, Action: TruncateIP}, {Attributes: []string{"stage"}, Action: Remove}}},
	} {
		b.Run(c.name, func(b *testing.B) {
			r, err := New(c.rules, nil)
			require.NoError(b, err)
			first := decode(b, strings.Repeat(benchEvent, n))
			work := &event.Batch{}
			b.ReportAllocs()
			for b.Loop() {
				work.Buf = append(work.Buf[:0], first.Buf...)
				work.Events = append(work.Events[:0], first.Events...)
				if err := r.Apply(work); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/event")
		})
	}
}
