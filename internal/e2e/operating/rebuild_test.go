package operating

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
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

// TestForgottenStaysForgotten: the history still has the events of a forgotten service, and nothing that reads it
// counts them, after a kill at any time, a rebuild, and when the service comes back.
func TestForgottenStaysForgotten(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	spec := e2etest.WriteFile(t, dir, "spec.yaml", fmt.Sprintf(heldSpec, "99", "a"))
	p := e2etest.Serve(t, dir, spec, heldSettings)
	restart := func() {
		p.Kill()
		p = e2etest.Serve(t, dir, spec, heldSettings)
	}
	send := func() (n e2etest.Answered) {
		var b strings.Builder
		for i := range 100 {
			fmt.Fprintf(&b, `{"id":"%d","service":"shop","type":"order","outcome":%q,"attributes":{"kind":"a"}}`+"\n", i,
				[]string{"success", "failure"}[i%2])
		}
		status, answer := e2etest.Post(t, p.Base+"/api/v1/events", "", b.String())
		require.Equal(t, http.StatusAccepted, status, answer)
		require.NoError(t, json.Unmarshal([]byte(answer), &n))
		return n
	}
	command := func(args ...string) string {
		out, errs, code := e2etest.Command(t, args...)
		require.Zero(t, code, "%s\n%s", out, errs)
		return out
	}
	counts := func(want string) {
		testkit.Eventually(t, "the counts are "+want, func() bool { return checkout(t, p) == want })
	}
	rebuilt := func(want string) {
		before := e2etest.Counter(t, p, "sloengine_rebuilds_total")
		command("rebuild", "--url", p.Base, "--slo", "shop/checkout")
		testkit.Eventually(t, "it is rebuilt", func() bool {
			return e2etest.Counter(t, p, "sloengine_rebuilds_total") > before
		})
		counts(want)
	}
	const none, all = "0.99: 0 good, 0 bad", "0.99: 50 good, 50 bad"
	require.Equal(t, 100, send().Accepted)
	counts(all)
	command("forget", "--url", p.Base, "shop", "--restart")
	restart()
	counts(none)
	rebuilt(none)
	export := func(args ...string) int {
		return strings.Count(command(append([]string{"export", "--data-dir", filepath.Join(dir, "data")}, args...)...), "\n")
	}
	require.Equal(t, 100, export(), "the log is as it was")
	require.Zero(t, export("--slo", "shop/checkout"))

	require.Equal(t, 100, send().Accepted)
	counts(all)
	restart()
	rebuilt(all)
	require.Equal(t, 100, export("--slo", "shop/checkout"))

	// Forgotten after it left the spec, it comes back without its past.
	e2etest.WriteFile(t, dir, "spec.yaml", strings.ReplaceAll(fmt.Sprintf(heldSpec, "99", "a"), "shop", "bank"))
	status, answer := e2etest.Post(t, p.Base+"/-/reload", "", "")
	require.Equal(t, http.StatusOK, status, answer)
	command("forget", "--url", p.Base, "shop")
	restart()
	e2etest.WriteFile(t, dir, "spec.yaml", fmt.Sprintf(heldSpec, "99", "a"))
	status, answer = e2etest.Post(t, p.Base+"/-/reload", "", "")
	require.Equal(t, http.StatusOK, status, answer)
	testkit.Eventually(t, "it has the counts of the history", func() bool {
		return strings.Contains(p.Log.String(), "SLOs have the counts of the retained log")
	})
	counts(none)
	p.Stop(t)
}
