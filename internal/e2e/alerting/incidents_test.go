package alerting

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/cmd/sloengine/cli"
	"github.com/sloengine/sloengine/internal/e2e/e2etest"
	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/web/incidents"
)

const incidentSpec = `version: sloengine/v1
service: shop
labels: {team: checkout}
slos:
  - name: orders
    objective: 99.99 # a new engine pages for a full outage after five seconds
    window: 30d
    indicator:
      events: {valid: '{type="order"}', bad: '{outcome="failure"}'}
    alerting: {tiers: [{severity: page, long: 1h, short: 1m, budget: 2}], no_data: {disabled: true}}
baselines:
  - {name: performance, slos: [orders], detection: {from: 60m, to: 90m, target: 5m}}
`

// sendOutage backfills an hour of good orders, and then sends failures for a time until now. Alerts count what is
// received live.
func sendOutage(t *testing.T, p *e2etest.Process, outage time.Duration) (onset time.Time) {
	t.Helper()
	now := time.Now()
	onset = now.Add(-outage)
	var good, bad strings.Builder
	for at, i := now.Add(-time.Hour), 0; at.Before(now); at, i = at.Add(2*time.Second), i+1 {
		body, outcome := &good, "success"
		if at.After(onset) {
			body, outcome = &bad, "failure"
		}
		fmt.Fprintf(body, `{"id":"o%d","service":"shop","type":"order","outcome":"%s","time":%d}`+"\n", i,
			outcome, at.UnixMilli())
	}
	for path, body := range map[string]string{"/api/v1/events?backfill=true": good.String(),
		"/api/v1/events": bad.String()} {
		status, answer := e2etest.Post(t, p.Base+path, "", body)
		require.Equal(t, http.StatusAccepted, status, answer)
	}
	return onset
}

// TestIncidentsOutliveKills kills the engine around the moment in which a page fires. However the kill falls, there is
// one incident after the restart, the same that was there before if there was one, with its onset and what people did
// to it.
func TestIncidentsOutliveKills(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(11, 2))
	before := 0
	for cycle, checkpoints := range []string{"1h", "1h", "60ms", "1h", "60ms", "1h"} {
		dir := t.TempDir()
		spec := e2etest.WriteFile(t, dir, "spec.yaml", incidentSpec)
		settings := fmt.Sprintf(
			"checkpoint: {interval: %s, log: 64KiB}\nevaluator: {interval: 200ms}\ndisk: {low_water: 1MiB}\n", checkpoints)
		p := e2etest.Serve(t, dir, spec, settings)
		onset := sendOutage(t, p, 5*time.Minute)
		var known []incidents.Item
		if cycle%2 == 0 { // the incident is there for sure, and somebody acknowledged it
			require.Eventually(t, func() bool {
				return len(e2etest.ListIncidents(t, p).Items) == 1
			}, testkit.Patience, 10*time.Millisecond, p.Log)
			var x incidents.Item
			e2etest.Call(t, http.MethodPost, p.Base+"/api/v1/incidents/"+e2etest.ListIncidents(t, p).Items[0].ID+"/ack",
				`{"by":"Ann","team":"ops"}`, &x)
			known = e2etest.ListIncidents(t, p).Items
			before++
		} else { // around the tick in which the page fires
			testkit.Pause(time.Duration(rnd.IntN(300)) * time.Millisecond)
		}
		p.Kill()

		p = e2etest.Serve(t, dir, spec, settings)
		require.Eventually(t, func() bool {
			return len(e2etest.ListIncidents(t, p).Items) == 1
		}, testkit.Patience, 10*time.Millisecond, p.Log)
		ticks := e2etest.Scrape(t, p)["sloengine_evaluate_ticks_total"].GetMetric()[0].GetCounter().GetValue()
		require.Eventually(t, func() bool {
			return e2etest.Scrape(t, p)["sloengine_evaluate_ticks_total"].GetMetric()[0].GetCounter().GetValue() > ticks+3
		}, testkit.Patience, 50*time.Millisecond, p.Log)
		items := e2etest.ListIncidents(t, p).Items
		require.Len(t, items, 1, p.Log)
		x := items[0]
		require.WithinDuration(t, onset, x.Onset, 12*time.Second, "the counts have steps of 10 seconds")
		require.Equal(t, "counts", x.OnsetBy)
		require.True(t, x.Automated)
		require.Equal(t, "checkout", x.Team)
		require.Equal(t, "shop/orders", x.Affected[0].SLO)
		if known != nil {
			require.Equal(t, known[0].ID, x.ID)
			require.Equal(t, known[0].Ack, x.Ack)
			require.Equal(t, known[0].Detected, x.Detected)
			require.Equal(t, known[0].Onset, x.Onset)
		}
		p.Kill()
	}
	require.Equal(t, 3, before)
}

func TestIncidentCommands(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := e2etest.Serve(t, dir, e2etest.WriteFile(t, dir, "spec.yaml", incidentSpec),
		"evaluator: {interval: 200ms}\ndisk: {low_water: 1MiB}\n")
	do := func(want int, args ...string) string {
		t.Helper()
		out, errs, code := e2etest.Command(t, append([]string{"incident", "--url", p.Base}, args...)...)
		require.Equal(t, want, code, "%v: %s%s", args, out, errs)
		return out + errs
	}
	sendOutage(t, p, 4*time.Minute)
	require.Eventually(t, func() bool {
		return len(e2etest.ListIncidents(t, p).Items) == 1
	}, testkit.Patience, 20*time.Millisecond, p.Log)
	id := e2etest.ListIncidents(t, p).Items[0].ID
	require.Contains(t, do(cli.ExitOK, "list"), id+"  critical  open   shop")
	require.Contains(t, do(cli.ExitOK, "ack", id, "--by", "Ann", "--team", "ops"), "acknowledged")
	require.Contains(t, do(cli.ExitFailure, "ack", id, "--by", "Bob"), "was acknowledged by Ann")
	do(cli.ExitOK, "note", id, "db-7 was **restarted**", "--by", "Bob")
	do(cli.ExitOK, "update", id, "We are on it", "--by", "Bob", "--public", "--status", "identified")
	do(cli.ExitOK, "edit", id, "--by", "Bob", "--severity", "warning", "--owner", "Cleo")
	do(cli.ExitFailure, "edit", id, "--by", "Bob")
	do(cli.ExitOK, "edit", id, "--by", "Bob", "--severity", "critical")
	do(cli.ExitOK, "publish", id, "--title", "Orders are slow")
	do(cli.ExitOK, "post-mortem", id, "https://wiki.example.org/1")
	do(cli.ExitOK, "resolve", id, "--by", "Bob")
	shown := do(cli.ExitOK, "show", id)
	for _, want := range []string{"onset, by counts", "acknowledged by Ann ops after",
		"note by Bob: db-7 was **restarted**", "update by Bob, identified: We are on it",
		"edited by Bob: severity warning owner Cleo", "resolved by Bob", "https://wiki.example.org/1"} {
		require.Contains(t, shown, want)
	}
	require.Regexp(t, `first alert after (3m5\ds|4m|4m[1-5]?\ds)`, shown,
		"the onset is a multiple of ten seconds")
	other := do(cli.ExitOK, "open", "Slow", "--by", "Ann", "--service", "shop", "--severity", "warning", "--onset", "20m")
	require.Contains(t, other, "INC-")
	require.Contains(t, do(cli.ExitOK, "list", "--severity", "warning"), "20m")

	measured := do(cli.ExitOK, "measure")
	require.Regexp(
		t, `performance +detection +1h to 1h30m +5m +1 +(3m5\ds|4m).* 1 +met \(-9[234] %, goal -50 %\)`, measured)
	require.Contains(t, measured, "2 incidents")

	require.Equal(t, 3, strings.Count(do(cli.ExitOK, "export", "-o", "csv"), "\r\n"))
	lines := strings.Split(strings.TrimSpace(do(cli.ExitOK, "export")), "\n")
	require.Len(t, lines, 2)
	var whole incidents.Item
	require.NoError(t, json.Unmarshal([]byte(lines[1]), &whole))
	require.Len(t, whole.Notes, 1)
	require.NotEmpty(t, whole.Alerts)

	require.Contains(t, do(cli.ExitOK, "erase", "--person", "Bob"), "removed from all incidents")
	require.NotContains(t, do(cli.ExitOK, "show", id), "Bob")
	require.Contains(t, do(cli.ExitOK, "erase", id), "removed from "+id)
	require.NotContains(t, do(cli.ExitOK, "show", id), "Ann")
	do(cli.ExitUsage, "erase")
	do(cli.ExitUsage, "ack")
	do(cli.ExitUsage, "list", "--from", "yesterday")
	require.Contains(t, do(cli.ExitFailure, "show", "INC-2026-01-0001"), "no incident with this id")
}

const causeSpec = `version: sloengine/v1
service: shop
slos:
  - name: calls
    objective: 99.99
    group_by: [integration]
    indicator:
      events: {valid: '{type="call"}', bad: '{outcome="failure"}'}
    alerting: {tiers: [{severity: page, long: 1h, short: 1m, budget: 2}], no_data: {disabled: true}}
  - name: orders
    objective: 99.99
    group_by: [product]
    indicator:
      events: {valid: '{type="order"}', bad: '{outcome="failure"}'}
    caused_by: [{slo: calls, group: {integration: mdm}, affects: {product: [MED, SOM]}}]
    alerting: {tiers: [{severity: page, long: 1h, short: 1m, budget: 2}], no_data: {disabled: true}}
`

// TestFirstScreenOfAnIncident lets mdm fail and take two products down. As soon as the pages fire, the first page names
// mdm, since when and whom it hits, with links to the SLO, the incident and the runbook. The command line says the
// same.
func TestFirstScreenOfAnIncident(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	settings := "evaluator: {interval: 200ms}\ndisk: {low_water: 1MiB}\n"
	p := e2etest.Serve(t, dir, e2etest.WriteFile(t, dir, "spec.yaml", causeSpec), settings)
	now := time.Now()
	onset := now.Add(-4 * time.Minute)
	var good, bad strings.Builder
	for at, i := now.Add(-time.Hour), 0; at.Before(now); at, i = at.Add(2*time.Second), i+1 {
		for _, x := range []struct{ typ, attribute, value string }{{"call", "integration", "mdm"},
			{"call", "integration", "sign"}, {"order", "product", "MED"}, {"order", "product", "SOM"},
			{"order", "product", "TRVL"}} {
			body, outcome := &good, "success"
			if at.After(onset) {
				if body = &bad; x.value != "sign" && x.value != "TRVL" {
					outcome = "failure"
				}
			}
			fmt.Fprintf(body, `{"id":"%s%d","service":"shop","type":%q,"outcome":%q,"time":%d,"attributes":{%q:%q}}`+"\n",
				x.value, i, x.typ, outcome, at.UnixMilli(), x.attribute, x.value)
		}
	}
	for _, x := range [][2]string{{"?backfill=true", good.String()}, {"", bad.String()}} {
		status, answer := e2etest.Post(t, p.Base+"/api/v1/events"+x[0], "", x[1])
		require.Equal(t, http.StatusAccepted, status, answer)
	}

	var alerts struct {
		Total int `json:"total"`
	}
	require.Eventually(t, func() bool {
		require.NoError(t, json.Unmarshal(e2etest.Get(t, p.Base+"/api/v1/alerts?state=firing&severity=page"), &alerts))
		return alerts.Total == 3
	}, testkit.Patience, 20*time.Millisecond, p.Log)
	said := regexp.MustCompile(`<h1>(.*?)</h1>`)
	tag := regexp.MustCompile(`<[^>]*>`)
	since := onset.UTC().Truncate(10 * time.Second)
	want := fmt.Sprintf(`^mdm failing since (%s|%s) UTC \(100%% of events in 1m\): 2 products affected\. Not `+
		`acknowledged\.$`,
		since.Format("15:04"), since.Add(10*time.Second).Format("15:04"))
	var page string
	require.Eventually(t, func() bool { // the incident is written with the tick
		page = string(e2etest.Get(t, p.Base+"/"))
		m := said.FindStringSubmatch(page)
		return m != nil && regexp.MustCompile(want).MatchString(tag.ReplaceAllString(m[1], ""))
	}, testkit.Patience, 20*time.Millisecond, "%s", want)
	id := e2etest.ListIncidents(t, p).Items[0].ID
	for _, link := range []string{`href="/slo?group.integration=mdm&amp;id=shop%2Fcalls"`,
		`href="/incident?id=` + id + `"`,
		`docs/runbooks/ErrorBudgetBurnPage.md"`} {
		require.Contains(t, page, link)
	}

	var x incidents.Item
	e2etest.Call(t, http.MethodPost, p.Base+"/api/v1/incidents/"+id+"/ack", `{"by":"Ann"}`, &x)
	page = said.FindString(string(e2etest.Get(t, p.Base+"/")))
	require.Contains(t, tag.ReplaceAllString(page, ""), "Acknowledged "+x.Ack.Time.UTC().Format("15:04 UTC."))
	out, errs, code := e2etest.Command(t, "status", "--url", p.Base)
	require.Equal(t, cli.ExitOK, code, errs)
	require.Regexp(t, `^mdm failing since .*: 2 products affected\. Acknowledged `, out)
	p.Stop(t)
}
