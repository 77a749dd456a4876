package rules

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/sloengine/sloengine/rules/series"
	"github.com/sloengine/sloengine/slo"
)

// maxSpans and maxBoundaries bound the literal tables, which Prometheus works
// through at every evaluation.
const (
	maxSpans      = 2000
	maxBoundaries = 5000
)

// judged is how long after its end the engine closes a slice, and how much later
// its counters may show it.
const (
	judged     = 2 * time.Minute
	judgedLate = 30 * time.Second
)

// tables are the literal times of a service: when its calendar windows begin and
// what its corrections take out. They are recorded under labels of their own, so
// that all SLOs share them, and a query over the past reads them as they are now:
// "@ end()" is the instant of the evaluation even inside a subquery.
type tables struct {
	service     string
	from, until time.Time
	reach       time.Duration // of the longest window
	delay       time.Duration // until what happened has left the five-minute rates

	periods map[string]*periodTable // by window
	order   []*periodTable
	masks   []mask
}

// periodTable is when the calendar windows of one kind begin and end.
type periodTable struct {
	matchers string
	labels   map[string]string
	starts   []time.Time // the last is the end of the last window
}

func (p *periodTable) series(name string) string { return name + p.matchers }

// sofar holds at times inside the present window.
func (p *periodTable) sofar() string {
	return "(" + p.series(series.PeriodStart) + " @ end() < time())"
}

func (t *tables) period(w slo.Window) (*periodTable, error) {
	key := w.String()
	if p := t.periods[key]; p != nil {
		return p, nil
	}
	if t.until.IsZero() || t.from.IsZero() {
		return nil, ErrNoTables
	}
	p := &periodTable{
		matchers: `{` + series.LabelService + `="` + t.service + `",` + series.LabelCalendar + `="` + string(w.Calendar) +
			`",` + series.LabelTimezone + `="` + w.Location.String() + `"}`,
		labels: map[string]string{series.LabelService: t.service, series.LabelCalendar: string(w.Calendar),
			series.LabelTimezone: w.Location.String()},
		starts: []time.Time{w.Start(t.from)},
	}
	for at := t.from; ; {
		at = w.End(at)
		p.starts = append(p.starts, at)
		if !at.Before(t.until) {
			break
		}
		if len(p.starts) > maxBoundaries {
			return nil, fmt.Errorf("more than %d calendar windows from %s until %s", maxBoundaries, t.from.Format(time.DateOnly),
				t.until.Format(time.DateOnly))
		}
	}
	if t.periods == nil {
		t.periods = map[string]*periodTable{}
	}
	t.periods[key] = p
	t.order = append(t.order, p)
	return p, nil
}

// steps is a number that changes at given times: at times[i] to values[i+1].
func steps(values, times []time.Time) string {
	var b strings.Builder
	b.WriteString("vector(" + seconds(values[0]))
	for i, at := range times {
		b.WriteString(
			"\n+ " + strconv.FormatInt(values[i+1].Unix()-values[i].Unix(), 10) + " * (time() >= bool " + seconds(at) + ")")
	}
	b.WriteString(")")
	return b.String()
}

func (p *periodTable) rules() []Rule {
	last := len(p.starts) - 1
	return []Rule{
		{Record: series.PeriodStart, Expr: steps(p.starts[:last], p.starts[1:last]), Labels: p.labels},
		{Record: series.PeriodEnd, Expr: steps(p.starts[1:], p.starts[1:last]), Labels: p.labels},
	}
}

// mask is a set of spans that are taken out of what is read. The zero mask takes
// out nothing.
type mask struct {
	id    string
	table string // the spans as text, by which equal masks are found
	spans []slo.Span
}

func (m mask) is() bool { return m.id != "" }

func (m mask) series(name string) string {
	return name + `{` + series.LabelCorrections + `="` + m.id + `"}`
}

// now holds while corrected events are in the five-minute rates.
func (m mask) now() string {
	return "((" + m.series(series.CorrectionStart) + " < time()) and (" + m.series(series.CorrectionEnd) + " > time()))"
}

// counted is 1 while corrected events are among those since the last evaluation, which they leave five minutes before
// they leave the five-minute rates.
func (m mask) counted() string {
	return "count((" + m.series(series.CorrectionStart) + " < time()) and (" + m.series(series.CorrectionEnd) +
		" > time() + 300)) > bool 0"
}

// then is now at the times of a subquery.
func (m mask) then() string {
	return "((" + m.series(series.CorrectionStart) + " @ end() < time()) and (" + m.series(series.CorrectionEnd) +
		" @ end() > time()))"
}

// since holds while corrected events may be in a window.
func (m mask) since(w time.Duration) string {
	return "(" + m.series(series.CorrectionEnd) + " > time() - " + num(w.Seconds()) + ")"
}

// corrections finds or makes the mask of a set of corrections. Where slices are
// judged, those that a correction touches are taken out whole, from when the
// first of them shows in the counters until the last has.
func (t *tables) corrections(cs []slo.Correction, slice time.Duration) (mask, error) {
	spans, err := t.excluded(cs)
	if err != nil {
		return mask{}, err
	}
	var text strings.Builder
	for i, s := range spans {
		from, to := s.From, s.To
		if slice > 0 {
			from = floor(from, slice).Add(slice + judged)
			to = floor(to.Add(slice-1), slice).Add(judged + judgedLate)
		}
		spans[i] = slo.Span{From: from, To: to.Add(t.delay)}
		text.WriteString(spans[i].From.String() + spans[i].To.String())
	}
	if len(spans) == 0 {
		return mask{}, nil
	}
	for _, m := range t.masks {
		if m.table == text.String() {
			return m, nil
		}
	}
	m := mask{id: t.service + "/" + strconv.Itoa(len(t.masks)+1), table: text.String(), spans: spans}
	t.masks = append(t.masks, m)
	return m, nil
}

// floor is the start of the slice, aligned to the epoch, that a time is in.
func floor(t time.Time, slice time.Duration) time.Time {
	n := t.UnixNano()
	return time.Unix(0, n-(n%int64(slice)+int64(slice))%int64(slice)).UTC()
}

func (t *tables) excluded(cs []slo.Correction) ([]slo.Span, error) {
	var once []slo.Span
	for _, c := range cs {
		if c.Between == nil {
			once = append(once, slo.Span{From: c.Start, To: c.Start.Add(c.Duration)}.RoundOut(slo.CorrectionStep))
		}
	}
	if len(once) < len(cs) {
		if t.from.IsZero() || t.until.IsZero() {
			return nil, ErrNoTables
		}
		once = slo.TakenOut(cs, slo.Span{From: t.from.Add(-t.reach), To: t.until})
	}
	once = slo.MergeSpans(once)
	if len(once) > maxSpans {
		return nil, fmt.Errorf("corrections happen %d times from %s until %s: want at most %d", len(once),
			t.from.Format(time.DateOnly), t.until.Format(time.DateOnly), maxSpans)
	}
	return once, nil
}

func (m mask) labels(service string) map[string]string {
	return map[string]string{series.LabelService: service, series.LabelCorrections: m.id}
}

func (m mask) rules(service string, reach time.Duration) []Rule {
	labels := m.labels(service)
	var starts, ends []string
	var longest time.Duration
	for _, s := range m.spans {
		name := s.From.UTC().Format(time.RFC3339)
		value := func(t time.Time) string {
			return "label_replace(vector(" + seconds(t) + `), "` + series.LabelSpan + `", "` + name + `", "", "")`
		}
		starts, ends = append(starts, value(s.From)), append(ends, value(s.To))
		longest = max(longest, s.Duration())
	}
	table := func(rows []string) string { return "(" + strings.Join(rows, "\nor ") + ")" }
	// Only what a window that ends now can touch.
	return []Rule{
		{Record: series.CorrectionStart, Labels: labels,
			Expr: table(starts) + "\n< time() > time() - " + num((reach + longest).Seconds())},
		{Record: series.CorrectionEnd, Labels: labels,
			Expr: table(ends) + "\n> time() - " + num(reach.Seconds()) + "\nand on (" + series.LabelSpan + ") " +
				m.series(series.CorrectionStart)},
	}
}

// group is the rule group of the tables; false if there are none.
func (t *tables) group(o Options) (Group, bool) {
	g := Group{Name: "sloengine-tables/" + t.service, Interval: o.Eval}
	for _, p := range t.order {
		g.Rules = append(g.Rules, p.rules()...)
	}
	for _, m := range t.masks {
		g.Rules = append(g.Rules, m.rules(t.service, t.reach+t.delay)...)
		if o.Minimal() {
			g.Rules = append(g.Rules, Rule{Record: series.Maintenance, Expr: m.counted(), Labels: m.labels(t.service)})
		}
	}
	if !t.until.IsZero() && len(g.Rules) > 0 {
		g.Rules = append(g.Rules, Rule{
			Record: series.TablesEnd, Expr: "vector(" + seconds(t.until) + ")",
			Labels: map[string]string{series.LabelService: t.service},
		})
	}
	return g, len(g.Rules) > 0
}
