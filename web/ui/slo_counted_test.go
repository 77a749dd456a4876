package ui

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/slo"
)

// The page says of series of Prometheus what is counted, and how.
func TestSeriesFacts(t *testing.T) {
	for want, ind := range map[string]slo.Indicator{
		"All series=all; Good series=ok": {PromTotal: "all", PromGood: "ok"},
		"All series=all; Bad series=err": {PromTotal: "all", PromBad: "err"},
		"Query of all=all[$window]; Query of the bad=err[$window]; Evaluated=every 30s as time slices": {
			PromTotalQuery: "all[$window]", PromBadQuery: "err[$window]"},
		"Query of the bad share=x[$window]; Evaluated=every 30s as time slices": {PromErrorRatioQuery: "x[$window]"},
		"Query=max(depth); Good sample=<= 0.5; Evaluated=every 30s as time slices": {
			PromQuery: "max(depth)", PromOp: slo.NotAbove, PromValue: 0.5},
	} {
		ind.Kind, ind.PromEvery = slo.KindPrometheus, 30*time.Second
		var got []string
		for _, f := range seriesFacts(&ind) {
			got = append(got, f.Name+"="+f.Value)
		}
		require.Equal(t, want, strings.Join(got, "; "))
	}
}
