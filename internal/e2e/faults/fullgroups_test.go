package faults

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/internal/e2e/e2etest"
	"github.com/sloengine/sloengine/internal/testkit"
)

// The long SLO is there so that a backfill may be older than all windows of the other.
const tenantsSpec = `version: sloengine/v1
service: shop
slos:
  - name: tenants
    objective: 99
    window: 1d
    group_by: [tenant]
    max_groups: %d
    expect: [[vip]]
    indicator:
      events: {valid: '{type="order"}', bad: '{outcome="failure"}'}
  - name: all
    objective: 99
    window: 30d
    indicator:
      events: {valid: '{type="order"}', bad: '{outcome="failure"}'}
`

// TestFullGroups lets a tenant with 100,000 failures come after all groups are taken:
// that is said everywhere, and ends with more room as well as with silent groups.
func TestFullGroups(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	specFile := e2etest.WriteFile(t, dir, "spec.yaml", fmt.Sprintf(tenantsSpec, 3))
	const settings = "evaluator: {interval: 50ms}\ncheckpoint: {interval: 100ms}\n"
	serve := func() *e2etest.Process {
		return e2etest.Serve(t, dir, specFile, settings)
	}
	p := serve()
	event := func(id, tenant string, at time.Time, count int) string {
		return fmt.Sprintf(
			`{"id":%q,"time":%q,"service":"shop","type":"order","outcome":"failure","count":%d,"attributes":{"tenant":%q}}`+"\n",
			id, at.UTC().Format(time.RFC3339), count, tenant)
	}
	send := func(query, body string) {
		t.Helper()
		status, answer := e2etest.Post(t, p.Base+"/api/v1/events"+query, "", body)
		require.Equal(t, http.StatusAccepted, status, answer)
	}
	groups := func() map[string]float64 {
		out := map[string]float64{}
		families := e2etest.Scrape(t, p)
		for _, name := range []string{"slo_events_total", "slo_backfilled_events_total"} {
			for _, m := range families[name].GetMetric() {
				labels := map[string]string{}
				for _, l := range m.Label {
					labels[l.GetName()] = l.GetValue()
				}
				if labels["slo"] == "tenants" {
					out[labels["tenant"]] += m.GetCounter().GetValue()
				}
			}
		}
		return out
	}
	become := func(want map[string]float64) {
		t.Helper()
		require.Eventually(t, func() bool {
			return fmt.Sprint(groups()) == fmt.Sprint(want)
		}, testkit.Patience, 50*time.Millisecond, "%v instead of %v", groups, want)
	}
	full := func(want bool) {
		t.Helper()
		require.Equal(t, want, e2etest.Counter(t, p, "sloengine_fold_full_slos") == 1)
		require.Equal(
			t, want, strings.Contains(string(e2etest.Get(t, p.Base+"/-/ready")), `"part":"slo","name":"shop/tenants"`))
		require.Equal(
			t, want, strings.Contains(string(e2etest.Get(t, p.Base+"/engine")), "slo shop/tenants: all 3 groups are taken"))
		require.Equal(t, want, strings.Contains(string(e2etest.Get(t, p.Base+"/api/v1/engine")),
			`"full":[{"slo":"shop/tenants","max_groups":3,"other_events":100000}]`))
	}
	now := time.Now()

	send("?backfill=true", event("a", "a", now.Add(-9*24*time.Hour), 1)+event("b", "b", now.Add(-8*24*time.Hour), 1))
	become(map[string]float64{"a": 1, "b": 1, "vip": 0})
	full(false)
	send("", event("new", "new", now, 100_000))
	become(map[string]float64{"a": 1, "b": 1, "vip": 0, "__other__": 100_000})
	full(true)
	require.Contains(t, p.Log.String(), `level=WARN msg="SLO reached max_groups`)
	require.Contains(t, p.Log.String(), "slo=shop/tenants max_groups=3")

	// A start ages the buckets: the silent groups go, the expected one stays.
	p.Kill()
	p = serve()
	become(map[string]float64{"vip": 0, "__other__": 100_000})
	full(false)
	require.Equal(t, 2.0, e2etest.Counter(t, p, "sloengine_fold_evicted_groups_total"))
	send("", event("again", "new", now, 7))
	become(map[string]float64{"vip": 0, "__other__": 100_000, "new": 7})
	send("", event("return", "a", now, 1)+event("late", "late", now, 5))
	want := map[string]float64{"vip": 0, "__other__": 100_005, "new": 7, "a": 1}
	become(want)
	require.Equal(t, 1.0, e2etest.Counter(t, p, "sloengine_fold_full_slos"))

	// More room: at its next event the last one has a group, too.
	e2etest.WriteFile(t, dir, "spec.yaml", fmt.Sprintf(tenantsSpec, 10))
	status, answer := e2etest.Post(t, p.Base+"/-/reload", "", "")
	require.Equal(t, http.StatusOK, status, answer)
	require.Eventually(t, func() bool {
		return strings.Contains(p.Log.String(), "SLO is below max_groups again")
	}, testkit.Patience, 20*time.Millisecond)
	full(false)
	send("", event("later", "late", now, 2))
	want["late"] = 2
	become(want)

	// The log alone gives the same as checkpoints and the rest of the log.
	p.Kill()
	p = serve()
	become(want)
	p.Kill()
	require.DirExists(t, filepath.Join(dir, "data", "checkpoints"))
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "data", "checkpoints")))
	p = serve()
	become(want)
	require.Equal(t, 2.0, e2etest.Counter(t, p, "sloengine_fold_evicted_groups_total"))
	p.Stop(t)
}
