package explain_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/alerts"
	"github.com/sloengine/sloengine/internal/testkit/spectest"
	"github.com/sloengine/sloengine/rules"
	"github.com/sloengine/sloengine/rules/explain"
	"github.com/sloengine/sloengine/rules/rulestest"
)

const plain = `
version: sloengine/v1
service: web
slos:
  - name: requests
    objective: 99.9
    indicator: {prometheus: {bad: 'http_errors_total', total: 'http_requests_total'}}
`

// generate are the rules of a spec and the alerts of its SLOs.
func generate(t testing.TB, text string, profile rules.Profile) (rules.Spec, []rules.Group) {
	t.Helper()
	sp := spectest.Spec(t, "test.yaml", text)
	in := rules.Spec{SLOs: sp.SLOs, Agreements: sp.Agreements}
	o := rules.Options{Profile: profile, From: start.AddDate(0, -1, 0), Until: start.AddDate(0, 3, 0)}
	recording, err := rules.Recording(in, o)
	require.NoError(t, err)
	alerting := alerts.Rules(in, alerts.Options{Options: o, NoEngine: true})
	return in, rules.Merge(recording, alerting)
}

var start = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

// A hundred series each of requests and of errors, scraped every 15 seconds: what
// is computed from the rules and alerts is what the engine of Prometheus counts.
func TestCostIsWhatPrometheusCounts(t *testing.T) {
	counted := strings.NewReplacer("prometheus: {bad: 'http_errors_total', total: 'http_requests_total'}",
		`events: {valid: '{type="request"}', bad: '{outcome="failure"}'}`).Replace(plain)
	month := strings.Replace(plain, "objective: 99.9", "objective: 99.9\n    window: {calendar: month, timezone: UTC}", 1)
	const corrected = plain +
		"corrections:\n  - {name: x, start: 2026-03-10T02:00:00Z, duration: 30m, author: a, reason: b}\n"
	for _, c := range []struct {
		name, text string
		profile    rules.Profile
		most       float64
	}{
		{"minimal", plain, rules.Minimal, 250},
		{"minimal, events of an engine", counted, rules.Minimal, 250},
		{"minimal, calendar month", month, rules.Minimal, 250},
		{"minimal, corrections", corrected, rules.Minimal, 250},
		{"full", plain, rules.Full, 500},
		{"full, events of an engine", counted, rules.Full, 500},
		{"full, calendar month", month, rules.Full, 500},
		{"full, corrections", corrected, rules.Full, 1500},
	} {
		t.Run(c.name, func(t *testing.T) {
			in, groups := generate(t, c.text, c.profile)
			groups = explain.Own(groups, in.SLOs[0])
			w := rulestest.New(t, start, nil)
			w.Sparse = true
			fill(w, groups)
			var measured float64
			for _, g := range groups {
				for _, r := range g.Rules {
					_, read := w.QueryStats(r.Expr, w.Now().Add(-15*time.Second)) // the last scrape
					measured += float64(read) / g.Interval.Seconds()
				}
			}
			cost, err := explain.Of(groups, explain.Load{})
			require.NoError(t, err)
			t.Logf("computed %.1f, measured %.1f samples per second", cost.SamplesPerSecond, measured)
			require.InEpsilon(t, measured, cost.SamplesPerSecond, 0.03)
			require.LessOrEqual(t, measured, c.most)
		})
	}
}

// fill stores what the rules would have recorded, as far back as they read it.
func fill(w *rulestest.World, groups []rules.Group) {
	const id = `{slo_id="web/requests",service="web",slo="requests"}`
	recorded := func(interval time.Duration) func(time.Time, func(string, float64)) {
		return func(at time.Time, add func(string, float64)) {
			seen := map[string]bool{}
			for _, g := range groups {
				for _, r := range g.Rules {
					if r.Record == "" || seen[r.Record] || g.Interval > interval {
						continue
					}
					seen[r.Record] = true
					if !strings.Contains(r.Record, ":seconds") {
						add(r.Record+id, 1)
						continue
					}
					value := map[string]time.Time{
						"slo:period_start:seconds": start, "slo:period_end:seconds": start.AddDate(0, 1, 0),
						"slo:correction_start:seconds": start.AddDate(0, 0, 9),
						"slo:correction_end:seconds":   start.AddDate(0, 0, 9).Add(time.Hour),
					}[r.Record]
					add(r.Record+`{service="web",calendar="month",timezone="UTC",corrections="web/1",span="x"}`, float64(value.Unix()))
				}
			}
		}
	}
	// Days of what is recorded every five minutes, then hours of the rest.
	w.Run(start.AddDate(0, 0, 30).Add(-6*time.Hour), 5*time.Minute, recorded(5*time.Minute))
	fine := recorded(30 * time.Second)
	w.Run(start.AddDate(0, 0, 30), 15*time.Second, func(at time.Time, add func(string, float64)) {
		if at.Equal(at.Truncate(30 * time.Second)) {
			fine(at, add)
		}
		if at.Equal(at.Truncate(5 * time.Minute)) {
			add("slo:valid_events:increase5m"+id, 1)
			add("slo:bad_events:increase5m"+id, 1)
			add("slo:observed:increase5m"+id, 1)
			for _, g := range groups {
				for _, r := range g.Rules {
					if g.Interval > 30*time.Second && r.Record != "" && !strings.HasSuffix(r.Record, "increase5m") {
						add(r.Record+id, 1)
					}
				}
			}
		}
		if at.After(start.AddDate(0, 0, 30).Add(-10 * time.Minute)) {
			add(`slo_info`+id, 1)
			for i := range 50 {
				for _, result := range []string{"good", "bad"} {
					add(fmt.Sprintf(`slo_events_total{slo_id="web/requests",instance="%d",result="%s"}`, i, result),
						float64(at.Unix()))
				}
			}
			for i := range 100 {
				add(fmt.Sprintf(`http_requests_total{instance="%d"}`, i), float64(at.Unix()))
				add(fmt.Sprintf(`http_errors_total{instance="%d"}`, i), float64(at.Unix()))
			}
		}
	})
}
