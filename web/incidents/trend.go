package incidents

import (
	"fmt"
	"time"

	"github.com/sloengine/sloengine/alerts/incident"
	"github.com/sloengine/sloengine/web/chart"
	"github.com/sloengine/sloengine/web/format"
)

// trend says how quickly incidents were detected and answered.
type trend struct {
	Months   []monthRow // the latest first, as far back as there are incidents
	Verdicts []verdictRow
	Days     int // that the verdicts are about
}

// monthRow is about the incidents of severity critical that were detected in one month of UTC.
type monthRow struct {
	Name                 string
	Incidents, Automated string
	Detection, Response  times
}

// times summarise how long something took.
type times struct{ Median, P90, Longest string }

// verdictRow holds a baseline of the spec against what was measured.
type verdictRow struct {
	Service, Baseline, Of string
	Before, Target        string
	Mean, Within, Change  string
	Mark                  chart.Mark
}

const (
	trendMonths  = 13 // this one and a year before it
	trendDays    = 30
	shownVerdict = 50
)

// newTrend summarises the incidents by month, and holds the last days against the baselines. It is nil without
// incidents.
func (h *Handler) newTrend(view *incident.View, now time.Time) *trend {
	type month struct {
		all, automated      int
		detection, response []time.Duration
	}
	by := map[string]*month{}
	for inc := range view.All() {
		if inc.Severity != incident.Critical {
			continue
		}
		name := inc.Detected.UTC().Format("2006-01")
		m := by[name]
		if m == nil {
			m = &month{}
			by[name] = m
		}
		m.all++
		if inc.Automated {
			m.automated++
		}
		m.detection = append(m.detection, inc.Detection())
		if d, ok := inc.Response(); ok {
			m.response = append(m.response, d)
		}
	}
	if len(by) == 0 {
		return nil
	}
	t := &trend{Days: trendDays}
	now = now.UTC()
	first := time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC)
	for k := range trendMonths {
		at := first.AddDate(0, -k, 0)
		m := by[at.Format("2006-01")]
		if m == nil {
			continue
		}
		r := monthRow{Name: at.Format("January 2006"), Incidents: format.Count(m.all),
			Automated: format.Percent(float64(m.automated)/float64(m.all), 0)}
		r.Detection, r.Response = newTimes(m.detection), newTimes(m.response)
		t.Months = append(t.Months, r)
	}
	for _, c := range h.Opt.Incidents.Measure(now.AddDate(0, 0, -trendDays), now).Comparisons {
		if len(t.Verdicts) < shownVerdict {
			t.Verdicts = append(t.Verdicts, newVerdict(&c))
		}
	}
	return t
}

func newTimes(all []time.Duration) times {
	f := incident.NewFigure(all)
	if f.Count == 0 {
		return times{format.NoValue, format.NoValue, format.NoValue}
	}
	text := func(s float64) string { return format.Duration(format.Seconds(s)) }
	return times{text(f.Median), text(f.P90), text(f.Max)}
}

func newVerdict(c *incident.Comparison) verdictRow {
	seconds := func(s float64) string { return format.Duration(format.Seconds(s)) }
	r := verdictRow{
		Service: format.Safe(c.Service, format.MaxName), Baseline: format.Safe(c.Baseline, format.MaxName), Of: c.Of,
		Before: seconds(c.From), Target: format.NoValue,
		Mean: format.NoValue, Within: format.NoValue, Change: format.NoValue, Mark: chart.None(c.Verdict),
	}
	if c.To > c.From {
		r.Before += " to " + seconds(c.To)
	}
	if c.Target > 0 {
		r.Target = seconds(c.Target)
	}
	if c.Now.Count > 0 {
		r.Mean = seconds(c.Now.Mean)
		if c.Target > 0 {
			r.Within = fmt.Sprintf("%d of %d", c.Within, c.Now.Count)
		}
	}
	if c.Change != nil {
		r.Change = format.Signed(*c.Change*100, 0) + "%, goal " + format.Signed(c.Goal*100, 0) + "%"
	}
	switch c.Verdict {
	case incident.VerdictMet:
		r.Mark = chart.OK(c.Verdict)
	case incident.VerdictMissed:
		r.Mark = chart.Bad(c.Verdict)
	}
	return r
}
