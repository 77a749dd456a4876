package fold

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Without a part, its time was not observed, and nothing else is different.
func TestRestoreLost(t *testing.T) {
	up := []upSpan{{0, 100}, {150, 400}}
	e := &era{since: 50, spans: []upSpan{{10, 40}}, older: []upSpan{{1, 5}}}
	for _, test := range []struct {
		from, to int64
		observed []upSpan
	}{
		{200, 300, []upSpan{{1, 5}, {10, 40}, {50, 100}, {150, 200}, {300, 400}}},
		{20, 30, []upSpan{{1, 5}, {10, 20}, {30, 40}, {50, 100}, {150, 400}}},
		{30, 160, []upSpan{{1, 5}, {10, 30}, {160, 400}}},
		{2, 3, []upSpan{{1, 2}, {3, 5}, {10, 40}, {50, 100}, {150, 400}}},
		{100, 150, []upSpan{{1, 5}, {10, 40}, {50, 100}, {150, 400}}},
		{390, 400, []upSpan{{1, 5}, {10, 40}, {50, 100}, {150, 390}}},
		{400, 400, []upSpan{{1, 5}, {10, 40}, {50, 100}, {150, 400}}},
	} {
		require.Equal(t, spanList(test.observed), e.without(test.from, test.to, up).observed(up),
			"%d to %d", test.from, test.to)
	}
}

func TestPartLoss(t *testing.T) {
	for name, want := range map[string]string{
		"events-2592000-10-1763460000": "the counts from 2025-11-18T10:00:00Z to 2025-11-18T10:10:00Z of the SLOs " +
			"whose counts are retained for 720h0m0s",
		"hours-2592000-1763424000": "the counts from 2025-11-18T00:00:00Z to 2025-11-19T00:00:00Z of",
		"slices-86400000000000-60000000000-180": "the counts from 1970-01-01T03:00:00Z to 1970-01-01T04:00:00Z of the SLOs " +
			"whose counts are retained for 24h0m0s",
		"parked-7": "parked generation 7",
	} {
		what, ok := PartLoss(name)
		require.True(t, ok, name)
		require.Contains(t, what, want)
	}
	for _, name := range []string{partState, partConfig, "else"} {
		_, ok := PartLoss(name)
		require.False(t, ok, name)
		f, err := New(Options{})
		require.NoError(t, err)
		require.ErrorContains(t, f.RestoreLost(name), "nothing can be restored without it")
	}
}

// Every part of a fold with counts, lost one by one.
func TestRestoreWithoutEachPart(t *testing.T) {
	f := lostFold(t)
	parts := f.Parts()
	all := observedSeconds(f)
	lost := 0
	for _, p := range parts {
		if p.Vital {
			continue
		}
		lost++
		again, err := New(Options{})
		require.NoError(t, err)
		for _, q := range parts {
			if q.Name == p.Name {
				require.NoError(t, again.RestoreLost(q.Name))
			} else {
				require.NoError(t, again.RestorePart(q.Name, q.Encode(nil)))
			}
		}
		require.NoError(t, again.FinishRestore(), p.Name)
		require.Equal(t, f.inds[0].sorted[0].total, again.inds[0].sorted[0].total, "totals stay")
		if strings.HasPrefix(p.Name, "events-") {
			require.Less(t, observedSeconds(again), all, p.Name)
			require.Greater(t, observedSeconds(again), all-float64(coarseSeg)-1, p.Name)
		}
		var states [][]byte // what was restored is the same after another restore
		for _, g := range []*Fold{again, afterRestore(t, again)} {
			states = append(states, g.appendState(nil))
		}
		require.Equal(t, states[0], states[1])
	}
	require.Greater(t, lost, 3)
}

func observedSeconds(f *Fold) (n float64) {
	for _, s := range f.inds[0].era.observed(f.up.spans) {
		n += s.To.Sub(s.From).Seconds()
	}
	return n
}

func afterRestore(t *testing.T, f *Fold) *Fold {
	g, err := New(Options{})
	require.NoError(t, err)
	for _, p := range f.Parts() {
		require.NoError(t, g.RestorePart(p.Name, p.Encode(nil)))
	}
	require.NoError(t, g.FinishRestore())
	return g
}

// Records that are lost leave a time in which the engine does not count as up.
func TestGap(t *testing.T) {
	f, err := New(Options{})
	require.NoError(t, err)
	at := int64(1_700_000_000) * int64(time.Second)
	f.Advance(at, Start)
	f.Advance(at+5e9, Tick)
	f.Gap()
	f.Advance(at+15e9, Tick)
	f.Advance(at+20e9, Tick)
	require.Equal(t, []upSpan{{at, at + 5e9}, {at + 15e9, at + 20e9}}, f.up.spans)
}

// lostFold has counts of several days, in buckets of each width.
func lostFold(t *testing.T) *Fold {
	f := newFold(t, config(availability()), t0)
	for i := range 4 * 24 * 12 {
		at := t0.Add(time.Duration(i) * 5 * time.Minute)
		for step := range 10 { // the engine was up throughout
			f.Advance(at.Add(time.Duration(step)*30*time.Second).UnixNano(), Tick)
		}
		apply(t, f, at.Add(270*time.Second), shop(at))
	}
	return f
}
