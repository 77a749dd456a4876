package collector

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	dto "github.com/prometheus/client_model/go"

	"github.com/sloengine/sloengine/alerts/state"
	"github.com/sloengine/sloengine/reliability/metric"
	"github.com/sloengine/sloengine/rules/series"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo/traces"
)

// reports gathers the report's series for the formats that text is not enough for. The families are built once per
// report and shared by all scrapes.
type reports struct {
	latest func() *sla.Report // nil until the counts are complete
	traces func() []traces.Of // asked once for each report

	mu    sync.Mutex
	built *sla.Report
	list  []*dto.MetricFamily
}

// Gather returns the families sorted by name. They must not be changed.
func (c *reports) Gather() ([]*dto.MetricFamily, error) {
	rep := c.latest()
	if rep == nil {
		return nil, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.built != rep {
		c.built, c.list = rep, Families(rep, c.traces())
	}
	return c.list, nil
}

// Families returns the series of a report, sorted by name, with exemplars of the failing traces.
func Families(rep *sla.Report, failing []traces.Of) []*dto.MetricFamily {
	x := &families{}
	walk(rep, newExemplars(failing), x)
	return x.sorted()
}

// gatherAlerts returns the states of the alerts that are pending or firing.
func gatherAlerts(active []state.Alert) []*dto.MetricFamily {
	x := &families{}
	x.family(series.AlertState)
	for i := range active {
		a := &active[i]
		if a.State == state.Resolved {
			continue
		}
		values := []string{a.Name, a.Service, a.Severity}
		var extra []string
		for _, l := range a.Labels {
			if a.Engine && (l.Name == "job" || l.Name == "instance") {
				continue // the scrape adds them
			}
			if !slices.Contains(series.AlertState.LabelNames(), l.Name) {
				extra, values = append(extra, l.Name), append(values, l.Value)
			}
		}
		value := float64(series.AlertPending)
		if a.State == state.Firing {
			value = series.AlertFiring
		}
		x.sample(x.labels(slices.Concat(series.AlertState.LabelNames(), extra), values...), nil, value, nil)
	}
	return x.sorted()
}

// families encodes series as values of client_model.
type families struct {
	list []*dto.MetricFamily
	typ  metric.Type // of the last one
}

// sorted returns the families that have series, by name.
func (x *families) sorted() []*dto.MetricFamily {
	out := slices.DeleteFunc(x.list, func(f *dto.MetricFamily) bool { return len(f.Metric) == 0 })
	slices.SortFunc(out, func(a, b *dto.MetricFamily) int { return cmp.Compare(*a.Name, *b.Name) })
	return out
}

var dtoTypes = map[metric.Type]dto.MetricType{
	metric.Counter: dto.MetricType_COUNTER, metric.Gauge: dto.MetricType_GAUGE, metric.Histogram: dto.MetricType_HISTOGRAM,
}

func (x *families) family(f *metric.Family) {
	x.typ = f.Type
	x.list = append(x.list, &dto.MetricFamily{Name: &f.Name, Help: &f.Help, Type: dtoTypes[f.Type].Enum()})
}

// labels makes sorted label pairs.
func (x *families) labels(names []string, values ...string) []*dto.LabelPair {
	ps := make([]dto.LabelPair, len(names))
	out := make([]*dto.LabelPair, len(names))
	for i := range names {
		v := ""
		if i < len(values) {
			v = labelValue(values[i])
		}
		ps[i].Name, ps[i].Value = &names[i], &v
		out[i] = &ps[i]
	}
	slices.SortFunc(out, byName)
	return out
}

func byName(a, b *dto.LabelPair) int { return cmp.Compare(*a.Name, *b.Name) }

func (x *families) sample(labels, more []*dto.LabelPair, value float64, e *exemplar) {
	if len(more) > 0 { // the pairs of a group are shared
		all := make([]*dto.LabelPair, 0, len(labels)+len(more))
		for _, m := range more {
			at, _ := slices.BinarySearchFunc(labels, m, byName)
			all, labels = append(append(all, labels[:at]...), m), labels[at:]
		}
		labels = append(all, labels...)
	}
	m := &dto.Metric{Label: labels}
	if x.typ == metric.Counter {
		m.Counter = &dto.Counter{Value: &value, Exemplar: e.dto()}
	} else {
		m.Gauge = &dto.Gauge{Value: &value}
	}
	x.add(m)
}

func (x *families) histogram(labels []*dto.LabelPair, buckets []bucket, sum float64) {
	h := &dto.Histogram{SampleCount: &buckets[len(buckets)-1].count, SampleSum: &sum}
	for _, b := range buckets {
		if b.exemplar != nil || !math.IsInf(b.le, 1) { // the count says what +Inf has
			h.Bucket = append(h.Bucket,
				&dto.Bucket{UpperBound: &b.le, CumulativeCount: &b.count, Exemplar: b.exemplar.dto()})
		}
	}
	x.add(&dto.Metric{Label: labels, Histogram: h})
}

func (x *families) add(m *dto.Metric) {
	f := x.list[len(x.list)-1]
	if len(f.Metric) == cap(f.Metric) {
		f.Metric = slices.Grow(f.Metric, max(16, len(f.Metric))) // append would copy long lists more often
	}
	f.Metric = append(f.Metric, m)
}

// labelValue makes text valid UTF-8, as the exposition formats demand. A broken byte becomes \xNN, so that values stay
// different.
func labelValue(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && size == 1 {
			fmt.Fprintf(&b, `\x%02x`, s[i])
		} else {
			b.WriteString(s[i : i+size])
		}
		i += size
	}
	return b.String()
}
