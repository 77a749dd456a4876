package web

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sloengine/sloengine/alerts/state"
	"github.com/sloengine/sloengine/sla/history"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/web/chart"
	"github.com/sloengine/sloengine/web/format"
	"github.com/sloengine/sloengine/web/site"
	"github.com/stretchr/testify/require"
)

func TestTimeline(t *testing.T) {
	r := site.FindSLO(insurance(t), "insurance-unpaid/availability", slo.Group{"TRVL10"})
	var list []*state.Alert
	all := someAlerts()
	for i := range all {
		if all[i].SLO == r.SLO.ID {
			list = append(list, &all[i])
		}
	}
	slices.Reverse(list) // the worst first
	got := chart.NewAlertTimeline(r, list, between(-24*time.Hour, 0), noon, 12*time.Hour)
	require.Len(t, got.Lanes, 2, "another group's alert is not shown")
	page := got.Lanes[0]
	require.Equal(t, "1h and 5m", page.Windows)
	require.Equal(t, "firing", page.Now)
	require.Equal(t, []string{"pending", "urgent"}, []string{page.Spans[0].Class, page.Spans[1].Class})
	require.Contains(t, page.Label, "firing from 2026-11-20 11:47:07 UTC, 13m")
	over := got.Lanes[1]
	require.Empty(t, over.Now)
	require.Equal(t, chart.Coord(15.0/24*1000), over.Spans[0].X)
	require.Contains(t, got.Note, "retained for 12h")
	require.Empty(t, chart.NewAlertTimeline(r, list, between(-48*time.Hour, -24*time.Hour), noon, 0).Lanes)
}

// TestBurnChartEndsAtTheReport: the last value over each window is what the
// report says, whatever the step.
func TestBurnChartEndsAtTheReport(t *testing.T) {
	b := newBench(t)
	r := site.FindSLO(b.rep, "insurance-unpaid/availability", slo.Group{"SOMLT"})
	p := newPast(r)
	head, cell := regexp.MustCompile(`<th scope="col"[^>]*>Over (\w+)</th>`),
		regexp.MustCompile(`<td class="num[^>]*>([^<]*)</td>`)
	for _, name := range []string{"1h", "6h", "1d", "7d", "30d"} {
		page := b.get(b.web.SLOHref(r) + "&range=" + name).Body.String()
		_, table, found := strings.Cut(page, "Burn rate by window at the end of each step")
		require.True(t, found, name)
		table, _, _ = strings.Cut(table, "</tr></tbody>")
		table, _, _ = strings.Cut(table, "</table>")
		heads := head.FindAllStringSubmatch(table, -1)
		cells := cell.FindAllStringSubmatch(table, -1)
		require.NotEmpty(t, heads, name)
		require.Contains(t, table, noon.Format("15:04:05"), "%s: the first row is of the report", name)
		for i, h := range heads {
			long, err := slo.ParseDuration(h[1])
			require.NoError(t, err)
			good, bad := p.sum(slo.Span{From: noon.Add(-long), To: noon})
			want := slo.NewBudget(r.SLO.Objective, slo.Counts{Good: good, Bad: bad})
			require.Equal(t, format.BurnRate(want.Consumed), cells[i][1], "%s over %s", name, h[1])
		}
	}
}

// The calendar starts with the first data: ninety days before there was anything are no days without data.
func TestCalendarStartsWithTheData(t *testing.T) {
	r := &insurance(t).SLOs[0]
	start := time.Date(2026, 8, 23, 0, 0, 0, 0, time.UTC)
	days := func(first int, kept bool) (out []history.Point) {
		for i := range 90 {
			p := history.Point{Span: slo.Span{From: start.AddDate(0, 0, i), To: start.AddDate(0, 0, i+1)},
				Kept: kept || i >= first, Seen: 1}
			if i >= first && i != 80 {
				p.Net.Counts = slo.Counts{Good: 1000}
				p.Raw = p.Net
			}
			out = append(out, p)
		}
		return out
	}
	c := chart.NewCalendar(r, nil, days(60, true), time.UTC)
	require.Equal(t, "30 days", c.Days)
	require.Equal(t, "October 2026", c.Months[0].Name)
	require.Equal(t, "29 days met the objective, 0 days missed it, 1 day had no data.", c.Summary)
	require.Contains(t, chart.NewCalendar(r, nil, days(60, false), time.UTC).Summary,
		"Counts of the earliest 60 days are no longer retained")
	c = chart.NewCalendar(r, nil, days(90, true), time.UTC)
	require.Equal(t, "20 days", c.Days, "without data, the present month")
	require.Equal(t, "November 2026", c.Months[0].Name)
	require.Empty(t, chart.NewCalendar(r, nil, nil, time.UTC).Months)
}
