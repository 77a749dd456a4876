package oracle

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/sloengine/sloengine/alerts"
	"github.com/sloengine/sloengine/alerts/state"
	"github.com/sloengine/sloengine/internal/testkit/spectest"
	"github.com/sloengine/sloengine/rules/series"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
)

// alertLabels tell an alert from all others.
var alertLabels = []string{
	"alertname", series.LabelSLOID, series.LabelService, series.LabelAgreement, series.LabelTier, series.LabelType,
	"product", "zone", series.LabelEffect,
}

func alertKey(get func(name string) string) string {
	var out []string
	for _, n := range alertLabels {
		if v := get(n); v != "" {
			out = append(out, n+"="+v)
		}
	}
	return strings.Join(out, " ")
}

// firings are the times in which an alert fired.
type firings struct {
	spans  []piece
	open   bool
	labels string // all of them, as it fired last
}

func (f *firings) set(firing bool, at time.Duration) {
	switch {
	case firing && !f.open:
		f.spans = append(f.spans, piece{at, oracleLength})
	case !firing && f.open:
		f.spans[len(f.spans)-1].to = at
	}
	f.open = firing
}

func (f *firings) at(t time.Duration) bool {
	return slices.ContainsFunc(f.spans, func(p piece) bool { return p.from <= t && t < p.to })
}

// transitions is how often it began or ceased to fire.
func (f *firings) transitions() int {
	n := 2 * len(f.spans)
	if f.open {
		n--
	}
	return n
}

type alertHistory map[string]*firings

func (h alertHistory) of(key string) *firings {
	f := h[key]
	if f == nil {
		f = &firings{}
		h[key] = f
	}
	return f
}

// note takes the changes of one step of the engine.
func (h alertHistory) note(changes []state.Transition, at time.Duration) {
	for _, c := range changes {
		key := alertKey(c.Alert.Label)
		switch {
		case c.To == state.Firing:
			var b labels.ScratchBuilder
			for _, l := range c.Alert.Labels {
				b.Add(l.Name, l.Value)
			}
			f := h.of(key)
			f.set(true, at)
			f.labels = b.Labels().String()
		case c.From == state.Firing:
			h.of(key).set(false, at)
		}
	}
}

// see takes all that fires in Prometheus.
func (h alertHistory) see(all []labels.Labels, at time.Duration) {
	now := map[string]bool{}
	for _, l := range all {
		now[alertKey(l.Get)] = true
		h.of(alertKey(l.Get)).labels = l.String()
	}
	for key, f := range h {
		if !now[key] {
			f.set(false, at)
		}
	}
	for key := range now {
		h.of(key).set(true, at)
	}
}

// oracleAlert is one alert in one group, with what its condition may be.
type oracleAlert struct {
	alerts.Live
	key   string
	group slo.Group
}

// liveKeys lists the alerts that the engine and the rules both have.
func liveKeys(w *oracleWorld) map[string]*oracleAlert {
	out := map[string]*oracleAlert{}
	for _, l := range alerts.LiveAlerts(spectest.Rules(w.spec), w.options) {
		groups, names := []slo.Group{nil}, []string(nil)
		switch l.Kind {
		case alerts.LiveBurn, alerts.LiveExhausted, alerts.LiveRatio, alerts.LiveTrend, alerts.LiveDecline,
			alerts.LiveCascade, alerts.LiveRecovered:
			if len(l.SLO.GroupBy) > 0 {
				groups, names = l.SLO.Expect, l.SLO.GroupBy
			}
		case alerts.LiveScore, alerts.LiveRestored:
			if len(l.Agreement.GroupBy) > 0 {
				groups, names = w.slo(l.Agreement.Components[0].SLO).Expect, l.Agreement.GroupBy
			}
		case alerts.LiveSilent:
			groups, names = []slo.Group{{map[string]string{"shop": "order", "till": "sale", "feed": "poll", "batch": "job",
				"sales": "view", "work": "started"}[l.Service]}}, []string{series.LabelType}
		}
		for _, g := range groups {
			a := &oracleAlert{Live: l, group: g}
			a.key = alertKey(func(name string) string {
				if i := slices.Index(names, name); i >= 0 {
					return g[i]
				}
				if name == "alertname" {
					return l.Alert
				}
				return l.Labels[name]
			})
			out[a.key] = a
		}
	}
	return out
}

// grace is within what time the rules and the engine must agree: one evaluation,
// of a group of long windows if the alert reads such, and the scrape and the
// lateness before it. A slice is in the window of the engine by its time and in
// the counters by when it was judged.
func (w *oracleWorld) grace(a *oracleAlert) time.Duration {
	d := w.options.Eval + oracleScrape + oracleScrape
	longest := max(a.Window, a.Tier.Long)
	if a.Kind == alerts.LiveExhausted {
		longest = a.SLO.Window.Rolling
	}
	if longest > 6*time.Hour {
		d += w.options.LongEval
	}
	if a.SLO != nil {
		if per := max(a.SLO.Budgeting.Slice, a.SLO.Indicator.Per); per > 0 {
			d += per + 2*time.Minute
		}
		if a.SLO.Indicator.Kind == slo.KindCompletion {
			d += judgedLater(a.SLO)
		}
	}
	return d
}

// condition says whether the alert may fire, and whether it must, whatever of the
// events near an edge of its windows is counted. It must where its errors, spread
// over the whole window, are enough to start; it may where those of the time that
// was observed are enough to go on, or too little was observed to end it. Where
// neither is known from the traffic, known is false.
func (w *oracleWorld) condition(a *oracleAlert, now time.Duration) (may, must, known bool) {
	if a.SLO == nil && a.Agreement == nil || a.Kind == alerts.LiveNoData {
		return false, false, false
	}
	var s *slo.SLO // of the spec that is in force now
	if a.SLO != nil {
		s = w.slo(a.SLO.ID)
	}
	above := func(window time.Duration, bound float64, or bool) (may, must bool, b band, low, high float64) {
		b = w.band(s, a.group, now, window)
		low, high, ok := b.ratios()
		seen, _ := w.observed(now, window)
		may = b.most() > 0 && (high > bound || or && high >= bound)
		must = ok && (low*seen > bound || or && low*seen >= bound)
		return may, must, b, low, high
	}
	recently, _ := w.observed(now, a.Recovery())
	missing := recently < alerts.MinObserved
	enough := func(b band, n uint64) (may, must bool) {
		return b.most() >= float64(n), b.valid >= float64(n)
	}
	proven := func(b band, low, high, rate, needed float64) (may, must bool) {
		may = b.bad+b.edgeBad >= slo.MinBad-1 && slo.Evidence(b.most(), max(high, rate), rate) > needed
		must = b.bad >= slo.MinBad && slo.Evidence(b.valid, max(low, rate), rate) > needed
		return may, must
	}
	switch a.Kind {
	case alerts.LiveBurn:
		t := a.Tier
		may1, must1, b, low, high := above(t.Long, t.Threshold, false)
		may2, must2 := enough(b, a.MinEvents)
		may3, must3, _, _, _ := above(t.Short, t.Threshold, false)
		if t.Page {
			may4, must4 := proven(b, low, high, t.Rate, t.Evidence)
			may2, must2 = may2 && may4, must2 && must4
		}
		hold, quiet := t.Short < slo.Hold && t.Page, t.Quiet
		var few bool // may there be so few events that the quiet window is read
		if quiet.For > 0 {
			_, _, half, _, _ := above(slo.Hold, t.Threshold, false)
			few = half.valid < t.QuietEvents(t.Threshold)
			seen, _ := w.observed(now, slo.Hold)
			if sure := half.most() < t.QuietEvents(t.Threshold)*seen; quiet.Window > t.Short && few {
				may5, must5, _, _, _ := above(quiet.Window, t.Threshold, false)
				may3, must3 = may3 && !sure || may5, must5 && (sure || must3)
			}
		}
		may, must = may1, must1 && must2 && must3
		for held := time.Duration(0); now >= oracleStep && (hold || few) && held < slo.Hold &&
			!(may2 && may3); held += oracleStep {
			now -= oracleStep
			if hold {
				_, _, b, low, high := above(t.Long, t.Threshold, false)
				more, _ := enough(b, a.MinEvents)
				proof, _ := proven(b, low, high, t.Rate, t.Evidence)
				may2 = may2 || more && proof
			}
			if few && held < quiet.For {
				over, _, _, _, _ := above(quiet.Window, t.Threshold, false)
				may3 = may3 || over
			}
		}
		return missing || may && may2 && may3, must, true
	case alerts.LiveExhausted:
		spent := func() (may, must bool) {
			may1, must1, b, _, _ := above(s.Window.Rolling, (1-a.Below)*s.Objective.Budget(), true)
			may2, must2 := enough(b, a.MinEvents)
			return may1 && may2, must1 && must2
		}
		may, must = spent()
		for kept := a.KeepFiringFor; kept > 0 && !may && now > 5*time.Minute; kept -= 5 * time.Minute {
			now -= 5 * time.Minute
			may, _ = spent()
		}
		return missing || may, must, true
	case alerts.LiveRatio:
		may1, must1, b, low, high := above(a.Window, a.Above, false)
		may2, must2 := enough(b, a.MinEvents)
		if a.Evidence > 0 {
			may3, must3 := proven(b, low, high, a.Rate, a.Evidence)
			may2, must2 = may2 && may3, must2 && must3
		}
		if a.UpTo > 0 {
			_, seen := w.observed(now, a.Window)
			least, _ := w.observed(now, a.Window)
			may1, must1 = may1 && low*least <= a.UpTo, must1 && high*seen <= a.UpTo
		}
		return missing || may1 && may2, must1 && must2, true
	case alerts.LiveTrend, alerts.LiveDecline, alerts.LiveCascade:
		may, must = w.compared(a, s, now, above)
		return may, must, true
	case alerts.LiveRecovered:
		b := w.band(s, a.group, now, a.Window)
		low, high, ok := b.ratios()
		may, must = w.ended(a, now)
		return may && low <= a.Above, must && ok && high <= a.Above, true
	case alerts.LiveRestored:
		window := a.Agreement.AlertWindow
		if window == 0 {
			window = a.Agreement.Window.Rolling
		}
		low, high, ok := w.score(a.Agreement, a.group, now, window, 1)
		may, must = w.ended(a, now)
		return may && (!ok || high >= a.Below), must && ok && low >= a.Below, true
	case alerts.LiveScore:
		window := a.Agreement.Window.Rolling
		if a.Agreement.AlertWindow > 0 {
			window = a.Agreement.AlertWindow
		}
		low, _, ok := w.score(a.Agreement, a.group, now, window, 1)
		seen, _ := w.observed(now, window)
		_, high, _ := w.score(a.Agreement, a.group, now, window, seen)
		return missing || !ok || low < a.Below, ok && high < a.Below, true
	}
	return false, false, false
}

// besideGap reports whether less than half an hour before now no engine was up. Rates are then extrapolated.
func (w *oracleWorld) besideGap(now time.Duration) bool {
	return now < 30*time.Minute || slices.ContainsFunc(w.gaps, func(g piece) bool {
		return g.from <= now && now < g.to+30*time.Minute
	})
}

// compared is condition for the alerts that compare a group with its past, with a target, or with another SLO.
func (w *oracleWorld) compared(a *oracleAlert, s *slo.SLO, now time.Duration,
	above func(time.Duration, float64, bool) (bool, bool, band, float64, float64)) (may, must bool) {
	const window = 5 * time.Minute
	if w.besideGap(now) {
		return true, false
	}
	switch a.Kind {
	case alerts.LiveTrend:
		const ten = 10 * time.Minute
		may1, must1, b, _, _ := above(window, a.Above, false)
		edge := w.edge(s, now, ten)
		nowLow, nowHigh, ok1 := w.truth.band(s, a.group, w.pieces(s, now, ten), now, edge).ratios()
		thenLow, thenHigh, ok2 := w.truth.band(s, a.group, w.pieces(s, now-ten, ten), now, edge).ratios()
		n := float64(a.MinEvents)
		return may1 && b.most() >= n && nowHigh > 1.2*thenLow, must1 && ok1 && ok2 && b.valid >= n && nowLow > 1.2*thenHigh
	case alerts.LiveDecline:
		all := w.slo("feed/polls") // counts the events
		b := w.band(all, a.group, now, window)
		per := s.Indicator.Per.Seconds() / window.Seconds()
		low, high := b.valid*per, (b.most())*per
		least := float64(s.Indicator.AtLeast)
		return high >= least && low < a.Below, low >= least && high < a.Below
	}
	may, must = true, true
	for s, most := range map[*slo.SLO]float64{s: 10, w.slo(a.Effect.ID): 5} {
		b := w.band(s, nil, now, window)
		low, high, ok := b.ratios()
		may = may && high > s.Objective.Budget() && b.bad+b.edgeBad > most
		must = must && ok && low > s.Objective.Budget() && b.bad > most
	}
	return may, must
}

// ended is what the alerts that a notice of recovery follows say: it may come if one of them is over on some side, and
// must if it is over on both, and has been for longer than the two sides may differ.
func (w *oracleWorld) ended(a *oracleAlert, now time.Duration) (may, must bool) {
	names := []string{a.After}
	if a.Kind == alerts.LiveRestored {
		names = []string{alerts.NameCompositeWarning, alerts.NameCompositeCritical}
	}
	grace := w.grace(a)
	over, firing := [2]bool{}, [2]bool{}
	for i, h := range []alertHistory{w.engine, w.rules} {
		for _, name := range names {
			f := h[strings.Replace(a.key, "alertname="+a.Alert, "alertname="+name, 1)]
			if f == nil {
				continue
			}
			for _, p := range f.spans {
				over[i] = over[i] || p.to <= now-grace && now < p.to+a.Recent-grace
				may = may || p.to <= now+grace && now < p.to+a.Recent+grace
				firing[i] = firing[i] || p.from <= now && now < p.to
			}
		}
	}
	return may && !(firing[0] && firing[1]), over[0] && over[1] && !firing[0] && !firing[1]
}

// score is the least and the greatest score of an agreement if its errors are
// spread over a window of which a share was observed; ok is false if a component
// may be without data.
func (w *oracleWorld) score(a *sla.Agreement, g slo.Group, now, window time.Duration, observed float64) (low,
	high float64, ok bool) {
	var total float64
	for _, c := range a.Components {
		b := w.band(w.slo(c.SLO), g, now, window)
		if b.most() == 0 {
			continue
		}
		best, worst, ok := b.ratios()
		if !ok {
			return 0, 100, false
		}
		points := func(ratio float64) float64 {
			if a.Method == sla.Attainment {
				return sla.Attain(w.slo(c.SLO).Objective, ratio*observed)
			}
			return 1 - ratio*observed
		}
		low += c.Weight * points(worst)
		high += c.Weight * points(best)
		total += c.Weight
	}
	return 100 * low / total, 100 * high / total, total > 0
}

// disagreement is a time in which only one side fires an alert, and why that is
// not to be explained.
type disagreement struct {
	piece
	key    string
	engine bool // the engine fires and the rules do not; else the other way round
	why    string
}

// disagreements are the times in which one side fires and the other does not,
// longer than the grace and without the events near the edges being able to
// explain it. near counts those that are explained; worst are the longest of the
// others, of alerts by short windows of events and of the rest.
func (w *oracleWorld) disagreements(engine, rules alertHistory) (bad []disagreement, transitions, near int,
	worst [2]time.Duration) {
	all := liveKeys(w)
	w.engine, w.rules = engine, rules
	keys := slices.Sorted(maps.Keys(all))
	for _, key := range keys {
		a, e, p := all[key], engine.of(key), rules.of(key)
		transitions += e.transitions()
		if e.labels != "" && p.labels != "" && e.labels != p.labels {
			bad = append(
				bad, disagreement{key: key, why: "its labels are " + e.labels + " in the engine and " + p.labels + " in the rules"})
		}
		grace := w.grace(a)
		for now := time.Duration(0); now < oracleLength; now += oracleStep {
			if e.at(now) == p.at(now) {
				continue
			}
			from := now
			for now < oracleLength && e.at(now) != p.at(now) && e.at(now) == e.at(from) {
				now += oracleStep
			}
			span := piece{from, now}
			now -= oracleStep
			if span.to-span.from <= grace {
				if grace <= w.grace(&oracleAlert{}) {
					worst[0] = max(worst[0], span.to-span.from)
				} else {
					worst[1] = max(worst[1], span.to-span.from)
				}
				continue
			}
			if a.For > 0 && from >= correctionAt-a.For && from < correctionAt+a.For+w.options.LongEval {
				continue // what is pending or firing starts over when this Prometheus takes other rules
			}
			if w.unlike(a, span) {
				continue
			}
			if at, why := w.explain(a, span, e.at(from), grace); why != "" {
				bad = append(bad, disagreement{piece{at, span.to}, key, e.at(from), why})
				continue
			}
			near++
		}
	}
	return bad, transitions, near, worst
}

// unlike reports whether the two sides may lawfully differ: for one window after the
// definition of an SLO changed, of which the rules know nothing, and about silent
// senders after a gap, which the engine must have watched itself.
func (w *oracleWorld) unlike(a *oracleAlert, span piece) bool {
	longest := max(a.Window, a.Tier.Long)
	ids := []slo.ID{}
	switch {
	case a.SLO != nil:
		ids = append(ids, a.SLO.ID)
		if a.Kind == alerts.LiveExhausted {
			longest = a.SLO.Window.Rolling
		}
	case a.Agreement != nil:
		if longest = a.Agreement.Window.Rolling; a.Agreement.AlertWindow > 0 {
			longest = a.Agreement.AlertWindow
		}
		for _, c := range a.Agreement.Components {
			ids = append(ids, c.SLO)
		}
	}
	if slices.ContainsFunc(ids, func(id slo.ID) bool { return slices.Contains(redefined, id) }) &&
		span.from < redefinedAt+longest+w.grace(a) && span.to > redefinedAt {
		return true
	}
	return a.Kind == alerts.LiveSilent && slices.ContainsFunc(w.gaps, func(g piece) bool {
		return span.from < g.to+time.Hour && span.to > g.from
	})
}

// explain looks for a time in which the events near the edges do not explain
// that only one side fires. It returns "" if there is none.
func (w *oracleWorld) explain(a *oracleAlert, span piece, engine bool, grace time.Duration) (time.Duration, string) {
	for now := span.from + grace; now < span.to; now += oracleStep {
		may, must, known := false, true, false
		for t := max(0, now-grace); t <= now; t += oracleStep {
			m, _, k := w.condition(a, t)
			may, known = may || m, k
		}
		if !known {
			return now, "nothing at the edges affects it"
		}
		if !may {
			return now, "its condition cannot hold"
		}
		for t := max(0, now-grace-a.For); t <= now; t += oracleStep {
			_, m, _ := w.condition(a, t)
			must = must && m
		}
		if must {
			return now, "its condition must hold"
		}
	}
	return 0, ""
}
