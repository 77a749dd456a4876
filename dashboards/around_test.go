package dashboards_test

import (
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/sloengine/sloengine/reliability/metric"
	"github.com/stretchr/testify/require"
)

// around are the series of what stands around an engine while a sink is down and a flood
// of events is over the limits: their values, by the seconds that have passed. A test of
// the command holds the same names and labels against a running engine.
var around = map[string]func(s float64) float64{
	`sloengine_breaker_state{breaker="archive"}`: constant(0),
	`sloengine_breaker_state{breaker="webhook"}`: func(s float64) float64 { return float64(int(s/300) % 3) },

	`sloengine_retry_attempted_items_total{target="archive"}`: constant(0),
	`sloengine_retry_attempted_items_total{target="webhook"}`: growing(3),

	`sloengine_dlq_entries{origin="admission"}`:                           growing(0.5),
	`sloengine_dlq_entries{origin="fold"}`:                                constant(0),
	`sloengine_dlq_entries{origin="sink"}`:                                growing(0.2),
	`sloengine_dlq_saved_total{origin="admission",reason="rate_limited"}`: growing(0.5),
	`sloengine_dlq_saved_total{origin="sink",reason="retry_exhausted"}`:   growing(0.2),
	`sloengine_ratelimit_hits_total{layer="global",type=""}`:              growing(20),
	`sloengine_ratelimit_hits_total{layer="type",type="(default)"}`:       growing(5),
	`sloengine_ratelimit_hits_total{layer="type",type="payment.*"}`:       growing(1),
	`sloengine_ratelimit_hits_total{layer="context",type=""}`:             growing(2),
	`sloengine_ratelimit_dropped_total{type="(default)"}`:                 growing(19),
	`sloengine_ratelimit_dropped_total{type="payment.*"}`:                 constant(0),
	`sloengine_ratelimit_critical_total{type="(default)"}`:                constant(0),
	`sloengine_ratelimit_critical_total{type="payment.*"}`:                growing(0.5),
	`sloengine_ratelimit_current{layer="global"}`:                         constant(160),
	`sloengine_ratelimit_current{layer="type"}`:                           constant(900),
	`sloengine_ratelimit_current{layer="context"}`:                        constant(3),
	`sloengine_ratelimit_threshold{layer="global"}`:                       constant(10_000. / 60),
	`sloengine_ratelimit_threshold{layer="type"}`:                         constant(1000),
	`sloengine_ratelimit_threshold{layer="context"}`:                      constant(1000. / 60),
	`sloengine_ratelimit_fallback`: func(s float64) float64 {
		return float64(int(s/600) % 2)
	},
	`sloengine_sink_lag_seconds{sink="archive"}`:                            constant(0.1),
	`sloengine_sink_lag_seconds{sink="webhook"}`:                            growing(1),
	`sloengine_sink_lag_bytes{sink="archive"}`:                              constant(2000),
	`sloengine_sink_lag_bytes{sink="webhook"}`:                              growing(5000),
	`sloengine_sink_max_lag_bytes{sink="webhook"}`:                          constant(64 << 20),
	`sloengine_notify_pending{target="am:9093"}`:                            constant(0),
	`sloengine_client_failures_total{context="async",reason="queue_full"}`:  growing(0.01),
	`sloengine_client_failures_total{context="send",reason="breaker_open"}`: growing(0.1),
	`sloengine_client_spool_bytes`:                                          growing(100),
	`sloengine_client_spool_limit_bytes`:                                    constant(64 << 20),
}

func constant(v float64) func(float64) float64 { return func(float64) float64 { return v } }

func growing(perSecond float64) func(float64) float64 {
	return func(s float64) float64 { return perSecond * s }
}

// aroundSet is what an engine of the world exports of all that.
func aroundSet(t testing.TB, now func() time.Time, others ...*metrics.Set) *metrics.Set {
	t.Helper()
	label := regexp.MustCompile(`[{,](\w+)=`)
	set := metrics.NewSet()
	for _, all := range []map[string]func(float64) float64{around, brokered, relayed} {
		for name, value := range all {
			family, _, _ := strings.Cut(name, "{")
			f := metric.Lookup(family)
			require.NotNil(t, f, family)
			var have []string
			for _, m := range label.FindAllStringSubmatch(name, -1) {
				have = append(have, m[1])
			}
			want := f.LabelNames()
			if f.Type == metric.Histogram {
				want = append(slices.Clone(want), "le")
			}
			require.Equal(t, want, have, name)
			set.NewGauge(name, func() float64 { return value(now().Sub(worldBegin).Seconds()) })
		}
	}
	standIn(set, now, others)
	return set
}

// standIn adds the families of the boards that the world's parts do not export, with every value of their closed
// labels.
func standIn(set *metrics.Set, now func() time.Time, others []*metrics.Set) {
	known := map[string]bool{metric.Events.Name: true, metric.EventDurationSeconds.Name: true}
	for _, s := range append(others, set) {
		for _, n := range s.ListMetricNames() {
			family, _, _ := strings.Cut(n, "{")
			known[strings.TrimSuffix(family, "_bucket")] = true
		}
	}
	for _, p := range metric.Parts() {
		for _, f := range p.Families {
			// What begins so comes from the pages and the report.
			if known[f.Name] || p.Title == "Process" || f.Extra != "" || strings.HasPrefix(f.Name, "slo_") ||
				strings.HasPrefix(f.Name, "sla_") || strings.HasPrefix(f.Name, "sloengine_web_") {
				continue
			}
			for _, values := range labelValuesOf(f) {
				name := f.Series(values...)
				switch f.Type {
				case metric.Histogram:
					h := set.GetOrCreatePrometheusHistogramExt(name, f.Buckets)
					set.RegisterMetricsWriter(func(io.Writer) { h.Update(f.Buckets[0]) })
				default:
					set.GetOrCreateGauge(name, func() float64 { return 1 + now().Sub(worldBegin).Seconds() })
				}
			}
		}
	}
}

// labelValuesOf are values of the labels of a family: all of the closed ones, "x" for names.
func labelValuesOf(f *metric.Family) [][]string {
	out := [][]string{nil}
	for _, l := range f.Labels {
		values := l.Values
		if len(values) == 0 {
			values = []string{"x"}
		}
		var more [][]string
		for _, have := range out {
			for _, v := range values {
				more = append(more, append(slices.Clone(have), v))
			}
		}
		out = more
	}
	return out
}
