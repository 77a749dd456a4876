package report_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/sla/annotation"
	"github.com/sloengine/sloengine/sla/history"
	"github.com/sloengine/sloengine/sla/report"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/fold"
)

const ledgerSpec = `
version: sloengine/v1
service: sales
slos:
  - name: bank
    objective: 90
    window: 7d
    indicator: {events: {valid: '{type="call"}', bad: '{outcome="failure"}'}}
  - name: errors
    objective: 90
    window: 7d
    indicator: {events: {valid: '{type="view"}', bad: '{outcome="failure"}'}}
    caused_by: [{slo: bank}]
  - name: by-product
    objective: 90
    window: 7d
    group_by: [product]
    indicator: {events: {valid: '{type="view"}', bad: '{outcome="failure"}'}}
  - name: feel
    objective: 80
    window: 7d
    indicator: {apdex: {valid: '{type="view"}', satisfied: 500ms, tolerating: 2s}}
  - name: slow
    objective: 90
    window: 7d
    indicator: {latency: {valid: '{type="view"}', threshold: 1s}}
  - name: slices
    objective: 90
    window: 7d
    budgeting: {timeslices: {slice: 10m, target: 95}}
    indicator: {events: {valid: '{type="view"}', bad: '{outcome="failure"}'}}
  - name: mean
    objective: 90
    window: 7d
    budgeting: {ratio_timeslices: {slice: 7m}}
    indicator: {events: {valid: '{type="view"}', bad: '{outcome="failure"}'}}
  - name: load
    objective: 90
    window: 7d
    indicator: {throughput: {valid: '{type="view"}', at_least: 1, per: 1h}}
  - name: work
    objective: 90
    window: 7d
    indicator: {completion: {started: '{type="view"}', finished: '{type="shipped"}', key: order, within: 15m}}
  - name: conversion
    objective: 40
    window: 7d
    indicator: {ratio: {numerator: '{type="call"}', denominator: '{type="view"}'}}
corrections:
  - {name: upgrade, author: ops, reason: new database, start: "2026-11-17T03:02:00Z", duration: 50m, rrule: FREQ=DAILY}
  - {name: bank day, author: ops, reason: the bank moves, start: "2026-11-18T10:00:00Z", duration: 2h, slos: [bank]}
`

// ledgerWorld is a week of random events with random incidents and deployments.
type ledgerWorld struct {
	*world
	rng       *rand.Rand
	end       time.Time
	views     []event.Event // that were counted
	incidents []report.Incident
	deployed  []time.Time
}

var ledgerBegan = time.Date(2026, 11, 16, 0, 0, 0, 0, time.UTC)

func newLedgerWorld(t *testing.T, seed uint64) *ledgerWorld {
	w := &ledgerWorld{world: newWorld(t, ledgerSpec, ledgerBegan), rng: rand.New(rand.NewPCG(seed, 31)),
		end: ledgerBegan.AddDate(0, 0, 7)}
	step := func() time.Time { return ledgerBegan.Add(time.Duration(w.rng.IntN(7*24*12)) * 5 * time.Minute) }
	for range w.rng.IntN(6) {
		at := step()
		x := report.Incident{ID: fmt.Sprint("INC-", len(w.incidents)), Service: "sales", Onset: at,
			Affected: []report.Affected{{SLO: []slo.ID{"sales/errors", "sales/bank"}[w.rng.IntN(2)]}}}
		if w.rng.IntN(5) > 0 {
			x.Resolved = at.Add(time.Duration(1+w.rng.IntN(100)) * 5 * time.Minute)
		}
		w.incidents = append(w.incidents, x)
	}
	for range w.rng.IntN(6) {
		w.deployed = append(w.deployed, step())
	}
	slices.SortFunc(w.deployed, time.Time.Compare)
	w.from.Incidents = func(from, to time.Time) (out []report.Incident, known bool) {
		for _, x := range w.incidents {
			if x.Onset.Before(to) && (x.Resolved.IsZero() || !x.Resolved.Before(from)) {
				out = append(out, x)
			}
		}
		return out, true
	}
	w.from.Annotations = func(service string, sp slo.Span) []annotation.Annotation {
		var all []annotation.Annotation
		for i, at := range w.deployed {
			all = append(all, annotation.Annotation{At: at, Kind: annotation.Deployment, Text: fmt.Sprint("version ", i)},
				annotation.Annotation{At: at, Kind: annotation.Note, Text: "a note"})
		}
		return annotation.Select(all, service, sp)
	}
	w.play()
	return w
}

// play counts events in the order in which they came: some late, some twice, some from dead letters and backfills.
func (w *ledgerWorld) play() {
	type arrival struct {
		event.Event
		at   time.Time
		mode fold.Mode
	}
	var all []arrival
	burst := ledgerBegan
	for i := range 150 {
		if i%15 == 0 {
			burst = ledgerBegan.Add(time.Duration(w.rng.Int64N(int64(7*24*time.Hour - 3*time.Hour))))
			if n := len(w.incidents); n > 0 && w.rng.IntN(2) == 0 {
				burst = w.incidents[w.rng.IntN(n)].Onset
			}
			for k := range 7 * 60 { // the engine is up, so slices are judged
				all = append(all, arrival{at: burst.Add(time.Duration(k) * 30 * time.Second)})
			}
		}
		e := event.Event{ID: fmt.Sprint(i), Service: "sales", Type: "view", Count: uint32(1 + w.rng.IntN(3)),
			Time: burst.Add(time.Duration(w.rng.Int64N(int64(3 * time.Hour)))), HasDuration: true,
			Duration: time.Duration(w.rng.IntN(3000)) * time.Millisecond, Outcome: event.Success}
		if w.rng.IntN(4) == 0 {
			e.Type = "call"
		}
		if w.rng.IntN(3) == 0 {
			e.Outcome = event.Failure
		}
		e.Weight = uint32(1 + w.rng.IntN(2)*w.rng.IntN(5))
		e.Set("product", []string{"a", "b"}[w.rng.IntN(2)])
		e.Set("order", e.ID)
		x := arrival{Event: e, at: e.Time.Add(time.Second)}
		switch w.rng.IntN(6) {
		case 0:
			x.at = e.Time.Add(time.Duration(w.rng.Int64N(int64(2 * 24 * time.Hour))))
		case 1:
			x.at, x.mode = e.Time.Add(time.Hour), fold.Replay
		case 2:
			x.at, x.mode = e.Time.Add(time.Hour), fold.Backfill
		}
		all = append(all, x)
		if w.rng.IntN(5) == 0 {
			x.at = x.at.Add(time.Minute)
			all = append(all, x)
		}
	}
	slices.SortStableFunc(all, func(a, b arrival) int { return a.at.Compare(b.at) })
	known := map[string]bool{}
	for i := range all {
		x := &all[i]
		if x.at.After(w.end) || known[x.ID] { // the log drops what it has
			continue
		}
		w.fold.Advance(x.at.UnixNano(), fold.Tick)
		if x.ID == "" {
			continue
		}
		known[x.ID] = true
		w.apply(x.at, x.mode, &x.Event)
		if x.Type == "view" {
			w.views = append(w.views, x.Event)
		}
	}
	w.fold.Advance(w.end.UnixNano(), fold.Tick)
}

// account is where the bad events of a time of sales/errors are charged, found moment by moment.
func (w *ledgerWorld) account(at time.Time) slo.Account {
	at = at.Truncate(5 * time.Minute)
	day := at.Truncate(24 * time.Hour)
	covers := func(x *report.Incident) bool {
		return !at.Before(x.Onset) && (x.Resolved.IsZero() || at.Before(x.Resolved))
	}
	during := func(id slo.ID, which func(*report.Incident) bool) bool {
		return slices.ContainsFunc(w.incidents, func(x report.Incident) bool {
			return x.Affected[0].SLO == id && covers(&x) && which(&x)
		})
	}
	all := func(*report.Incident) bool { return true }
	sinceDeployment := func() bool {
		for i, d := range w.deployed {
			until := d.Add(time.Hour)
			if i+1 < len(w.deployed) && w.deployed[i+1].After(d) && w.deployed[i+1].Before(until) {
				until = w.deployed[i+1]
			}
			if during("sales/errors", func(x *report.Incident) bool { return !x.Onset.Before(d) && x.Onset.Before(until) }) ||
				!at.Before(d) && at.Before(until) &&
					!during("sales/errors", func(x *report.Incident) bool { return x.Onset.Before(d) }) {
				return true
			}
		}
		return false
	}
	switch {
	case day.Day() > 16 && at.Sub(day) >= 3*time.Hour && at.Sub(day) < 235*time.Minute:
		return slo.AccountCorrection
	case day.Day() == 18 && at.Hour() >= 10 && at.Hour() < 12:
		return slo.AccountMaintenance
	case during("sales/bank", all):
		return slo.AccountDependency
	case sinceDeployment():
		return slo.AccountDeployment
	case during("sales/errors", all):
		return slo.AccountIncident
	}
	return slo.AccountUnexplained
}

// TestLedgersAddUp checks that the accounts of every SLO add up to the budget that the report at the same position of
// the log says, and those of one SLO against charging each event by itself.
func TestLedgersAddUp(t *testing.T) {
	runs := uint64(100)
	if os.Getenv("SLOENGINE_WEEK") != "" {
		runs = 1000
	}
	charged, filled := map[slo.Account]int{}, map[slo.ID]int{}
	for seed := range runs {
		w := newLedgerWorld(t, seed)
		rep := w.report(w.end)
		for i := range rep.SLOs {
			r := &rep.SLOs[i]
			l, err := w.from.Ledger(t.Context(), rep, r)
			require.NoError(t, err)
			if r.SLO.Indicator.Kind == slo.KindRatio {
				require.Nil(t, l)
				continue
			}
			if l == nil {
				require.Zero(t, r.Raw.Counts.Bad)
				continue
			}
			requireAddsUp(t, l, r, fmt.Sprint("seed ", seed, " ", r.SLO.ID))
			if l.Spent > 0 {
				filled[r.SLO.ID]++
			}
			if r.SLO.ID.Name() == "errors" {
				got := map[slo.Account]uint64{}
				for _, x := range l.Lines {
					got[x.Account] += x.Parts
					charged[x.Account]++
				}
				want := map[slo.Account]uint64{}
				for _, e := range w.views {
					if e.Outcome == event.Failure {
						want[w.account(e.Time)] += uint64(e.Count) * uint64(e.Weight)
					}
				}
				require.Equal(t, want, got, "seed %d", seed)
			}
		}
	}
	require.Len(t, charged, 6, "%v", charged)
	require.Len(t, filled, 9, "%v", filled)
}

func requireAddsUp(t *testing.T, l *history.Ledger, r *sla.SLOReport, about string) {
	t.Helper()
	require.Equal(t, r.Budget, l.Budget, about)
	require.Zero(t, l.Since(r.SLO, r.Budget), about)
	sum, beside := uint64(0), uint64(0)
	for _, x := range l.Lines {
		if x.Account == slo.AccountCorrection {
			beside += x.Parts
			continue
		}
		sum += x.Parts
	}
	require.Equal(t, l.Spent, sum, about)
	if !r.SLO.ByRatio() {
		require.Equal(t, r.Budget.Counts.Bad, sum, about)
		require.Equal(t, r.Raw.Counts.Bad, sum+beside, about)
	}
	if l.Spent > 0 {
		require.InDelta(t, r.Budget.Consumed, l.Of(l.Spent), 1e-12, about)
	}
}

func TestLedgerOptions(t *testing.T) {
	w := newWorld(t, ledgerSpec, ledgerBegan)
	deployed := ledgerBegan.Add(10 * time.Hour)
	w.from.Annotations = func(string, slo.Span) []annotation.Annotation {
		return []annotation.Annotation{{At: deployed, Kind: annotation.Deployment, Text: "version 7"}}
	}
	w.from.Incidents = func(_, _ time.Time) ([]report.Incident, bool) {
		return []report.Incident{{ID: "INC-1", Service: "sales", Onset: deployed.Add(10 * time.Minute), Title: "all fail",
			Resolved: deployed.Add(20 * time.Minute)}}, true
	}
	for _, minute := range []int{5, 15, 25, 45, 65} {
		at := deployed.Add(time.Duration(minute) * time.Minute)
		w.apply(at, fold.Live, &event.Event{ID: at.String(), Service: "sales", Type: "view", Outcome: event.Failure,
			Time: at, Count: 1})
	}
	end := deployed.Add(2 * time.Hour)
	w.fold.Advance(end.UnixNano(), fold.Tick)
	rep := w.report(end)
	for _, x := range []struct {
		options report.LedgerOptions
		want    []string
	}{
		{report.LedgerOptions{}, []string{"deployment version 7 4", "unexplained  1"}},
		{report.LedgerOptions{Deployment: 30 * time.Minute}, []string{"deployment version 7 3", "unexplained  2"}},
		{report.LedgerOptions{Accounts: []slo.Account{slo.AccountIncident, slo.AccountDeployment}},
			[]string{"incident INC-1 1", "deployment version 7 3", "unexplained  1"}},
		{report.LedgerOptions{Accounts: []slo.Account{slo.AccountIncident}},
			[]string{"incident INC-1 1", "unexplained  4"}},
		{report.LedgerOptions{Accounts: []slo.Account{}}, []string{"unexplained  5"}},
	} {
		w.from.LedgerOptions = x.options
		r := report.Rows(rep, "sales/errors")[0]
		l, err := w.from.Ledger(t.Context(), rep, r)
		require.NoError(t, err)
		requireAddsUp(t, l, r, "")
		var got []string
		for _, y := range l.Lines {
			got = append(got, fmt.Sprint(y.Account, " ", y.Name, " ", y.Parts))
		}
		require.Equal(t, x.want, got)
	}

	// What comes between the report and the ledger is in it, and said.
	at := end.Add(-time.Minute)
	w.apply(end, fold.Live, &event.Event{ID: "late", Service: "sales", Type: "view", Outcome: event.Failure, Time: at,
		Count: 3})
	r := report.Rows(rep, "sales/errors")[0]
	l, err := w.from.Ledger(t.Context(), rep, r)
	require.NoError(t, err)
	require.EqualValues(t, 8, l.Spent)
	require.EqualValues(t, 3, l.Since(r.SLO, r.Budget))
}
