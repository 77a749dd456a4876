package slo_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/slo"
)

// TestLedgerPlan compares plans with charging each moment by itself.
func TestLedgerPlan(t *testing.T) {
	accounts := append([]slo.Account{slo.AccountCorrection}, slo.LedgerOrder...)
	shared, empty := 0, 0
	for seed := range uint64(1000) {
		rng := rand.New(rand.NewPCG(seed, 29))
		sp := slo.Span{From: time.Unix(rng.Int64N(1e6), 0).UTC()}
		sp.To = sp.From.Add(time.Duration(1+rng.IntN(600)) * time.Minute)
		slice := []time.Duration{0, time.Minute, 7 * time.Minute, 10 * time.Minute}[rng.IntN(4)]
		order := slices.Clone(slo.LedgerOrder)
		rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		order = order[:rng.IntN(len(order)+1)]
		var all []slo.Explanation
		for range rng.IntN(12) {
			from := sp.From.Add(time.Duration(rng.IntN(700)-60) * time.Minute).Add(time.Duration(rng.IntN(60)) * time.Second)
			all = append(all, slo.Explanation{Account: accounts[rng.IntN(len(accounts))], Name: fmt.Sprint(rng.IntN(4)),
				Span: slo.Span{From: from, To: from.Add(time.Duration(rng.IntN(200)) * time.Minute)}})
		}
		p := slo.NewLedgerPlan(sp, order, slice, all)

		at := sp.From
		for _, x := range p.Pieces {
			require.Equal(t, at, x.From, "a gap or an overlap")
			require.Positive(t, x.Duration())
			at = x.To
		}
		require.Equal(t, sp.To, at)

		// One bad event at each second of some.
		parts := make([]uint64, len(p.Pieces))
		want := map[slo.Account]uint64{}
		beside := uint64(0)
		for second := sp.From; second.Before(sp.To); second = second.Add(time.Duration(1+rng.IntN(400)) * time.Second) {
			i := slices.IndexFunc(p.Pieces, func(x slo.Span) bool { return second.Before(x.To) })
			parts[i]++
			account := charge(second, order, slice, all)
			want[account]++
			require.Equal(t, account == slo.AccountCorrection, p.IsCorrection(i))
			if account == slo.AccountCorrection {
				beside++
			}
		}
		lines, spent := p.Charge(parts)
		got, sum := map[slo.Account]uint64{}, uint64(0)
		for _, x := range lines {
			require.Positive(t, x.Parts)
			shared += len(x.Same)
			got[x.Account] += x.Parts
			sum += x.Parts
		}
		require.Equal(t, want, got, "seed %d", seed)
		require.Equal(t, sum-beside, spent)
		if len(order) == 0 {
			empty++
		}
	}
	require.Positive(t, shared, "no two causes explained the same time")
	require.Positive(t, empty)
}

// charge is the account of a moment, found without a plan.
func charge(at time.Time, order []slo.Account, slice time.Duration, all []slo.Explanation) slo.Account {
	covers := func(e *slo.Explanation) bool {
		if e.Duration() == 0 {
			return false
		}
		from, to := e.From.Truncate(5*time.Minute), e.To.Add(5*time.Minute-1).Truncate(5*time.Minute)
		if slice > 0 {
			n := int64(slice)
			from = time.Unix(0, from.UnixNano()/n*n)
			to = time.Unix(0, (to.UnixNano()+n-1)/n*n)
		}
		return !at.Before(from) && at.Before(to)
	}
	for _, account := range append([]slo.Account{slo.AccountCorrection}, order...) {
		for i := range all {
			if all[i].Account == account && covers(&all[i]) {
				return account
			}
		}
	}
	return slo.AccountUnexplained
}

func TestLedgerPrecedence(t *testing.T) {
	at := func(minutes int) time.Time { return time.Unix(0, 0).UTC().Add(time.Duration(minutes) * time.Minute) }
	between := func(from, to int) slo.Span { return slo.Span{From: at(from), To: at(to)} }
	all := []slo.Explanation{
		{Account: slo.AccountIncident, Name: "INC-2", Span: between(30, 60)},
		{Account: slo.AccountIncident, Name: "INC-1", Span: between(20, 40)},
		{Account: slo.AccountDependency, Name: "bank", Span: between(10, 25)},
		{Account: slo.AccountDependency, Name: "card", Span: between(10, 25)},
	}
	p := slo.NewLedgerPlan(between(0, 100), slo.LedgerOrder, 0, all)
	require.Equal(t, []slo.Span{between(0, 10), between(10, 25), between(25, 40), between(40, 60), between(60, 100)},
		p.Pieces)
	lines, spent := p.Charge([]uint64{1, 2, 4, 8, 16})
	require.EqualValues(t, 31, spent)
	var got []string
	for _, x := range lines {
		got = append(got, fmt.Sprint(x.Account, " ", x.Name, x.Same, " ", x.Parts))
	}
	require.Equal(t, []string{"dependency bank[card] 2", "incident INC-1[] 4", "incident INC-2[] 8", "unexplained [] 17"},
		got)

	many := make([]slo.Explanation, slo.MaxExplanations+10)
	for i := range many {
		many[i] = slo.Explanation{Account: slo.AccountIncident, Name: fmt.Sprint(i), Span: between(10*i, 10*i+5)}
	}
	p = slo.NewLedgerPlan(between(0, 10*len(many)), slo.LedgerOrder, 0, many)
	require.Equal(t, 10, p.Unread)
	require.Equal(t, "10", p.Lines[0].Name, "the oldest are left out")
	require.Len(t, p.Lines, slo.MaxExplanations+1)
	require.Empty(t, slo.NewLedgerPlan(slo.Span{}, slo.LedgerOrder, 0, all).Pieces)

	require.NoError(t, slo.CheckLedgerOrder(nil))
	require.EqualError(t, slo.CheckLedgerOrder([]slo.Account{"weather"}),
		`unknown account "weather" (want maintenance, dependency, deployment, incident)`)
	require.EqualError(t, slo.CheckLedgerOrder([]slo.Account{"incident", "incident"}), `duplicate account "incident"`)
}
