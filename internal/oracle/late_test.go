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
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/fold"
)

const lateSpec = `
version: sloengine/v1
service: shop
slos:
  - name: checkout
    objective: 99
    window: 1d
    indicator: {events: {valid: '{type="order"}', bad: '{outcome="failure"}'}}
`

// lateSender sends five events every five seconds, each some time after its own.
type lateSender struct {
	from, to time.Duration // of the events' times
	received func(at time.Duration) time.Duration
	failing  bool // half of its events fail in the outage
}

// behind is a sender with a delay.
func behind(d time.Duration, failing bool) lateSender {
	return lateSender{from: -24 * time.Hour, to: lateLength + time.Hour, received: func(at time.Duration) time.Duration {
		return at + d
	}, failing: failing}
}

// spool is a sender that keeps its events for two hours, and then sends them all at once.
func spool(from time.Duration, failing bool) lateSender {
	return lateSender{from: from, to: from + 2*time.Hour, received: func(time.Duration) time.Duration {
		return from + 2*time.Hour
	}, failing: failing}
}

// An outage of twenty minutes, on an engine that is as old.
const (
	lateFrom   = 20 * time.Minute
	lateTo     = 40 * time.Minute
	lateLength = 4 * time.Hour
)

func lateEvents(senders []lateSender) (out []*oracleEvent, bad uint64) {
	for _, s := range senders {
		for at := s.from; at < s.to; at += 5 * time.Second {
			for k := range 2 {
				x := event.Event{Service: "shop", Type: "order", Time: oracleStart.Add(at), Count: uint32(2 + k)}
				received := s.received(at)
				if received < 0 || received >= lateLength {
					continue
				}
				if s.failing && lateFrom <= at && at < lateTo && k == 0 {
					x.Outcome = event.Failure
					bad += 2
				}
				out = append(out, &oracleEvent{at: at, received: received, encoded: event.AppendBinary(nil, &x)})
			}
		}
	}
	slices.SortStableFunc(out, func(a, b *oracleEvent) int { return int(a.received - b.received) })
	return out, bad
}

// TestLateSendersPage: alert conditions count an event in the minute in which it was received, as rules do, so it is
// all the same for a page how late its events are, unless they are later than its long window. Budgets count it at its
// own time.
func TestLateSendersPage(t *testing.T) {
	t.Parallel()
	const m, h = time.Minute, time.Hour
	// fires is when a page fires for events that are received some time after the outage: it takes as long as for punctual
	// ones to start, and its short window to end. At an event a second, page-1h is held for half an hour more.
	oneHour := func(late time.Duration) piece {
		return piece{lateFrom + late + 130*time.Second, lateTo + late + 5*m + slo.Hold}
	}
	sixHours := func(late time.Duration) piece { return piece{lateFrom + late + 370*time.Second, lateTo + late + 30*m} }
	for _, w := range []struct {
		name           string
		senders        []lateSender
		page1h, page6h []piece // of the engine
		rules          []piece // page-1h of the rules, if they are asked
		named          bool    // a finding names events that page-1h leaves out
	}{
		{name: "punctual", senders: []lateSender{behind(0, true)}, page1h: []piece{oneHour(0)}, page6h: []piece{sixHours(0)}},
		{name: "six minutes late", senders: []lateSender{behind(6*m, true)}, page1h: []piece{oneHour(6 * m)},
			page6h: []piece{sixHours(6 * m)}},
		{name: "forty minutes late", senders: []lateSender{behind(40*m, true)}, page1h: []piece{oneHour(40 * m)},
			page6h: []piece{sixHours(40 * m)},
			rules:  []piece{oneHour(40 * m)}},
		{name: "two hours late", senders: []lateSender{behind(2*h, true)}, page6h: []piece{sixHours(2 * h)}, named: true},
		{name: "four minutes ahead", senders: []lateSender{behind(-4*m, true)}, page1h: []piece{oneHour(-4 * m)},
			page6h: []piece{sixHours(-4 * m)}},
		{name: "a stuck sender of twenty hours beside an outage", senders: []lateSender{behind(0, true), behind(20*h, false)},
			page1h: []piece{oneHour(0)}, page6h: []piece{sixHours(0)}, named: true},
		{name: "a spool of two hours, after an outage",
			senders: []lateSender{behind(0, true), behind(0, false), spool(lateFrom-m, true)},
			page1h:  []piece{{lateFrom + 305*time.Second, lateTo + 5*m + slo.Hold}},
			page6h:  []piece{{lateFrom + 12*m, lateTo + 30*m}, {lateFrom + 2*h, lateFrom + 2*h + 29*m}}, named: true},
		{name: "a spool of good events, in the middle of an outage",
			senders: []lateSender{behind(0, true), spool(lateFrom+10*m-2*h, false)},
			// it is no little traffic
			page1h: []piece{{lateFrom + 130*time.Second, lateTo + 5*m}}, page6h: []piece{sixHours(0)}, named: true},
	} {
		t.Run(w.name, func(t *testing.T) {
			sp := spectest.Spec(t, "late.yaml",
				strings.NewReplacer("objective: 99", "objective: 99.9", "window: 1d", "window: 30d").Replace(lateSpec))
			o := alerts.Options{
				NoEngine: true, Options: rules.Options{Scrape: oracleScrape, Eval: 30 * time.Second, LongEval: 5 * time.Minute}}
			machine, err := state.New(state.Options{Alerts: o})
			require.NoError(t, err)
			e := newOracleEngine(t, sp, oracleStart)
			events, bad := lateEvents(w.senders)
			engine, fromRules := alertHistory{}, alertHistory{}
			var last *sla.Report
			named := false
			tick := func(now time.Duration) {
				events, last = e.take(events, -1, now)
				engine.note(machine.Step(last), now)
				for _, x := range machine.View().Held {
					named = named || x.Tier == "page-1h" && slices.ContainsFunc(x.Why, func(h alerts.Hold) bool {
						return h.Reason == alerts.HoldLate
					})
				}
			}
			if w.rules == nil {
				for now := oracleScrape; now < lateLength; now += oracleScrape {
					tick(now)
				}
			} else {
				recording, err := rules.Recording(spectest.Rules(sp), o.Options)
				require.NoError(t, err)
				alerting := alerts.Rules(spectest.Rules(sp), o)
				p := rulestest.New(t, oracleStart, lean(append(recording, alerting...)))
				p.After = func(at time.Time) { fromRules.see(p.Firing(""), at.Sub(oracleStart).Truncate(time.Second)) }
				p.Run(oracleStart.Add(lateLength), oracleScrape, func(at time.Time, put func(string, float64)) {
					tick(at.Sub(oracleStart))
					e.scrape("0", put)
				})
			}
			same := func(want []piece, h alertHistory, tier string) {
				got := h.of("alertname=ErrorBudgetBurnPage slo_id=shop/checkout service=shop slo_tier=" + tier).spans
				require.Len(t, got, len(want), "%s: %v", tier, got)
				for i, p := range want {
					require.InDelta(t, p.from.Seconds(), got[i].from.Seconds(), 61, "%s from %s, wanted %s", tier, got[i].from, p.from)
					require.InDelta(t, p.to.Seconds(), got[i].to.Seconds(), 76, "%s until %s, wanted %s", tier, got[i].to, p.to)
				}
			}
			same(w.page1h, engine, "page-1h")
			same(w.page6h, engine, "page-6h")
			same(w.rules, fromRules, "page-1h")
			require.Equal(t, w.named, named)
			require.Equal(t, bad, last.SLOs[0].Budget.Counts.Bad)
			require.Equal(t, bad, e.state.Fold.Read([]fold.ReadRequest{{
				ID: "shop/checkout", Groups: []slo.Group{nil},
				Spans: []slo.Span{{From: oracleStart.Add(lateFrom), To: oracleStart.Add(lateTo)}},
			}})[0].Groups[0][0][1], "history counts them at their own time")
		})
	}
}
