package sources

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sloengine/sloengine/alerts/state"
	"github.com/sloengine/sloengine/cmd/sloengine/app/config"
	"github.com/sloengine/sloengine/ingest/counter"
	"github.com/sloengine/sloengine/ingest/engine"
	"github.com/sloengine/sloengine/ingest/source"
	"github.com/sloengine/sloengine/ingest/source/series"
	labels "github.com/sloengine/sloengine/rules/series"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/web/status"
)

// makePrometheus makes a source that reads counters of a Prometheus, and evaluates queries.
func (s *Sources) makePrometheus(c *config.Source, r *runningSource) (run func(context.Context) error, err error) {
	o := s.intake(c)
	if r.intake, err = source.New(o); err != nil {
		return nil, err
	}
	settings := series.Options{
		Settings: c.Prometheus.Settings, Units: func() []series.Unit { return s.units(c.Name, c.Prometheus.Window()) },
		Engine: s.o.Engine, Counters: s.o.Counters, Until: s.o.Observed, Intake: r.intake, SizeLimits: o.SizeLimits,
		Longest: s.longest, HA: c.Prometheus.HA, Metrics: s.metrics, Logger: s.o.Log,
	}
	if c.Prometheus.Receive {
		r.receiver = series.NewReceiver(settings)
		r.series = r.receiver
		return func(ctx context.Context) error {
			// Who writes cannot be asked, so the engine alerts unless the settings say that rules do.
			s.o.SeeRules(c.Name, &state.RulesSeen{Round: 1, Servers: []state.ServerRules{{
				Server: "source " + c.Name, Note: "what writes to it cannot be asked"}}})
			defer s.o.SeeRules(c.Name, nil)
			return r.receiver.Run(ctx)
		}, nil
	}
	if settings.Client, err = c.Prometheus.Client(); err != nil {
		return nil, err
	}
	if !c.Prometheus.HasExternal() {
		settings.URL = c.Prometheus.URL[0]
		reader := series.New(settings)
		r.series = reader
		return s.reading(c, reader.Run, reader), nil
	}
	settings.Spans = s.spans
	servers := make([]series.Server, len(c.Prometheus.URL))
	for i, url := range c.Prometheus.URL {
		servers[i] = series.Server{URL: url, Client: settings.Client, External: c.Prometheus.ExternalLabels[url]}
	}
	all := series.NewServers(settings, servers, series.Names{Server: slo.PromServerStream, Groups: slo.PromGroupStream})
	r.series = all
	return s.reading(c, all.Run, all.Sources()...), nil
}

// reading reads, and watches the rules of the servers meanwhile.
func (s *Sources) reading(c *config.Source, run func(context.Context) error,
	of ...*series.Source) func(context.Context) error {
	return func(ctx context.Context) error {
		var watch sync.WaitGroup
		defer s.o.SeeRules(c.Name, nil)
		defer watch.Wait()
		rules := serverRules{servers: make([]state.ServerRules, len(of)), rounds: make([]uint64, len(of)),
			asked: make([]bool, len(of))}
		for i, reader := range of {
			watch.Go(func() {
				reader.WatchRules(ctx, ours, func(seen *series.Rules) {
					rules.see(i, c.Prometheus.URL[i], seen, func(seen *state.RulesSeen) { s.o.SeeRules(c.Name, seen) })
				})
			})
		}
		return run(ctx)
	}
}

// serverRules are the rules of several servers. One that does not answer has those that it had, if it ever answered.
type serverRules struct {
	mu      sync.Mutex
	servers []state.ServerRules
	rounds  []uint64 // answers of each
	asked   []bool
}

func (r *serverRules) see(i int, url string, seen *series.Rules, tell func(*state.RulesSeen)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked[i] = true
	if seen != nil {
		r.rounds[i]++
		r.servers[i] = state.ServerRules{Server: url, Rules: bySLO(seen.Alerts), Note: seen.Note, Sent: seen.Sent}
	}
	if slices.Contains(r.asked, false) {
		return // who answers first may be the only one without rules
	}
	all := &state.RulesSeen{Round: slices.Max(r.rounds)}
	for i := range r.servers {
		if r.rounds[i] > 0 {
			all.Servers = append(all.Servers, r.servers[i])
		}
	}
	if all.Round > 0 {
		tell(all)
	}
}

// spans is what was observed of a stream.
func (s *Sources) spans(ctx context.Context, stream string) (out []counter.Observation, err error) {
	spans, err := s.o.Spans(ctx, stream)
	for _, x := range spans {
		out = append(out, counter.Observation{Source: stream, From: x.From.UnixNano(), To: x.To.UnixNano()})
	}
	return out, err
}

// ours reports whether a rule may be one of an SLO.
func ours(r *series.Rule) bool {
	return r.Labels[labels.LabelSLOID] != "" || strings.HasPrefix(r.Group, "sloengine-") ||
		strings.HasPrefix(r.Group, "sloth-")
}

// bySLO lists rules by the SLO that they name, or by their group.
func bySLO(all []series.Rule) map[string][]map[string]string {
	out := map[string][]map[string]string{}
	for _, r := range all {
		key := cmp.Or(r.Labels[labels.LabelSLOID], r.Group)
		out[key] = append(out[key], r.Labels)
	}
	return out
}

// Receiver is the source that takes remote write; nil while there is none. wanted says that there will be one.
func (s *Sources) Receiver() (r *series.Receiver, wanted bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := config.Receiver(s.next)
	if c == nil {
		return nil, false
	}
	if running := s.running[c.Name]; running != nil {
		r = running.receiver
	}
	return r, true
}

// Write gives a request of remote write to the source that receives.
func (s *Sources) Write(ctx context.Context, body []byte, v2 bool, allow func(service []byte) bool) (series.Written,
	error) {
	switch r, wanted := s.Receiver(); {
	case r != nil:
		return r.Write(ctx, body, v2, allow)
	case wanted:
		return series.Written{}, engine.ErrNotReady
	}
	return series.Written{}, series.ErrNotReceiving
}

// counters are how far the pairs of a source are read.
func (r *runningSource) counters() (out []status.SourceCounters) {
	if r.series == nil {
		return nil
	}
	for _, p := range r.series.Progress() {
		if p.Form != series.Counters {
			continue
		}
		c := status.SourceCounters{URL: cmp.Or(p.Server, strings.Join(r.config.Prometheus.URL, ", ")),
			Total: p.Total, Bad: p.Part,
			ScrapeSeconds: r.config.Prometheus.Scrape.Seconds(), Began: p.Began.UTC(), Until: p.Until.UTC(), Samples: p.Samples,
			Beginnings: p.Beginnings, NewSeries: p.NewSeries, FirstValues: p.First, Resets: p.Resets,
			AfterResets: p.AfterReset, Gaps: p.Gaps, InGaps: p.InGaps, Cut: p.Cut, CutAt: p.CutAt, CutGroup: p.CutGroup,
			Left: p.Left}
		if p.Good {
			c.Bad, c.Good = "", p.Part
		}
		for i := range p.SLOs {
			c.SLOs = append(c.SLOs, p.SLOs[i].ID)
		}
		out = append(out, c)
	}
	return out
}

// readLate is how old what was read last may be of an indicator that is read up to now.
const readLate = 10 * time.Minute

// progress is how far a source is in what was to be read when it started; nil for other kinds.
func (s *Sources) progress(r *runningSource) *status.SourceReading {
	if r.series == nil {
		return nil
	}
	out := &status.SourceReading{Indicators: len(s.units(r.config.Name, r.config.Prometheus.Window()))}
	now := r.intake.Now()
	sum := 0.0
	all := r.series.Progress()
	if len(r.config.Prometheus.URL) > 1 { // an indicator is read from each server
		out.Indicators = len(all)
	}
	for _, p := range all {
		left := now.Sub(p.Until)
		if left <= readLate+2*r.config.Prometheus.Interval {
			out.Complete++
			sum++
		} else if all := now.Sub(p.Began); all > 0 {
			sum += 1 - float64(left)/float64(all)
		}
	}
	out.Complete = min(out.Complete, out.Indicators)
	if out.Complete == out.Indicators {
		out.Share = 1
		return out
	}
	out.Share = min(sum/float64(out.Indicators), 1)
	if out.Share >= 0.01 { // with less, the pace is unknown
		out.LeftSeconds = now.Sub(r.started).Seconds() * (1 - out.Share) / out.Share
	}
	return out
}

// Counters are how far the counters of an SLO are read, by server; nil if no source reads any.
func (s *Sources) Counters(id slo.ID) (out []status.SourceCounters) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.running {
		for _, c := range r.counters() {
			if slices.Contains(c.SLOs, string(id)) {
				out = append(out, c)
			}
		}
	}
	return out
}

// units are the pairs of counters and the queries of the SLOs that a source reads, in the order of their streams.
func (s *Sources) units(name string, window time.Duration) (out []series.Unit) {
	for _, one := range s.o.Specs.InForce().Spec.SLOs {
		in := &one.Indicator
		if in.PromSource != name {
			continue
		}
		stream := one.PromStream()
		i, found := slices.BinarySearchFunc(out, stream, func(u series.Unit, stream string) int {
			return strings.Compare(u.Stream, stream)
		})
		if !found {
			u := Unit(in, window)
			u.Stream = stream
			out = slices.Insert(out, i, u)
		}
		of := series.SLO{Owner: one.ID.Service(), ID: string(one.ID), Service: slo.PromService(one.ID), Type: one.PromType(),
			GroupBy: one.GroupBy, Slice: one.JudgedSlice()}
		for _, label := range one.GroupBy {
			of.Attributes = append(of.Attributes, slo.PromAttribute(label))
		}
		out[i].SLOs = append(out[i].SLOs, of)
	}
	return out
}

// Unit is what a source reads for an indicator, whose rates are over a window.
func Unit(in *slo.Indicator, window time.Duration) series.Unit {
	u := series.Unit{Every: in.PromEvery}
	switch in.PromForm() {
	case slo.PromQueries:
		u.Form, u.Good = series.Rates, in.PromGoodQuery != ""
		u.Total = slo.PromAt(in.PromTotalQuery, window)
		u.Part = slo.PromAt(in.PromBadQuery+in.PromGoodQuery, window)
	case slo.PromRatio:
		u.Form, u.Part = series.Ratio, slo.PromAt(in.PromErrorRatioQuery, window)
	case slo.PromThreshold:
		u.Form, u.Total = series.Gauge, in.PromQuery
		u.Holds = func(x float64) bool { return in.PromOp.Holds(x, in.PromValue) }
	default:
		u.Total, u.Part, u.Good = in.PromTotal, in.PromBad+in.PromGood, in.PromGood != ""
	}
	return u
}
