package incident

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
)

// world is a book and a report for the tests of causes.
type world struct {
	book *Book
	rep  *sla.Report
}

func newWorld() *world { return &world{NewBook(), &sla.Report{}} }

// level adds an SLO in groups, of whose last hour so many events were bad; all were valid.
func (w *world) level(s *slo.SLO, valid uint64, bad map[string]uint64) *slo.SLO {
	s.Objective, _ = slo.ParsePercent("99")
	if s.Indicator.Kind == "" {
		s.Indicator.Kind = slo.KindEvents
	}
	for group, n := range bad {
		r := sla.SLOReport{SLO: s}
		if group != "" {
			r.Group = slo.Group{group}
		}
		for _, window := range []time.Duration{5 * time.Minute, time.Hour} {
			r.Burns = append(r.Burns, slo.Burn{Window: window, HasData: true, Counts: slo.Counts{Good: valid - n, Bad: n}})
		}
		w.rep.SLOs = append(w.rep.SLOs, r)
	}
	return s
}

// fire lets a page fire on an SLO two minutes after its onset.
func (w *world) fire(t *testing.T, id slo.ID, group string, onset time.Time) {
	t.Helper()
	a := &Alert{Fingerprint: string(id) + "/" + group, Name: "Burn", Service: id.Service(), SLO: string(id),
		Severity: Critical, Fired: onset.Add(2 * time.Minute)}
	if group != "" {
		a.Group = []string{group}
	}
	apply(t, w.book, a.Fired, Operation{Kind: Fire, Title: "title", Onset: onset, OnsetBy: OnsetByCounts, Alert: a})
}

func (w *world) failing(t *testing.T) *Situation {
	t.Helper()
	slices.SortStableFunc(w.rep.SLOs, func(a, b sla.SLOReport) int { return cmp.Compare(a.SLO.ID, b.SLO.ID) })
	return w.book.View().Failing(w.rep)
}

func (w *world) sentence(t *testing.T) string {
	t.Helper()
	return Text(w.failing(t).Sentence(start.Add(time.Hour), func(s string) string { return s }))
}

// insurance is a world with an integration, a stage and products, of which the spec declares some to suffer.
func insurance() *world {
	w := newWorld()
	w.level(&slo.SLO{ID: "shop/calls", GroupBy: []string{"integration"}}, 1000, map[string]uint64{"mdm": 570, "sign": 300})
	w.level(&slo.SLO{ID: "shop/stages", GroupBy: []string{"stage"}}, 1000, map[string]uint64{"INIT": 400})
	w.level(&slo.SLO{ID: "shop/availability", GroupBy: []string{"product"},
		CausedBy: []slo.Cause{{SLO: "shop/calls", Group: map[string]string{"integration": "mdm"},
			Affects: map[string][]string{"product": {"MED", "SOM"}}}}},
		1000, map[string]uint64{"MED": 300, "SOM": 200, "TRVL": 100})
	return w
}

func TestACauseIsDeclared(t *testing.T) {
	w := insurance()
	w.fire(t, "shop/availability", "MED", start.Add(20*time.Second)) // fires first
	w.fire(t, "shop/calls", "mdm", start)
	w.fire(t, "shop/availability", "SOM", start.Add(40*time.Second))
	s := w.failing(t)
	require.Len(t, s.Faults, 1)
	require.Equal(t, "shop/calls", s.Faults[0].SLO)
	require.Len(t, s.Faults[0].Affects, 2)
	require.InDelta(t, 560, s.Faults[0].Excess, 0.001)
	require.Equal(t, "mdm failing since 10:00 UTC (57% of events in 5m): 2 products affected. Not acknowledged.",
		w.sentence(t))

	apply(t, w.book, start.Add(5*time.Minute), Operation{Kind: AckIt, ID: "INC-2026-11-0001", By: "anna", How: ByPage})
	require.Contains(t, w.sentence(t), " affected. Acknowledged 10:05 UTC.")

	// TRVL is not declared to suffer, and nothing joins the two in one agreement.
	w.fire(t, "shop/availability", "TRVL", start.Add(time.Minute))
	require.Equal(t, "mdm failing since 10:00 UTC (57% of events in 5m): 2 products affected. Also failing: TRVL. "+
		"Acknowledged 10:05 UTC.", w.sentence(t))
}

// An alert fires for as long as its long window fails. What meets the objective again is said to recover.
func TestAFailureRecovers(t *testing.T) {
	for bad, want := range map[uint64]string{
		0:  "mdm recovering, failing since 10:00 UTC (0% of events in 5m). Not acknowledged.",
		10: "mdm recovering, failing since 10:00 UTC (1% of events in 5m). Not acknowledged.",
		11: "mdm failing since 10:00 UTC (1% of events in 5m). Not acknowledged.",
	} {
		w := newWorld()
		w.level(&slo.SLO{ID: "shop/calls", GroupBy: []string{"integration"}}, 1000, map[string]uint64{"mdm": bad})
		w.fire(t, "shop/calls", "mdm", start)
		require.Equal(t, want, w.sentence(t))
	}
}

// An integration explains a stage and an application of the same agreement, and nothing explains itself.
func TestLayersOfAnAgreement(t *testing.T) {
	w := insurance()
	w.fire(t, "shop/stages", "INIT", start.Add(30*time.Second))
	w.fire(t, "shop/availability", "TRVL", start.Add(30*time.Second))
	require.Equal(t, "2 SLOs failing since 10:00 UTC: INIT and TRVL. Not acknowledged.", w.sentence(t))
	a := &sla.Agreement{Service: "shop", Name: "contract", Components: []sla.Component{{SLO: "shop/availability"}},
		Catalogue: []sla.CatalogueAlert{{Name: sla.CatalogueCascading}}}
	w.rep.SLAs = []sla.SLAReport{{SLA: a}}
	require.Equal(t, "INIT failing since 10:00 UTC (40% of events in 5m): 1 product affected. Not acknowledged.",
		w.sentence(t))
	w.fire(t, "shop/calls", "sign", start)
	require.Equal(t, "sign failing since 10:00 UTC (30% of events in 5m): 2 SLOs affected. Not acknowledged.",
		w.sentence(t))
	apply(t, w.book, start.Add(3*time.Minute), Operation{Kind: Fire, Title: "score", Alert: &Alert{Fingerprint: "s",
		Name: "Composite", Service: "shop", Agreement: "contract", Severity: Critical, Fired: start.Add(3 * time.Minute)}})
	require.Len(t, w.failing(t).Faults, 1, "a component explains its agreement")
	require.Len(t, w.failing(t).Faults[0].Affects, 3)
}

// What began before is not affected, whatever the spec declares.
func TestAnEffectBeginsAfterItsCause(t *testing.T) {
	w := insurance()
	w.fire(t, "shop/availability", "MED", start)
	w.fire(t, "shop/calls", "mdm", start.Add(2*time.Minute))
	require.Equal(t, "2 SLOs failing since 10:00 UTC: MED and mdm. Not acknowledged.", w.sentence(t))
}

func TestNoCulpritIsInvented(t *testing.T) {
	w := newWorld()
	for _, name := range []string{"b", "a", "c", "d", "e"} {
		id := slo.NewID("shop", name)
		w.level(&slo.SLO{ID: id}, 1000, map[string]uint64{"": map[string]uint64{"c": 900}[name] + 100})
	}
	w.fire(t, "shop/b", "", start)
	require.Equal(t, "b failing since 10:00 UTC (10% of events in 5m). Not acknowledged.", w.sentence(t))
	w.fire(t, "shop/a", "", start.Add(10*time.Second))
	w.fire(t, "shop/c", "", start.Add(20*time.Second))
	require.Equal(t, "3 SLOs failing since 10:00 UTC: c, a and b. Not acknowledged.", w.sentence(t),
		"within a minute, the most bad events first, then by name")
	w.fire(t, "shop/d", "", start.Add(-2*time.Minute))
	require.Equal(t, "4 SLOs failing since 09:58 UTC: d, c, a and 1 more. Not acknowledged.", w.sentence(t),
		"what began more than a minute earlier comes first")
	w.fire(t, "shop/e", "", start.Add(3*time.Hour))
	require.Len(t, w.book.View().Open(), 2)
	apply(t, w.book, start.Add(5*time.Hour), Operation{Kind: AckIt, ID: "INC-2026-11-0002", By: "anna", How: ByPage})
	require.Contains(t, w.sentence(t), "1 of 2 incidents acknowledged.")
}

func TestSentenceOfGroups(t *testing.T) {
	w := insurance()
	for k, name := range []string{"MED", "SOM", "TRVL"} {
		w.fire(t, "shop/availability", name, start.Add(time.Duration(k)*time.Second))
	}
	require.Equal(t, "3 products failing since 10:00 UTC: MED, SOM and TRVL. Not acknowledged.", w.sentence(t))
}

// The engine's own failures are apart, and in the sentence only if nothing else fails.
func TestTheEngineIsApart(t *testing.T) {
	w := insurance()
	at := start.Add(time.Minute)
	apply(t, w.book, at, Operation{Kind: Fire, Title: "limit", Onset: start, Alert: &Alert{Fingerprint: "own",
		Name: "RateLimitUtilisationCritical", Service: EngineService, Severity: Critical, Fired: at}})
	require.Equal(t, "RateLimitUtilisationCritical firing since 10:00 UTC. Not acknowledged.", w.sentence(t))
	w.fire(t, "shop/calls", "sign", start)
	require.Equal(t, "sign failing since 10:00 UTC (30% of events in 5m). Not acknowledged.", w.sentence(t))
	require.Len(t, w.failing(t).Engine, 1)
}

// Only pages that fire make a sentence, and a person's incident without alerts says its title.
func TestWhatFailsNow(t *testing.T) {
	w := insurance()
	apply(t, w.book, start, ticket("t", "shop/calls", start))
	require.Empty(t, w.sentence(t))
	w.fire(t, "shop/calls", "mdm", start)
	apply(t, w.book, start.Add(9*time.Minute), over("shop/calls/mdm", start.Add(9*time.Minute)))
	require.Empty(t, w.sentence(t))
	apply(t, w.book, start.Add(10*time.Minute), Operation{Kind: OpenByHand, Key: "k", Title: "Checkout <b> is down",
		Severity: Critical, By: "anna", Onset: start})
	require.Equal(t, "Checkout <b> is down open since 10:00 UTC. Not acknowledged.", w.sentence(t))
	require.Empty(t, NewBook().View().Failing(nil).Faults, "there is no report yet")
}

// A name tells failures apart, and everything that came with events passes show.
func TestNamesOfFailures(t *testing.T) {
	w := newWorld()
	w.level(&slo.SLO{ID: "shop/up", GroupBy: []string{"tier"}}, 100, map[string]uint64{"1": 50, "severity": 50})
	w.level(&slo.SLO{ID: "shop/fast", GroupBy: []string{"tier"}, Indicator: slo.Indicator{Kind: slo.KindLatency}}, 100,
		map[string]uint64{"severity": 50})
	w.level(&slo.SLO{ID: "bank/up"}, 100, map[string]uint64{"": 50})
	w.fire(t, "shop/up", "1", start)
	require.Equal(t, "up (1) failing since 10:00 UTC (50% of events in 5m). Not acknowledged.", w.sentence(t))
	w.fire(t, "shop/up", "severity", start)
	require.Equal(t, "2 tiers failing since 10:00 UTC: up (1) and severity. Not acknowledged.", w.sentence(t))
	w.fire(t, "shop/fast", "severity", start)
	require.Equal(t, "2 SLOs failing since 10:00 UTC: fast (severity), up (1) and up (severity). Not acknowledged.",
		w.sentence(t))
	w.fire(t, "bank/up", "", start)
	require.Contains(t, w.sentence(t), ": bank/up, shop/fast (severity), shop/up (1) and 1 more.")
	got := Text(w.failing(t).Sentence(start, func(s string) string { return "<" + s + ">" }))
	require.Contains(t, got, ": <bank>/<up>, <shop>/<fast> (<severity>), ")
	none := Failure{Affected: Affected{SLO: "shop/paid", Group: []string{""}},
		Spec: &slo.SLO{GroupBy: []string{"product"}}}
	require.Equal(t, "paid (no product)", names{}.of(&none, strings.ToLower))
	none.Spec = nil
	require.Equal(t, "paid (no value)", names{}.of(&none, strings.ToLower))
}

func TestCounted(t *testing.T) {
	for label, want := range map[string]string{"product": "2 products", "category": "2 categories",
		"gateway": "2 gateways", "box": "2 boxes", "http_route": "1 SLO", "Ünit": "1 SLO"} {
		s := &slo.SLO{ID: "a/b", GroupBy: []string{label}}
		one := Failure{Affected: Affected{SLO: "a/b", Group: []string{"x"}}, Spec: s}
		two := one
		two.Group = []string{"y"}
		require.Equal(t, want, countAffected([]Failure{one, two, one}))
	}
	require.Equal(t, []string{"<1%", "57%", ">99%", "100%", "0%"},
		[]string{share(0.002), share(0.571), share(0.999), share(1), share(0)})
}

// Whatever fails, each failure is in the situation once, and more than MaxFailures are only counted.
func TestManyFailures(t *testing.T) {
	w := newWorld()
	bad := map[string]uint64{}
	for k := range MaxFailures + 20 {
		bad[fmt.Sprintf("g%04d", k)] = 50
	}
	w.level(&slo.SLO{ID: "shop/up", GroupBy: []string{"node"}}, 100, bad)
	for name := range bad {
		w.fire(t, "shop/up", name, start)
	}
	s := w.failing(t)
	require.Len(t, s.Faults, MaxFailures)
	require.Equal(t, 20, s.More)
	require.Equal(t, "320 failures since 10:00 UTC: g0000, g0001, g0002 and 317 more. Not acknowledged.", w.sentence(t))
}

// A spec can declare a circle in parts. Each failure is still in one fault.
func TestACircleOfCauses(t *testing.T) {
	w := newWorld()
	w.level(&slo.SLO{ID: "shop/a", CausedBy: []slo.Cause{{SLO: "shop/b"}}}, 100, map[string]uint64{"": 50})
	w.level(&slo.SLO{ID: "shop/b", CausedBy: []slo.Cause{{SLO: "shop/a"}}}, 100, map[string]uint64{"": 50})
	w.fire(t, "shop/a", "", start)
	w.fire(t, "shop/b", "", start)
	s := w.failing(t)
	require.Len(t, s.Faults, 1)
	require.Len(t, s.Faults[0].Affects, 1)
}
