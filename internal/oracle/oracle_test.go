// Package oracle has tests only. They simulate a stream of events, the engine from its log on, and a Prometheus with
// the generated rules that scrapes it, and compare what the two find with each other and with the truth.
package oracle

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/alerts"
	"github.com/sloengine/sloengine/alerts/state"
	"github.com/sloengine/sloengine/internal/testkit/spectest"
	"github.com/sloengine/sloengine/rules"
	"github.com/sloengine/sloengine/rules/rulestest"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/spec"
)

var oracleSeeds = flag.String("oracle.seeds", "", "seeds of the one oracle, such as 17,18, instead of those of a test")

// oracleWorld is one random history, of which both sides are told.
type oracleWorld struct {
	t        *testing.T
	services []string
	options  alerts.Options
	spec     *spec.Spec // in force now
	byID     map[slo.ID]*slo.SLO
	events   []*oracleEvent
	truth    truth
	down     span    // of the second engine
	gaps     []piece // in which no engine is up
	looks    map[time.Duration]*sla.Report
	lost     map[string][]lost // by group, of the profile minimal
	late     time.Duration     // how late events are at most; budgets and windows from six hours on count by event time
	slack    float64           // how far ratios and budgets may differ beyond what events near an edge explain

	differ func(format string, args ...any) // takes what look finds; it fails the test unless rules are wrong on purpose

	engine, rules alertHistory // once both have run

	sum oracleSum
}

// oracleExact is the slack where no engine restarts: rate() of a counter that restarts is an estimate.
const oracleExact = 1e-9

// oracleSum is what was compared, and how far apart the two sides were.
type oracleSum struct {
	looks, indicators, budgets, scores, costs int
	plain                                     int     // indicators within 0.5 % without any allowance
	indicator, budget, score                  float64 // worst, beyond what the events near an edge explain
	transitions, rules, near                  int
	alert                                     [2]time.Duration
	names                                     map[string]int // transitions in the engine by the name of the alert
}

func (s oracleSum) String() string {
	return fmt.Sprintf(
		"%d instants, %d indicators (%.1f%% within 0.5%% as they are; worst beyond the edges %.3f%%), %d budgets (worst "+
			"%.3f points), %d scores (worst %.3f points), %d costs, %d alert transitions, of the rules %d (furthest apart %s, "+
			"with long windows or slices %s; %d decided by events at an edge): %v",
		s.looks, s.indicators, 100*float64(s.plain)/float64(max(1, s.indicators)), 100*s.indicator, s.budgets, 100*s.budget,
		s.scores, s.score, s.costs, s.transitions, s.rules, s.alert[0], s.alert[1], s.near, s.names)
}

func (w *oracleWorld) force(sp *spec.Spec) {
	w.spec, w.byID = sp, map[slo.ID]*slo.SLO{}
	for _, s := range sp.SLOs {
		w.byID[s.ID] = s
	}
}

func (w *oracleWorld) slo(id slo.ID) *slo.SLO {
	s := w.byID[id]
	require.NotNil(w.t, s, id)
	return s
}

// edge is how far from the border of a window an event may count or not.
//
// It is six minutes where the rules go by what was counted in whole five minutes:
// in windows beyond six hours and around a correction. Up to six hours, where rates are joined end to end, it is
// only the lateness of the events and the rounding of the engine: 10s up to 1h, 1m
// beyond. A slice shows in the counters only once it is judged.
func (w *oracleWorld) edge(s *slo.SLO, now, window time.Duration) time.Duration {
	const late = oracleScrape + 2*time.Second
	judged := judgedLater(s)
	switch {
	case window >= 6*time.Hour && w.late > 0:
		return 6*time.Minute + w.late
	case w.rarely(s, window), len(s.Corrections) > 0:
		return 6*time.Minute + judged
	case judged > 0:
		return late + time.Minute + judged
	case window > time.Hour:
		return late + time.Minute
	}
	return late + 10*time.Second
}

// rarely reports whether the share of a window is recorded every LongEval.
func (w *oracleWorld) rarely(s *slo.SLO, window time.Duration) bool {
	return window > 6*time.Hour || w.options.Minimal() && rules.Rarely(s, window)
}

// newCounter is how long a counter has no sample of five minutes ago. The rules take rate() of it instead of a
// difference, over a range that is one scrape longer. rate() divides by the whole range, of which a new counter has
// samples of a part only, and extrapolates by no more than was counted before the first scrape, which is near the edge
// anyway. So these events count for up to 1/21 less, never for more.
const (
	newCounter     = 5 * time.Minute
	newCounterLoss = float64(oracleScrape) / float64(newCounter+oracleScrape)
)

func (w *oracleWorld) band(s *slo.SLO, g slo.Group, now, window time.Duration) band {
	edge := w.edge(s, now, window)
	b := w.truth.band(s, g, w.pieces(s, now, window), now, edge)
	k := w.truth[truthKey(s.ID, g)]
	if k == nil {
		return b
	}
	if w.options.Minimal() {
		w.perEvaluation(&b, k, s, g, now, window, edge)
		return b
	}
	valid, bad := k.in(max(0, now-window)+edge, min(newCounter, now-edge))
	valid, bad = valid*newCounterLoss, bad*newCounterLoss
	b.valid, b.bad = b.valid-valid, b.bad-bad
	b.near(valid, bad)
	// Beside a gap rate() extrapolates five minutes from what it sees of them: by up to
	// a fifth, and a tenth too little for a counter that has just left zero. Where it sees less because the window begins
	// there as well, it is up to 1.1 scrapes at either end.
	for _, gap := range w.gaps {
		if from := now - window; gap.from <= from && from < gap.to { // it begins in the gap: its edge is before
			valid, bad := k.in(from-edge, gap.from)
			b.near(valid, bad)
		}
		for _, p := range []piece{{gap.from - 5*time.Minute, gap.from}, {gap.to, gap.to + 5*time.Minute}} {
			from, to := max(p.from, now-window-edge), min(p.to, now)
			valid, bad := k.in(from, to)
			b.valid, b.bad = b.valid-min(b.valid, valid/10), b.bad-min(b.bad, bad/10)
			more := max(0.3, 2.2*float64(oracleScrape)/float64(max(oracleScrape, to-from-edge)))
			b.near(more*valid, more*bad)
		}
	}
	return b
}

// up reports whether the engines are up.
func (w *oracleWorld) up(now time.Duration) bool {
	return !slices.ContainsFunc(w.gaps, func(g piece) bool { return g.from <= now && now < g.to })
}

// observed is the least and the greatest share of a window that may be taken for
// observed: evaluations count it in the rules.
func (w *oracleWorld) observed(now, window time.Duration) (low, high float64) {
	seen := min(now, window)
	for _, g := range w.gaps {
		seen -= max(0, min(g.to, now)-max(g.from, now-window, 0))
	}
	slack := 2*w.options.Eval + 2*oracleScrape
	if window > 6*time.Hour {
		slack += w.options.LongEval
	}
	share := func(d time.Duration) float64 { return min(1, max(0, float64(d)/float64(window))) }
	return share(seen - slack), share(seen + slack)
}

// begun reports whether a window begins before what an SLO counts was changed,
// which the engine knows and the rules do not.
func (w *oracleWorld) begun(s *slo.SLO, now, window time.Duration) bool {
	return slices.Contains(redefined, s.ID) && now >= redefinedAt && now-window < redefinedAt+w.edge(s, now, window)
}

// TestMain lets garbage wait: the worlds allocate several gigabytes and keep little of it.
func TestMain(m *testing.M) {
	debug.SetGCPercent(300)
	os.Exit(m.Run())
}

// seedsOf are the seeds of -oracle.seeds, or those of a test.
func seedsOf(t *testing.T, seeds ...string) (out []uint64) {
	if *oracleSeeds != "" {
		seeds = strings.Split(*oracleSeeds, ",")
	}
	for _, text := range seeds {
		seed, err := strconv.ParseUint(text, 10, 64)
		require.NoError(t, err)
		out = append(out, seed)
	}
	return out
}

// TestOneOracle: engine and rules find the same. The profile minimal does with every kind of service, and the full one
// in the world with most kinds of alerts: its other series are those of TestOneOracleOfThreeEngines.
func TestOneOracle(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		profile rules.Profile
		seeds   []string
	}{{"minimal", rules.Minimal, []string{"1", "2", "4", "5"}}, {"full", rules.Full, []string{"1"}}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if testing.Short() {
				c.seeds = c.seeds[:1]
			}
			fired := map[string]int{}
			// One after the other: each takes a processor for itself, beside tests that mostly wait.
			for _, seed := range seedsOf(t, c.seeds...) {
				t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) { oneOracle(t, seed, c.profile, fired) })
			}
			if t.Failed() || *oracleSeeds != "" || len(c.seeds) == 1 {
				return
			}
			delete(fired, "LatencySLAWarning") // the latencies of this world are within the target, or far beyond it
			for name, n := range fired {
				assert.NotZero(t, n, "%s never fired, so nothing is known of it", name)
			}
		})
	}
}

func oneOracle(t *testing.T, seed uint64, profile rules.Profile, fired map[string]int) {
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("again: go test -tags nomsgpack ./internal/oracle -run 'TestOneOracle$' -oracle.seeds %d", seed)
		}
	})
	w := newOracleWorld(t, seed, profile)
	engine := w.runEngine()
	fromRules := w.runRules()
	for _, f := range fromRules {
		w.sum.rules += f.transitions()
	}
	var bad []disagreement
	bad, w.sum.transitions, w.sum.near, w.sum.alert = w.disagreements(engine, fromRules)
	for _, d := range bad {
		side := "rules"
		if d.engine {
			side = "engine"
		}
		t.Errorf("only the %s fire %s, from %s until %s: %s", side, d.key, d.from, d.to, d.why)
	}
	w.sum.names = map[string]int{}
	for key, a := range liveKeys(w) {
		w.sum.names[a.Alert] += engine.of(key).transitions()
	}
	t.Log(w.sum)
	require.NotZero(t, w.sum.transitions)
	for name, n := range w.sum.names {
		fired[name] += n
	}
}

func newOracleWorld(t *testing.T, seed uint64, profile rules.Profile) *oracleWorld {
	rng := rand.New(rand.NewPCG(seed, 1))
	w := &oracleWorld{t: t, differ: t.Errorf, services: oracleServices(seed),
		looks: map[time.Duration]*sla.Report{}, slack: 0.005}
	w.options = alerts.Options{
		Options: rules.Options{Profile: profile, Scrape: oracleScrape, Eval: time.Minute, LongEval: 5 * time.Minute}}
	w.force(loadOracle(t, w.services, 0))
	down := between(rng, 8*time.Hour, 18*time.Hour).Truncate(oracleScrape)
	w.down = span{from: down, to: down + 3*oracleScrape}
	for _, at := range []time.Duration{between(rng, 3*time.Hour, 7*time.Hour), between(rng, 22*time.Hour, 26*time.Hour)} {
		at = at.Truncate(time.Minute)
		w.gaps = append(w.gaps, piece{at, at + between(rng, 2*time.Minute, 25*time.Minute).Truncate(time.Minute)})
	}
	if slices.Contains(w.services, "work") {
		w.gaps = nil // deadlines that pass later after one are a matter of the oracle of package fold
	}
	if seed > 100 {
		w.late = 50 * time.Minute
	}
	w.events = slices.DeleteFunc(oracleTraffic(rng, w.services, w.down, w.late), func(e *oracleEvent) bool {
		return !w.up(e.at) || !w.up(e.received)
	})
	w.truth = newTruth(w.spec.SLOs, w.events)
	for range 150 {
		w.looks[between(rng, 5*time.Minute, oracleLength).Truncate(w.options.Eval)] = nil
	}
	return w
}

// runEngine is one engine that gets all events. It keeps the reports that are
// compared, and tells when its alerts fire.
func (w *oracleWorld) runEngine() alertHistory {
	e := newOracleEngine(w.t, w.spec, oracleStart)
	m, err := state.New(state.Options{Alerts: w.options})
	require.NoError(w.t, err)
	h := alertHistory{}
	events := w.events
	for now := oracleStep; now < oracleLength; now += oracleStep {
		if !w.up(now) {
			events = e.fold(events, -1, now) // what came between the last tick and the end
			continue
		}
		if !w.up(now - oracleStep) {
			e.restart(oracleStart.Add(now))
		}
		if now == redefinedAt || now == correctionAt {
			w.force(loadOracle(w.t, w.services, now))
			e.change(w.spec, oracleStart.Add(now))
		}
		var r *sla.Report
		events, r = e.take(events, -1, now)
		h.note(m.Step(r), now)
		if _, ok := w.looks[now]; ok {
			w.looks[now] = r
		}
	}
	return h
}

// runRules is a Prometheus that scrapes two engines, one of which starts over
// with an empty data folder.
func (w *oracleWorld) runRules() alertHistory {
	t := w.t
	w.force(loadOracle(t, w.services, 0))
	groups := func() []rules.Group {
		recording, err := rules.Recording(spectest.Rules(w.spec), w.options.Options)
		require.NoError(t, err)
		o := w.options
		o.NoEngine = true
		alerting := alerts.Rules(spectest.Rules(w.spec), o)
		return lean(rules.Merge(recording, alerting))
	}
	replicas := []*oracleEngine{newOracleEngine(t, w.spec, oracleStart), newOracleEngine(t, w.spec, oracleStart)}
	events := [][]*oracleEvent{w.events, w.events}
	p := rulestest.New(t, oracleStart, groups())
	h := alertHistory{}
	p.After = func(at time.Time) {
		now := at.Sub(oracleStart).Truncate(oracleStep)
		h.see(p.Firing(""), now)
		if r := w.looks[now]; r != nil && w.up(now-time.Minute) { // rates need two scrapes
			w.look(p, at, now, r)
		}
	}
	sample := func(at time.Time, add func(string, float64)) {
		now := at.Sub(oracleStart)
		for i, e := range replicas {
			if !w.up(now) {
				events[i] = e.fold(events[i], i, now)
				continue
			}
			if !w.up(now - oracleScrape) {
				e.restart(at)
			}
			if i == 1 && w.down.from < now && now <= w.down.to {
				if now < w.down.to {
					continue
				}
				e = newOracleEngine(t, w.spec, at)
				replicas[i] = e
			}
			events[i], _ = e.take(events[i], i, now)
			e.scrape(strconv.Itoa(i), add)
		}
	}
	for _, now := range []time.Duration{redefinedAt, correctionAt} {
		p.Run(oracleStart.Add(now), oracleScrape, sample)
		w.force(loadOracle(t, w.services, now))
		for _, e := range replicas {
			e.change(w.spec, oracleStart.Add(now))
		}
		p.Replace(groups())
	}
	p.Run(oracleStart.Add(oracleLength), oracleScrape, sample)
	return h
}

// lean leaves out what only people read: constants and texts. Prometheus would
// spend a third of the time on them.
func lean(groups []rules.Group) []rules.Group {
	var out []rules.Group
	for _, g := range groups {
		if strings.HasSuffix(g.Name, "/meta") || len(g.Rules) == 0 {
			continue
		}
		g.Rules = slices.Clone(g.Rules)
		for i := range g.Rules {
			g.Rules[i].Annotations = nil
		}
		out = append(out, g)
	}
	return out
}
