package evaluator

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/fold"
)

// world is random traffic of forty-six days over a spec with one of everything.
// Berlin's clocks change within it. Every edge of a window lies on a multiple of
// five minutes, so that rounded buckets count exactly; those of corrections need not.
type world struct {
	Inputs
	began  time.Time
	events []happening // by received
	down   []slo.Span
	ticks  []time.Time
}

func newWorld(t tb, rng *rand.Rand) *world {
	w := &world{began: monday, Inputs: worldSpec(t, rng)}
	end := monday.Add(46 * day)
	for d := w.began; d.Before(end); d = d.Add(day) { // an outage on some days
		if rng.IntN(12) == 0 {
			from := d.Add(time.Duration(rng.IntN(200)) * 5 * time.Minute)
			w.down = append(w.down, slo.Span{From: from, To: from.Add(time.Duration(1+rng.IntN(24)) * 5 * time.Minute)})
		}
	}
	// Bursts with long gaps in between.
	for range 40 + rng.IntN(40) {
		centre := w.began.Add(time.Duration(rng.Int64N(int64(end.Sub(w.began)))))
		width := time.Duration(1+rng.IntN(600)) * time.Minute
		failing := rng.Float64() * rng.Float64()
		for range rng.IntN(60) {
			w.add(rng, centre.Add(time.Duration(rng.Int64N(int64(width)))), failing)
		}
	}
	slices.SortStableFunc(w.events, func(a, b happening) int { return a.received.Compare(b.received) })
	for range 6 {
		w.ticks = append(w.ticks, monday.Add(38*day+time.Duration(rng.IntN(8*24*12))*5*time.Minute))
	}
	slices.SortFunc(w.ticks, time.Time.Compare)
	w.ticks = slices.DeleteFunc(w.ticks, func(t time.Time) bool { return w.downAt(t) || w.downAt(t.Add(-1)) })
	return w
}

func (w *world) downAt(t time.Time) bool {
	for _, d := range w.down {
		if !t.Before(d.From) && t.Before(d.To) {
			return true
		}
	}
	return false
}

func (w *world) add(rng *rand.Rand, at time.Time, failing float64) {
	pick := func(of ...string) string { return of[rng.IntN(len(of))] }
	h := happening{
		at: at, received: at.Add(time.Duration(rng.IntN(5000)) * time.Millisecond),
		typ: pick("order", "order", "order", "task"), outcome: "success",
		product: pick("a", "b", ""), stage: pick("x", "y"), took: time.Duration(rng.IntN(3000)) * time.Millisecond, n: 1,
	}
	if rng.Float64() < failing {
		h.outcome = "failure"
		h.took *= 3
	}
	if rng.IntN(10) == 0 {
		h.took = -1
	}
	if rng.IntN(10) == 0 {
		h.n = uint64(1 + rng.IntN(20))
	}
	if rng.IntN(5) == 0 { // late, by up to a day
		h.received = h.received.Add(time.Duration(rng.Int64N(int64(day))))
	}
	for _, d := range w.down { // the engine is down: the sender tries again
		if !h.received.Before(d.From) && h.received.Before(d.To) {
			h.received = d.To.Add(time.Second)
		}
	}
	h.late = h.received.Sub(h.at.Truncate(10 * time.Second).Add(10 * time.Second))
	w.events = append(w.events, h)
}

// oracle knows what was received before now.
func (w *world) oracle(now time.Time) *oracle {
	o := &oracle{
		now: now, began: w.began, down: w.down,
		members: map[string][]happening{}, closed: map[slo.ID][]slo.Span{}, counted: map[string]verdict{},
		asked: map[slo.ID][]slo.Window{},
	}
	for _, a := range w.Agreements {
		for _, c := range a.Components {
			o.asked[c.SLO] = append(o.asked[c.SLO], a.Window)
		}
	}
	for _, e := range w.events {
		if e.received.Before(now) {
			o.events = append(o.events, e)
		}
	}
	return o
}

func worldSpec(t tb, rng *rand.Rand) Inputs {
	zone := func(name string) *time.Location {
		l, err := time.LoadLocation(name)
		require.NoError(t, err)
		return l
	}
	hours, err := slo.ParseSchedule("Mon-Fri 09:00-18:00 Europe/Berlin")
	require.NoError(t, err)
	orders, failed := sel(t, "type", "order"), sel(t, "outcome", "failure")
	rolling := func(d time.Duration) slo.Window { return slo.Window{Rolling: d} }
	product, fine := []string{"product"}, []string{"stage", "product"}

	edge := func() time.Time { return monday.Add(time.Duration(rng.IntN(46*24*12)) * 5 * time.Minute) }
	var oneOff []slo.Correction
	for range rng.IntN(5) {
		c := slo.Correction{Start: edge(), Duration: time.Duration(1+rng.IntN(300)) * 5 * time.Minute}
		if rng.IntN(3) > 0 {
			c.Start, c.Duration = c.Start.Add(time.Duration(rng.IntN(300))*time.Second),
				time.Duration(1+rng.IntN(90_000))*time.Second
		}
		oneOff = append(oneOff, c)
	}
	nightly := slo.Correction{Name: "nightly", Start: monday.Add(2 * time.Hour),
		Duration: 90 * time.Minute, RRule: "FREQ=DAILY"}
	nightly.Between = func(s slo.Span) (out []slo.Span) {
		for at := nightly.Start; at.Before(s.To); at = at.Add(day) {
			if at.Add(nightly.Duration).After(s.From) {
				out = append(out, slo.Span{From: at, To: at.Add(nightly.Duration)})
			}
		}
		return out
	}
	odd := slo.Correction{Name: "odd", Start: edge().Add(150 * time.Second), Duration: 7*time.Hour + 13*time.Second}

	in := Inputs{
		SLOs: []*slo.SLO{
			{
				ID: "shop/availability", Objective: percent(t, "95"), Window: rolling(30 * day), GroupBy: product,
				Corrections: slices.Concat(oneOff, []slo.Correction{nightly}),
				Indicator:   slo.Indicator{Kind: slo.KindEvents, Valid: orders, Bad: failed},
			},
			{
				ID: "shop/latency", Objective: percent(t, "70"),
				Window: slo.Window{Calendar: slo.Month, Location: zone("Europe/Moscow")}, GroupBy: fine,
				Corrections: oneOff, Indicator: slo.Indicator{Kind: slo.KindLatency, Valid: orders, Threshold: 2 * time.Second},
			},
			{
				ID: "shop/everything", Objective: percent(t, "90"),
				Window:    slo.Window{Calendar: slo.Week, Location: zone("Europe/Berlin")},
				Indicator: slo.Indicator{Kind: slo.KindEvents, Bad: failed},
			},
			{
				ID: "shop/throughput", Objective: percent(t, "50"), Window: rolling(7 * day), GroupBy: product,
				Corrections: []slo.Correction{odd, nightly},
				Indicator: slo.Indicator{Kind: slo.KindThroughput, Valid: orders, AtLeast: 3,
					Per: 5 * time.Minute, During: hours},
			},
			{
				ID: "shop/slices", Objective: percent(t, "80"),
				Window: slo.Window{Calendar: slo.Day, Location: zone("Europe/Berlin")}, GroupBy: product,
				Corrections: []slo.Correction{odd},
				Budgeting:   slo.Budgeting{Method: slo.Timeslices, Slice: 5 * time.Minute, Target: percent(t, "80")},
				Indicator:   slo.Indicator{Kind: slo.KindLatency, Valid: orders, Threshold: time.Second},
			},
			{
				ID: "shop/means", Objective: percent(t, "80"), Window: rolling(14 * day),
				Corrections: slices.Concat(oneOff, []slo.Correction{odd}),
				Budgeting:   slo.Budgeting{Method: slo.RatioTimeslices, Slice: time.Minute},
				Indicator:   slo.Indicator{Kind: slo.KindEvents, Valid: orders, Bad: failed},
			},
			{
				ID: "shop/conversion", Objective: percent(t, "35"), Window: rolling(14 * day),
				GroupBy: product, Corrections: oneOff,
				Indicator: slo.Indicator{Kind: slo.KindRatio, Valid: orders, Numerator: sel(t, "type", "task")},
			},
			{
				ID: "shop/apdex", Objective: percent(t, "80"),
				Window: slo.Window{Calendar: slo.Week, Location: zone("Europe/Berlin")}, GroupBy: fine,
				Corrections: []slo.Correction{odd},
				Indicator: slo.Indicator{Kind: slo.KindApdex, Valid: orders, Satisfied: time.Second,
					Tolerating: 2500 * time.Millisecond},
			},
			{
				ID: "shop/daily", Objective: percent(t, "60"), Window: rolling(28 * day), GroupBy: product,
				Corrections: []slo.Correction{odd},
				Indicator: slo.Indicator{Kind: slo.KindVolume, Valid: orders, AtLeast: 12, Calendar: slo.Day,
					Location: zone("Europe/Berlin")},
			},
			{
				ID: "shop/office", Objective: percent(t, "60"), Window: rolling(28 * day),
				Indicator: slo.Indicator{Kind: slo.KindVolume, AtLeast: 12, Calendar: slo.Day,
					Location: zone("Europe/Berlin"), During: hours},
			},
			{
				ID: "shop/weekly", Objective: percent(t, "50"),
				Window: slo.Window{Calendar: slo.Month, Location: zone("Europe/Moscow")}, GroupBy: product,
				Indicator: slo.Indicator{Kind: slo.KindVolume, AtLeast: 100, Calendar: slo.Week, Location: zone("Europe/Berlin")},
			},
		},
		Thresholds: []*slo.Threshold{
			{Service: "shop", Name: "slow", Match: orders, Warning: time.Second, Critical: 4 * time.Second, GroupBy: product},
			{Service: "shop", Name: "failed", Match: failed, Each: "critical"},
		},
		Services: []fold.Service{{Name: "shop", Dimensions: []string{"stage"}}},
	}
	bands := []sla.Band{
		{Quantile: .9, Threshold: time.Second, Score: 100}, {Quantile: .9, Threshold: 2 * time.Second, Score: 70},
		{Quantile: .9, Threshold: 5 * time.Second, Score: 40}, {Score: 10},
	}
	components := []sla.Component{
		{Name: "availability", SLO: "shop/availability", Weight: 40},
		{Name: "latency", SLO: "shop/latency", Weight: 30, Bands: bands},
		{Name: "throughput", SLO: "shop/throughput", Weight: 20},
		{Name: "slices", SLO: "shop/slices", Weight: 10},
		{Name: "conversion", SLO: "shop/conversion", Weight: 7},
		{Name: "apdex", SLO: "shop/apdex", Weight: 8},
		{Name: "daily", SLO: "shop/daily", Weight: 9},
	}
	whole := append(slices.Clone(components), sla.Component{Name: "means", SLO: "shop/means", Weight: 5},
		sla.Component{Name: "weekly", SLO: "shop/weekly", Weight: 3},
		sla.Component{Name: "all", SLO: "shop/everything", Weight: 15})
	for i, m := range []sla.Method{sla.Attainment, sla.Ratio, sla.Bands} {
		policy := []sla.NoData{sla.NoDataExclude, sla.NoDataBad, sla.NoDataGood}[i]
		in.Agreements = append(in.Agreements,
			&sla.Agreement{Service: "shop", Name: "product-" + string(m), GroupBy: product, Method: m, NoData: policy,
				Components: components, Window: rolling(21 * day)},
			&sla.Agreement{Service: "shop", Name: "whole-" + string(m), Method: m, NoData: policy, Components: whole,
				Window: slo.Window{Calendar: slo.Week, Location: zone("Europe/Berlin")}},
		)
	}
	return in
}
