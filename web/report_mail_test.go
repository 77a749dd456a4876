package web

import (
	"context"
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"

	"github.com/sloengine/sloengine/alerts/incident"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/sla/report"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/fold"
	"github.com/sloengine/sloengine/web/api"
)

func writeReport(t *testing.T, b *bench, period string, change func(*report.Query)) (subject, text, page string) {
	ask := report.Query{}
	var err error
	ask.Period, err = report.ParsePeriod(period)
	require.NoError(t, err)
	if change != nil {
		change(&ask)
	}
	w, err := b.web.WriteReport(t.Context(), "ops", ask)
	require.NoError(t, err)
	require.True(t, json.Valid(w.JSON))
	require.NotEmpty(t, readCSV(t, w.CSV, api.CSVColumns))
	return w.Subject, w.Text, w.HTML
}

// TestReportMailGolden is the mail of a week that a person can check by hand.
func TestReportMailGolden(t *testing.T) {
	b, _ := periodBench(t)
	b.web.Opt.ExternalURL = "https://slo.example.org/x/"
	b.web.Opt.Incidents = periodIncidents()
	golden(t, b, "/api/v1/report?period=2026-W46&format=html", "report_mail.html")
	golden(t, b, "/api/v1/report?period=2026-W46&format=text", "report_mail.txt")
	subject, text, page := writeReport(t, b, "2026-W46", nil)
	require.Equal(t, "SLO report ops, Week 46 of 2026: 0 of 4 SLAs met", subject)
	require.Contains(t, text, "https://slo.example.org/x/report?period=2026-W46")
	for _, form := range []string{text, page} {
		for _, want := range []string{"ops", "Week 45 of 2026", "breached", "shop/gold", "product=b", "availability cost",
			"Mon 9 Nov", "250.0%", "INC-2026-11-0002", "Orders fail", "12m"} {
			require.Contains(t, form, want)
		}
	}
	require.NotRegexp(t, `(?i)<(script|link|style|img|iframe|svg|form)|class=|url\(|@import|javascript:`, page,
		"mail programs show no such thing")
	require.NotContains(t, page, "ZgotmplZ", "the template engine refused a value")
	subject, _, page = writeReport(t, b, "2026-W46", func(q *report.Query) { q.Agreement = "shop/gold" })
	require.Contains(t, subject, "of 2 SLAs")
	require.NotContains(t, page, "stepped")
}

// TestReportMailThresholdGroups: a mail says whose events exceeded a threshold, as the page and the CSV do.
func TestReportMailThresholdGroups(t *testing.T) {
	b, c := periodBench(t)
	l := &b.rep.Thresholds[0]
	l.Threshold.GroupBy = []string{"product"}
	for i, g := range []string{"a", "b", "quiet"} {
		l.Groups = append(l.Groups, sla.ThresholdGroup{Group: slo.Group{g}})
		c.hours["shop/limit:slow|"+g] = func(int) []uint64 { return []uint64{50, uint64(2-i) * 2, uint64(i % 2)} }
	}
	_, text, page := writeReport(t, b, "2026-W46", nil)
	require.Regexp(t,
		`shop/slow +25,200 +1,008 +168 .*\n *shop/slow: product=b +8,400 +336 +168 .*\n *shop/slow: product=a +8,400 `+
			`+672 +0 `, text, "168 hours, the worst first")
	require.NotContains(t, text, "quiet")
	require.Contains(t, page, "shop/slow: product=b")
	checkMail(t, page)
}

// periodIncidents is a book with incidents of the weeks 45 and 46 that a person can check by hand.
func periodIncidents() *memoryBook {
	m := &memoryBook{Book: incident.NewBook()}
	monday := time.Date(2026, 11, 9, 0, 0, 0, 0, time.UTC)
	open := func(at time.Time, detection time.Duration, title, slo string, severity incident.Severity, group ...string) {
		m.now = at.Add(detection)
		m.apply(incident.Batch{Operations: []incident.Operation{
			{Kind: incident.Fire, Title: title, Onset: at, OnsetBy: incident.OnsetByCounts, Alert: &incident.Alert{
				Fingerprint: title, Name: "ErrorBudgetBurnPage", Service: "shop", SLO: slo, Group: group,
				Labels: map[string]string{"alertname": "ErrorBudgetBurnPage"}, Severity: severity, Fired: m.now,
			}}}})
	}
	then := func(after time.Duration, o incident.Operation) {
		m.now = m.now.Add(after)
		m.apply(incident.Batch{Operations: []incident.Operation{o}})
	}
	open(monday.AddDate(0, 0, -4), time.Hour, "Before", "shop/availability", incident.Critical, "a")
	then(30*time.Minute, incident.Operation{Kind: incident.AckIt, ID: "INC-2026-11-0001", By: "Ann", How: incident.ByAPI})
	then(time.Minute, incident.Operation{Kind: incident.ResolveIt, ID: "INC-2026-11-0001", By: "Ann"})
	open(monday.Add(-3*time.Minute), 4*time.Minute, "Orders fail", "shop/availability", incident.Critical, "b")
	then(12*time.Minute, incident.Operation{Kind: incident.AckIt, ID: "INC-2026-11-0002", By: "Ann", How: incident.ByAPI})
	then(time.Hour, incident.Operation{Kind: incident.ResolveIt, ID: "INC-2026-11-0002", By: "Ann"})
	m.apply(incident.Batch{Operations: []incident.Operation{{Kind: incident.Measured, ID: "INC-2026-11-0002",
		Spent: []incident.Spent{{SLO: "shop/availability", Group: []string{"b"}, Valid: 900, Bad: 90, Budget: 0.31}}}}})
	open(monday.Add(50*time.Hour), 2*time.Minute, "Slow", "shop/latency", incident.Warning)
	// else the next page joins it
	then(time.Hour, incident.Operation{Kind: incident.ResolveIt, ID: "INC-2026-11-0003", By: "Ann"})
	open(monday.Add(80*time.Hour), 6*time.Minute, "Slow again", "shop/latency", incident.Critical)
	return m
}

// TestReportIncidents: the forms of a report have the same incidents, and a query picks those of its services and SLOs.
func TestReportIncidents(t *testing.T) {
	b, _ := periodBench(t)
	k := newContract(t, b)
	b.web.Opt.Incidents = periodIncidents()
	type figures struct {
		Critical, Warnings, Automated int
		Detection                     *float64 `json:"median_detection_seconds"`
		Response                      *float64 `json:"median_response_seconds"`
		Previous                      *figures
		Items                         []struct{ ID string }
	}
	ask := func(query string) *figures {
		var got struct{ Incidents *figures }
		require.NoError(t, json.Unmarshal(k.answer(b, http.MethodGet, "/api/v1/report?"+query, 200), &got))
		return got.Incidents
	}
	ids := func(f *figures) (out []string) {
		for _, x := range f.Items {
			out = append(out, strings.TrimPrefix(x.ID, "INC-2026-11-000"))
		}
		return out
	}
	week := ask("period=2026-W46")
	require.Equal(t, []string{"2", "4", "3"}, ids(week),
		"critical ones first; the onset of the first was a minute of the week before")
	require.Equal(t, []int{2, 1, 2}, []int{week.Critical, week.Warnings, week.Automated})
	require.Equal(t, []float64{360, 720}, []float64{*week.Detection, *week.Response})
	require.Equal(t, []float64{1, 3600, 1800},
		[]float64{float64(week.Previous.Critical), *week.Previous.Detection, *week.Previous.Response})
	require.Equal(t, []string{"2", "4", "3"}, ids(ask("period=2026-W46&service=shop")))
	require.Equal(t, []string{"2", "4", "3"}, ids(ask("period=2026-W46&agreement=shop/gold")))
	require.Equal(t, []string{"4", "3"}, ids(ask("period=2026-W46&agreement=shop/stepped")),
		"availability is no part of it")
	require.Empty(t, ids(ask("period=2026-W46&service=other")))
	require.Equal(t, []string{"4", "3"}, ids(ask("period=2026-W46&zone=America/New_York")),
		"there it was detected on Sunday")

	_, text, page := writeReport(t, b, "2026-W46", nil)
	for _, want := range []string{`Incidents +2 +1`, `Median detection +6m +1h`, `Median response +12m +30m`,
		`critical +INC-2026-11-0002 +Orders fail +shop +Sun 8 Nov 23:57 UTC +4m +12m +1h 16m +31.0%`,
		`critical +INC-2026-11-0004 .*open`, `warning +INC-2026-11-0003 `} {
		require.Regexp(t, want, text)
	}
	checkMail(t, page)
	shown := b.get("/report?period=2026-W46").Body.String()
	check(t, shown)
	require.Contains(t, shown, `href="/incident?id=INC-2026-11-0002"`)
	require.Contains(t, shown, "1h in the period before")
	quiet := b.get("/report?period=2026-W46&service=other").Body.String()
	require.NotContains(t, quiet, `id="incidents"`)
	require.Contains(t, quiet, `<a href="/incidents">Incidents</a>`, "the menu is the same in a report without incidents")
	var lines []string
	for _, l := range readCSV(t, b.get("/api/v1/report?period=2026-W46&format=csv").Body.Bytes(), api.CSVColumns) {
		if l["kind"] == "incident" {
			lines = append(lines, strings.Join([]string{l["name"], l["severity"], l["note"], l["onset"], l["detection_seconds"],
				l["response_seconds"], l["budget_spent"]}, " "))
		}
	}
	require.Equal(t, []string{
		"INC-2026-11-0002 critical Orders fail 2026-11-08T23:57:00Z 240 720 0.31",
		"INC-2026-11-0004 critical Slow again 2026-11-12T08:00:00Z 360  ",
		"INC-2026-11-0003 warning Slow 2026-11-11T02:00:00Z 120  ",
	}, lines)

	// What is not known is not nothing.
	require.Nil(t, ask("period=2025-W01"), "older than the book")
	require.NotContains(t, b.get("/api/v1/report?period=2025-W01&format=text").Body.String(), "Incidents")
	b.web.Opt.Incidents = nil
	require.Nil(t, ask("period=2026-W47"))
}

// TestDayTableCountsIncidents counts them where their onset lies.
func TestDayTableCountsIncidents(t *testing.T) {
	b, _ := periodBench(t)
	require.Empty(
		t, readCSV(t, b.get(daysPath+"?period=2026-W46").Body.Bytes(), dayColumns())[0]["incidents"], "not known")
	b.web.Opt.Incidents = periodIncidents()
	got := map[string]string{}
	for _, period := range []string{"2026-W45", "2026-W46"} {
		for _, l := range readCSV(t, b.get(daysPath+"?period="+period).Body.Bytes(), dayColumns()) {
			require.Regexp(t, `^[01]$`, l["incidents"])
			if l["incidents"] != "0" {
				got[l["name"]+" "+l["group"]] += l["day"][8:] + " "
			}
		}
	}
	require.Equal(t, map[string]string{
		// those of latency are about all groups
		"availability product=a": "05 ", "availability product=b": "08 ", "latency product=a": "11 12 ",
		"latency product=b": "11 12 ",
		"gold product=a":    "05 11 12 ", "gold product=b": "08 11 12 ", "stepped product=a": "11 12 ",
		"stepped product=b": "11 12 ",
	}, got)
}

// TestReportMailIsTruthful: no data is no number, what is not observed is said, and what cannot be compared is not.
func TestReportMailIsTruthful(t *testing.T) {
	b, c := periodBench(t)
	c.oldest = c.from.AddDate(0, 0, -3) // half of the week before is gone
	_, text, _ := writeReport(t, b, "2026-W46", nil)
	require.Contains(t, text, "(partial)")
	row := regexp.MustCompile(`(?m)^.*shop/gold +product=a.*$`).FindString(text)
	require.Regexp(t, `\(partial\) +– `, row, "no change against a part of a week")
	subject, text, _ := writeReport(t, b, "2026-W44", nil) // nothing is left of it
	require.Contains(t, subject, "no data")
	require.Contains(t, text, "no data")
	require.Contains(t, text, "0.0% since")
	require.NotRegexp(t, `NaN|Inf|%!`, text)
	subject, text, _ = writeReport(t, b, "2030-01", nil)
	require.Contains(t, subject, "nothing to report on")
	require.Contains(t, text, "has not begun")
	_, text, _ = writeReport(t, b, "2026-W47", nil)
	require.Contains(t, text, "The period is not over")
	_, err := b.web.WriteReport(t.Context(), "", report.Query{Period: report.PeriodOf(slo.Week, noon), Service: "none"})
	require.NoError(t, err)
	b.web.Opt.Counts = func(context.Context, []fold.ReadRequest) ([]fold.ReadResult, error) {
		return nil, context.DeadlineExceeded
	}
	_, err = b.web.WriteReport(t.Context(), "", report.Query{Period: report.PeriodOf(slo.Week, noon).Shift(-9)})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	b.rep = nil
	_, err = b.web.WriteReport(t.Context(), "", report.Query{})
	require.Error(t, err)
}

// mailElements are those that a mail may have.
const mailElements = "html head meta title body table tbody tr th td h1 h2 p a strong"

// checkMail lets through what the template has: no other elements, no handlers, and no address but the page's.
func checkMail(t *testing.T, text string) {
	root, err := html.Parse(strings.NewReader(text))
	require.NoError(t, err)
	for n := range root.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		require.Contains(t, strings.Fields(mailElements), n.Data)
		for _, a := range n.Attr {
			require.Contains(
				t, strings.Fields("style align width cellpadding cellspacing border role href lang charset name content"), a.Key)
			require.NotContains(t, a.Val, "url(")
		}
	}
}

func TestReportMailHostileNames(t *testing.T) {
	for i, bad := range append(slices.Clone(hostile), "</title><script>alert(1)</script>", "a\tb\nc", "{{.}}") {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			b, _ := periodBench(t)
			for k := range b.rep.SLOs {
				b.rep.SLOs[k].Group = slo.Group{bad}
			}
			a := *b.rep.SLAs[0].SLA
			a.Name, a.GroupBy = bad, []string{bad}
			b.rep.SLAs[0].SLA = &a
			b.rep.SLAs[0].SetGroup(slo.Group{bad})
			b.rep.Thresholds[0].Threshold = &slo.Threshold{Service: bad, Name: bad, Warning: 1}
			w, err := b.web.WriteReport(t.Context(), bad,
				report.Query{Period: report.PeriodOf(slo.Week, noon).Shift(-1), Agreement: slo.NewID("shop", bad)})
			require.NoError(t, err)
			checkMail(t, w.HTML)
			for _, form := range []string{w.Subject, w.Text, w.HTML} {
				for _, forbidden := range []string{"\u202e", "\u2066", "\u200f", "\x00", "\x1b", "\r"} {
					require.NotContains(t, form, forbidden)
				}
			}
			require.NotContains(t, w.Subject, "\n")
		})
	}
}

// TestReportMailIsBounded: a mail on 1,000 groups shows the worst of them, and says where the others are.
func TestReportMailIsBounded(t *testing.T) {
	b, c := periodBench(t)
	r := b.rep.SLOs[0]
	b.rep.SLOs, b.rep.SLAs = nil, nil
	for i := range 1000 {
		r.Group = slo.Group{strconv.Itoa(10_000 + i)}
		bad := uint64(0)
		if i == 999 {
			bad = 500
		}
		c.hours["shop/availability|"+r.Group.Key()] = func(int) []uint64 { return []uint64{1000, bad} }
		b.rep.SLOs = append(b.rep.SLOs, r)
	}
	_, text, page := writeReport(t, b, "2026-W46", nil)
	require.Contains(t, text, "product=10999")
	require.Contains(t, text, "900 more are in the CSV.")
	require.Less(t, len(page), 200<<10)
}

func TestReportFormats(t *testing.T) {
	b, _ := periodBench(t)
	newContract(t, b).answer(b, http.MethodGet, "/api/v1/report?period=last-week&format=text", 200)
	for form, typ := range map[string]string{"html": "text/html; charset=utf-8", "text": "text/plain; charset=utf-8"} {
		rec := b.get("/api/v1/report?period=last-week&format=" + form)
		require.Equal(t, typ, rec.Header().Get("Content-Type"))
		if form == "html" {
			require.Contains(t, rec.Header().Get("Content-Security-Policy"), "default-src 'none'; style-src 'unsafe-inline'")
		}
	}
	require.Equal(t, http.StatusBadRequest, b.get("/api/v1/report?period=last-week&format=pdf").Code)
}
