package rules_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/rules"
	"github.com/sloengine/sloengine/slo"
)

// thousand are 800 ratios of requests and 200 shares of fast ones, on existing
// series, as a file of another generator has them.
func thousand(t testing.TB) rules.Spec {
	objective, err := slo.ParsePercent("99.9")
	require.NoError(t, err)
	var in rules.Spec
	for i := range 1000 {
		s := &slo.SLO{
			ID: slo.NewID(fmt.Sprintf("service-%d", i%50), fmt.Sprintf("requests-%d", i)), Objective: objective,
			Window: slo.Window{Rolling: 30 * 24 * time.Hour}, Labels: map[string]string{"team": "a", "tier": "2"},
			Indicator: slo.Indicator{
				Kind:      slo.KindPrometheus,
				PromBad:   fmt.Sprintf(`http_requests_total{job="service-%d",code=~"(5..|429)"}`, i),
				PromTotal: fmt.Sprintf(`http_requests_total{job="service-%d"}`, i),
			},
		}
		if i%5 == 0 {
			s.Indicator.PromGood, s.Indicator.PromBad = fmt.Sprintf(
				`http_request_duration_seconds_bucket{job="service-%d",le="0.4"}`, i), ""
		}
		in.SLOs = append(in.SLOs, s)
	}
	return in
}

func BenchmarkGenerateThousand(b *testing.B) {
	in := thousand(b)
	b.ReportAllocs()
	written := 0
	for b.Loop() {
		written = len(rules.File("", recording(b, in, rules.Options{})))
	}
	b.ReportMetric(float64(written)/1e6, "MB")
}

func TestThousandParse(t *testing.T) {
	parsed(t, rules.File("made", recording(t, thousand(t), rules.Options{})))
}
