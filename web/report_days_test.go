package web

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/sla/report"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/fold"
	"github.com/sloengine/sloengine/web/api"
)

const daysPath = "/api/v1/report/days.csv"

// TestDayTableGolden holds the columns and their values, on which other programs rely. Columns may be added at the end;
// a test that changes what is there breaks them.
func TestDayTableGolden(t *testing.T) {
	b, _ := periodBench(t)
	b.web.Opt.Incidents = periodIncidents()
	rec := b.get(daysPath + "?period=2026-W46&agreement=shop/gold")
	require.Equal(t, http.StatusOK, rec.Code, rec.Body.String())
	require.Equal(t, "text/csv; charset=utf-8; header=present", rec.Header().Get("Content-Type"))
	require.Equal(t, `attachment; filename="sloengine-days-2026-W46.csv"`, rec.Header().Get("Content-Disposition"))
	golden(t, b, daysPath+"?period=2026-W46&agreement=shop/gold", "report_days.csv")
}

func requireNumber(t *testing.T, want float64, cell string) {
	got, err := strconv.ParseFloat(cell, 64)
	require.NoError(t, err)
	require.InEpsilon(t, want, got, 1e-11)
}

// The days of the table are those of the report: their sums are its counts, and their scores its scores.
func TestDayTableAgreesWithTheReport(t *testing.T) {
	b, _ := periodBench(t)
	b.web.Opt.Kept = func(_ context.Context, counters []string, sp slo.Span) ([]float64, error) {
		out := make([]float64, len(counters))
		for i := range out {
			out[i] = 0.5
		}
		return out, nil
	}
	for _, target := range []string{"period=2026-W46", "period=2026-W46&zone=Asia/Tokyo", "period=2026-10",
		"period=this-week&service=shop"} {
		rep := b.report("/api/v1/report?days=true&" + target)
		rec := b.get(daysPath + "?" + target)
		lines := readCSV(t, rec.Body.Bytes(), api.DayColumns)
		at := 0
		for _, s := range rep.SLOs {
			for _, d := range s.Days {
				l := lines[at]
				at++
				require.Equal(t, []string{"slo", d.Date, s.Service, s.SLO}, []string{l["kind"], l["day"], l["service"], l["name"]})
				require.Equal(t, fmt.Sprint(d.Net.Good, d.Net.Bad, d.Raw.Good, d.Raw.Bad),
					fmt.Sprint(l["good"], " ", l["bad"], " ", l["raw_good"], " ", l["raw_bad"]), target)
				if d.SLI == nil {
					require.Empty(t, l["indicator"])
					require.Empty(t, l["score"], "no data is no score")
				} else {
					requireNumber(t, *d.SLI, l["indicator"])
				}
			}
		}
		for _, a := range rep.SLAs {
			for _, d := range a.Days {
				l := lines[at]
				at++
				require.Equal(t, []string{"agreement", d.Date, a.SLA.SLA}, []string{l["kind"], l["day"], l["name"]})
				if d.Score == nil {
					require.Empty(t, l["score"])
				} else {
					requireNumber(t, *d.Score, l["score"])
				}
			}
		}
		require.Len(t, lines, at, target)
	}
	lines := readCSV(t, b.get(daysPath+"?period=2026-10&agreement=shop/gold").Body.Bytes(), api.DayColumns)
	require.Equal(t, "false", lines[0]["complete"], "1 October is not retained any more")
	require.Equal(t, "0", lines[0]["coverage"])
	last := lines[30]
	require.Equal(t, []string{"2026-10-31", "true", "0.5"}, []string{last["day"], last["complete"], last["coverage"]},
		"limits dropped one half of the events")
}

// TestDayTableOfAView counts the incidents of its engines; a cell is empty if they are not known.
func TestDayTableOfAView(t *testing.T) {
	b, _ := periodBench(t)
	b.web.Opt.Incidents = periodIncidents()
	list, _ := b.web.ReportSource().Incidents(noon.AddDate(0, 0, -20), noon)
	b.web.Opt.Incidents = nil
	want := map[string]string{}
	for _, known := range []bool{true, false} {
		b.web.Opt.Onsets = func(context.Context, slo.Span) ([]report.Incident, bool) { return list, known }
		for _, l := range readCSV(t, b.get(daysPath+"?period=2026-W46").Body.Bytes(), api.DayColumns) {
			key := l["kind"] + l["name"] + l["group"] + l["day"]
			if known {
				want[key] = l["incidents"]
			} else {
				require.Empty(t, l["incidents"])
			}
		}
	}
	sum := 0
	b.web.Opt.Incidents = periodIncidents()
	for _, l := range readCSV(t, b.get(daysPath+"?period=2026-W46").Body.Bytes(), api.DayColumns) {
		require.Equal(t, l["incidents"], want[l["kind"]+l["name"]+l["group"]+l["day"]])
		n, err := strconv.Atoi(l["incidents"])
		require.NoError(t, err)
		sum += n
	}
	require.NotZero(t, sum)
}

// TestReportTellsRoundedDays: days of a zone half an hour off, before the window.
func TestReportTellsRoundedDays(t *testing.T) {
	b, c := periodBench(t)
	c.hourly = noon.Add(-8 * 24 * time.Hour)
	const target = "?period=2026-W46&zone=Asia/Kolkata"
	lines := readCSV(t, b.get(daysPath+target).Body.Bytes(), api.DayColumns)
	notes := map[string]bool{}
	for _, l := range lines {
		at, err := time.Parse(time.RFC3339, l["from"])
		require.NoError(t, err)
		require.Equal(t, !at.Before(c.hourly), l["complete"] == "true", l)
		require.Equal(t, l["complete"] == "true", l["note"] == "", l)
		notes[l["note"]] = true
	}
	require.Len(t, notes, 2)
	rep := b.report("/api/v1/report?days=true&" + target[1:])
	require.True(t, rep.SLOs[0].Rounded)
	require.True(t, rep.SLOs[0].Days[0].Rounded)
	require.False(t, rep.SLOs[0].Days[6].Rounded)
	require.Equal(
		t, "true", readCSV(t, b.get("/api/v1/report"+target+"&format=csv").Body.Bytes(), api.CSVColumns)[0]["rounded"])
	for _, place := range []string{"/report" + target, "/api/v1/report" + target + "&format=text",
		"/api/v1/report" + target + "&format=html"} {
		require.Contains(t, b.get(place).Body.String(), "whole hours", place)
		require.NotContains(t, b.get(strings.Replace(place, "Asia/Kolkata", "Asia/Tokyo", 1)).Body.String(),
			"whole hours", place)
	}
}

func TestDayTableRefuses(t *testing.T) {
	b, c := periodBench(t)
	k := newContract(t, b)
	for target, status := range map[string]int{
		"": 400, "?period=2026-W60": 400, "?period=2026-W46&zone=Nowhere": 400, "?period=2026-W46&agreement=gold": 400,
		"?period=2026-W46": 200, "?period=last-month&service=none": 200,
	} {
		if status == 200 {
			k.answer(b, http.MethodGet, daysPath+target, status)
		} else {
			require.Equal(t, status, b.get(daysPath+target).Code, target)
		}
	}
	require.Equal(t, http.StatusOK, b.do(http.MethodHead, daysPath+"?period=2026-W46").Code)

	// Two tables are being read: the third is told to wait.
	entered, leave := make(chan struct{}), make(chan struct{})
	b.web.Opt.Counts = func(ctx context.Context, qs []fold.ReadRequest) ([]fold.ReadResult, error) {
		entered <- struct{}{}
		<-leave
		return nil, errors.New("the engine stops")
	}
	codes := make(chan int)
	for range 2 {
		go func() { codes <- b.get(daysPath + "?period=2026-W46").Code }()
		<-entered
	}
	k.answer(b, http.MethodGet, daysPath+"?period=2026-W46", 503)
	close(leave)
	require.Equal(t, 503, <-codes, "nothing was sent yet, so the reader is told")
	require.Equal(t, 503, <-codes)

	// An error in the middle breaks the connection, so that the lines do not look like all of them.
	asked := 0
	b.web.Opt.Counts = func(ctx context.Context, qs []fold.ReadRequest) ([]fold.ReadResult, error) {
		if asked++; asked > 4 {
			return nil, errors.New("the engine stops")
		}
		return c.counts(ctx, qs)
	}
	for i := range 400 {
		r := b.rep.SLOs[0]
		r.Group = slo.Group{strconv.Itoa(1000 + i)}
		b.rep.SLOs = slices.Insert(b.rep.SLOs, 1, r)
	}
	server := httptest.NewServer(b.router)
	defer server.Close()
	res, err := http.Get(server.URL + daysPath + "?period=2026-W46")
	require.NoError(t, err)
	defer res.Body.Close()
	_, err = new(bytes.Buffer).ReadFrom(res.Body)
	require.Error(t, err)

	b.web.Opt.Counts = nil
	k.answer(b, http.MethodGet, daysPath+"?period=2026-W46", 501)
	b.rep = nil
	k.answer(b, http.MethodGet, daysPath+"?period=2026-W46", 503)
}

// TestDayTableStreams: 5,000 groups over a month are 155,000 lines, of which only a part is held at any time.
func TestDayTableStreams(t *testing.T) {
	b, c := periodBench(t)
	b.web.Opt.Incidents = periodIncidents()
	r := b.rep.SLOs[0]
	b.rep = &sla.Report{Version: 1, Time: b.rep.Time}
	for i := range 5000 {
		r.Group = slo.Group{strconv.Itoa(10_000 + i)}
		b.rep.SLOs = append(b.rep.SLOs, r)
	}
	began := time.Now()
	rec := b.get(daysPath + "?period=2026-10")
	require.Equal(t, 1+5000*31, strings.Count(rec.Body.String(), "\r\n"))
	require.LessOrEqual(t, c.most, 6000)
	t.Logf("%d lines, %d bytes in %s", 5000*31, rec.Body.Len(), time.Since(began))
}

func TestDayTableHostileNames(t *testing.T) {
	for _, bad := range append(slices.Clone(hostile), "=HYPERLINK(1)", "\t=1", "a,\"b\"\r\nc", "|calc") {
		b, _ := periodBench(t)
		for k := range b.rep.SLOs {
			b.rep.SLOs[k].Group = slo.Group{bad}
		}
		s := *b.rep.SLOs[0].SLO
		s.GroupBy = []string{bad}
		b.rep.SLOs[0].SLO = &s
		for _, l := range readCSV(t, b.get(daysPath+"?period=2026-W46").Body.Bytes(), api.DayColumns) {
			for name, cell := range l {
				if trimmed := strings.TrimLeft(cell, " "); trimmed != "" {
					require.NotContains(t, "=+-@\t\r", trimmed[:1], "%s is %q", name, cell)
				}
			}
		}
	}
}

// TestDayColumnsAreDocumented holds docs/reports.md to the columns.
func TestDayColumnsAreDocumented(t *testing.T) {
	doc, err := os.ReadFile("../docs/reports.md")
	require.NoError(t, err)
	for _, name := range api.DayColumns {
		require.Contains(t, string(doc), "| `"+name+"` |")
	}
}
