package notify

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/alerts/state"
)

// TestEmptyLabels takes an empty label for none, as Prometheus does before it adds external labels.
func TestEmptyLabels(t *testing.T) {
	a := &state.Alert{State: state.Firing,
		Labels: []state.Label{{Name: "a"}, {Name: "alertname", Value: "Burn"}, {Name: "region"},
			{Name: "service", Value: "shop"}}}
	m := newMessage(a, time.Time{})
	got := string(m.appendTo(nil, []state.Label{{Name: "region", Value: "eu"}, {Name: "service", Value: "other"}}))
	require.Contains(t, got, `{"labels":{"alertname":"Burn","service":"shop","region":"eu"},"annotations"`)
}
