package alerts

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/sla"
)

// TestSeverities proves that nothing pages but burn rates and an engine that counts nothing or reaches nobody.
func TestSeverities(t *testing.T) {
	in := synthetic(t)
	severities := func() map[string][]string {
		groups := Rules(in, Options{})
		out := map[string][]string{}
		for _, g := range groups {
			for _, r := range g.Rules {
				if s := r.Labels["severity"]; !slices.Contains(out[s], r.Alert) {
					out[s] = append(out[s], r.Alert)
				}
			}
		}
		return out
	}
	for _, s := range in.SLOs {
		s.Alerting.Page.Labels, s.Alerting.Ticket.Labels = nil, nil
	}
	got := severities()
	require.ElementsMatch(t, got[SeverityPage], []string{
		NameBurnPage, NameBudgetLow, "ShopTooManyErrors", "IngestUnavailable", "EngineNotReady", "IngestDiskLow",
		"WriteAheadLogPoisoned", "EvaluatorStopped", "NotificationsFailing",
	})
	require.Equal(t, []string{NameWatchdog}, got[SeverityNone])
	require.Contains(t, got[SeverityInfo], NameLatencyRecovered)
	require.Contains(t, got[SeverityTicket], NameCompositeCritical)
	require.Len(t, got, 4)

	for _, a := range in.Agreements {
		a.SeedSeverities = true
	}
	got = severities()
	require.ElementsMatch(t, got[SeverityCritical],
		[]string{NameLatencyCritical, NameErrorRateCritical, NameAvailabilityViolation, NameCompositeCritical, NameCascading})
	require.Contains(t, got[SeverityWarning], NameLatencyViolation)
	require.True(t, Pages(SeverityPage) && Pages(SeverityCritical) && !Pages(SeverityTicket) && !Pages(SeverityWarning) &&
		!Pages(SeverityInfo))
	require.Equal(t, SeverityTicket, severity(&sla.Agreement{}, SeverityCritical))
}
