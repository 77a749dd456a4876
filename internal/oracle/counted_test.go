package oracle

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/sloengine/sloengine/rules/rulestest"
	"github.com/sloengine/sloengine/rules/series"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
)

// This file is what the one oracle knows of indicators that do not count good and bad events: ratios, Apdex scores and
// work that must finish in time. Volumes have no rules, so only a view is compared with an engine.

// salesSpec is judged by zone. One in five applicants is not connected while all is well.
const salesSpec = `
version: sloengine/v1
service: sales
slos:
  - name: conversion
    objective: 60
    window: 1d
    group_by: [zone]
    expect: [x, y]
    indicator: {ratio: {numerator: '{type="connected"}', denominator: '{type="applied"}'}}
    alerting:
      min_events: 40
      no_data: {disabled: true}
      tiers:
        - {severity: page, long: 1h, short: 5m, budget: 6}
        - {severity: ticket, long: 3h, short: 30m, budget: 18}
  - name: feel
    objective: 80
    window: 6h
    group_by: [zone]
    expect: [x, y]
    indicator: {apdex: {valid: '{type="view"}', satisfied: 500ms, tolerating: 2s}}
    alerting:
      min_events: 40
      no_data: {disabled: true}
      tiers:
        - {severity: page, long: 1h, short: 5m, budget: 40}
        - {severity: ticket, long: 2h, short: 30m, budget: 50}
  - name: daily
    objective: 50
    window: 7d
    group_by: [zone]
    expect: [x, y]
    indicator: {volume: {valid: '{type="applied"}', at_least: 20000, per: day, timezone: UTC}}
    alerting: {no_data: {disabled: true}, page: {disabled: true}, ticket: {disabled: true}}
slas:
  - name: copper
    group_by: [zone]
    window: 6h
    components: {conversion: {weight: 50}, feel: {weight: 50}}
    alerts: {warning: 90, critical: 60}
`

// workSpec has a sender that sticks to one engine, as work in flight wants it.
const workSpec = `
version: sloengine/v1
service: work
slos:
  - name: fulfilment
    objective: 90
    window: 6h
    group_by: [zone]
    expect: [x, y]
    indicator:
      completion: {started: '{type="started"}', finished: '{type="done"}', failed: '{type="aborted"}', key: order,
          within: 15m}
    cost: {per_bad: 12.50, currency: EUR}
    alerting:
      min_events: 20
      no_data: {disabled: true}
      tiers:
        - {severity: page, long: 1h, short: 20m, budget: 40}
        - {severity: ticket, long: 2h, short: 30m, budget: 60}
slas:
  - name: iron
    group_by: [zone]
    window: 6h
    components: {fulfilment: {weight: 1}}
    alerts: {warning: 90}
`

// oracleSales is the traffic of one zone. A connection comes up to half an hour after its application.
func oracleSales(rng *rand.Rand, zone string, outages []span, add func(oracleEvent)) {
	s := newOracleStream(rng, outages)
	for t := time.Duration(0); t < oracleLength; t += time.Second {
		for range poisson(rng, min(3, strongest(s.rates, t))) {
			e := oracleEvent{at: t + between(rng, 0, time.Second), service: "sales", typ: "applied", attr: "zone", value: zone,
				count: 1, replica: rng.IntN(2)}
			add(e)
			e.at += between(rng, 0, 30*time.Minute)
			if e.typ = "connected"; e.at < oracleLength && rng.Float64() > max(0.2, strongest(s.failing, e.at)) {
				e.replica = rng.IntN(2)
				add(e)
			}
		}
		for range poisson(rng, min(3, strongest(s.rates, t))) {
			e := oracleEvent{at: t + between(rng, 0, time.Second), service: "sales", typ: "view", attr: "zone", value: zone,
				count: 1 + uint32(rng.IntN(3)), replica: rng.IntN(2)}
			e.took = between(rng, 0, 550*time.Millisecond)
			if rng.Float64() < strongest(s.slow, t) {
				e.took += between(rng, 300*time.Millisecond, 4*time.Second)
			}
			add(e)
		}
	}
}

// oracleWork is the traffic of one zone: most work takes up to twelve minutes, some begins twice, and in incidents it
// is aborted, late, or never heard of again.
func oracleWork(rng *rand.Rand, zone string, outages []span, add func(oracleEvent)) {
	s := newOracleStream(rng, outages)
	n := 0
	for t := time.Duration(0); t < oracleLength; t += time.Second {
		for range poisson(rng, min(1, strongest(s.rates, t))) {
			n++
			e := oracleEvent{at: t + between(rng, 0, time.Second), service: "work", typ: "started", attr: "zone", value: zone,
				count: 1, key: fmt.Sprint(zone, n)}
			add(e)
			took := between(rng, 0, 12*time.Minute)
			if rng.Float64() < strongest(s.slow, t) {
				took += between(rng, 0, 40*time.Minute)
			}
			if again := e; took > time.Minute && rng.IntN(20) == 0 {
				again.at += 30 * time.Second
				add(again)
			}
			e.at, e.typ = e.at+took, "done"
			if fate := rng.Float64(); fate < max(0.004, strongest(s.failing, t)) {
				if e.typ = "aborted"; rng.IntN(2) == 0 {
					continue
				}
			}
			if e.at < oracleLength {
				add(e)
			}
		}
	}
}

// completed is the work of an SLO: where each piece counts, as a naive reader of the whole stream would say.
func completed(s *slo.SLO, events []*oracleEvent) (out []*oracleEvent) {
	c := &s.Indicator.Completion
	starts, ends := map[string]*oracleEvent{}, map[string]*oracleEvent{}
	first := func(of map[string]*oracleEvent, e *oracleEvent) {
		if old := of[e.key]; old == nil || e.at < old.at {
			of[e.key] = e
		}
	}
	for _, e := range events {
		switch {
		case e.service != s.ID.Service():
		case c.Started.Matches(e.label):
			first(starts, e)
		case c.Finished.Matches(e.label), c.Failed.Matches(e.label):
			first(ends, e)
		}
	}
	for key, e := range starts {
		done := *e
		if end := ends[key]; end != nil && end.at <= e.at+c.Within {
			done.at, done.failed = end.at, c.Failed.Matches(end.label)
		} else {
			done.at, done.failed = e.at+c.Within, true
		}
		done.received = done.at // work counts where it ended
		out = append(out, &done)
	}
	return out
}

// judgedLater is how much later than it counts a thing shows in counters: a slice, and work whose deadline passes.
func judgedLater(s *slo.SLO) time.Duration {
	switch {
	case s.Indicator.Kind == slo.KindCompletion:
		return 3 * time.Minute
	case s.Budgeting.Slice > 0:
		return s.Budgeting.Slice + 2*time.Minute
	}
	return 0
}

// cost compares the cost of six hours by the rules with the price of what is bad.
func (w *oracleWorld) cost(p *rulestest.World, x *sla.SLOReport, at time.Time, now time.Duration) {
	const window = 6 * time.Hour
	if x.SLO.Cost == nil || x.SLO.Window.Rolling != window || now < time.Hour {
		return
	}
	sum := "sum_over_time(" + w.options.Series(x.SLO, series.CostIncrease) + "[6h]) * " +
		slo.FormatRatio(w.options.LongEval.Minutes()/5)
	got := values(p, sum, x.SLO.GroupBy, at)[x.Group.Key()]
	// The rules add up whole five minutes.
	b := w.truth.band(x.SLO, x.Group, w.pieces(x.SLO, now, window), now,
		6*time.Minute+w.options.LongEval+judgedLater(x.SLO))
	price := x.SLO.Cost.Price.Float()
	low, high := 0.995*price*b.bad, 1.005*price*(b.bad+b.edgeBad)
	what := fmt.Sprintf("%s %s at %s", x.SLO.ID, x.Group, now)
	if outside(got, low, high) > 0 {
		w.differ("%s costs %v by the rules, and cannot cost less than %v nor more than %v", what, got, low, high)
	}
	engine := x.Counted(false).Cost().Amount.Float()
	assert.Zero(w.t, outside(engine, price*b.bad, price*(b.bad+b.edgeBad)),
		"%s costs %v by the engine, and cannot cost less than %v nor more than %v", what, engine, low, high)
	w.sum.costs++
}
