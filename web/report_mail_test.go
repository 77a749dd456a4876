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

	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"

	"github.com/sloengine/sloengine/sla/report"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/fold"
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
	require.NotEmpty(t, readCSV(t, w.CSV))
	return w.Subject, w.Text, w.HTML
}

// TestReportMailGolden is the mail of a week that a person can check by hand.
func TestReportMailGolden(t *testing.T) {
	b, _ := periodBench(t)
	b.web.Opt.ExternalURL = "https://slo.example.org/x/"
	golden(t, b, "/api/v1/report?period=2026-W46&format=html", "report_mail.html")
	golden(t, b, "/api/v1/report?period=2026-W46&format=text", "report_mail.txt")
	subject, text, page := writeReport(t, b, "2026-W46", nil)
	require.Equal(t, "SLO report ops, Week 46 of 2026: 0 of 4 agreements met", subject)
	require.Contains(t, text, "https://slo.example.org/x/report?period=2026-W46")
	for _, form := range []string{text, page} {
		for _, want := range []string{"ops", "Week 45 of 2026", "breached", "shop/gold", "product=b", "availability cost", "Mon 9 Nov", "250.0%"} {
			require.Contains(t, form, want)
		}
	}
	require.NotRegexp(t, `(?i)<(script|link|style|img|iframe|svg|form)|class=|url\(|@import|javascript:`, page, "mail programs show no such thing")
	require.NotContains(t, page, "ZgotmplZ", "the template engine refused a value")
	subject, _, page = writeReport(t, b, "2026-W46", func(q *report.Query) { q.Agreement = "shop/gold" })
	require.Contains(t, subject, "of 2 agreements")
	require.NotContains(t, page, "stepped")
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
			require.Contains(t, strings.Fields("style align width cellpadding cellspacing border role href lang charset name content"), a.Key)
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
			w, err := b.web.WriteReport(t.Context(), bad, report.Query{Period: report.PeriodOf(slo.Week, noon).Shift(-1), Agreement: slo.NewID("shop", bad)})
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
