package spec

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// manySloth is a file of Sloth with n SLOs, four of five a ratio, the others of
// the shape of a latency.
func manySloth(n int) []byte {
	var b strings.Builder
	b.WriteString("version: prometheus/v1\nservice: big\nlabels:\n  owner: team-a\n  tier: \"2\"\nslos:\n")
	for i := range n {
		fmt.Fprintf(&b,
			"  - name: slo-%04d\n    objective: 99.9\n    description: Requests of handler %d are answered well.\n    sli:\n  "+
				"    events:\n", i, i)
		if i%5 < 4 {
			fmt.Fprintf(&b,
				"        error_query: sum(rate(http_requests_total{job=\"api\",handler=\"h%d\",code=~\"5..|429\"}[{{.window}}]))\n",
				i)
			fmt.Fprintf(&b, "        total_query: sum(rate(http_requests_total{job=\"api\",handler=\"h%d\"}[{{.window}}]))\n", i)
		} else {
			fmt.Fprintf(&b,
				"        error_query: |\n          (\n            sum(rate(http_request_duration_seconds_count{job=\"api\","+
					"handler=\"h%d\"}[{{.window}}]))\n            -\n            "+
					"sum(rate(http_request_duration_seconds_bucket{le=\"0.4\",job=\"api\",handler=\"h%d\"}[{{.window}}]))\n         "+
					" )\n", i, i)
			fmt.Fprintf(&b,
				"        total_query: sum(rate(http_request_duration_seconds_count{job=\"api\",handler=\"h%d\"}[{{.window}}]))\n",
				i)
		}
		fmt.Fprintf(&b,
			"    alerting:\n      name: Handler%dErrors\n      labels:\n        category: availability\n      annotations:\n  "+
				"      summary: Too many requests of handler %d fail.\n      page_alert:\n        labels:\n          severity: "+
				"critical\n      ticket_alert:\n        labels:\n          severity: warning\n", i, i)
	}
	return []byte(b.String())
}

func BenchmarkLoadSloth1000(b *testing.B) {
	data := manySloth(1000)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		s, ps := Load([]File{{Name: "big.yaml", Data: data}})
		require.Empty(b, ps)
		require.Len(b, s.SLOs, 1000)
	}
}

func BenchmarkEncodeSloth1000(b *testing.B) {
	s, ps := Load([]File{{Name: "big.yaml", Data: manySloth(1000)}})
	require.Empty(b, ps)
	b.ReportAllocs()
	for b.Loop() {
		b.SetBytes(int64(len(Encode(s))))
	}
}
