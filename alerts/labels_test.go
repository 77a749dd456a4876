package alerts

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/rules"
	"github.com/sloengine/sloengine/slo"
)

// TestSpecLabelsAreOnAlerts: what a spec says of an SLO, its alerts say, whatever the name, so that routes find the
// team. A group says more of itself, and the labels of one kind of alert say more of that kind.
func TestSpecLabelsAreOnAlerts(t *testing.T) {
	s := grouped(simple(t, "shop/up", "99.9"), "region")
	s.Labels = map[string]string{"tier": "gold", "team": "web", "part": "checkout {{ 1 }}", "region": "all", "long": "yes"}
	s.Alerting.Page.Labels = map[string]string{"team": "on-call"}
	made := func() []rules.Rule {
		groups := Rules(rules.Spec{SLOs: []*slo.SLO{s}}, Options{NoEngine: true})
		return groups[0].Rules
	}
	for _, r := range made() {
		require.Equal(t, "gold", r.Labels["tier"], r.Alert)
		require.Equal(t, "yes", r.Labels["long"], r.Alert)
		require.Equal(t, `checkout {{ "{{" }} 1 }}`, r.Labels["part"], "a value is no template")
		require.NotContains(t, r.Labels, "region", "it would replace that of the group")
		team := map[bool]string{true: "on-call", false: "web"}[r.Alert == NameBurnPage]
		require.Equal(t, team, r.Labels["team"], r.Alert)
	}
	for _, l := range LiveAlerts(rules.Spec{SLOs: []*slo.SLO{s}}, Options{}) {
		if l.SLO != nil {
			require.Equal(t, "checkout {{ 1 }}", l.Labels["part"], l.Alert)
		}
	}
	s.Alerting.NoSpecLabels = true
	for _, r := range made() {
		require.NotContains(t, r.Labels, "tier", r.Alert)
	}
}
