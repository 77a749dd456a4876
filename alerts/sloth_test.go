package alerts

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
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
      ticket_alert: {labels: {severity: slack, slack_channel: "#bookers"}}
`

// TestSlothLabels: dashboards and routes that somebody made for the output of Sloth find the same series and alerts with the
// same labels, no more and no less.
func TestSlothLabels(t *testing.T) {
	sp := spectest.Spec(t, "sloth.yaml", ofSloth)
	o := Options{Options: rules.Options{Names: rules.Sloth}, NoEngine: true}
	m := generate(t, rules.Spec{SLOs: sp.SLOs}, o)
	start := time.Date(2026, 11, 2, 0, 0, 0, 0, time.UTC)
	w := rulestest.New(t, start, append(m.recording, m.alerts...))
	total := 0.0
	w.Run(start.Add(45*time.Minute), 15*time.Second, func(_ time.Time, add func(string, float64)) {
		total += 100
		add(`http_requests_total{code="200"}`, total)
		add(`http_requests_total{code="500"}`, total)
	})
	at := start.Add(44 * time.Minute)

	base := map[string]string{
		"sloth_id": "booking-requests", "sloth_service": "booking", "sloth_slo": "requests",
		"owner": "bookers", "repo": "booking/api", "tier": "2", "category": "availability",
	}
	with := func(more ...string) map[string]string {
		out := maps.Clone(base)
		for i := 0; i < len(more); i += 2 {
			out[more[i]] = more[i+1]
		}
		return out
	}
	want := map[string]map[string]string{
		"slo:objective:ratio": base, "slo:error_budget:ratio": base, "slo:time_period:days": base,
		"slo:current_burn_rate:ratio":             with("sloth_window", "5m"),
		"slo:period_burn_rate:ratio":              with("sloth_window", "30d"),
		"slo:period_error_budget_remaining:ratio": with("sloth_window", "30d"),
		"sloth_slo_info":                          with("sloth_mode", "cli-gen-prom", "sloth_objective", "99.9", "sloth_spec", "prometheus/v1", "sloth_version", "sloengine"),
	}
	for _, window := range []string{"5m", "30m", "1h", "2h", "6h", "1d", "3d", "30d"} {
		want["slo:sli_error:ratio_rate"+window] = with("sloth_window", window)
	}
	for name, labels := range want {
		require.Equal(t, []map[string]string{labels}, withoutName(w.Query(name, at)), name)
	}

	alert := with("alertname", "BookingFails", "alertstate", "firing", "category", "booking")
	page, ticket := maps.Clone(alert), maps.Clone(alert)
	maps.Copy(page, map[string]string{"sloth_severity": "page", "severity": "pageteam", "routing_key": "bookers"})
	maps.Copy(ticket, map[string]string{"sloth_severity": "ticket", "severity": "slack", "slack_channel": "#bookers"})
	require.ElementsMatch(t, []map[string]string{page, ticket}, withoutName(w.Query(`ALERTS{alertstate="firing"}`, at)))
	require.Len(t, m.alerts, 1)
	require.Len(t, m.alerts[0].Rules, 2, "Sloth has two alerts")
	for _, r := range m.alerts[0].Rules {
		require.Equal(t, "Booking fails", r.Annotations["summary"], "the user's")
		require.True(t, strings.HasPrefix(r.Annotations["title"], "("+r.Labels["sloth_severity"]+") "), r.Annotations["title"])
	}
}

func withoutName(v promql.Vector) (out []map[string]string) {
	for _, s := range v {
		out = append(out, labels.NewBuilder(s.Metric).Del("__name__").Labels().Map())
	}
	return out
}
