package api

import (
	"bufio"
	"encoding/csv"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/sla/report"
	"github.com/sloengine/sloengine/web/respond"
	"github.com/sloengine/sloengine/web/site"
)

// DayColumn is a column of the long table, with its meaning in Markdown as docs/reference/days.md has it.
type DayColumn struct{ Name, Meaning string }

// DayColumns are the columns of the long table: one line for each day of each group of an SLO or an agreement. They are
// stable: columns are only ever added, at the end.
var DayColumns = []DayColumn{
	{"day", "date in `zone`"},
	{"zone", "time zone of the day"},
	{"kind", "`slo` or `agreement`"},
	{"service", "service of the SLO or SLA"},
	{"name", "its name"},
	{"group", "its group as `label=value; label=value`, empty without `group_by`"},
	{"informative", "`true` for the group `__other__`, which has no objective to meet"},
	{"from", "begin of the day, RFC 3339 in UTC"},
	{"to", "end of the day, or the time of the last evaluation if the day is not over"},
	{"complete", "`true` if the day is over, some of it was observed, and all of its counts are retained and not " +
		"[rounded to whole hours](../reports.md#what-a-report-can-know)"},
	{"coverage", "share of the day that was observed, times the share of events that no rate limit dropped, 0 to 1. " +
		"For an SLA, that of the component that was covered least"},
	{"good", "good events or slices, without planned maintenance"},
	{"bad", "bad ones, likewise"},
	{"raw_good", "good ones, planned maintenance included"},
	{"raw_bad", "bad ones, likewise"},
	{"objective", "the objective, 0 to 1"},
	{"indicator", "the SLI, 0 to 1. Empty without data"},
	{"burn_rate", "share of the day's own error budget that was spent. 1 is exactly what the objective allows"},
	{"score", "of an SLA, 0 to 100. Of an SLO 100 times its [attainment](../specs.md#agreements). Empty without data"},
	{"score_low", "of an SLA, if components without data had no points"},
	{"score_high", "the same if they had all of their points"},
	{"worst_component", "of an SLA, the one that lost the most points"},
	{"incidents", "number of [incidents](../incidents.md) that started on the day, of an SLA with those of its " +
		"SLOs. In a [view](../scaling.md#one-page-for-all-engines), those of all engines. Empty if the " +
		"incidents of that time are not retained, and in a view also if an engine does not answer"},
	{"cost", "[cost](../specs.md#cost) of `bad`, rounded to the decimals of the currency"},
	{"currency", "three letters of ISO 4217"},
	{"note", "why the counts are not those of the whole day: not retained, not observed, or rounded to whole hours"},
}

const (
	// dayChunk is how many bytes are sent at a time.
	dayChunk = 32 << 10
	// dayStall is how long a reader may take nothing of the table.
	dayStall = time.Minute
	// maxDayReaders is how many tables are sent at the same time.
	maxDayReaders = 2
)

// dayNumber rounds to 12 digits, so that a BI tool does not show the last bit of a sum.
func dayNumber(x float64, ok bool) string {
	rounded, err := strconv.ParseFloat(strconv.FormatFloat(x, 'g', 12, 64), 64)
	return csvNumber(rounded, ok && err == nil)
}

// dayLine is the line of a row, in the order of DayColumns.
func dayLine(cells []string, r *report.DayRow) []string {
	cells = append(cells[:0], r.Span.From.In(r.Zone).Format(time.DateOnly), csvText(r.Zone.String()))
	var score, low, high, worst, cost, currency string
	var objective, indicator, burn string
	var good, bad, rawGood, rawBad string
	if x := r.SLO; x != nil {
		b := r.Net.Budget(x.SLO)
		cells = append(cells, "slo", csvText(x.SLO.ID.Service()), csvText(x.SLO.ID.Name()), csvGroup(x.SLO.GroupBy, x.Group),
			strconv.FormatBool(x.Informative))
		good, bad, rawGood, rawBad = csvCount(r.Net.Good), csvCount(r.Net.Bad), csvCount(r.Raw.Good), csvCount(r.Raw.Bad)
		objective, indicator, burn = dayNumber(x.SLO.Objective.Ratio(), true), dayNumber(b.SLI, b.HasData),
			dayNumber(b.Consumed, b.HasData)
		score = dayNumber(100*sla.Attain(x.SLO.Objective, 1-b.SLI), b.HasData)
		if c := x.SLO.Cost; c != nil {
			cost, currency = x.SLO.UnitCost().Times(r.Net.Bad).In(c.Currency), c.Currency
		}
	} else {
		x := r.Agreement
		has := r.Kept && x.HasData && x.Missing < len(x.Components)
		cells = append(cells, "agreement", csvText(x.SLA.Service), csvText(x.SLA.Name), csvGroup(x.SLA.GroupBy, x.Group),
			strconv.FormatBool(x.Informative))
		score, low, high = dayNumber(x.Score, has), dayNumber(x.Low, r.Kept), dayNumber(x.High, r.Kept)
		if has && x.Worst >= 0 && x.Components[x.Worst].Lost > 0 {
			worst = csvText(x.Components[x.Worst].Name)
		}
	}
	incidents := ""
	if r.Incidents >= 0 {
		incidents = strconv.Itoa(r.Incidents)
	}
	return append(cells, csvTime(r.Span.From), csvTime(r.Span.To), strconv.FormatBool(r.Complete()),
		dayNumber(r.Coverage, true),
		good, bad, rawGood, rawBad, objective, indicator, burn, score, low, high, worst, incidents, cost, currency, r.Note())
}

// paced gives each write its own time, however long the lines take to be made.
type paced struct {
	to   io.Writer
	conn *http.ResponseController
}

func (p *paced) Write(b []byte) (int, error) {
	if err := p.conn.SetWriteDeadline(time.Now().Add(dayStall)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return 0, err
	}
	return p.to.Write(b)
}

// apiReportDays streams the long table.
func (api *Handler) apiReportDays(c *gin.Context) {
	q := c.Request.URL.Query()
	ask, err := site.ReportQuery(q, api.Opt.Now())
	if err != nil {
		respond.Problem(c, http.StatusBadRequest, err.Error(), nil)
		return
	}
	v := api.View()
	switch {
	case v.Rep == nil:
		c.Header("Retry-After", "5")
		respond.Problem(c, http.StatusServiceUnavailable, "There is no report yet.", nil)
		return
	case api.Opt.Counts == nil:
		respond.Problem(c, http.StatusNotImplemented, "This engine has no history.", nil)
		return
	}
	select {
	case api.dayReaders <- struct{}{}:
		defer func() { <-api.dayReaders }()
	default:
		c.Header("Retry-After", "10")
		respond.Problem(
			c, http.StatusServiceUnavailable, "Other tables of days are being read. Try again when they have finished.", nil)
		return
	}
	c.Header("Content-Type", "text/csv; charset=utf-8; header=present")
	c.Header("Content-Disposition", `attachment; filename="sloengine-days-`+ask.Period.String()+`.csv"`)
	c.Header("Cache-Control", "no-store")
	if c.Request.Method == http.MethodHead {
		c.Status(http.StatusOK)
		return
	}
	conn := http.NewResponseController(c.Writer)
	w := csv.NewWriter(bufio.NewWriterSize(&paced{c.Writer, conn}, dayChunk))
	w.UseCRLF = true
	cells := make([]string, 0, len(DayColumns))
	for _, column := range DayColumns {
		cells = append(cells, column.Name)
	}
	err = w.Write(cells)
	if err == nil {
		err = report.EachDay(c.Request.Context(), api.ReportSource(), v.Rep, ask, func(r *report.DayRow) error {
			cells = dayLine(cells, r)
			return w.Write(cells)
		})
	}
	if err == nil {
		w.Flush()
		err = w.Error()
	}
	switch {
	case err == nil:
		_ = conn.Flush()
		_ = conn.SetWriteDeadline(time.Time{}) // it would hold for the next request, too
	case c.Request.Context().Err() != nil: // the reader is gone
	case !c.Writer.Written():
		api.Opt.LogError("make the table of days of "+ask.Period.String(), err)
		c.Writer.Header().Del("Content-Disposition")
		respond.Problem(c, http.StatusServiceUnavailable, "The table could not be made now.", nil)
	default:
		api.Opt.LogError("make the table of days of "+ask.Period.String(), err)
		panic(http.ErrAbortHandler) // the connection breaks, so that it does not look like the end
	}
}
