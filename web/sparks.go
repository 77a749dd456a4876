package web

import (
	"context"
	"errors"
	"fmt"
	"html/template"
	"math"
	"strconv"
	"sync"
	"time"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/sla/history"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/web/format"
)

const (
	sparkHours   = 24
	sparkAge     = time.Minute            // an older sparkline is drawn anew; its hours hardly move
	sparkBudget  = 250 * time.Millisecond // for all the sparklines of one page; those beyond stay empty
	sparkEntries = 5000
)

// sparkCache keeps the sparklines, so that a page with a hundred of them costs
// little to look at twice.
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

// draw returns the sparklines of the last 24 hours of some groups, and asks once for all that it does not have. Those that
// cannot be had are "".
func (s *sparkCache) draw(ctx context.Context, w *Web, rep *sla.Report, rows []*sla.SLOReport) ([]template.HTML, error) {
	from := rep.Time.UTC().Truncate(time.Hour).Add(-(sparkHours - 1) * time.Hour)
	hours := history.NewGrid(slo.Span{From: from, To: rep.Time.UTC()}, time.Hour, nil)
	out := make([]template.HTML, len(rows))
	groups := map[slo.ID][]slo.Group{}
	var todo []int
	s.mu.Lock()
	for i, r := range rows {
		if e, ok := s.m[newSparkKey(r)]; ok && !rep.Time.Before(e.report) && rep.Time.Sub(e.report) < sparkAge {
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
	if err := l.Run(ctx, w.opt.Counts); err != nil {
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
			points = hours.Points(&e.Answer, bins)
		}
		at[e]++
		var err error
		if out[i], err = w.fragment("spark", newSpark(points, r.SLO.Objective)); err != nil {
			return out, err
		}
		s.m[newSparkKey(r)] = sparkEntry{rep.Time, out[i]}
	}
	return out, nil
}

// bar is one rectangle of a chart, in the units of its view box.
type bar struct {
	X, Y, W, H string
	Class      string
	Title      string
}

// spark is a small chart of how fast each hour burned the budget. The bars of one
// class share a path: a page has thousands of bars.
type spark struct {
	Good, Bad, None string
	Label           string
}

// Size of a sparkline's view box.
const (
	sparkW = 96
	sparkH = 22
)

// newSpark draws points as bars: the height is the burn rate on a scale that
// keeps 1x at half height, and hours without data are dots on the base line.
func newSpark(points []history.Point, o slo.Objective) *spark {
	if len(points) == 0 {
		return nil
	}
	s := &spark{}
	step := float64(sparkW) / float64(max(len(points), sparkHours))
	var worst slo.Budget
	var at time.Time
	empty := 0
	for i, p := range points {
		b := slo.NewBudget(o, p.Raw.Counts)
		x := float64(i) * step
		if !b.HasData {
			empty++
			s.None += box(x, 1, step-1)
			continue
		}
		if !worst.HasData || b.Consumed > worst.Consumed {
			worst, at = b, p.From
		}
		h := 1 + burnHeight(b.Consumed)*(sparkH-1)
		if b.Consumed > 1 {
			s.Bad += box(x, h, step-1)
		} else {
			s.Good += box(x, h, step-1)
		}
	}
	switch {
	case !worst.HasData:
		s.Label = "no data in 24 hours"
	case worst.Consumed == 0:
		s.Label = "nothing burned in 24 hours"
	default:
		s.Label = fmt.Sprintf("worst of 24 hours: %s at %s UTC", format.BurnRate(worst.Consumed), at.UTC().Format("15:04"))
	}
	if empty > 0 && worst.HasData {
		s.Label += fmt.Sprintf("; %d without data", empty)
	}
	return s
}

// box is a path around a bar that stands on the base line.
func box(x, h, w float64) string {
	return "M" + coord(x) + " " + strconv.Itoa(sparkH) + "v-" + coord(h) + "h" + coord(w) + "v" + coord(h) + "z"
}

// burnHeight maps a burn rate to [0,1): 0 to 0, 1 to a half, ever more to 1.
func burnHeight(rate float64) float64 {
	if rate <= 0 || !format.Finite(rate) {
		return 0
	}
	return rate / (1 + rate)
}

func burnClass(rate float64) string {
	switch {
	case rate > 1:
		return "bad"
	case rate > 0:
		return "some"
	}
	return "good"
}

func rect(x, y, w, h float64, class string) bar {
	return bar{X: coord(x), Y: coord(y), W: coord(max(w, 0.5)), H: coord(max(h, 0)), Class: class}
}

// coord prints a coordinate with at most two decimals.
func coord(x float64) string {
	return strconv.FormatFloat(math.Round(x*100)/100, 'f', -1, 64)
}
