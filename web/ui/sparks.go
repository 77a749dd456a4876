package ui

import (
	"context"
	"errors"
	"html/template"
	"slices"
	"sync"
	"time"

	"github.com/sloengine/sloengine/alerts/incident"
	"github.com/sloengine/sloengine/internal/order"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/sla/history"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/web/chart"
	"github.com/sloengine/sloengine/web/format"
	"github.com/sloengine/sloengine/web/respond"
	"github.com/sloengine/sloengine/web/site"
)

const (
	sparkBudget  = 250 * time.Millisecond // for all the sparklines of one page; those beyond stay empty
	sparkEntries = 5000
)

// sparkCache keeps the sparklines of a report, so that a page with a hundred of them costs little to look at twice. The
// next report has its own: a sparkline must not be calm beside a burn rate that is not.
type sparkCache struct {
	mu sync.Mutex
	m  map[sparkKey]sparkEntry
}

type sparkKey struct {
	id         slo.ID
	group      string
	generation uint32
	objective  float64
}

func newSparkKey(r *sla.SLOReport) sparkKey {
	return sparkKey{r.SLO.ID, r.Group.Key(), r.Generation, r.SLO.Objective.Ratio()}
}

type sparkEntry struct {
	report time.Time
	drawn  template.HTML
}

// draw returns the sparklines of the last 24 hours of some groups, and asks once for all that it does not have. Those
// that cannot be had are "".
func (s *sparkCache) draw(ctx context.Context, ui *Handler, rep *sla.Report,
	rows []*sla.SLOReport) ([]template.HTML, error) {
	from := rep.Time.UTC().Truncate(time.Hour).Add(-(chart.SparkHours - 1) * time.Hour)
	hours := history.NewGrid(slo.Span{From: from, To: rep.Time.UTC()}, time.Hour, nil)
	out := make([]template.HTML, len(rows))
	groups := map[slo.ID][]slo.Group{}
	var todo []int
	s.mu.Lock()
	for i, r := range rows {
		if e, ok := s.m[newSparkKey(r)]; ok && rep.Time.Equal(e.report) {
			out[i] = e.drawn
			continue
		}
		todo = append(todo, i)
		groups[r.SLO.ID] = append(groups[r.SLO.ID], r.Group)
	}
	s.mu.Unlock()
	var l history.Batch
	asked := make([]*history.Series, len(todo))
	at := map[*history.Series]int{} // how many groups of a counter are drawn
	for k, i := range todo {
		id := rows[i].SLO.ID
		asked[k] = l.Add(string(id), "hours", hours, groups[id])
	}
	if err := l.Run(ctx, ui.Opt.Counts); err != nil {
		if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
			err = nil
		}
		return out, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.m == nil || len(s.m)+len(todo) > sparkEntries {
		s.m = map[sparkKey]sparkEntry{}
	}
	for k, i := range todo {
		e, r := asked[k], rows[i]
		var points []history.Point
		if bins := e.Answer.Groups[at[e]]; bins != nil {
			points = hours.Points(r.SLO, r.Group, &e.Answer, bins)
		}
		at[e]++
		out[i] = chart.NewSpark(points, r.SLO.Objective).SVG()
		s.m[newSparkKey(r)] = sparkEntry{rep.Time, out[i]}
	}
	return out, nil
}

// drawings are the parts that every row of a list repeats, drawn once.
type drawings struct {
	marks map[chart.Mark]template.HTML
	none  template.HTML // instead of a sparkline
}

func (ui *Handler) draw() error {
	ui.drawn.marks = map[chart.Mark]template.HTML{}
	for _, m := range stateMarks {
		text, err := ui.Fragment("mark", m)
		if err != nil {
			return err
		}
		ui.drawn.marks[m] = text
	}
	ui.drawn.none = (*chart.Spark)(nil).SVG()
	return nil
}

// Bounds of the matrix of days.
const (
	matrixSLOs   = 30 // of the page, in the order of the list
	matrixGroups = 20 // of each, the worst of today
	matrixDays   = 30
	daysBudget   = 2 * time.Second
	matrixAge    = time.Minute // after which a row is drawn again: but for today, days hardly change
)

// daysRow is an SLO in the matrix of days. A day is as bad as the worst group was.
type daysRow struct {
	HTML template.HTML
	rank int // days missed, those missed by far first
}

// daysPart is the matrix of the SLOs of a page.
type daysPart struct {
	Rows  []daysRow // worst first
	Open  bool      // unless the reader closed it
	First string    // day
	Of    string    // "30 of 1,000 SLOs" if some are left out
}

// dayCache keeps the rows of the matrix.
type dayCache struct {
	mu sync.Mutex
	m  map[sparkKey]dayEntry
}

type dayEntry struct {
	drawn time.Time
	row   daysRow
}

// fillDays draws the matrix of the SLOs in rows. What cannot be read in time is left out.
func (ui *Handler) fillDays(ctx context.Context, rep *sla.Report, rows []*sla.SLOReport,
	active site.ActiveAlerts) (*daysPart, error) {
	p := &daysPart{First: rep.Time.UTC().AddDate(0, 0, 1-matrixDays).Format("2 Jan")}
	var missing []*sla.SLOReport
	s := &ui.days
	s.mu.Lock()
	for _, r := range rows {
		if e, ok := s.m[newSparkKey(r)]; ok && rep.Time.Sub(e.drawn).Abs() < matrixAge {
			p.Rows = append(p.Rows, e.row)
		} else {
			missing = append(missing, r)
		}
	}
	s.mu.Unlock()
	if len(missing) > 0 {
		var l history.Batch
		asked, groups := make([]*history.Series, len(missing)), make([][]*sla.SLOReport, len(missing))
		for i, r := range missing {
			groups[i] = worstGroups(rep, r.SLO.ID, active)
			names := make([]slo.Group, len(groups[i]))
			for k, g := range groups[i] {
				names[k] = g.Group
			}
			asked[i] = l.Add(string(r.SLO.ID), "days", history.DayGrid(rep.Time, history.ZoneOf(r.SLO), matrixDays,
				func(sp slo.Span) []slo.Span { return history.Excluded(r.SLO, sp, r.Slice) }), names)
		}
		if err := l.Run(ctx, ui.Opt.Counts); err != nil {
			return nil, err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.m == nil || len(s.m)+len(missing) > sparkEntries {
			s.m = map[sparkKey]dayEntry{}
		}
		for i, r := range missing {
			row := ui.newDaysRow(r, asked[i], groups[i])
			p.Rows = append(p.Rows, row)
			s.m[newSparkKey(r)] = dayEntry{rep.Time, row}
		}
	}
	order.By(p.Rows, func(a, b *daysRow) int { return b.rank - a.rank })
	return p, nil
}

// worstGroups are the groups of an SLO that the matrix looks at.
func worstGroups(rep *sla.Report, id slo.ID, active site.ActiveAlerts) []*sla.SLOReport {
	out := site.RowsOf(rep, id)
	slices.SortStableFunc(out, worstGroup(active))
	return out[:min(len(out), matrixGroups)]
}

func (ui *Handler) newDaysRow(r *sla.SLOReport, e *history.Series, groups []*sla.SLOReport) daysRow {
	s := r.SLO
	days, missed, far := make([]chart.Day, len(e.Grid.Steps)), 0, 0
	worst := make([]slo.Budget, len(days))
	for k, g := range groups {
		if k >= len(e.Answer.Groups) || e.Answer.Groups[k] == nil {
			continue
		}
		for i, point := range e.Grid.Points(s, g.Group, &e.Answer, e.Answer.Groups[k]) {
			if b := point.Net.Budget(s); b.HasData && (!worst[i].HasData || b.Consumed > worst[i].Consumed) {
				worst[i] = b
			}
		}
	}
	for i, b := range worst {
		days[i].Class = "none"
		if !b.HasData {
			continue
		}
		var word string
		days[i].Class, word = chart.DayClass(b)
		days[i].Title = e.Grid.Steps[i].From.In(history.ZoneOf(s)).Format("Mon 2 Jan") + ": " +
			format.Percent(b.SLI, format.Decimals(s.Objective)) + ", " + word
		if b.Consumed > 1 {
			missed++
		}
		if days[i].Class == "bad" {
			far++
		}
	}
	row := daysRow{rank: far*matrixDays + missed}
	if s.ID.Service() == incident.EngineService { // after those of users
		row.rank = -1
	}
	var m site.Markup
	m.Add(`<tr id="d`, site.Text(respond.Hash(string(s.ID))), `"><th scope="row"><a href="`, site.Text(ui.SLOHref(r)),
		`"><span class="svc"><bdi>`, site.Text(format.Safe(s.ID.Service(), format.MaxName)), `</bdi> /</span> <bdi>`,
		site.Text(format.Safe(s.ID.Name(), format.MaxName)), `</bdi></a></th><td>`,
		chart.DayStrip(days, format.Plural(len(days), "day")+", "+format.Count(missed)+" missed the objective"),
		`</td><td class="num">`, site.Text(format.Count(missed)), "</td></tr>\n")
	row.HTML = m.HTML()
	return row
}
