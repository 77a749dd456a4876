package web

import (
	"html"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/alerts/incident"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/sla/forecast"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/web/api"
)

// quietNights is a week with 3,600 events an hour, and 4 from 02:00 to 05:00.
func quietNights() *forecast.Week {
	var w forecast.Week
	for i := range w {
		w[i] = 3600
		if hour := i % 24; hour >= 2 && hour < 5 {
			w[i] = 4
		}
	}
	return &w
}

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
		Exhaustion: forecast.Exhaustion{Within: 168 * time.Hour, Probability: 0.66, Low: 5 * time.Hour,
			Median: 50 * time.Hour, High: forecast.Beyond},
		Pace:    forecast.Pace{Low: 6 * time.Hour, High: 9 * time.Hour},
		Running: &forecast.Running{Since: noon.Add(-2 * time.Hour), Burn: 18, Empty: 7 * time.Hour},
		Level:   &forecast.Level{Since: noon.Add(-48 * time.Hour), Before: 0.001, After: 0.004},
		Relief: &forecast.Relief{
			Incident: slo.Span{From: incident, To: incident.Add(time.Hour)}, Share: 0.72,
			Leaves: slo.Span{From: incident.Add(30 * 24 * time.Hour), To: incident.Add(30*24*time.Hour + time.Hour)},
		},
	}
	for i := range b.rep.SLOs {
		r := &b.rep.SLOs[i]
		switch {
		case r.SLO.ID == "insurance-unpaid/availability" && r.Group[0] == "TRVL10":
			r.Outlook = &sla.Outlook{Forecast: f, Record: record, Week: quietNights()}
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
		"Exhausted in 6h to 9h at this pace.", "leaves the window on", ": &#43;72%.", "An incident has been running since",
		"The level of failures changed 2d ago, from 0.1% to 0.4%.", "the budget is exhausted in 7h.",
		"in 3d", "37%", "57 of 60 at 1h", "end of the window, in 8d",
		"The budget is exhausted within 7d with a probability of 66%, not before 5h.",
	} {
		require.Contains(t, page, want)
	}
	require.Contains(t, page,
		"<li>every day 02:00 to 05:00: an outage under 45m is invisible, and so is an error rate under 76% for an hour (4 "+
			"events an hour).</li>")
	require.NotContains(t, page, "It may be over")
	require.Contains(t, flat("/slo?id=mdm/availability"), "There is no forecast: less than a week was observed.")
	require.Contains(t, flat("/slo?id=insurance-unpaid/availability&group.product=MEDCARE"), "still reading the hours")
	capacity := flat("/slo?id=insurance-unpaid/throughput&group.product=MEDCARE")
	for _, want := range []string{"120 per 1m", "75%", "85%", "Wednesday 14:00 UTC", "in 2 weeks to 5 weeks",
		"&#43;5.0% a week"} {
		require.Contains(t, capacity, want)
	}
	require.Contains(t, flat("/"), "exhausted in 6h to 9h at this pace")
	engine := flat("/engine")
	require.Contains(t, engine, "Inside at 1h")
	require.Contains(t, engine, "95%")

	b.rep.Outlooks = &sla.Outlooks{Groups: 1, Of: 13}
	b.rep.Version++
	require.Contains(t, flat("/slo?id=insurance-unpaid/availability&group.product=MEDCARE"), "1 of 13 groups are")

	for i := range b.rep.SLOs {
		if r := &b.rep.SLOs[i]; r.Outlook != nil && r.Outlook.Forecast.Running != nil {
			r.Burns = slices.Clone(r.Burns)
			r.Burns[0].Rate = 0.5
		}
	}
	b.rep.Version++
	require.Contains(t, flat("/slo?id=insurance-unpaid/availability&group.product=TRVL10"),
		"It may be over: the burn rate of the last 5m is 0.50×.")
}

func TestForecastsInTheAPI(t *testing.T) {
	b := newBench(t)
	withForecasts(b)
	k := newContract(t, b)
	body := string(k.answer(b, "GET", "/api/v1/slos/insurance-unpaid/availability?group.product=TRVL10", http.StatusOK))
	for _, want := range []string{
		`"summary":"exhausted in 6h to 9h at this pace"`, `"low_seconds":21600,"high_seconds":32400`,
		`"median_seconds":180000,"high_seconds":null`,
		`"ahead":"window_end"`, `"budget_share":0.72`, `"empty_seconds":25200`,
		`"ahead":"1h","made":62,"checked":60,"inside":57,"below":2,"missed":1`,
	} {
		require.Contains(t, body, want)
	}
	require.Contains(t, body, `"usual_week":[3600,3600,4,4,4,3600,`)
	body = string(k.answer(b, "GET", "/api/v1/slos/insurance-unpaid/throughput?group.product=MEDCARE", http.StatusOK))
	for _, want := range []string{`"capacity":"120 per 1m","events_per_second":2,"utilization":0.75,"headroom":0.5`,
		`"peak_utilization":0.85`, `"reached":"within"`, `"no_forecast":"no bad event in five weeks"`} {
		require.Contains(t, body, want)
	}
	k.answer(b, "GET", "/api/v1/slos", http.StatusOK)
	require.Contains(t, b.get("/api/v1/slos/insurance-unpaid/availability?group.product=MEDCARE").Body.String(),
		`"forecast":null,"capacity":null`)
}

func TestForecastSeries(t *testing.T) {
	b := newBench(t)
	withForecasts(b)
	body := b.get("/metrics").Body.String()
	const of = `{slo_id="insurance-unpaid/availability",service="insurance-unpaid",slo="availability",product="TRVL10",`
	for _, want := range []string{
		`slo_forecast_budget_remaining_ratio` + of + `slo_ahead="1d",slo_quantile="0.05"} -0.4`,
		`slo_forecast_exhausted_probability` + of + `slo_ahead="window_end"} 0.7`,
		`slo_forecast_exhaustion_seconds` + of + `slo_quantile="0.5"} 180000`,
		`slo_capacity_events_total{slo_id="insurance-unpaid/throughput",service="insurance-unpaid",slo="throughput",` +
			`product="MEDCARE"} 4500`,
		`slo_capacity_utilization_ratio{slo_id="insurance-unpaid/throughput",service="insurance-unpaid",slo="throughput",` +
			`product="MEDCARE"} 0.75`,
		`slo_capacity_headroom_events_per_second{slo_id="insurance-unpaid/throughput",service="insurance-unpaid",` +
			`slo="throughput",product="MEDCARE"} 0.5`,
		`slo_capacity_reached_seconds{slo_id="insurance-unpaid/throughput",service="insurance-unpaid",slo="throughput",` +
			`product="MEDCARE",slo_bound="earliest"} 1209600`,
	} {
		require.Contains(t, body, want)
	}
	require.NotContains(t, body, `slo_quantile="0.95"} +Inf`)
	require.NotContains(t, body, `slo_forecast_exhaustion_seconds`+of+`slo_quantile="0.95"`)

	for i := range b.rep.SLOs {
		b.rep.SLOs[i].SLO.Alerting.Soon = slo.SoonAlert{Within: 36 * time.Hour, Probability: 0.8}
		if o := b.rep.SLOs[i].Outlook; o != nil {
			o.Forecast.Exhaustion.Soon = 0.45
		}
	}
	require.Contains(t, b.get("/metrics").Body.String(), `slo_forecast_exhausted_probability`+of+`slo_ahead="1d12h"} 0.45`)
}

// TestForecastsInReports: every form of a report whose period reaches to now has the forecasts of that time, at the end
// of a calendar window or in a week, and the score of past ones. A report of the past has none.
func TestForecastsInReports(t *testing.T) {
	b, _ := periodBench(t)
	made := time.Date(2026, 11, 20, 11, 59, 0, 0, time.UTC)
	record := forecast.Record{{Made: 62, Checked: 60, Inside: 57, Below: 2, Missed: 1}, {}, {},
		{Made: 12, Checked: 8, Inside: 6, Below: 1}, {Made: 5, Checked: 3, Inside: 3}}
	f := forecast.Forecast{
		Time: made, Pace: forecast.Pace{Low: 6 * time.Hour, High: 9 * time.Hour},
		Points: []forecast.Point{
			{Ahead: time.Hour, Low: 0.5, Median: 0.6, High: 0.62},
			{Ahead: 24 * time.Hour, Low: 0.4, Median: 0.5, High: 0.6, Exhausted: 0.1},
			{Ahead: 72 * time.Hour, Low: 0.2, Median: 0.4, High: 0.55, Exhausted: 0.1},
			{Ahead: 168 * time.Hour, Low: -0.25, Median: 0.3, High: 0.5, Exhausted: 0.2},
		},
	}
	monthly := f
	monthly.Points = append(slices.Clone(f.Points),
		forecast.Point{Ahead: 250 * time.Hour, WindowEnd: true, Low: -0.4, Median: 0.1, High: 0.45, Exhausted: 0.3})
	for i := range b.rep.SLOs {
		switch r := &b.rep.SLOs[i]; string(r.SLO.ID) + " " + r.Group[0] {
		case "shop/availability a":
			r.Outlook = &sla.Outlook{Forecast: f, Record: record}
		case "shop/availability b":
			r.Outlook = &sla.Outlook{Forecast: monthly, Record: record}
		case "shop/volume a":
			r.Outlook = &sla.Outlook{Forecast: forecast.Forecast{Time: made, TooLittle: "no bad event in five weeks"}}
		}
	}

	book := &memoryBook{Book: incident.NewBook()}
	book.now = made
	book.apply(incident.Batch{Operations: []incident.Operation{{Kind: incident.Fire, Title: "Orders fail",
		Onset: made.Add(-21 * time.Minute), OnsetBy: incident.OnsetByCounts, Alert: &incident.Alert{
			Fingerprint: "b", Name: "ErrorBudgetBurnPage", Service: "shop", SLO: "shop/availability", Group: []string{"b"},
			Severity: incident.Critical, Fired: made}}}})
	b.web.Opt.Incidents = book
	_, text, page := writeReport(t, b, "2026-W47", nil)
	const table = `
FORECAST           GROUP      BUDGET LEFT  AHEAD                          BUDGET THEN  EXHAUSTED UNTIL THEN  PACE    ` +
		`                                                      PAST RANGES THAT CONTAINED IT
shop/availability  product=b  50%          end of the window, in 10d 10h  −40% to 45%  30%                   ` +
		`incident since 11:38 UTC, exhausted in 6h to 9h at this pace  3 of 3
shop/availability  product=a  50%          in 7d                          −25% to 50%  20%                   ` +
		`exhausted in 6h to 9h at this pace                            6 of 8
shop/volume        product=a  98%          –                              –            –                     no ` +
		`forecast: no bad event in five weeks                       –
`
	require.Contains(t, text, table)
	notes := []string{
		"Forecasts are those of 2026-11-20 11:59 UTC. They are about the budget of the objective's window: 90% of the " +
			"futures lie in the range. The probability is that of a budget that is exhausted at some time until then.",
		// 57 + 6 + 3 of 60 + 8 + 3, rounded down
		"The engine has checked 71 past ranges of these SLOs: 92% contained the actual budget.",
	}
	for _, note := range notes {
		require.Contains(t, text, "\n"+note+"\n")
		require.Contains(t, html.UnescapeString(page), ">"+note+"<")
	}
	for _, want := range []string{">Forecast</h2>", ">end of the window, in 10d 10h<", ">−40% to 45%<", ">30%<",
		">3 of 3<", ">no forecast: no bad event in five weeks<"} {
		require.Contains(t, page, want)
	}
	checkMail(t, page)

	shown := strings.Join(strings.Fields(b.get("/report?period=2026-W47").Body.String()), " ")
	for _, want := range []string{
		`<td data-name="Ahead">end of the window, in 10d 10h</td><td class="num" data-name="Budget then">−40% to ` +
			`45%</td><td class="num" data-name="Exhausted by then">30%</td><td data-name="Pace">incident since 11:38 UTC, ` +
			`exhausted in 6h to 9h at this pace</td><td class="num" data-name="Past ranges that contained it">3 of 3</td>`,
		`no forecast: no bad event in five weeks`, notes[1],
	} {
		require.Contains(t, shown, want)
	}

	k := newContract(t, b)
	body := string(k.answer(b, http.MethodGet, "/api/v1/report?period=2026-W47", http.StatusOK))
	require.Contains(t, body, `"forecast":{"time":"2026-11-20T11:59:00Z","summary":"exhausted in 6h to 9h at this pace"`)
	require.Equal(t, 3, strings.Count(body, `"forecast":{`))

	var cells []string
	for _, l := range readCSV(t, b.get("/api/v1/report?period=2026-W47&format=csv").Body.Bytes(), api.CSVColumns) {
		if l["kind"] == "slo" && l["forecast_made"] != "" {
			cells = append(cells, strings.Join([]string{
				l["name"], l["group"], l["forecast_made"], l["forecast_for"], l["forecast_low"],
				l["forecast_median"], l["forecast_high"],
				l["forecast_empty_probability"], l["forecasts_inside"], l["forecasts_checked"], l["note"],
			}, "|"))
		}
	}
	require.Equal(t, []string{
		"availability|product=a|2026-11-20T11:59:00Z|2026-11-27T11:59:00Z|-0.25|0.3|0.5|0.2|6|8|exhausted in 6h to 9h at " +
			"this pace",
		"availability|product=b|2026-11-20T11:59:00Z|2026-11-30T21:59:00Z|-0.4|0.1|0.45|0.3|3|3|incident since 11:38 UTC, " +
			"exhausted in 6h to 9h at this pace",
		"volume|product=a|2026-11-20T11:59:00Z||||||||no forecast: no bad event in five weeks",
	}, cells)

	// The week before has been over for days, and says nothing.
	_, text, page = writeReport(t, b, "2026-W46", nil)
	for _, form := range []string{text, page, b.get("/report?period=2026-W46").Body.String(),
		string(k.answer(b, http.MethodGet, "/api/v1/report?period=2026-W46", http.StatusOK))} {
		require.NotRegexp(t, `(?i)forecast`, form)
	}
	// On the next morning it has forecasts, and two days later it has not.
	for after, want := range map[time.Duration]int{8 * time.Hour: 1, 25 * time.Hour: 0} {
		b.rep.Time = time.Date(2026, 11, 16, 0, 0, 0, 0, time.UTC).Add(after)
		b.rep.Version++
		_, text, _ = writeReport(t, b, "2026-W46", nil)
		require.Equal(t, want, strings.Count(text, "\nFORECAST "), "%s after its end", after)
	}
}
