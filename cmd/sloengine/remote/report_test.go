package remote

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/cmd/sloengine/cli"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/sla/forecast"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/fold"
	"github.com/sloengine/sloengine/web/site"
)

// reportServer is a real API over an engine that counted 10 events a day, one of them
// bad, in two groups.
func reportServer(t *testing.T) string {
	t.Helper()
	gin.SetMode(gin.TestMode)
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	target, err := slo.ParsePercent("95")
	require.NoError(t, err)
	s := &slo.SLO{ID: "shop/availability", Objective: target, Window: slo.Window{Rolling: 30 * 24 * time.Hour},
		GroupBy: []string{"product"}, Indicator: slo.Indicator{Kind: slo.KindEvents},
		Budgeting: slo.Budgeting{Method: slo.Occurrences}}
	price, err := slo.ParseAmount("2.50")
	require.NoError(t, err)
	before, err := slo.ParseAmount("10")
	require.NoError(t, err)
	s.Cost = &slo.Cost{Unit: slo.PerBad, Price: price, Currency: "EUR",
		Baseline:   slo.Payment{Amount: before, Per: 24 * time.Hour},
		Investment: slo.Payment{Amount: before, Per: 7 * 24 * time.Hour}}
	a := &sla.Agreement{Service: "shop", Name: "gold", GroupBy: []string{"product"}, Window: s.Window,
		Method: sla.Attainment, NoData: sla.NoDataExclude,
		Components: []sla.Component{{Name: "availability", SLO: s.ID, Weight: 1}}}
	rep := &sla.Report{Version: 1, Time: now}
	for _, g := range []slo.Group{{"a"}, {"\x1b[2J=b"}} {
		rep.SLOs = append(rep.SLOs, sla.SLOReport{SLO: s, Group: g})
		r := sla.NewScorer(a).Score(slo.Span{From: now.Add(-time.Hour), To: now},
			[]sla.ComponentInput{{Objective: target, Kind: slo.KindEvents, Method: slo.Occurrences}},
			make([]sla.ComponentReport, 1))
		r.SetGroup(g)
		rep.SLAs = append(rep.SLAs, r)
	}
	rep.SLOs[0].Outlook = &sla.Outlook{Forecast: forecast.Forecast{
		Time: now, Points: []forecast.Point{{Ahead: 7 * 24 * time.Hour, Low: -0.25, Median: 0.3, High: 0.5, Exhausted: 0.2}},
		Pace: forecast.Pace{Low: 6 * time.Hour, High: 9 * time.Hour},
	}}
	rep.SLOs[1].Outlook = &sla.Outlook{Forecast: forecast.Forecast{Time: now, TooLittle: "no bad event in five weeks"}}
	rep.Thresholds = []sla.ThresholdReport{
		{Threshold: &slo.Threshold{Service: "shop", Name: "slow", Warning: time.Minute}}}
	counts := func(_ context.Context, qs []fold.ReadRequest) ([]fold.ReadResult, error) {
		var out []fold.ReadResult
		for _, q := range qs {
			answer := fold.ReadResult{Known: true, Oldest: now.Add(-90 * 24 * time.Hour),
				Observed: []slo.Span{{From: now.Add(-90 * 24 * time.Hour), To: now}}}
			for range q.Groups {
				var rows [][]uint64
				for _, sp := range q.Spans {
					n := uint64((sp.Duration() + 12*time.Hour) / (24 * time.Hour))
					rows = append(rows, []uint64{9 * n, n})
				}
				answer.Groups = append(answer.Groups, rows)
			}
			out = append(out, answer)
		}
		return out, nil
	}
	return serveNumbers(t, site.Numbers{Report: func() *sla.Report { return rep }, Counts: counts}, now)
}

// runReport runs the command alone, as the root would.
func runReport(args ...string) (stdout string, err error) {
	var out bytes.Buffer
	c := newReport(cli.Streams{Out: &out, Err: &out})
	c.SilenceErrors, c.SilenceUsage = true, true
	c.SetArgs(args)
	err = c.ExecuteContext(context.Background())
	return out.String(), err
}

func TestReportCommand(t *testing.T) {
	base := reportServer(t)
	out, err := runReport("--url", base, "--period", "2026-W46")
	require.NoError(t, err)
	require.Contains(t, out, "SLO report: Week 46 of 2026\n")
	require.Regexp(t,
		`breached +shop/availability +product=a +95% +90\.00% +90\.00% +200\.0% +200\.0% +63 +7 +70 +Mon 9 Nov \(14%\) `+
			`+100\.0%`, out)
	require.Regexp(t, `breached +shop/gold +product=a +50 +50 +0 +availability cost 50 +100\.0%`, out)
	require.Regexp(t, `shop/slow +63 +7 +0 +7 and 0 +100\.0%`, out)
	require.Regexp(t, `Objectives met +0 of 2 +0 of 2`, out)
	// By hand: a bad event on each of seven days in two groups at 2.50, against 10 a day, with 10 a week invested.
	require.Regexp(t,
		`COST OF VIOLATIONS +PRICE +COUNTED +COST +BEFORE +SAVING\nshop/availability +2\.50 EUR per bad event +14 +35\.00 `+
			`EUR +70\.00 EUR +35\.00 EUR\n`, out)
	require.Regexp(t, `Cost of violations in EUR +35\.00 EUR`, out)
	require.Regexp(t, `Saving against the baseline in EUR +35\.00 EUR`, out)
	require.Regexp(t, `Return on the investment in EUR +250%`, out)
	require.NotContains(t, out, "an estimate")
	require.NotContains(t, out, "\x1b", "a hostile group cannot move the cursor")
	require.NotContains(t, out, "FORECAST", "the week has been over for days")

	out, err = runReport("--url", base, "--period", "this-week")
	require.NoError(t, err)
	require.Regexp(t,
		`FORECAST .*\nshop/availability +product=a +\S+ +in 7d +−25% to 50% +20% +exhausted in 6h to 9h at this pace .*\n`+
			`shop/availability +product=\S+ +\S+ +– +– +– +no forecast: no bad event in five weeks `, out)

	out, err = runReport("--url", base, "--period", "2026-W46", "-o", "csv", "--service", "shop")
	require.NoError(t, err)
	lines, err := csv.NewReader(bytes.NewReader([]byte(out))).ReadAll()
	require.NoError(t, err)
	require.Len(
		t, lines, 1+2+2+2+1+1, "two agreements with their components, two SLOs, an event threshold and a sum of costs")

	out, err = runReport("--url", base, "--period", "2026-11", "-o", "json", "--days", "--zone", "Asia/Tokyo")
	require.NoError(t, err)
	var got struct {
		Running bool
		SLOs    []struct {
			Zone string
			Days []any
		}
	}
	require.NoError(t, json.Unmarshal([]byte(out), &got))
	require.True(t, got.Running)
	require.Equal(t, "Asia/Tokyo", got.SLOs[0].Zone)
	require.Len(t, got.SLOs[0].Days, 20)

	out, err = runReport("--url", base, "--period", "2026-W46", "-o", "csv", "--days", "--agreement", "shop/gold")
	require.NoError(t, err)
	lines, err = csv.NewReader(bytes.NewReader([]byte(out))).ReadAll()
	require.NoError(t, err)
	require.Len(t, lines, 1+7*2+7*2)
	for i, l := range lines {
		want := [2]string{"2.50", "EUR"} // one bad event a day
		switch {
		case i == 0:
			want = [2]string{"cost", "currency"}
		case l[2] == "agreement":
			want = [2]string{}
		}
		require.Equal(t, want[:], l[len(l)-3:len(l)-1], "line %d", i)
	}

	out, err = runReport("--url", base)
	require.NoError(t, err)
	require.Contains(t, out, "October 2026\n", "the default is last month")
	out, err = runReport("--url", base, "--period", "last-week")
	require.NoError(t, err)
	require.Contains(t, out, "Week 46 of 2026\n")
	file := filepath.Join(t.TempDir(), "report.json")
	out, err = runReport("--url", base, "-o", "json", "--out", file)
	require.NoError(t, err)
	require.Empty(t, out)
	written, err := os.ReadFile(file)
	require.NoError(t, err)
	require.True(t, json.Valid(written))

	out, err = runReport("--url", base, "--period", "2030-01")
	require.NoError(t, err)
	require.Contains(t, out, "January 2030\n")
	require.Contains(t, out, "The period has not begun.\n")
	out, err = runReport("--url", base, "--period", "2026-W46", "--service", "none")
	require.NoError(t, err)
	require.Contains(t, out, "nothing to report on")
	out, err = runReport("--url", base, "--period", "2026-W47")
	require.NoError(t, err)
	require.Contains(t, out, "The period is not over.")
}

func TestReportCommandRefuses(t *testing.T) {
	base := reportServer(t)
	for name, args := range map[string][]string{
		"bad address":     {"--url", "nope", "--period", "2026-11"},
		"bad output":      {"--url", base, "--period", "2026-11", "-o", "yaml"},
		"days in a table": {"--url", base, "--period", "2026-11", "--days"},
		"arguments":       {"--url", base, "--period", "2026-11", "now"},
	} {
		_, err := runReport(args...)
		var usage cli.UsageError
		require.ErrorAs(t, err, &usage, name)
	}
	file := filepath.Join(t.TempDir(), "old")
	require.NoError(t, os.WriteFile(file, []byte("old"), 0o600))
	_, err := runReport("--url", base, "--agreement", "gold", "--out", file)
	require.ErrorContains(t, err, "such as shop/gold")
	kept, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, "old", string(kept), "a report that fails leaves the file as it was")
	_, err = runReport("--url", base, "--period", "2026-W60")
	require.ErrorContains(t, err, "2026 has no such week")
	_, err = runReport("--url", base, "--period", "2026-11", "--zone", "Nowhere")
	require.ErrorContains(t, err, "IANA")
	_, err = runReport("--url", "http://127.0.0.1:1", "--period", "2026-11")
	require.ErrorContains(t, err, "engine not reachable")
	_, err = runReport("--url", base, "--period", "2026-11", "--token-file", filepath.Join(t.TempDir(), "none"))
	require.ErrorIs(t, err, os.ErrNotExist)
}
