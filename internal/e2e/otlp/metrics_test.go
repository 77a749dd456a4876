package otlp

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/internal/e2e/e2etest"
	"github.com/sloengine/sloengine/internal/testkit"
)

// meterRule counts the requests of the shops by the histogram that all three instrumentations have.
const meterRule = `  metrics:
    - {metric: http.server.request.duration, type: server}
    - {metric: http.server.duration, type: server}
`

// The histograms of real SDKs count each request once, while the engine is killed: what an application counts is what
// it exports.
func TestMetricsOfSDKs(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		protocol string
		language string
		delta    bool
	}{
		"python":       {protobuf, "python", false},
		"node":         {jsonHTTP, "node", false},
		"java by gRPC": {grpc, "java", false},
		"node, deltas": {protobuf, "node", true},
	} {
		t.Run(name, func(t *testing.T) {
			e := startEngine(t, meterRule)
			env := []string{patient, "OTEL_TRACES_EXPORTER=none", "OTEL_METRICS_EXPORTER=otlp",
				"OTEL_METRIC_EXPORT_INTERVAL=300",
				"OTEL_METRIC_EXPORT_TIMEOUT=250", "OTEL_SEMCONV_STABILITY_OPT_IN=http"}
			if c.delta {
				env = append(env, "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE=delta")
			}
			all := func() (n int) {
				for _, m := range e.counted(t, c.language+"-shop", "all", func(map[string]string) string { return "" }) {
					n += m
				}
				return n
			}
			// The first process may have run before the rule was known.
			first := startShop(t, c.language, c.protocol, e.endpoint(c.protocol), env...)
			v := visit(t, 20*time.Millisecond, first)
			testkit.Eventually(t, "its metrics are known",
				func() bool {
					return e2etest.Sum(e2etest.Scrape(t, e.Process)["sloengine_otlp_counters"]) > 0 || all() > 0
				})
			v.stop()
			first.stop(t)
			testkit.Pause(1500 * time.Millisecond)
			before := all()

			s := startShop(t, c.language, c.protocol, e.endpoint(c.protocol), env...)
			v = visit(t, 20*time.Millisecond, s)
			for range 2 {
				pause(2 * time.Second)
				e.Kill()
				e2etest.RequireKilled(t, e.Process)
				pause(300 * time.Millisecond)
				e.start(t)
			}
			testkit.Pause(time.Second)
			v.stop()
			want := 0
			for _, n := range s.stop(t) {
				want += n
			}
			e.WaitReady(t)
			testkit.Eventually(t, "each request counts", func() bool { return all()-before >= want })
			testkit.Pause(1200 * time.Millisecond)
			require.Equal(t, want, all()-before)
			e.Stop(t)
		})
	}
}
