package remote

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/alerts/blindspot"
	"github.com/sloengine/sloengine/cmd/sloengine/cli"
	"github.com/sloengine/sloengine/internal/testkit/spectest"
	"github.com/sloengine/sloengine/web/api/v1"
)

const text = `
version: sloengine/v1
service: shop
slos:
  - name: checkout
    objective: 99.9
    group_by: [product]
    indicator: {events: {valid: '{type="order"}', bad: '{outcome="failure"}'}}
  - name: imports
    objective: 99.9
    window: {calendar: month, timezone: Asia/Tokyo}
    indicator: {events: {valid: '{type="import"}', bad: '{outcome="failure"}'}}
  - name: speed
    objective: 99
    budgeting: {timeslices: {slice: 1m, target: 95}}
    indicator: {latency: {valid: '{type="order"}', threshold: 1s}}
  - name: api
    objective: 99.9
    indicator: {prometheus: {bad: 'http_errors_total', total: 'http_requests_total'}}
`

func specFile(t *testing.T) string {
	file := filepath.Join(t.TempDir(), "spec.yaml")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

// quiet is a week with 3,600 events an hour, and few from 02:00 to 05:00 UTC.
func quiet(few float64) *blindspot.Week {
	w := blindspot.Flat(3600)
	for i := range w {
		if hour := i % 24; hour >= 2 && hour < 5 {
			w[i] = few
		}
	}
	return w
}

// engine answers as the API of an engine does.
func engine(t *testing.T) string {
	weeks := map[string]*blindspot.Week{"a": quiet(4), "b": quiet(5), "busy": blindspot.Flat(3600), "": quiet(0)}
	answer := func(w http.ResponseWriter, v any) { require.NoError(t, json.NewEncoder(w).Encode(v)) }
	mux := http.NewServeMux()
	mux.HandleFunc("/api/v1/slos", func(w http.ResponseWriter, r *http.Request) {
		group := func(product string) v1.SLO {
			return v1.SLO{ID: "shop/checkout", Group: map[string]string{"product": product}}
		}
		other := group("__other__")
		other.Informative = true
		if r.URL.Query().Get("cursor") == "" {
			answer(w, v1.SLOList{Report: v1.Report{Version: 1}, Items: []v1.SLO{group("a"), group("b"), other}, Next: "more"})
			return
		}
		rest := []v1.SLO{group("busy"), group("new"), {ID: "shop/imports"}, {ID: "shop/speed"}, {ID: "other/one"}}
		answer(w, v1.SLOList{Report: v1.Report{Version: 1}, Items: rest})
	})
	mux.HandleFunc("/api/v1/slos/{service}/{slo}", func(w http.ResponseWriter, r *http.Request) {
		require.NotEqual(t, "__other__", r.URL.Query().Get("group.product"))
		answer(w, map[string]any{"slo": map[string]any{}, "usual_week": weeks[r.URL.Query().Get("group.product")]})
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s.URL
}

func run(t *testing.T, args ...string) (string, error) {
	var out bytes.Buffer
	c := NewBlindSpots(cli.Streams{Out: &out, Err: &out})
	c.SilenceErrors, c.SilenceUsage = true, true
	c.SetArgs(args)
	err := c.Execute()
	return out.String(), err
}

func TestRunning(t *testing.T) {
	file, url := specFile(t), engine(t)
	out, err := run(t, "-f", file, "--running", url)
	require.NoError(t, err)
	require.Equal(t, `shop/api
  an engine does not know the traffic of series in Prometheus: use --rate

shop/checkout (a), hours in UTC
  every day 05:00 to 02:00: an outage under 1m is invisible, and so is an error rate under 1.5% for an hour (3600 `+
		`events an hour)
  every day 02:00 to 05:00: an outage under 45m is invisible, and so is an error rate under 76% for an hour (4 `+
		`events an hour)

shop/checkout (b), hours in UTC
  every day 05:00 to 02:00: an outage under 1m is invisible, and so is an error rate under 1.5% for an hour (3600 `+
		`events an hour)
  every day 02:00 to 05:00: an outage under 36m is invisible, and so is an error rate under 61% for an hour (5 `+
		`events an hour)

shop/checkout (busy), hours in UTC
  at any time: an outage under 1m is invisible, and so is an error rate under 1.5% for an hour (3600 events an hour)

shop/checkout (new)
  its usual traffic is not known: the engine must have observed it for a day, and make forecasts of it

shop/imports, hours in JST
  every day 14:00 to 11:00: an outage under 1m is invisible, and so is an error rate under 1.5% for an hour (3600 `+
		`events an hour)
  every day 11:00 to 14:00: there is no traffic, so an outage is invisible until traffic returns

shop/speed
  it judges slices of time, so its alerts do not depend on the number of events
`, out)

	out, err = run(t, "-f", file, "--running", url, "-o", "json", "--timezone", "America/New_York", "shop/checkout")
	require.NoError(t, err)
	var got struct{ Items []blindItem }
	require.NoError(t, json.Unmarshal([]byte(out), &got))
	require.Len(t, got.Items, 4)
	a := got.Items[0]
	require.Len(t, a.Hours, 168)
	require.InDelta(t, 45*60, *a.Hours[2].Outage, 10)
	require.InDelta(t, 0.75, *a.Hours[2].Ratio, 0.01)
	require.Regexp(t, `^every day 2[12]:00 to 0[01]:00$`, a.Spans[len(a.Spans)-1].When)
}

func TestRate(t *testing.T) {
	file := specFile(t)
	out, err := run(t, "-f", file, "--rate", "12/d", "shop/api")
	require.NoError(t, err)
	require.Equal(t, "shop/api, hours in UTC\n  at any time: an outage under 6h is invisible (0.5 events an hour)\n", out)
	for _, bad := range [][]string{
		{}, {"--rate", "5"}, {"--rate", "0/h"}, {"--rate", "5/y"}, {"--rate", "-1/h"},
		{"--rate", "1/h", "--running", "http://127.0.0.1:1"},
		{"--rate", "1/h", "--timezone", "Mars"}, {"--rate", "1/h", "shop/none"}, {"--running", "nowhere"},
	} {
		_, err := run(t, append([]string{"-f", file}, bad...)...)
		require.Error(t, err, "%v", bad)
	}
}

// TestBlindSpots: one for each SLO with a long blind spot, about its worst group.
func TestBlindSpots(t *testing.T) {
	sp := spectest.Spec(t, "spec.yaml", text)
	var c Client
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	c.AddOptional(flags, "running", "")
	require.NoError(t, flags.Parse([]string{"--running", engine(t)}))
	groups, err := TrafficGroups(t.Context(), &c, sp.SLOs)
	require.NoError(t, err)
	require.Equal(t, []BlindSpot{{
		"shop/checkout",
		"blind spot in group a, every day 02:00 to 05:00 (UTC): an outage under 45m is invisible, and so is an error rate " +
			"under 76% for an hour (4 events an hour); 1 more group like this one",
		"send synthetic events, or count groups together; sloengine blindspots prints all hours",
	}}, BlindSpots(groups, time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)))
}

func TestExplain(t *testing.T) {
	sp := spectest.Spec(t, "spec.yaml", text)
	require.Equal(t,
		"  blind      a full outage is invisible to pages under 36m at 5 events an hour, 6m at 30 events an hour, 1m at "+
			"1000 events an hour\n", ExplainBlindSpots(sp.SLOs[0], 0))
	require.Equal(t,
		"  blind      an outage under 5m is invisible, and so is an error rate under 8.4% for an hour (36 events an hour)\n",
		ExplainBlindSpots(sp.SLOs[0], 0.01))
	require.Empty(t, ExplainBlindSpots(sp.SLOs[3], 1), "slices of time")
}
