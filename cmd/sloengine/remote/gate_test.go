package remote

import (
	"bytes"
	"encoding/json"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/cmd/sloengine/cli"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/web"
	"github.com/sloengine/sloengine/web/site"
	"github.com/sloengine/sloengine/web/status"
)

// gateServer is an API over an SLO of 99 % whose groups a, b and others had 10000 events each, 20, 95 and 500 of them
// bad. A fourth group and another SLO have none.
func gateServer(t *testing.T, age time.Duration) string {
	t.Helper()
	gin.SetMode(gin.TestMode)
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	target, err := slo.ParsePercent("99")
	require.NoError(t, err)
	s := &slo.SLO{ID: "shop/a", Objective: target, Window: slo.Window{Rolling: 24 * time.Hour},
		GroupBy: []string{"region"}}
	rep := &sla.Report{Version: 1, Time: now.Add(-age)}
	for _, g := range []struct {
		name string
		bad  uint64
	}{{"eu", 20}, {"us", 95}, {slo.OtherGroup, 500}} {
		rep.SLOs = append(rep.SLOs, sla.SLOReport{SLO: s, Group: slo.Group{g.name}, Informative: g.name == slo.OtherGroup,
			Budget: slo.NewBudget(target, slo.Counts{Good: 10000 - g.bad, Bad: g.bad})})
	}
	rep.SLOs = append(rep.SLOs, sla.SLOReport{SLO: s, Group: slo.Group{"quiet"}},
		sla.SLOReport{SLO: &slo.SLO{ID: "shop/b", Objective: target, Window: s.Window}})
	return serveNumbers(t, site.Numbers{Report: func() *sla.Report { return rep }}, now)
}

// serveNumbers is an engine's API with these numbers.
func serveNumbers(t *testing.T, numbers site.Numbers, now time.Time) string {
	t.Helper()
	w, err := web.New(site.Options{
		Numbers:   numbers,
		Condition: site.Condition{Engine: func() status.Engine { return status.Engine{State: status.Ready} }},
		Now:       func() time.Time { return now },
	})
	require.NoError(t, err)
	router := gin.New()
	w.Register(router)
	server := httptest.NewServer(router)
	t.Cleanup(server.Close)
	return server.URL
}

// By hand: 20 of 100 allowed bad events leave 80 %, 95 leave 5 %.
func TestGate(t *testing.T) {
	t.Parallel()
	fresh, stale := gateServer(t, 0), gateServer(t, 24*time.Hour)
	for _, c := range []struct {
		name string
		args []string
		code int
		out  string
	}{
		{"enough", []string{"--url", fresh, "--slo", "shop/a", "--min-budget", "5%"}, 0, "go\n"},
		{"one group has less", []string{"--url", fresh, "--slo", "shop/a", "--min-budget", "10%"}, 1,
			"stop: 1 group below the minimum\n"},
		{"only the other group", []string{"--url", fresh, "--slo", "shop/a", "--min-budget", "10%", "--group", "region=eu"},
			0, "go\n"},
		{"a quiet group", []string{"--url", fresh, "--slo", "shop/a", "--group", "region=quiet"}, 2,
			"no data: no group has data\n"},
		{"a quiet SLO", []string{"--url", fresh, "--slo", "shop/b"}, 2, "no data: no group has data\n"},
		{"two SLOs", []string{"--url", fresh, "--slo", "shop/b", "--slo", "shop/a"}, 0, "go\n"},
		{"unknown", []string{"--url", fresh, "--slo", "shop/none"}, 2, `no slo "shop/none"`},
		{"stale", []string{"--url", stale, "--slo", "shop/a"}, 2, "the numbers of the engine are stale"},
		{"not there", []string{"--url", "http://127.0.0.1:1", "--slo", "shop/a"}, 2, "engine not reachable"},
		{"no percentage", []string{"--url", fresh, "--slo", "shop/a", "--min-budget", "10"},
			cli.ExitUsage, "want 0% to 100%"},
		{"no SLO", []string{"--url", fresh}, cli.ExitUsage, "--slo is required"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			streams := cli.Streams{Out: &out, Err: &out}
			root := &cobra.Command{Use: "sloengine"}
			root.AddCommand(newGate(streams))
			require.Equal(t, c.code, cli.Execute(t.Context(), root, streams, append([]string{"gate"}, c.args...)), out.String())
			require.Contains(t, out.String(), c.out)
		})
	}
	var out bytes.Buffer
	streams := cli.Streams{Out: &out, Err: &out}
	require.Equal(t, 1, cli.Execute(t.Context(), newGate(streams), streams,
		[]string{"--url", fresh, "--slo", "shop/a", "--min-budget", "10%", "-o", "json"}))
	var got gateResult
	require.NoError(t, json.Unmarshal(out.Bytes(), &got))
	require.Equal(t, "stop", got.Verdict)
	require.Len(t, got.Groups, 3, "nothing was promised to all others")
}
