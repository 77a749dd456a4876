package operating

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/internal/e2e/e2etest"
	"github.com/sloengine/sloengine/internal/testkit"
)

const heldSpec = `version: sloengine/v1
service: shop
types: [order]
slos:
  - name: checkout
    objective: %s
    indicator:
      events: {valid: '{type="order",kind=~"%s"}', bad: '{outcome="failure"}'}
`

const heldSettings = "log: {retain: 3d}\ndisk: {low_water: 1MiB}\nevaluator: {interval: 50ms}\n"

// checkout is what the API says of the SLO: its objective and counts belong together.
func checkout(t *testing.T, p *e2etest.Process) string {
	var list struct {
		Items []struct {
			Objective float64
			Budget    struct {
				Counts struct{ Good, Bad int }
			}
		}
	}
	require.NoError(t, json.Unmarshal(e2etest.Get(t, p.Base+"/api/v1/slos"), &list))
	if len(list.Items) != 1 {
		return ""
	}
	x := list.Items[0]
	return fmt.Sprintf("%g: %d good, %d bad", x.Objective, x.Budget.Counts.Good, x.Budget.Counts.Bad)
}

// TestChangedDefinitionTakesOver: pages never show a changed definition without its past, also after kills.
func TestChangedDefinitionTakesOver(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	spec := e2etest.WriteFile(t, dir, "spec.yaml", fmt.Sprintf(heldSpec, "99", "a"))
	p := e2etest.Serve(t, dir, spec, heldSettings)
	var b strings.Builder
	for i := range 200 {
		fmt.Fprintf(&b, `{"id":"%d","service":"shop","type":"order","outcome":%q,"attributes":{"kind":%q}}`+"\n", i,
			[]string{"success", "failure"}[i%2], []string{"a", "a", "b"}[i%3])
	}
	status, answer := e2etest.Post(t, p.Base+"/api/v1/events", "", b.String())
	require.Equal(t, http.StatusAccepted, status, answer)
	const before, after = "0.99: 67 good, 67 bad", "0.95: 100 good, 100 bad"
	testkit.Eventually(t, "the SLO is counted", func() bool { return checkout(t, p) == before })
	e2etest.WriteFile(t, dir, "spec.yaml", fmt.Sprintf(heldSpec, "95", "a|b"))
	status, answer = e2etest.Post(t, p.Base+"/-/reload", "", "")
	require.Equal(t, http.StatusOK, status, answer)
	var reloaded struct {
		Rebuild struct{ Held []string }
	}
	require.NoError(t, json.Unmarshal([]byte(answer), &reloaded))
	require.True(t, checkout(t, p) == after || slices.Equal(reloaded.Rebuild.Held, []string{"shop/checkout"}), answer)
	for kills, seen := 0, ""; seen != after; {
		if seen = checkout(t, p); seen != "" { // before the first report
			require.Contains(t, []string{before, after}, seen)
		}
		if kills < 3 {
			p.Kill()
			p = e2etest.Serve(t, dir, spec, heldSettings)
			kills++
			testkit.Eventually(t, "alerts are evaluated", func() bool { return checkout(t, p) != "" })
		}
	}
	require.NotContains(t, string(e2etest.Get(t, p.Base+"/api/v1/engine")), `"rebuild"`)
	p.Stop(t)

	// The last kill may have come between the takeover and what says so.
	p = e2etest.Serve(t, dir, spec, heldSettings)
	e2etest.WriteFile(t, dir, "spec.yaml", fmt.Sprintf(heldSpec, "97", "b"))
	status, answer = e2etest.Post(t, p.Base+"/-/reload", "", "")
	require.Equal(t, http.StatusOK, status, answer)
	testkit.Eventually(t, "the changed definition took over", func() bool {
		return checkout(t, p) == "0.97: 33 good, 33 bad"
	})
	testkit.Eventually(t, "the log says so", func() bool {
		return strings.Contains(p.Log.String(), "SLOs have the counts of the retained log")
	})
	require.Equal(t, float64(1), e2etest.Counter(t, p, "sloengine_rebuilds_total"))
	p.Stop(t)

	// Without a rebuild the changed definition starts from zero.
	e2etest.WriteFile(t, dir, "spec.yaml", fmt.Sprintf(heldSpec, "95", "b|c"))
	p = e2etest.Serve(t, dir, spec, heldSettings+"rebuild: off\n")
	testkit.Eventually(t, "the SLO starts from zero", func() bool { return checkout(t, p) == "0.95: 0 good, 0 bad" })
	p.Stop(t)
}
