package sources

import (
	"context"
	"slices"
	"strings"

	"github.com/sloengine/sloengine/cmd/sloengine/app/config"
	"github.com/sloengine/sloengine/ingest/source"
	"github.com/sloengine/sloengine/ingest/source/series"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/web/status"
)

// makePrometheus makes a source that reads counters of a Prometheus.
func (s *Sources) makePrometheus(c *config.Source, r *runningSource) (run func(context.Context) error, err error) {
	o := s.intake(c)
	if r.intake, err = source.New(o); err != nil {
		return nil, err
	}
	client, err := c.Prometheus.Client()
	if err != nil {
		return nil, err
	}
	r.series = series.New(series.Options{
		Settings: c.Prometheus.Settings, URL: c.Prometheus.URL, Client: client,
		Units:  func() []series.Unit { return s.units(c.Name) },
		Engine: s.o.Engine, Counters: s.o.Counters, Until: s.o.Observed, Intake: r.intake, SizeLimits: o.SizeLimits,
		Longest: s.longest,
	})
	return r.series.Run, nil
}

// counters are how far the pairs of a source are read.
func (r *runningSource) counters() (out []status.SourceCounters) {
	if r.series == nil {
		return nil
	}
	for _, p := range r.series.Progress() {
		c := status.SourceCounters{URL: r.config.Prometheus.URL, Total: p.Total, Bad: p.Part,
			ScrapeSeconds: r.config.Prometheus.Scrape.Seconds(), Began: p.Began.UTC(), Until: p.Until.UTC(), Samples: p.Samples,
			Beginnings: p.Beginnings, NewSeries: p.NewSeries, FirstValues: p.First, Resets: p.Resets,
			AfterResets: p.AfterReset, Gaps: p.Gaps, InGaps: p.InGaps, Cut: p.Cut, CutAt: p.CutAt, CutGroup: p.CutGroup,
			Left: p.Left}
		if p.Good {
			c.Bad, c.Good = "", p.Part
		}
		for i := range p.SLOs {
			c.SLOs = append(c.SLOs, string(slo.PromID(p.SLOs[i].Service, p.SLOs[i].Type)))
		}
		out = append(out, c)
	}
	return out
}

// Counters are how far the counters of an SLO are read; nil if no source reads any.
func (s *Sources) Counters(id slo.ID) *status.SourceCounters {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.running {
		for _, c := range r.counters() {
			if slices.Contains(c.SLOs, string(id)) {
				return &c
			}
		}
	}
	return nil
}

// units are the pairs of counters of the SLOs that a source reads, in the order of their streams.
func (s *Sources) units(name string) (out []series.Unit) {
	for _, one := range s.o.Specs.InForce().Spec.SLOs {
		in := &one.Indicator
		if in.PromSource != name {
			continue
		}
		stream := in.PromStream()
		i, found := slices.BinarySearchFunc(out, stream, func(u series.Unit, stream string) int {
			return strings.Compare(u.Stream, stream)
		})
		if !found {
			out = slices.Insert(out, i, series.Unit{Stream: stream, Total: in.PromTotal, Part: in.PromBad + in.PromGood,
				Good: in.PromGood != ""})
		}
		of := series.SLO{Service: slo.PromService(one.ID), Type: one.ID.Name(), GroupBy: one.GroupBy}
		for _, label := range one.GroupBy {
			of.Attributes = append(of.Attributes, slo.PromAttribute(label))
		}
		out[i].SLOs = append(out[i].SLOs, of)
	}
	return out
}
