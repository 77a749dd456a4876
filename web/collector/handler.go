package collector

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/klauspost/compress/gzip"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/sloengine/sloengine/alerts/incident"
	"github.com/sloengine/sloengine/alerts/state"
	"github.com/sloengine/sloengine/reliability/metric"
	"github.com/sloengine/sloengine/rules/series"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo/traces"
	"github.com/sloengine/sloengine/web/respond"
)

// Scrapes that are answered at the same time; more get 503.
const maxScrapes = 4

// Options are what a handler serves. Report, Engine and LogError are required.
type Options struct {
	Report    func() *sla.Report    // the latest report; nil until the first one
	NoSeries  bool                  // leave out the families of the report
	Recovered func() bool           // the counts are complete: before, a counter would look as if it had been reset
	Alerts    func() *state.View    // nil: the engine evaluates no alerts
	Incidents func() *incident.View // nil: the engine keeps none
	Now       func() time.Time      // required with Incidents
	Traces    func() []traces.Of    // failing ones, for exemplars; nil: none
	Sets      []*metrics.Set        // the engine's own metrics
	Registry  prometheus.Gatherer   // more families; nil: none
	Timeout   time.Duration         // of an answer
	LogError  func(msg string, err error)
}

// Gatherer returns what a handler with these options serves. Its families must not be changed.
func Gatherer(o Options) prometheus.Gatherer {
	rep, others := sources(o)
	return join(append([]prometheus.Gatherer{rep}, others...), nil)
}

// sources are where the series come from.
func sources(o Options) (rep *reports, others []prometheus.Gatherer) {
	latest := func() *sla.Report {
		if o.NoSeries || !o.Recovered() {
			return nil
		}
		return o.Report()
	}
	failing := o.Traces
	if failing == nil {
		failing = func() []traces.Of { return nil }
	}
	if o.Alerts != nil {
		others = append(others, prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
			if !o.Recovered() {
				return nil, nil
			}
			return gatherAlerts(o.Alerts().Active), nil
		}))
	}
	if o.Incidents != nil {
		others = append(others, prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
			if !o.Recovered() {
				return nil, nil
			}
			return gatherIncidents(o.Incidents(), o.Now()), nil
		}))
	}
	for _, s := range o.Sets {
		others = append(others, prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) { return gatherSet(s) }))
	}
	if o.Registry != nil {
		others = append(others, o.Registry)
	}
	return &reports{latest: latest, traces: failing}, others
}

// Handler serves the report's series, the engine's own metrics and those of the given registry in whatever
// exposition format the scraper prefers.
func Handler(o Options) http.Handler {
	rep, others := sources(o)
	log := scrapeLog(o.LogError)
	full := promhttp.HandlerFor(join(append([]prometheus.Gatherer{rep}, others...), nil),
		promhttp.HandlerOpts{
			ErrorHandling: promhttp.ContinueOnError, ErrorLog: log, CoalesceGather: true, EnableOpenMetrics: true,
		})
	taken := map[string]bool{}
	for _, s := range series.All() {
		taken[s.Name] = s.Name != series.AlertState.Name // which is one of the others
	}
	rest := join(others, taken)
	slots := make(chan struct{}, maxScrapes)

	serve := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
		default:
			rw.Header().Set("Retry-After", "1")
			http.Error(rw, "too many scrapes at once", http.StatusServiceUnavailable)
			return
		}
		format := expfmt.NegotiateAccept(r.Header, expfmt.DefaultOpenMetricsAcceptedFormats()...)
		openMetrics := format.FormatType() == expfmt.TypeOpenMetrics
		if r.URL.Query().Has("name[]") || !openMetrics && format.FormatType() != expfmt.TypeTextPlain {
			full.ServeHTTP(rw, r) // a selection, or protobuf
			return
		}
		families, err := rest.Gather()
		if err != nil {
			log("gather metrics", err)
		}
		h := rw.Header()
		h.Set("Content-Type", string(format))
		h.Add("Vary", "Accept, Accept-Encoding")
		var out io.Writer = rw
		if respond.AcceptsGzip(r.Header.Get("Accept-Encoding")) {
			h.Set("Content-Encoding", "gzip")
			z := respond.Gzips.Get().(*gzip.Writer)
			z.Reset(rw)
			defer respond.Gzips.Put(z)
			out = z
		}
		var ex *exemplars
		if openMetrics {
			ex = newExemplars(rep.traces())
		}
		if err := expose(out, format, rep.latest(), openMetrics, ex, families); err != nil {
			log("answer a scrape", err)
		}
		if z, ok := out.(*gzip.Writer); ok {
			_ = z.Close() // the scraper went away: nobody is left to tell
		}
	})
	return http.TimeoutHandler(serve, o.Timeout, "gathering the metrics took too long")
}

// expose writes the series of a report, if there is one, then the other families.
func expose(w io.Writer, format expfmt.Format, rep *sla.Report, openMetrics bool, ex *exemplars,
	others []*dto.MetricFamily) error {
	if rep != nil {
		if err := writeReport(w, rep, openMetrics, ex); err != nil {
			return err
		}
	}
	enc := expfmt.NewEncoder(w, format)
	for _, f := range others {
		if err := enc.Encode(f); err != nil {
			return fmt.Errorf("encode %s: %w", f.GetName(), err)
		}
	}
	if end, ok := enc.(expfmt.Closer); ok {
		return end.Close()
	}
	return nil
}

// scrapeLog takes errors of scrapes.
type scrapeLog func(msg string, err error)

// Println is promhttp's idea of a logger.
func (l scrapeLog) Println(v ...any) {
	l("answer a scrape", errors.New(strings.TrimSpace(fmt.Sprintln(v...))))
}

// join merges sources whose families do not overlap. The first source of a name
// wins, and the names of taken are not theirs to give; another source of a name
// is an error, but no reason to lose the rest of the scrape.
func join(sources []prometheus.Gatherer, taken map[string]bool) prometheus.Gatherer {
	return prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		var all []*dto.MetricFamily
		var errs []error
		seen := map[string]bool{}
		maps.Copy(seen, taken)
		for _, s := range sources {
			fs, err := s.Gather()
			if err != nil {
				errs = append(errs, err)
			}
			for _, f := range fs {
				if seen[f.GetName()] {
					errs = append(errs, fmt.Errorf("metric family %s has two sources", f.GetName()))
					continue
				}
				seen[f.GetName()] = true
				all = append(all, f)
			}
		}
		slices.SortFunc(all, func(a, b *dto.MetricFamily) int { return cmp.Compare(a.GetName(), b.GetName()) })
		return all, errors.Join(errs...)
	})
}

// gatherSet turns a set's text into families with the types and help of package metric, so that it can be served in
// every format that a scraper may ask for. What package metric does not know is untyped.
func gatherSet(set *metrics.Set) ([]*dto.MetricFamily, error) {
	var text, typed bytes.Buffer
	set.WritePrometheus(&text)
	seen := map[*metric.Family]bool{}
	for line := range bytes.Lines(text.Bytes()) {
		name, _, _ := bytes.Cut(line, []byte(" "))
		name, _, _ = bytes.Cut(name, []byte("{"))
		if f := metric.Lookup(string(name)); f != nil && !seen[f] {
			seen[f] = true
			fmt.Fprintf(&typed, "# TYPE %s %s\n", f.Name, f.Type)
		}
		typed.Write(line)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	byName, err := parser.TextToMetricFamilies(&typed)
	if err != nil {
		return nil, fmt.Errorf("read the engine's own metrics: %w", err)
	}
	for name, f := range byName {
		if known := metric.Lookup(name); known != nil {
			f.Help = &known.Help
		}
	}
	return slices.Collect(maps.Values(byName)), nil
}
