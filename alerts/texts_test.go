package alerts

import (
	"context"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql"
	prom "github.com/prometheus/prometheus/template"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/rules"
)

// expand is how Prometheus fills in an annotation.
func expand(t testing.TB, text string, labels map[string]string, value float64) (string, error) {
	t.Helper()
	const before = "{{$labels := .Labels}}{{$externalLabels := .ExternalLabels}}{{$externalURL := .ExternalURL}}" +
		"{{$value := .Value}}"
	data := prom.AlertTemplateData(labels, nil, "", promql.Sample{F: value})
	return prom.NewTemplateExpander(context.Background(), before+text, "text", data, model.TimeFromUnix(1_800_000_000),
		nil, nil, nil).Expand()
}

// ruleOf finds the rule that a live alert was made from.
func ruleOf(groups []rules.Group, l Live) (out rules.Rule, ok bool) {
	for _, g := range groups {
		for _, r := range g.Rules {
			if r.Alert == l.Alert && maps.Equal(r.Labels, l.Labels) {
				return r, true
			}
		}
	}
	return out, false
}

// TestTextsAreThoseOfPrometheus fills in the annotations of every live alert, with many values, and compares them with
// what Prometheus makes of the rule.
func TestTextsAreThoseOfPrometheus(t *testing.T) {
	values := []float64{
		0, math.Copysign(0, -1), 1, 2, -1, 0.5, 0.0144, 0.001, 1.0 / 3, 0.99999999, 12.3456789, 89.95, 100, 999.95, 1000,
		123456, 2e7, 1e-7, 1e21,
		-0.25, -1234, math.NaN(), math.Inf(1), math.Inf(-1),
	}
	labels := map[string]string{"slo_id": "shop/errors", "type": "order.paid", "tier": `north "1"`,
		"http_code": "5xx & more", "integration": "bank", "product": "МЕД/1 %"}
	specs(t, func(t *testing.T, _ string, m made) {
		live := append(LiveAlerts(m.in, Options{Options: tables}), Watchdog(Options{Options: tables}))
		require.Greater(t, len(live), 20)
		for _, l := range live {
			r, ok := ruleOf(m.alerts, l)
			require.True(t, ok, "%s %v has no rule", l.Alert, l.Labels)
			for _, v := range values {
				got := l.Texts.Render(labels, v)
				queried := 0 // the forecast is the engine's own where it sends the alert
				if r.Annotations[AnnotationForecast] != "" {
					queried = 1
				}
				require.Len(t, got, len(r.Annotations)-queried, l.Alert)
				for _, a := range got {
					want, err := expand(t, r.Annotations[a.Name], labels, v)
					require.NoError(t, err)
					require.Equal(t, want, a.Value, "%s %s of %v", l.Alert, a.Name, v)
					require.NotContains(t, a.Value, "{{")
				}
				require.True(t, slices.IsSortedFunc(got, func(a, b Annotation) int { return strings.Compare(a.Name, b.Name) }))
			}
		}
	})
}

// TestTextsOfASpec are annotations that users write.
func TestTextsOfASpec(t *testing.T) {
	labels := map[string]string{"product": "med", "slo": "latency"}
	for _, text := range []string{
		"plain", "{{ $labels.product }}", "{{ $labels.nothing }}.", "{{ .Labels.product }}: {{ .Value }}", "{{ $value }}",
		`{{ $value | printf "%.2f" }}`,
		"{{ humanizeTimestamp 1800000000.0 }}", "{{ $labels.product | toUpper }}{{ toLower \"ABC\" }}",
		`{{ if match "me." $labels.product }}yes{{ end }}`,
		`{{ reReplaceAll "(.)e" "$1a" $labels.product }}`, "{{ range $k, $v := $labels }}{{ $k }}={{ $v }} {{ end }}",
		"{{ humanizeDuration 93784.5 }} {{ humanize 0.00012 }}",
		"{{ $labels.product | urlquery }}",
	} {
		want, err := expand(t, text, labels, 0.25)
		require.NoError(t, err, text)
		require.Equal(t, []Annotation{{"x", want}}, newTexts(map[string]string{"x": text}).Render(labels, 0.25), text)
	}
	for _, text := range []string{"{{ query \"up\" }}", "{{ $labels.product", `{{ reReplaceAll "(" "" "x" }}`,
		"{{ humanize $labels.product }}"} {
		require.Empty(t, newTexts(map[string]string{"x": text}).Render(labels, 0.25), text)
	}
}

// TestKeptValuesAreThoseOfTheRules compares the values by which texts tell that an alert is only kept.
func TestKeptValuesAreThoseOfTheRules(t *testing.T) {
	specs(t, func(t *testing.T, _ string, m made) {
		seen := map[LiveKind]bool{}
		for _, l := range LiveAlerts(m.in, Options{Options: tables}) {
			r, _ := ruleOf(m.alerts, l)
			if strings.Contains(r.Annotations["description"], "It fired, and less than") {
				seen[l.Kind] = true
				require.Contains(t, r.Expr, "\n"+number(l.KeptValue(0.7))+" * max by (", l.Alert)
				description := ""
				for _, a := range l.Texts.Render(nil, l.KeptValue(0.7)) {
					if a.Name == "description" {
						description = a.Value
					}
				}
				require.Contains(t, description, "missing data does not resolve it", l.Alert)
			} else {
				require.Contains(t, []LiveKind{LiveSilent, LiveNoData, LiveTrend, LiveDecline, LiveCascade, LiveRecovered,
					LiveRestored}, l.Kind, l.Alert)
			}
		}
		require.True(t, seen[LiveBurn] && seen[LiveScore] && seen[LiveExhausted] && seen[LiveRatio])
	})
}

func BenchmarkTexts(b *testing.B) {
	live := LiveAlerts(insurance(b), Options{Options: tables})
	labels := map[string]string{"slo_id": "insurance-unpaid/availability", "service": "insurance-unpaid",
		"slo": "availability", "product": "MEDCARE", "alertname": "ErrorBudgetBurnPage"}
	for b.Loop() {
		live[0].Texts.Render(labels, 0.0123)
	}
}

// TestShow escapes values in texts and leaves them as they are in links.
func TestShow(t *testing.T) {
	texts := newTexts(map[string]string{"summary": "of {{ $labels.country }}",
		"page": "https://x/?c={{ $labels.country | urlquery }}", "other": "{{ $labels.country | toUpper }} {{ $value }}"})
	got := texts.Show(map[string]string{"country": "<a>"}, map[string]string{"country": "&lt;a"}, 1)
	require.Equal(t, []Annotation{{"other", "&LT;A 1"}, {"page", "https://x/?c=%3Ca%3E"}, {"summary", "of &lt;a"}}, got)
}
