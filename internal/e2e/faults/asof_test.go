package faults

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/cmd/sloengine/app/reports"
	"github.com/sloengine/sloengine/ingest/engine"
	"github.com/sloengine/sloengine/internal/e2e/e2etest"
	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/web/api/v1"
)

// TestReportsAreVerified: a report that was sent follows from the log again, also in a copy and behind kills. Late
// events, another definition and other maintenance add up, and what was changed in the file or in the history is found.
func TestReportsAreVerified(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	week := time.Now().UTC().AddDate(0, 0, -7).Truncate(24 * time.Hour)
	week = week.AddDate(0, 0, -(int(week.Weekday())+6)%7) // its Monday
	const specText = `version: sloengine/v1
service: shop
slos:
  - name: up
    objective: %s
    window: 30d
    group_by: [site]
    indicator: {events: {valid: '{type="sold"}', bad: '{%s}'}}
slas:
  - {name: gold, window: 30d, components: {up: {slo: up, weight: 1}}}
`
	spec := e2etest.WriteFile(t, dir, "spec.yaml", fmt.Sprintf(specText, "99", `outcome="failure"`))
	settings := "checkpoint: {interval: 60ms, log: 64KiB}\nevaluator: {interval: 1s}\nlog: {segment: 1MiB, " +
		"retain: 3d}\ndisk: {low_water: 1MiB}\nrebuild: off\n" +
		"reports: [{name: weekly, every: week, formats: [json], to: {folder: sent}}]\n"
	p := e2etest.Serve(t, dir, spec, settings)
	sent := 0
	rnd := rand.New(rand.NewPCG(1, 2))
	send := func(good, bad int, pad string) {
		var body strings.Builder
		for i := range good + bad {
			sent++
			fmt.Fprintf(&body, `{"service":"shop","type":"sold","id":"%d","time":%q,"outcome":%q,"attributes":{"site":"s%d",`+
				`"kind":"k%d","pad":"%s"}}`+"\n", sent,
				week.Add(time.Duration(rnd.IntN(160*3600))*time.Second).Format(time.RFC3339),
				map[bool]string{true: "failure", false: "success"}[i < bad], i%2, i%4, pad)
		}
		status, answer := e2etest.Post(t, p.Base+"/api/v1/events?backfill=true", "", body.String())
		require.Equal(t, http.StatusAccepted, status, answer)
	}
	for range 5 {
		var pad strings.Builder
		for range 64 {
			fmt.Fprintf(&pad, "%016x", rnd.Uint64())
		}
		send(900, 100, pad.String())
	}
	command := func(want int, args ...string) string {
		out, errs, code := e2etest.Command(t, args...)
		require.Equal(t, want, code, "%s\n%s", out, errs)
		return out
	}
	// What the ledger charges: a deployment, which is in no record, and an incident.
	deployed := week.Add(30 * time.Hour)
	var done struct{ ID string }
	e2etest.Call(t, http.MethodPost, p.Base+"/api/v1/annotations", fmt.Sprintf(
		`{"kind":"deployment","service":"shop","text":"v7","at":%q}`, deployed.Format(time.RFC3339)), &done)
	e2etest.Call(t, http.MethodPost, p.Base+"/api/v1/incidents", fmt.Sprintf(
		`{"title":"bank down","service":"shop","by":"ann","onset":%q}`, week.Add(50*time.Hour).Format(time.RFC3339)), &done)
	e2etest.Reports(t, p, 2)
	command(0, "report", "send", "weekly", "--url", p.Base)
	stored, err := filepath.Glob(filepath.Join(data, reports.Dir, "*.json"))
	require.NoError(t, err)
	require.Len(t, stored, 1)
	number := func(of time.Time) string {
		year, week := of.ISOWeek()
		return fmt.Sprintf("%d-W%02d", year, week)
	}
	period := number(week)
	file := filepath.Join(dir, "sent", "weekly-"+period+".json")
	if _, err := os.Stat(file); err != nil { // relative to the working directory of the engine
		file = stored[0]
	}
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	var report v1.PeriodReport
	require.NoError(t, json.Unmarshal(text, &report))
	require.NotNil(t, report.Log)
	require.Len(t, report.Log.Digest, 64)

	verify := func(want int, file, data string) (v reports.Verified) {
		require.NoError(t, json.Unmarshal([]byte(command(want, "report", "verify", file, "--data-dir", data, "-o", "json")),
			&v))
		return v
	}
	asOf := func(data string) string {
		return command(0, "report", "--data-dir", data, "--period", period, "-o", "json", "--as-of",
			fmt.Sprint(report.Log.Position))
	}
	v := verify(0, file, data)
	require.True(t, v.Equal)
	require.Equal(t, "equal", v.Log)
	require.Empty(t, v.Changes)
	require.Contains(t, string(text), `"account":"deployment","name":"v7"`)
	require.Contains(t, string(text), `"account":"incident"`)
	running := command(0, "report", "--data-dir", data, "--period", number(time.Now()), "-o", "json")
	tampered := filepath.Join(dir, "tampered.json")
	require.NoError(t, os.WriteFile(tampered, []byte(running), 0o600))
	require.True(t, verify(0, tampered, data).Equal, "deployments are not in the log")
	for _, x := range []struct{ text, was, place string }{
		{running, `"title":"bank down"`, "].title"},
		{running, `"critical":1`, "incidents.critical"},
		{string(text), `"account":"deployment","name":"v7"`, ".ledger.lines["},
		{string(text), `"text":"bank down"`, ".ledger.lines["},
		{string(text), `"deployment_seconds":3600`, ".ledger.lines"},
	} {
		other := strings.NewReplacer("bank", "lake", "v7", "v8", ":1", ":2", "3600", "7200").Replace(x.was)
		require.Contains(t, x.text, x.was)
		require.NoError(t, os.WriteFile(tampered, []byte(strings.ReplaceAll(x.text, x.was, other)), 0o600))
		found := verify(3, tampered, data)
		require.NotEmpty(t, found.Differences)
		require.Contains(t, found.Differences[0].Place, x.place, x.was)
	}
	before := asOf(data)
	require.Contains(t, command(0, "report", "verify", file, "--data-dir", data), "Numbers: equal")

	// Late events, another definition, and maintenance.
	send(40, 6, "")
	p.Kill()
	e2etest.RequireKilled(t, p)
	e2etest.WriteFile(t, dir, "spec.yaml", fmt.Sprintf(specText, "99.5", `kind="k0"`)+
		fmt.Sprintf("corrections: [{name: move, start: %s, duration: 24h, slos: [up], author: ops, reason: move}]\n",
			week.Format(time.RFC3339)))
	p = e2etest.Serve(t, dir, spec, settings)
	send(10, 2, "")
	for range 3 {
		p.Kill()
		e2etest.RequireKilled(t, p)
		p = e2etest.Serve(t, dir, spec, settings)
		require.Equal(t, before, asOf(data))
	}
	v = verify(0, file, data)
	require.True(t, v.Equal, "%+v", v)
	require.NotEmpty(t, v.Specs)
	require.Len(t, v.Changes, 2, "each site")
	var events, byMaintenance reports.Signed
	for _, c := range v.Changes {
		add := func(of func(reports.Signed) int64) {
			require.Equal(t, of(c.Now), of(c.Sent)+of(c.Events)+of(c.Spec)+of(c.Corrections))
		}
		add(func(x reports.Signed) int64 { return x.Good })
		add(func(x reports.Signed) int64 { return x.Bad })
		require.NotZero(t, c.Spec)
		events.Good, events.Bad = events.Good+c.Events.Good, events.Bad+c.Events.Bad
		byMaintenance.Good += c.Corrections.Good
	}
	require.Equal(t, reports.Signed{Good: 50, Bad: 8}, events)
	require.Negative(t, byMaintenance.Good)

	copied := filepath.Join(t.TempDir(), "data")
	require.NoError(t, os.CopyFS(copied, os.DirFS(data)))
	require.Equal(t, before, asOf(copied))
	p.Stop(t)
	require.Equal(t, before, asOf(data))

	// Another number in the file.
	changed := filepath.Join(dir, "changed.json")
	bad := strings.Replace(string(text), `"bad":`, `"bad":1`, 1)
	require.NoError(t, os.WriteFile(changed, []byte(bad), 0o600))
	v = verify(3, changed, copied)
	require.Len(t, v.Differences, 1)
	require.Contains(t, v.Differences[0].Place, "slos[0].")

	// Another byte in the history.
	history, err := filepath.Glob(filepath.Join(copied, engine.HistoryDir, "*.hist"))
	require.NoError(t, err)
	require.Greater(t, len(history), 2)
	slices.Sort(history)
	bytes, err := os.ReadFile(history[1])
	require.NoError(t, err)
	bytes[len(bytes)/2]++
	require.NoError(t, os.WriteFile(history[1], bytes, 0o600))
	v = verify(3, file, copied)
	require.Len(t, v.Damaged, 1)
	require.NotEmpty(t, v.Differences)

	// The oldest records are gone: the stored report answers.
	require.NoError(t, os.RemoveAll(copied))
	require.NoError(t, os.CopyFS(copied, os.DirFS(data)))
	require.NoError(t, os.Remove(history[0]))
	v = verify(0, file, copied)
	require.NotEmpty(t, v.Unknown)
	require.Equal(t, "equal", v.Log, v.Why)
	out, errs, code := e2etest.Command(t, "report", "--data-dir", copied, "--period", period, "-o", "json", "--as-of",
		fmt.Sprint(report.Log.Position))
	require.Zero(t, code, errs)
	require.Contains(t, errs, "cannot be computed: record")
	require.JSONEq(t, string(text), out)
	_, errs, code = e2etest.Command(t, "report", "--data-dir", copied, "--period", period, "-o", "csv")
	require.Equal(t, 1, code)
	require.Contains(t, errs, "no report of that position is stored")
}

// TestReportsOfRebuiltCounts: rebuilt counts are made again from the log, and their takeover is named.
func TestReportsOfRebuiltCounts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const specText = `version: sloengine/v1
service: shop
slos:
  - {name: up, objective: 99, window: 30d, indicator: {events: {valid: '{type="sold"}', bad: '{%s}'}}}
  - {name: other, objective: 99, window: 30d, indicator: {events: {valid: '{type="sold"}', bad: '{outcome="failure"}'}}}
`
	spec := e2etest.WriteFile(t, dir, "spec.yaml", fmt.Sprintf(specText, `outcome="failure"`))
	p := e2etest.Serve(t, dir, spec, "log: {retain: 3d}\ndisk: {low_water: 1MiB}\nevaluator: {interval: 200ms}\n"+
		"reports: [{name: weekly, every: week, formats: [json], to: {folder: sent}}]\n")
	at := time.Now().UTC().AddDate(0, 0, -7).Format(time.RFC3339)
	status, answer := e2etest.Post(t, p.Base+"/api/v1/events?backfill=true", "", fmt.Sprintf(
		`{"service":"shop","type":"sold","id":"1","time":%q,"attributes":{"kind":"a"}}`, at))
	require.Equal(t, http.StatusAccepted, status, answer)
	e2etest.WriteFile(t, dir, "spec.yaml", fmt.Sprintf(specText, `kind="a"`))
	status, answer = e2etest.Post(t, p.Base+"/-/reload", "", "")
	require.Equal(t, http.StatusOK, status, answer)
	testkit.Eventually(t, "the counts are rebuilt", func() bool {
		return strings.Contains(string(e2etest.Get(t, p.Base+"/api/v1/slos")), `"counts":{"good":0,"bad":1`)
	})
	_, errs, code := e2etest.Command(t, "report", "send", "weekly", "--url", p.Base)
	require.Zero(t, code, errs)
	stored, err := filepath.Glob(filepath.Join(dir, "data", reports.Dir, "*.json"))
	require.NoError(t, err)
	require.Len(t, stored, 1)
	out, errs, code := e2etest.Command(t, "report", "verify", stored[0], "--data-dir", filepath.Join(dir, "data"))
	require.Zero(t, code, "%s%s", out, errs)
	require.Contains(t, out, "Rebuilt: counts of shop/up from record 1 on took over at record ")
	require.NotContains(t, out, "shop/other")
	require.Contains(t, out, "Numbers: equal")
	require.NotContains(t, out, "Cannot be computed: counts")
	text, err := os.ReadFile(stored[0])
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(stored[0], []byte(strings.Replace(string(text), `"bad":1`, `"bad":2`, 1)), 0o600))
	out, errs, code = e2etest.Command(t, "report", "verify", stored[0], "--data-dir", filepath.Join(dir, "data"))
	require.Equal(t, 3, code, "%s%s", out, errs)
	require.Contains(t, out, "Differs: slos[")
	p.Stop(t)
}
