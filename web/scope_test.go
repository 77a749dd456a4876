package web

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/alerts/state"
	"github.com/sloengine/sloengine/slo"
)

// TestSilencesOfServices: a silence is seen by who reads the one service that it is about.
func TestSilencesOfServices(t *testing.T) {
	s := newScope([]string{"shop"})
	for matchers, want := range map[string]bool{
		`service="shop"`:                 true,
		`service="shop",slo_id="shop/a"`: true,
		`service="web"`:                  false,
		`service!="shop"`:                false,
		`service=~"shop"`:                false,
		`service="shop",service!="web"`:  false,
		`slo_id="shop/a"`:                false,
	} {
		require.Equal(t, want, s.named(matchers), matchers)
	}
}

// TestAlertsOfServices: both the service of an alert and that of its SLO must be readable.
func TestAlertsOfServices(t *testing.T) {
	var all []state.Alert
	for _, a := range [][2]string{{"shop", ""}, {"shop", "shop/a"}, {"shop", "web/a"}, {"web", "shop/a"}, {"web", ""}} {
		all = append(all, state.Alert{Service: a[0], SLO: slo.ID(a[1])})
	}
	v := newScope([]string{"shop"}).alerts(&state.View{Active: all, Resolved: all})
	require.Equal(t, all[:2], v.Active)
	require.Equal(t, all[:2], v.Resolved)
}
