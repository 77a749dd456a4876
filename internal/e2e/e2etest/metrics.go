package e2etest

import (
	"fmt"
	"net/http"
	"slices"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/reliability/metric"
	"github.com/sloengine/sloengine/rules/series"
	"github.com/stretchr/testify/require"
)

// Scrape reads the metrics by the names of their families.
func Scrape(t testing.TB, p *Process) map[string]*dto.MetricFamily {
	t.Helper()
	res, err := http.Get(p.Base + "/metrics")
	require.NoError(t, err)
	defer res.Body.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(res.Body)
	require.NoError(t, err)
	return families
}

// MetricParts lists every family that the program exports, in the order of docs/metrics.md.
func MetricParts() []*metric.Part { return append([]*metric.Part{series.Levels}, metric.Parts()...) }

// DocOf is the definition of a family, or nil.
func DocOf(name string) *metric.Family {
	for _, f := range series.All() {
		if f.Name == name {
			return f
		}
	}
	return metric.Lookup(name)
}

// Sum adds up the values of a family, of those metrics that have the labels.
func Sum(f *dto.MetricFamily, want ...string) (total float64) {
	for _, m := range f.GetMetric() {
		have := map[string]string{}
		for _, l := range m.GetLabel() {
			have[l.GetName()] = l.GetValue()
		}
		fits := true
		for i := 0; i < len(want); i += 2 {
			fits = fits && have[want[i]] == want[i+1]
		}
		if fits {
			total += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return total
}

// Counter is the sum of a family.
func Counter(t testing.TB, p *Process, family string) float64 {
	t.Helper()
	total := 0.0
	for _, m := range Scrape(t, p)[family].GetMetric() {
		total += m.GetCounter().GetValue() + m.GetUntyped().GetValue() + m.GetGauge().GetValue()
	}
	return total
}

// Reports waits until the engine has completed n more reports.
func Reports(t *testing.T, p *Process, n float64) {
	t.Helper()
	Rises(t, p, metric.EvaluateTicks.Name, n)
}

// Rises waits until a counter has risen by n.
func Rises(t *testing.T, p *Process, family string, n float64) {
	t.Helper()
	before := Counter(t, p, family)
	testkit.Eventually(t, fmt.Sprintf("%s rises by %v", family, n), func() bool {
		return Counter(t, p, family) >= before+n
	})
}

// Counted is the number of events that an indicator of the service counts, be they
// new traffic or replayed later.
func Counted(t testing.TB, p *Process, slo string) int {
	t.Helper()
	total := 0.0
	families := Scrape(t, p)
	for _, m := range slices.Concat(families["slo_events_total"].GetMetric(),
		families["slo_backfilled_events_total"].GetMetric()) {
		if slices.ContainsFunc(m.Label, func(l *dto.LabelPair) bool { return l.GetName() == "slo" && l.GetValue() == slo }) {
			total += m.GetCounter().GetValue()
		}
	}
	return int(total)
}
