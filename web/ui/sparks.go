package ui

import (
	"context"
	"errors"
	"html/template"
	"sync"
	"time"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/sla/history"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/web/chart"
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
		var err error
		if out[i], err = ui.Fragment("spark", chart.NewSpark(points, r.SLO.Objective)); err != nil {
			return out, err
		}
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
	var err error
	ui.drawn.none, err = ui.Fragment("spark", (*chart.Spark)(nil))
	return err
}
