package oracle

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/slo"
)

// oracleStart is a Monday, on a boundary of every bucket.
var oracleStart = time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)

const (
	oracleLength = 30 * time.Hour
	oracleScrape = 15 * time.Second
	oracleStep   = 10 * time.Second // of the engine

	correctionFrom, correctionFor = 13 * time.Hour, 2 * time.Hour // planned maintenance that is written down
	correctionAt                  = 20 * time.Hour                // only now

	redefinedAt = 16 * time.Hour // some SLOs start from zero again
)

// redefined are the SLOs whose definition changes, to one that counts the same: the
// engine counts from zero, and the rules go on with counters that restart.
var (
	redefined    = []slo.ID{"shop/latency", "till/checkout"}
	redefinition = []string{
		`valid: '{type="order",outcome="success"}'`, `valid: '{type="order",outcome=~"success"}'`,
		`valid: '{type="sale"}'`, `valid: '{type=~"sale"}'`,
	}
)

// oracleSpecs are a service that is judged by product, one that is judged as a
// whole, one whose slices are judged and whose sender therefore sticks to one
// engine, one that falls silent, one with ratios and Apdex scores, and one with work that must finish.
var oracleSpecs = map[string]string{"shop": `
version: sloengine/v1
service: shop
slos:
  - name: availability
    objective: 98
    window: 1d
    group_by: [product]
    expect: [a, b, c]
    indicator: {events: {valid: '{type="order"}', bad: '{outcome="failure"}'}}
    alerting:
      {min_events: 40, ticket: {for: 5m}, no_data: {disabled: true}, budget_left: [60, {left: 25, severity: page}]}
  - name: latency
    objective: 95
    window: 6h
    group_by: [product]
    expect: [a, b, c]
    indicator: {latency: {valid: '{type="order",outcome="success"}', threshold: 1s}}
    alerting:
      no_data: {disabled: true}
      tiers:
        - {severity: page, long: 1h, short: 5m, budget: 40}
        - {severity: ticket, long: 2h, short: 30m, budget: 50}
slas:
  - name: gold
    group_by: [product]
    window: 6h
    score: attainment
    components:
      availability: {weight: 60}
      latency: {weight: 40}
    no_data: exclude
    alerts: {warning: 90, critical: 60, catalogue: [composite, latency, availability, limit_80, error_trend, recovery]}
    alert_window: 1h
`, "till": `
version: sloengine/v1
service: till
slos:
  - name: checkout
    objective: 97
    window: 1d
    indicator: {events: {valid: '{type="sale"}', bad: '{outcome="failure"}'}}
    alerting:
      no_data: {disabled: true}
      tiers:
        - {severity: page, long: 1h, short: 5m, budget: 15}
        - {severity: page, long: 3h, short: 15m, budget: 20}
        - {severity: ticket, long: 12h, short: 1h, budget: 40}
  - name: calls
    objective: 99
    window: 6h
    indicator: {events: {valid: '{type="integration"}', bad: '{outcome="failure"}'}}
    alerting: {no_data: {disabled: true}, page: {disabled: true}, ticket: {disabled: true}}
slas:
  - name: silver
    window: 6h
    score: ratio
    components: {checkout: {weight: 1}}
    alerts: {warning: 97, catalogue: [error_rate, error_rate_critical, recovery,
        {name: cascading, slos: [calls, checkout]}]}
`, "feed": `
version: sloengine/v1
service: feed
slos:
  - name: freshness
    objective: 90
    window: 6h
    group_by: [zone]
    expect: [x, y]
    budgeting: {timeslices: {slice: 1m, target: 90}}
    indicator: {events: {valid: '{type="poll"}', bad: '{outcome="failure"}'}}
    alerting: {no_data: {disabled: true}, tiers: [{severity: page, long: 1h, short: 30m, budget: 50}]}
  - name: polls
    objective: 90
    window: 6h
    group_by: [zone]
    expect: [x, y]
    indicator: {events: {valid: '{type="poll"}', bad: '{outcome="failure"}'}}
    alerting: {no_data: {disabled: true}, page: {disabled: true}, ticket: {disabled: true}}
  - name: volume
    objective: 50
    window: 6h
    group_by: [zone]
    expect: [x, y]
    indicator: {throughput: {valid: '{type="poll"}', at_least: 30, per: 1m}}
    alerting: {no_data: {disabled: true}, page: {disabled: true}, ticket: {disabled: true}}
slas:
  - name: bronze
    group_by: [zone]
    window: 6h
    components: {polls: {weight: 1}}
    alerts: {catalogue: [{name: throughput_decline, slos: [volume]}]}
`, "batch": `
version: sloengine/v1
service: batch
slos:
  - name: nightly
    objective: 99
    window: 1d
    indicator: {events: {bad: '{outcome="failure"}'}}
    alerting: {page: {disabled: true}}
`, "sales": salesSpec, "work": workSpec}

// oracleServices are what a seed is about.
func oracleServices(seed uint64) []string {
	switch seed % 5 {
	case 0:
		return []string{"work"}
	case 1:
		return []string{"shop", "till"}
	case 2:
		return []string{"till", "feed", "batch"}
	case 3:
		return []string{"shop"}
	}
	return []string{"sales"}
}

const oracleCorrection = `
corrections:
  - {name: move, start: 2026-03-02T13:00:00Z, duration: 2h, slos: [checkout], author: ops, reason: found out later}
`

// oracleEvent is one event, or several that are equal.
type oracleEvent struct {
	at, received time.Duration // since the start
	service, typ string
	attr, value  string
	failed       bool
	took         time.Duration
	count        uint32
	key          string // of work
	replica      int    // that it is sent to

	encoded []byte
}

func (e *oracleEvent) label(name string) string {
	switch name {
	case "service":
		return e.service
	case "type":
		return e.typ
	case "outcome":
		if e.failed {
			return "failure"
		}
		return "success"
	}
	if name == e.attr {
		return e.value
	}
	return ""
}

// judged is what an SLO counts of the event, and how much of that is against the budget: in half events for an Apdex
// score. For a ratio it is the denominator and the numerator.
func (e *oracleEvent) judged(s *slo.SLO) (valid, bad uint64) {
	if s.ID.Service() != e.service {
		return 0, 0
	}
	in, n := &s.Indicator, uint64(e.count)
	count := func(counts bool) uint64 {
		if counts {
			return n
		}
		return 0
	}
	valid = count(in.Valid.Matches(e.label))
	switch {
	case in.Kind == slo.KindRatio:
		return valid, count(in.Numerator.Matches(e.label))
	case in.Kind == slo.KindCompletion: // the events are those of completed
		return n, count(e.failed)
	case valid == 0:
		return 0, 0
	case in.Kind == slo.KindApdex:
		return 2 * n, count(e.took > in.Satisfied) + count(e.took > in.Tolerating)
	case in.Kind == slo.KindLatency:
		return n, count(e.took > in.Threshold)
	}
	return n, count(in.Bad.Matches(e.label))
}

// span is a period in which something holds, to the degree x.
type span struct {
	from, to time.Duration
	x        float64
}

// oracleStream is the random traffic of one group: phases of different rates,
// gaps and bursts, and incidents in which events fail or are slow.
type oracleStream struct {
	rates, failing, slow []span
}

func between(rng *rand.Rand, a, b time.Duration) time.Duration {
	return a + time.Duration(rng.Int64N(int64(b-a)))
}

func logBetween(rng *rand.Rand, a, b float64) float64 {
	return math.Exp(math.Log(a) + rng.Float64()*(math.Log(b)-math.Log(a)))
}

func newOracleStream(rng *rand.Rand, outages []span) *oracleStream {
	s := &oracleStream{failing: slices.Clone(outages)}
	for at := time.Duration(0); at < oracleLength; {
		p := span{from: at}
		switch kind := rng.Float64(); {
		case kind < 0.12: // a gap
			p.to = at + between(rng, 3*time.Minute, 40*time.Minute)
		case kind < 0.22: // a burst
			p.to, p.x = at+between(rng, time.Minute, 5*time.Minute), 20
		default:
			p.to, p.x = at+between(rng, 10*time.Minute, 150*time.Minute), logBetween(rng, 0.05, 4)
		}
		s.rates = append(s.rates, p)
		at = p.to
	}
	incidents := func(n int) (out []span) {
		for range n {
			from := between(rng, 0, oracleLength)
			share := 1.0
			if rng.IntN(3) > 0 {
				share = logBetween(rng, 0.05, 0.6)
			}
			out = append(out, span{from, from + time.Duration(logBetween(rng, 2, 80)*float64(time.Minute)), share})
		}
		return out
	}
	s.failing = append(s.failing, incidents(4+rng.IntN(4))...)
	s.slow = incidents(4 + rng.IntN(4))
	return s
}

// strongest is the greatest degree to which something holds at a time.
func strongest(all []span, t time.Duration) float64 {
	most := 0.0
	for _, s := range all {
		if s.from <= t && t < s.to {
			most = max(most, s.x)
		}
	}
	return most
}

func poisson(rng *rand.Rand, mean float64) int {
	if mean <= 0 {
		return 0
	}
	n, p, limit := 0, 1.0, math.Exp(-mean)
	for {
		if p *= rng.Float64(); p <= limit {
			return n
		}
		n++
	}
}

// counted is when alert conditions count the event.
func (e *oracleEvent) counted() time.Duration {
	if (e.received - e.at).Abs() > time.Minute {
		return e.received
	}
	return e.at
}

// oracleTraffic makes up all events, in the order in which they are received,
// each up to one scrape late. The second engine takes none while it is down.
// With late senders some events come minutes before or up to late after their
// time, and some senders give out a spool of that long at once.
func oracleTraffic(rng *rand.Rand, services []string, down span, late time.Duration) []*oracleEvent {
	var out []*oracleEvent
	add := func(e oracleEvent) {
		e.received = e.at + between(rng, 0, oracleScrape)
		if late > 0 {
			e.received = delayed(rng, e.at, e.received, late)
		}
		if e.replica == 1 && down.from <= e.received && e.received < down.to {
			e.replica = 0
		}
		x := event.Event{Service: e.service, Type: e.typ, Time: oracleStart.Add(e.at), Duration: e.took,
			HasDuration: true, Count: e.count}
		if e.failed {
			x.Outcome = event.Failure
		}
		if e.attr != "" {
			x.Set(e.attr, e.value)
		}
		if e.key != "" {
			x.Set("order", e.key)
		}
		e.encoded = event.AppendBinary(nil, &x)
		out = append(out, &e)
	}
	var outages []span
	for range 2 {
		from := between(rng, 0, oracleLength-2*time.Hour)
		outages = append(outages, span{from, from + between(rng, 5*time.Minute, 50*time.Minute), 1})
	}
	outages = append(outages, span{correctionFrom + 10*time.Minute, correctionFrom + correctionFor - 15*time.Minute, 0.8})
	for _, g := range []struct{ service, typ, attr, value string }{
		{"shop", "order", "product", "a"}, {"shop", "order", "product", "b"}, {"shop", "order", "product", "c"},
		{"till", "sale", "", ""}, {"till", "integration", "", ""}, {"feed", "poll", "zone", "x"},
		{"feed", "poll", "zone", "y"},
	} {
		if !slices.Contains(services, g.service) {
			continue
		}
		s := newOracleStream(rng, outages)
		for t := time.Duration(0); t < oracleLength; t += time.Second {
			count := uint32(1)
			rate := strongest(s.rates, t)
			if rate >= 10 {
				count = 5
			}
			for range poisson(rng, rate/float64(count)) {
				e := oracleEvent{at: t + between(rng, 0, time.Second), service: g.service, typ: g.typ, attr: g.attr,
					value: g.value, count: count}
				e.failed = rng.Float64() < max(0.001, strongest(s.failing, t))
				e.took = between(rng, 0, 900*time.Millisecond)
				if rng.Float64() < max(0.004, strongest(s.slow, t)) {
					e.took += 2 * time.Second
				}
				if g.service != "feed" {
					e.replica = rng.IntN(2)
				}
				add(e)
			}
		}
	}
	for t := time.Hour; t < 4*time.Hour && slices.Contains(services, "batch"); t += 2 * time.Second {
		add(oracleEvent{at: t, service: "batch", typ: "job", count: 1, replica: rng.IntN(2), failed: rng.IntN(500) == 0})
	}
	for _, zone := range []string{"x", "y"} {
		if slices.Contains(services, "sales") {
			oracleSales(rng, zone, outages, add)
		}
		if slices.Contains(services, "work") {
			oracleWork(rng, zone, outages, add)
		}
	}
	slices.SortStableFunc(out, func(a, b *oracleEvent) int { return int(a.received - b.received) })
	return out
}

// delayed is when an event of a world with late senders is received that would be received punctually.
func delayed(rng *rand.Rand, at, received, late time.Duration) time.Duration {
	switch rng.IntN(10) {
	case 0, 1: // a sender whose clock is ahead
		return max(0, received-4*time.Minute)
	case 2, 3:
		return received + 6*time.Minute
	case 4:
		return received + late - oracleScrape - time.Second
	case 5: // a spool, given out in the end
		return max(received, at.Truncate(late)+late-time.Second)
	}
	return received
}
