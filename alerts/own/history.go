package own

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
)

// maxSeries bounds the history: at one sample in 15s and the longest look-back of an hour it is 8 MiB, and usually a
// tenth of that, because most expressions look back five minutes.
const maxSeries = 2000

// lookback is how long an instant selector finds the last sample of a series, as in Prometheus.
const lookback = 5 * time.Minute

// history holds samples of the engine's own metrics in memory. It is a storage.Queryable for one goroutine at a time.
type history struct {
	parser   parser.Parser
	families map[string]time.Duration // how long the samples of each are held
	target   []labels.Label           // of every series, as a scrape would add them
	series   map[string]*memory       // by their text in the exposition format
	byName   map[string][]*memory
	skipped  int // series of the last exposition that were one too many
}

// memory is one series.
type memory struct {
	labels  labels.Labels
	samples samples // oldest first
	seen    int64   // time of the last exposition that had it, in milliseconds
}

type sample struct {
	t int64 // milliseconds since the epoch
	v float64
}

func newHistory(p parser.Parser, families map[string]time.Duration, job, instance string) *history {
	return &history{
		parser: p, families: families, target: []labels.Label{{Name: "job", Value: job}, {Name: "instance", Value: instance}},
		series: map[string]*memory{}, byName: map[string][]*memory{},
	}
}

// add takes an exposition of the metrics at a time. A series that is not in it any more ends, as in a scrape.
func (h *history) add(exposition []byte, at time.Time) error {
	now := at.UnixMilli()
	h.skipped = 0
	for line := range bytes.Lines(exposition) {
		line = bytes.TrimSpace(line)
		end := bytes.IndexAny(line, "{ ")
		if end <= 0 || line[0] == '#' {
			continue
		}
		if _, wanted := h.families[string(line[:end])]; !wanted {
			continue
		}
		cut := bytes.LastIndexByte(line, ' ')
		v, err := strconv.ParseFloat(string(line[cut+1:]), 64)
		if err != nil {
			return fmt.Errorf("value of %s: %w", line[:cut], err)
		}
		s := h.series[string(line[:cut])]
		if s == nil {
			if len(h.series) >= maxSeries {
				h.skipped++
				continue
			}
			if s, err = h.newSeries(string(line[:cut])); err != nil {
				return err
			}
		}
		s.seen = now
		s.samples = append(s.samples, sample{now, v})
	}
	h.prune(now)
	return nil
}

func (h *history) newSeries(text string) (*memory, error) {
	own, err := h.parser.ParseMetric(text)
	if err != nil {
		return nil, fmt.Errorf("read metric %s: %w", text, err)
	}
	b := labels.NewBuilder(own)
	for _, l := range h.target {
		b.Set(l.Name, l.Value)
	}
	s := &memory{labels: b.Labels()}
	h.series[text] = s
	name := own.Get(model.MetricNameLabel)
	h.byName[name] = append(h.byName[name], s)
	return s, nil
}

// prune marks series that have ended, and drops samples that no expression looks back to.
func (h *history) prune(now int64) {
	for text, s := range h.series {
		if last := s.samples[len(s.samples)-1]; s.seen != now && !value.IsStaleNaN(last.v) {
			s.samples = append(s.samples, sample{now, math.Float64frombits(value.StaleNaN)})
		}
		name := s.labels.Get(model.MetricNameLabel)
		oldest, n := now-h.families[name].Milliseconds(), 0
		for n < len(s.samples) && s.samples[n].t < oldest {
			n++
		}
		s.samples = slices.Delete(s.samples, 0, n)
		if len(s.samples) == 0 || s.seen != now && len(s.samples) == 1 {
			delete(h.series, text)
			h.byName[name] = slices.DeleteFunc(h.byName[name], func(x *memory) bool { return x == s })
		}
	}
}

// Querier gives the samples of a period, both ends included.
func (h *history) Querier(from, to int64) (storage.Querier, error) {
	return &querier{h, from, to}, nil
}

type querier struct {
	*history
	from, to int64
}

// Select finds the series that match. The expressions name the family of every selector.
func (q *querier) Select(_ context.Context, sorted bool, _ *storage.SelectHints,
	matchers ...*labels.Matcher) storage.SeriesSet {
	var out []storage.Series
	at := slices.IndexFunc(matchers, func(m *labels.Matcher) bool {
		return m.Name == model.MetricNameLabel && m.Type == labels.MatchEqual
	})
	if at < 0 {
		return storage.ErrSeriesSet(fmt.Errorf("selector without a name: %s", matchers))
	}
	for _, s := range q.byName[matchers[at].Value] {
		if slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(s.labels.Get(m.Name)) }) {
			continue
		}
		a, _ := slices.BinarySearchFunc(s.samples, q.from, func(x sample, t int64) int { return int(x.t - t) })
		b, _ := slices.BinarySearchFunc(s.samples, q.to+1, func(x sample, t int64) int { return int(x.t - t) })
		part := s.samples[a:b]
		out = append(out, &storage.SeriesEntry{Lset: s.labels, SampleIteratorFn: func(chunkenc.Iterator) chunkenc.Iterator {
			return storage.NewListSeriesIterator(part)
		}})
	}
	if sorted {
		slices.SortFunc(out, func(a, b storage.Series) int { return labels.Compare(a.Labels(), b.Labels()) })
	}
	return &seriesSet{list: out, at: -1}
}

func (q *querier) LabelValues(context.Context, string, *storage.LabelHints, ...*labels.Matcher) ([]string,
	annotations.Annotations, error) {
	return nil, nil, nil // PromQL asks for none
}

func (q *querier) LabelNames(context.Context, *storage.LabelHints, ...*labels.Matcher) ([]string,
	annotations.Annotations, error) {
	return nil, nil, nil // PromQL asks for none
}

func (q *querier) Close() error { return nil }

type seriesSet struct {
	list []storage.Series
	at   int
}

func (s *seriesSet) Next() bool                        { s.at++; return s.at < len(s.list) }
func (s *seriesSet) At() storage.Series                { return s.list[s.at] }
func (s *seriesSet) Err() error                        { return nil }
func (s *seriesSet) Warnings() annotations.Annotations { return nil }

// samples and sample are what storage.NewListSeriesIterator reads.
type samples []sample

func (s samples) Get(i int) chunks.Sample { return s[i] }
func (s samples) Len() int                { return len(s) }

func (s sample) T() int64                      { return s.t }
func (s sample) ST() int64                     { return 0 }
func (s sample) F() float64                    { return s.v }
func (s sample) H() *histogram.Histogram       { return nil }
func (s sample) FH() *histogram.FloatHistogram { return nil }
func (s sample) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (s sample) Copy() chunks.Sample           { return s }

// reads lists the families that an expression reads and how far it looks back in each, and the longest of these.
func reads(p parser.Parser, expr string) (families map[string]time.Duration, longest time.Duration, err error) {
	parsed, err := p.ParseExpr(expr)
	if err != nil {
		return nil, 0, err
	}
	families = map[string]time.Duration{}
	parser.Inspect(parsed, func(node parser.Node, path []parser.Node) error {
		switch n := node.(type) {
		case *parser.SubqueryExpr:
			err = fmt.Errorf("subquery %s is not supported", n)
		case *parser.VectorSelector:
			back := lookback
			longest = max(longest, n.OriginalOffset)
			if len(path) > 0 {
				if m, ok := path[len(path)-1].(*parser.MatrixSelector); ok {
					longest, back = max(longest, m.Range+n.OriginalOffset), max(back, m.Range)
				}
			}
			if n.Name == "" || strings.Contains(n.Name, ":") {
				err = fmt.Errorf("selector %s does not name a metric of the engine", n)
			}
			families[n.Name] = max(families[n.Name], back+n.OriginalOffset)
		}
		return nil
	})
	return families, longest, err
}
