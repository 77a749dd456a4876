package oracle

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/alerts"
	"github.com/sloengine/sloengine/alerts/state"
	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/internal/testkit/spectest"
	"github.com/sloengine/sloengine/rules"
	"github.com/sloengine/sloengine/rules/rulestest"
	"github.com/sloengine/sloengine/sla"
)

const freshSpec = `
version: sloengine/v1
service: shop
slos:
  - name: checkout
    objective: 99.9
    indicator: {events: {valid: '{type="order"}', bad: '{outcome="failure"}'}}
`

// interrupted is steady traffic on an engine that is up and down.
type interrupted struct {
	name      string
	perSecond int
	up        []piece // of the engine, rising; the first begins at 0
	failing   []span
	length    time.Duration

	// When the alerts of tiers fire, after the first failure. A tier that is not there
	// never fires.
	fires map[string]time.Duration
	// until is when the alert of page-1h is over; 0 if it is not.
	until time.Duration
}

// run tells an engine and the rules the same, and gives when each alert fired.
func (w *interrupted) run(t *testing.T) (engine, fromRules alertHistory, last *sla.Report) {
	sp := spectest.Spec(t, "fresh.yaml", freshSpec)
	o := alerts.Options{NoEngine: true}
	recording, err := rules.Recording(spectest.Rules(sp), o.Options)
	require.NoError(t, err)
	alerting := alerts.Rules(spectest.Rules(sp), o)
	p := rulestest.New(t, oracleStart, lean(append(recording, alerting...)))
	machine, err := state.New(state.Options{Alerts: o})
	require.NoError(t, err)
	isUp := func(at time.Duration) bool {
		return slices.ContainsFunc(w.up, func(p piece) bool { return p.from <= at && at < p.to })
	}
	var events []*oracleEvent
	n := 0
	for at := time.Duration(0); at < w.length; at += time.Second {
		ratio := strongest(w.failing, at)
		for range w.perSecond {
			n++
			x := event.Event{Service: "shop", Type: "order", Time: oracleStart.Add(at), Count: 1}
			if float64(n%100) < 100*ratio {
				x.Outcome = event.Failure
			}
			if isUp(at) {
				events = append(events, &oracleEvent{at: at, received: at, encoded: event.AppendBinary(nil, &x)})
			}
		}
	}
	engine, fromRules = alertHistory{}, alertHistory{}
	var e *oracleEngine
	down := false
	p.After = func(at time.Time) { fromRules.see(p.Firing(""), at.Sub(oracleStart).Truncate(time.Second)) }
	p.Run(oracleStart.Add(w.length), oracleScrape, func(at time.Time, put func(string, float64)) {
		now := at.Sub(oracleStart)
		if !isUp(now) {
			down = true
			return
		}
		if e == nil {
			e = newOracleEngine(t, sp, oracleStart)
		}
		if down {
			down = false
			e.restart(at)
		}
		events, last = e.take(events, -1, now)
		engine.note(machine.Step(last), now)
		e.scrape("0", put)
	})
	return engine, fromRules, last
}

// A new engine, and one that was interrupted, page for what an old one would, as
// soon, and the rules do so with it.
func TestFreshAndInterruptedEngines(t *testing.T) {
	t.Parallel()
	const (
		m      = time.Minute
		h      = time.Hour
		length = 3 * h
	)
	always := []piece{{0, 24 * h}}
	both := func(at ...time.Duration) map[string]time.Duration {
		out := map[string]time.Duration{}
		for i, tier := range []string{"page-1h", "page-6h", "ticket-1d", "ticket-3d"} {
			if i < len(at) {
				out[tier] = at[i]
			}
		}
		return out
	}
	for _, w := range []interrupted{
		{name: "half of all fails, on a new engine", perSecond: 5, up: always,
			failing: []span{{0, length, 0.5}}, length: 30 * m,
			fires: both(104*time.Second, 260*time.Second, 520*time.Second, 520*time.Second)},
		{name: "all fails, on a new engine", perSecond: 5, up: always, failing: []span{{0, length, 1}}, length: 30 * m,
			fires: both(52*time.Second, 130*time.Second, 260*time.Second, 260*time.Second)},
		{name: "all fails after five good minutes of a new engine", perSecond: 5, up: always,
			failing: []span{{5 * m, length, 1}}, length: 30 * m,
			fires: both(55*time.Second, 135*time.Second, 260*time.Second, 260*time.Second)},
		{name: "a blip of ten seconds on a new engine", perSecond: 5, up: always,
			failing: []span{{0, 10 * time.Second, 1}}, length: 30 * m},
		{name: "ten minutes of downtime, then half of all fails", perSecond: 5, up: []piece{{0, 2 * h}, {2*h + 10*m, length}},
			failing: []span{{2*h + 10*m, length, 0.5}}, length: length,
			fires: both(105*time.Second, 260*time.Second, 520*time.Second, 520*time.Second)},
		{name: "fifty times the budget, through ten minutes of downtime", perSecond: 20,
			up:      []piece{{0, 2 * h}, {2*h + 10*m, length}},
			failing: []span{{2*h - 5*m, length, 0.05}}, length: length,
			// 1.44 % of the hour: 17.3 minutes of 5 %, of which 5 were before, and ten of downtime.
			fires: both(27*m+17*time.Second, 53*m+12*time.Second)},
		{name: "what fires goes on while the engine is down", perSecond: 5, up: []piece{{0, h}, {h + 20*m, length}},
			failing: []span{{50 * m, h + 5*m, 1}}, length: length,
			fires: both(52*time.Second, 130*time.Second, 260*time.Second, 260*time.Second), until: h + 20*m},
	} {
		t.Run(w.name, func(t *testing.T) {
			engine, fromRules, last := w.run(t)
			first := w.failing[0].from
			for _, tier := range []string{"page-1h", "page-6h", "ticket-1d", "ticket-3d"} {
				name := map[bool]string{true: alerts.NameBurnPage, false: alerts.NameBurnTicket}[strings.HasPrefix(tier, "page")]
				key := "alertname=" + name + " slo_id=shop/checkout service=shop slo_tier=" + tier
				want, ok := w.fires[tier]
				for side, f := range map[string]*firings{"engine": engine.of(key), "rules": fromRules.of(key)} {
					late := 30 * time.Second // two scrapes
					switch {
					case side == "rules" && strings.HasPrefix(tier, "ticket"):
						late += 6 * m // evaluated every five minutes
					case side == "rules":
						late += m // an evaluation of what is recorded, and one of the alert
					}
					if !ok {
						require.Empty(t, f.spans, "%s of the %s", tier, side)
						continue
					}
					require.NotEmpty(t, f.spans, "%s of the %s never fires", tier, side)
					got := f.spans[0].from - first
					t.Logf("%s of the %s after %s", tier, side, got)
					require.GreaterOrEqual(t, got, want-15*time.Second, "%s of the %s", tier, side)
					require.LessOrEqual(t, got, want+late, "%s of the %s", tier, side)
					if tier == "page-1h" && w.until > 0 {
						require.Len(t, f.spans, 1, "%s", side)
						require.Greater(t, f.spans[0].to, w.until, "%s: nothing shows that it is over", side)
						require.Less(t, f.spans[0].to, w.until+7*m, "%s", side)
					}
				}
			}
			require.InDelta(t, upShare(w.up, w.length), last.SLOs[0].Burns[2].Observed, 0.005)
		})
	}
}

// upShare is the share of the last hour in which an engine was up.
func upShare(up []piece, now time.Duration) float64 {
	var seen time.Duration
	for _, p := range up {
		seen += max(0, min(p.to, now)-max(p.from, now-time.Hour))
	}
	return float64(seen) / float64(time.Hour)
}
