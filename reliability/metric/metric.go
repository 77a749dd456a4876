// Package metric defines the engine's own metric families: every name that begins with sloengine_, and those of
// incidents, with its type, unit, help and labels. Code that counts makes its series here, alerts and dashboards refer
// to the variables, and docs/metrics.md and the HELP lines of /metrics are generated from them.
//
// It does not know how metrics are counted, nor how a registry is exposed. The slo_* and sla_* families are in
// rules/series.
package metric

import (
	"fmt"
	"strings"
	"sync"

	"github.com/VictoriaMetrics/metrics"
)

// Type is the Prometheus type of a family.
type Type string

// Namespace begins the names of all metrics of the engine.
const Namespace = "sloengine_"

// The types in use.
const (
	Counter   Type = "counter"
	Gauge     Type = "gauge"
	Histogram Type = "histogram"
)

// Units that many families share. A unit is that of the values, not of the name.
const (
	unitEvents  = "events"
	unitBytes   = "bytes"
	unitSeconds = "seconds"
	unitYesNo   = "1 or 0"
	unitTimes   = "times"
)

// Part is the metrics of one part of the program, in the order of docs/metrics.md.
type Part struct {
	Title    string
	About    string // when the families exist, and facts about all of them
	Families []*Family
}

// Family is one metric family. It does not change once it is defined.
type Family struct {
	Name    string
	Type    Type
	Unit    string
	Help    string
	Labels  []Label
	Extra   string    // where further labels come from, such as "group_by of the spec"; "": there are none
	Absent  string    // when the family is missing although its part is there; "": never
	Buckets []float64 // upper bounds, ascending, without +Inf; of histograms that the engine fills

	names []string // of Labels
}

// Label is a label of a family. Values lists all values that it can have, otherwise About describes
// them.
type Label struct {
	Name   string
	Values []string
	About  string
}

// Option adds a detail to a family.
type Option func(*Family)

// OneOf is a label with a closed set of values, separated by spaces.
func OneOf(name, values string) Option {
	return func(f *Family) { f.Labels = append(f.Labels, Label{Name: name, Values: strings.Fields(values)}) }
}

// Named is a label whose values are names chosen by users.
func Named(name, about string) Option {
	return func(f *Family) { f.Labels = append(f.Labels, Label{Name: name, About: about}) }
}

// Extra says where the labels after the fixed ones come from.
func Extra(from string) Option { return func(f *Family) { f.Extra = from } }

// Absent says when the family is missing.
func Absent(when string) Option { return func(f *Family) { f.Absent = when } }

// NewPart begins a part.
func NewPart(title, about string) *Part { return &Part{Title: title, About: about} }

// add is called by functions that are not inlined, which saves 86 kB of code in the initialization of this package.
func (p *Part) add(f *Family, options []Option) *Family {
	for _, o := range options {
		o(f)
	}
	for _, l := range f.Labels {
		f.names = append(f.names, l.Name)
	}
	p.Families = append(p.Families, f)
	return f
}

// Counter defines a counter.
//
//go:noinline
func (p *Part) Counter(name, unit, help string, options ...Option) *Family {
	return p.add(&Family{Name: name, Type: Counter, Unit: unit, Help: help}, options)
}

// Gauge defines a gauge.
//
//go:noinline
func (p *Part) Gauge(name, unit, help string, options ...Option) *Family {
	return p.add(&Family{Name: name, Type: Gauge, Unit: unit, Help: help}, options)
}

// Histogram defines a histogram of seconds. Buckets that depend on the spec are nil.
//
//go:noinline
func (p *Part) Histogram(name, help string, buckets []float64, options ...Option) *Family {
	return p.add(&Family{Name: name, Type: Histogram, Unit: unitSeconds, Help: help, Buckets: buckets}, options)
}

// Parts lists every part, in the order of the documentation.
func Parts() []*Part {
	return []*Part{
		trafficPart, alertPart, incidentPart,
		ingestPart, dedupePart, walPart, historyPart, foldPart, checkpointPart, evaluatePart, forecastPart, fleetPart,
		budgetPart, rateLimitPart, outboundPart, redisPart, redactPart, auditPart, sourcePart, kafkaSourcePart,
		outboxSourcePart, rabbitPart,
		sinkPart, kafkaPart, rabbitMQPart, outboxPart, remoteWritePart, notifyPart, reportsPart, subscriptionPart, retryPart,
		breakerPart, bulkheadPart, deadlinePart, dlqPart,
		webPart, processPart, clientPart,
	}
}

var byName = sync.OnceValue(func() map[string]*Family {
	m := map[string]*Family{}
	for _, p := range Parts() {
		for _, f := range p.Families {
			m[f.Name] = f
		}
	}
	return m
})

// Lookup returns the family of a name, or of one of a histogram's series (name_bucket, name_sum, name_count).
func Lookup(name string) *Family {
	if f := byName()[name]; f != nil {
		return f
	}
	for _, part := range []string{"_bucket", "_sum", "_count"} {
		if base, ok := strings.CutSuffix(name, part); ok && byName()[base] != nil && byName()[base].Type == Histogram {
			return byName()[base]
		}
	}
	return nil
}

// LabelNames lists the names of the fixed labels of the family. Callers must not change the result.
func (f *Family) LabelNames() []string { return f.names }

// LabelEscapes escapes label values for the Prometheus text format. Go's own quoting escapes more, which a parser
// refuses.
var LabelEscapes = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)

// Series is the name of the series with these label values, as a metrics.Set knows it. It panics unless there is one
// value for each label.
func (f *Family) Series(values ...string) string {
	if len(values) != len(f.names) {
		panic(fmt.Sprintf("%s has the labels %v, not %d", f.Name, f.names, len(values)))
	}
	var b strings.Builder
	b.WriteString(f.Name)
	for i, v := range values {
		sep := ","
		if i == 0 {
			sep = "{"
		}
		b.WriteString(sep + f.names[i] + `="` + LabelEscapes.Replace(v) + `"`)
	}
	if len(values) > 0 {
		b.WriteByte('}')
	}
	return b.String()
}

// Counter makes the counter with these label values in set, or returns the one that is there.
func (f *Family) Counter(set *metrics.Set, values ...string) *metrics.Counter {
	return set.GetOrCreateCounter(f.Series(values...))
}

// Gauge makes a gauge that is set.
func (f *Family) Gauge(set *metrics.Set, values ...string) *metrics.Gauge {
	return f.Read(set, nil, values...)
}

// Read makes a gauge, or a counter, whose value is read at every scrape.
func (f *Family) Read(set *metrics.Set, read func() float64, values ...string) *metrics.Gauge {
	return set.GetOrCreateGauge(f.Series(values...), read)
}

// Histogram makes the histogram with these label values.
func (f *Family) Histogram(set *metrics.Set, values ...string) *metrics.PrometheusHistogram {
	return set.GetOrCreatePrometheusHistogramExt(f.Series(values...), f.Buckets)
}

// Group makes series that leave their set together, such as those of one sink.
type Group struct {
	Set   *metrics.Set
	names []string
}

func (g *Group) add(f *Family, values []string) { g.names = append(g.names, f.Series(values...)) }

// Counter makes a counter of the group.
func (g *Group) Counter(f *Family, values ...string) *metrics.Counter {
	g.add(f, values)
	return f.Counter(g.Set, values...)
}

// FloatCounter makes a counter of the group that takes fractions.
func (g *Group) FloatCounter(f *Family, values ...string) *metrics.FloatCounter {
	g.add(f, values)
	return g.Set.GetOrCreateFloatCounter(f.Series(values...))
}

// Gauge makes a gauge of the group.
func (g *Group) Gauge(f *Family, values ...string) *metrics.Gauge {
	g.add(f, values)
	return f.Gauge(g.Set, values...)
}

// Read makes a gauge of the group whose value is read at every scrape.
func (g *Group) Read(f *Family, read func() float64, values ...string) *metrics.Gauge {
	g.add(f, values)
	return f.Read(g.Set, read, values...)
}

// Histogram makes a histogram of the group.
func (g *Group) Histogram(f *Family, values ...string) *metrics.PrometheusHistogram {
	g.add(f, values)
	return f.Histogram(g.Set, values...)
}

// Unregister removes the group's series from the set.
func (g *Group) Unregister() {
	for _, n := range g.names {
		g.Set.UnregisterMetric(n)
	}
	g.names = nil
}

// PerName is the series of things that have a name, such as sinks: made when a name is first asked for, and removed
// from the set together. It is safe for concurrent use.
type PerName[T any] struct {
	set  *metrics.Set
	make func(g *Group, name string) T

	mu sync.Mutex // guards by, and the groups in it
	by map[string]*named[T]
}

type named[T any] struct {
	series T
	group  Group
}

// NewPerName returns an empty one. make defines the series of a name.
func NewPerName[T any](set *metrics.Set, make func(g *Group, name string) T) *PerName[T] {
	return &PerName[T]{set: set, make: make, by: map[string]*named[T]{}}
}

// Of returns the series of a name.
func (p *PerName[T]) Of(name string) T {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.by[name]
	if n == nil {
		n = &named[T]{group: Group{Set: p.set}}
		n.series = p.make(&n.group, name)
		p.by[name] = n
	}
	return n.series
}

// Lookup returns the series of a name, if there are any.
func (p *PerName[T]) Lookup(name string) (series T, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := p.by[name]; n != nil {
		return n.series, true
	}
	return series, false
}

// Add gives a name further series, unless it was forgotten meanwhile.
func (p *PerName[T]) Add(name string, more func(*Group)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := p.by[name]; n != nil {
		more(&n.group)
	}
}

// Forget removes the series of a name that is gone.
func (p *PerName[T]) Forget(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := p.by[name]; n != nil {
		n.group.Unregister()
		delete(p.by, name)
	}
}
