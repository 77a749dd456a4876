package rules_test

import (
	"bytes"
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
			s.Indicator.PromGood, s.Indicator.PromBad = fmt.Sprintf(`http_request_duration_seconds_bucket{job="service-%d",le="0.4"}`, i), ""
		}
		in.SLOs = append(in.SLOs, s)
	}
	return in
}

func BenchmarkGenerateThousand(b *testing.B) {
	in := thousand(b)
	b.ReportAllocs()
	var written counter
	for b.Loop() {
		written = 0
		if err := rules.WriteGroups(&written, "", rules.RecordingSeq(in, rules.Options{})); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(written)/1e6, "MB")
}

type counter int

func (c *counter) Write(p []byte) (int, error) { *c += counter(len(p)); return len(p), nil }

func TestWritingByGroupIsTheSame(t *testing.T) {
	for _, in := range []rules.Spec{thousand(t), insurance(t), {}} {
		var b bytes.Buffer
		require.NoError(t, rules.WriteGroups(&b, "made", rules.RecordingSeq(in, year)))
		doc := rules.AppendGroups(nil, "made", recording(t, in, year))
		require.True(t, bytes.Equal(doc, b.Bytes()))
		parsed(t, doc)
	}
	require.ErrorIs(t, rules.WriteGroups(&bytes.Buffer{}, "", rules.RecordingSeq(insurance(t), rules.Options{})), rules.ErrNoTables)
}
