package alerts

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/internal/testkit/spectest"
	"github.com/sloengine/sloengine/rules"
	"github.com/sloengine/sloengine/rules/rulestest"
)

const ofSloth = `version: prometheus/v1
service: booking
labels: {owner: bookers, repo: booking/api, tier: "2"}
slos:
  - name: requests
    objective: 99.9
    labels: {category: availability}
    sli:
      events:
        error_query: sum(rate(http_requests_total{code=~"5.."}[{{.window}}]))
        total_query: sum(rate(http_requests_total[{{.window}}]))
    alerting:
      name: BookingFails
      labels: {category: booking}
      annotations: {summary: Booking fails}
      page_alert: {labels: {severity: pageteam, routing_key: bookers}}
      ticket_alert: {labels: {slack_channel: "#bookers"}}
`

// TestSlothLabels: dashboards and routes made for the output of Sloth find the same series and alerts with the same
// labels, no more and no less. testdata/sloth.series has those that the rules written by Sloth give on the same
// traffic.
func TestSlothLabels(t *testing.T) {
	data, err := os.ReadFile("testdata/sloth.series")
	require.NoError(t, err)
	want := strings.Split(strings.TrimSpace(string(data)), "\n")
	names := map[string]bool{"ALERTS": true}
	for _, line := range want {
		names[line[:strings.Index(line, "{")]] = true
	}
	sp := spectest.Spec(t, "sloth.yaml", ofSloth)
	sp.SLOs = append(sp.SLOs, exampleSpec(t, "sloth-api").SLOs...)
	o := Options{Options: rules.Options{Names: rules.Sloth}, NoEngine: true}
	m := generate(t, rules.Spec{SLOs: sp.SLOs}, o)
	got := slices.DeleteFunc(slothSeries(t, append(m.recording, m.alerts...)), func(line string) bool {
		return !names[line[:strings.Index(line, "{")]] // further series that our rules need
	})
	require.Equal(t, strings.Join(want, "\n"), strings.Join(got, "\n"))
	for _, g := range m.alerts {
		for _, r := range g.Rules {
			require.True(t, strings.HasPrefix(r.Annotations["title"], "("+r.Labels["sloth_severity"]+") "),
				r.Annotations["title"])
		}
	}
}

// slothSeries are the series after 54 minutes in which half of the requests fail and all are slow, without the version
// in sloth_slo_info.
func slothSeries(t *testing.T, groups []rules.Group) (out []string) {
	start := time.Date(2026, 11, 2, 0, 0, 0, 0, time.UTC)
	w := rulestest.New(t, start, groups)
	total := 0.0
	w.Run(start.Add(55*time.Minute), 30*time.Second, func(_ time.Time, add func(string, float64)) {
		total += 100
		for _, x := range []string{
			`http_requests_total{code="200"}`, `http_requests_total{code="500"}`,
			`http_request_duration_seconds_count{job="booking-api",code="200",path="/"}`,
			`http_request_duration_seconds_count{job="booking-api",code="500",path="/"}`,
			`exports_total{state="failed"}`, `exports_total{state="done"}`,
		} {
			add(x, total)
		}
		add(`http_request_duration_seconds_bucket{job="booking-api",code="200",path="/",le="0.3"}`, 0)
	})
	for _, s := range w.Query(`{__name__=~"slo:.*|sloth_.*"} or ALERTS{alertstate="firing"}`, start.Add(54*time.Minute)) {
		out = append(
			out, s.Metric.Get("__name__")+labels.NewBuilder(s.Metric).Del("__name__", "sloth_version").Labels().String())
	}
	slices.Sort(out)
	return out
}
