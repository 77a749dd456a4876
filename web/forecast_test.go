package web

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/sla/forecast"
	"github.com/sloengine/sloengine/slo"
)

// withForecasts gives one group of the fixture a forecast, another one too little data, and a throughput a capacity.
func withForecasts(b *bench) {
	record := forecast.Record{{Made: 62, Checked: 60, Inside: 57, Below: 2, Missed: 1}}
	b.rep.Outlooks = &sla.Outlooks{Groups: 13, Of: 13, Record: record}
	incident := noon.Add(-11 * 24 * time.Hour)
	f := forecast.Forecast{
		Time: noon,
		Points: []forecast.Point{
			{Ahead: time.Hour, Low: 0.5, Median: 0.6, High: 0.62},
			{Ahead: 24 * time.Hour, Low: -0.4, Median: 0.1, High: 0.6, Exhausted: 0.37},
			{Ahead: 72 * time.Hour, Low: -30, Median: -0.1, High: 0.55, Exhausted: 0.58},
			{Ahead: 168 * time.Hour, Low: -40, Median: -0.3, High: 0.6, Exhausted: 0.66},
			{Ahead: 8 * 24 * time.Hour, WindowEnd: true, Low: -41, Median: -0.35, High: 0.6, Exhausted: 0.7},
		},
		Exhaustion: forecast.Exhaustion{Within: 168 * time.Hour, Probability: 0.66, Low: 5 * time.Hour, Median: 50 * time.Hour, High: forecast.Beyond},
		Pace:       forecast.Pace{Low: 6 * time.Hour, High: 9 * time.Hour},
		Running:    &forecast.Running{Since: noon.Add(-2 * time.Hour), Burn: 18, Empty: 7 * time.Hour},
		Relief: &forecast.Relief{
			Incident: slo.Span{From: incident, To: incident.Add(time.Hour)}, Share: 0.72,
			Leaves: slo.Span{From: incident.Add(30 * 24 * time.Hour), To: incident.Add(30*24*time.Hour + time.Hour)},
		},
	}
	for i := range b.rep.SLOs {
		r := &b.rep.SLOs[i]
		switch {
		case r.SLO.ID == "insurance-unpaid/availability" && r.Group[0] == "TRVL10":
			r.Outlook = &sla.Outlook{Forecast: f, Record: record}
		case r.SLO.ID == "mdm/availability":
			r.Outlook = &sla.Outlook{Forecast: forecast.Forecast{Time: noon, TooLittle: "less than a week was observed"}}
		case r.SLO.ID == "insurance-unpaid/throughput":
			r.SLO.Indicator.Capacity, r.EventsTotal = slo.Capacity{Events: 120, Per: time.Minute}, 4500
			r.Rate = 1.5
			r.Outlook = &sla.Outlook{
				Forecast: forecast.Forecast{Time: noon, TooLittle: "no bad event in five weeks"},
				Capacity: &forecast.Capacity{
					Time: noon, Limit: 2, HasPeak: true, Peak: time.Date(2026, 11, 18, 14, 0, 0, 0, time.UTC), Rate: 1.7,
					Growth: 0.05, Reached: forecast.ReachedWithin, Low: 2 * 7 * 24 * time.Hour, High: 5 * 7 * 24 * time.Hour,
				},
			}
		}
	}
}

func TestForecastsOnPages(t *testing.T) {
	b := newBench(t)
	withForecasts(b)
	flat := func(target string) string {
		rec := b.get(target)
		require.Equal(t, http.StatusOK, rec.Code, target)
		return strings.Join(strings.Fields(rec.Body.String()), " ")
	}
	page := flat("/slo?id=insurance-unpaid/availability&group.product=TRVL10")
	for _, want := range []string{
		"Empty in 6h to 9h at this pace.", "leaves the window on", ": &#43;72 %.", "An incident has been running since", "the budget is empty in 7h.",
		"in 3d", "37%", "57 of 60 at 1h", "end of the window, in 8d", "The budget is empty within 7d with a probability of 66%, not before 5h.",
	} {
		require.Contains(t, page, want)
	}
	require.Contains(t, flat("/slo?id=mdm/availability"), "There is no forecast: less than a week was observed.")
	require.Contains(t, flat("/slo?id=insurance-unpaid/availability&group.product=MEDCARE"), "still reading the hours")
	capacity := flat("/slo?id=insurance-unpaid/throughput&group.product=MEDCARE")
	for _, want := range []string{"120 per 1m", "75%", "85%", "Wednesday 14:00 UTC", "in 2 weeks to 5 weeks", "&#43;5.0% a week"} {
		require.Contains(t, capacity, want)
	}
	require.Contains(t, flat("/"), "empty in 6h to 9h at this pace")
	engine := flat("/engine")
	require.Contains(t, engine, "Inside at 1h")
	require.Contains(t, engine, "95%")

	b.rep.Outlooks = &sla.Outlooks{Groups: 1, Of: 13}
	b.rep.Version++
	require.Contains(t, flat("/slo?id=insurance-unpaid/availability&group.product=MEDCARE"), "1 of 13 groups are")
}

func TestForecastsInTheAPI(t *testing.T) {
	b := newBench(t)
	withForecasts(b)
	k := newContract(t, b)
	body := string(k.answer(b, "GET", "/api/v1/slos/insurance-unpaid/availability?group.product=TRVL10", http.StatusOK))
	for _, want := range []string{
		`"summary":"empty in 6h to 9h at this pace"`, `"low_seconds":21600,"high_seconds":32400`, `"median_seconds":180000,"high_seconds":null`,
		`"ahead":"window_end"`, `"budget_share":0.72`, `"empty_seconds":25200`, `"ahead":"1h","made":62,"checked":60,"inside":57,"below":2,"missed":1`,
	} {
		require.Contains(t, body, want)
	}
	body = string(k.answer(b, "GET", "/api/v1/slos/insurance-unpaid/throughput?group.product=MEDCARE", http.StatusOK))
	for _, want := range []string{`"capacity":"120 per 1m","events_per_second":2,"utilization":0.75,"headroom":0.5`, `"peak_utilization":0.85`, `"reached":"within"`, `"no_forecast":"no bad event in five weeks"`} {
		require.Contains(t, body, want)
	}
	k.answer(b, "GET", "/api/v1/slos", http.StatusOK)
	require.Contains(t, b.get("/api/v1/slos/insurance-unpaid/availability?group.product=MEDCARE").Body.String(), `"forecast":null,"capacity":null`)
}

func TestForecastSeries(t *testing.T) {
	b := newBench(t)
	withForecasts(b)
	body := b.get("/metrics").Body.String()
	const of = `{slo_id="insurance-unpaid/availability",service="insurance-unpaid",slo="availability",product="TRVL10",`
	for _, want := range []string{
		`slo_forecast_budget_remaining_ratio` + of + `ahead="1d",quantile="0.05"} -0.4`,
		`slo_forecast_exhausted_probability` + of + `ahead="window_end"} 0.7`,
		`slo_forecast_exhaustion_seconds` + of + `quantile="0.5"} 180000`,
		`slo_capacity_events_total{slo_id="insurance-unpaid/throughput",service="insurance-unpaid",slo="throughput",product="MEDCARE"} 4500`,
		`slo_capacity_utilization_ratio{slo_id="insurance-unpaid/throughput",service="insurance-unpaid",slo="throughput",product="MEDCARE"} 0.75`,
		`slo_capacity_headroom_events_per_second{slo_id="insurance-unpaid/throughput",service="insurance-unpaid",slo="throughput",product="MEDCARE"} 0.5`,
		`slo_capacity_reached_seconds{slo_id="insurance-unpaid/throughput",service="insurance-unpaid",slo="throughput",product="MEDCARE",bound="earliest"} 1209600`,
	} {
		require.Contains(t, body, want)
	}
	require.NotContains(t, body, `quantile="0.95"} +Inf`)
	require.NotContains(t, body, `slo_forecast_exhaustion_seconds`+of+`quantile="0.95"`)

	for i := range b.rep.SLOs {
		b.rep.SLOs[i].SLO.Alerting.Soon = slo.SoonAlert{Within: 36 * time.Hour, Probability: 0.8}
		if o := b.rep.SLOs[i].Outlook; o != nil {
			o.Forecast.Exhaustion.Soon = 0.45
		}
	}
	require.Contains(t, b.get("/metrics").Body.String(), `slo_forecast_exhausted_probability`+of+`ahead="1d12h"} 0.45`)
}
