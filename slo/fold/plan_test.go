package fold

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/ingest/event"
)

// What a Judge says of each event adds up to what the fold counts of them.
func TestAJudgeCountsAsTheFold(t *testing.T) {
	ok, fast := availability("bank"), Indicator{ID: "shop/fast", Service: "shop", Kind: Latency,
		Edges: []time.Duration{time.Second}, Retention: 3 * day}
	ok.Valid = []Matcher{ne("bank", "b")}
	cfg := config(ok, fast, Indicator{ID: "shop/volume", Service: "shop", Kind: Events, Retention: 3 * day},
		Indicator{ID: "shop/ratio", Service: "shop", Kind: Ratio, Numerator: ok.Bad, Retention: 3 * day})
	f := newFold(t, cfg, t0)
	r := rand.New(rand.NewPCG(1, 2))
	got := map[string][2]uint64{}
	var judges []*Judge
	for _, id := range []string{"shop/availability", "shop/fast"} {
		j, err := cfg.NewJudge(id)
		require.NoError(t, err)
		judges = append(judges, j)
	}
	for range 2000 {
		e := times(shop(t0, "bank", string(rune('a'+r.IntN(3)))), 1+r.Uint32N(3))
		e.Weight, e.Outcome = 1+r.Uint32N(3), event.Outcome(1+r.IntN(2))
		switch r.IntN(3) {
		case 0:
			took(e, time.Duration(r.IntN(2000))*time.Millisecond)
		case 1:
			e.Count = 5
			e.Durations = []event.DurationCount{{Duration: time.Second, Count: 2}, {Duration: time.Second + 1, Count: 3}}
		}
		apply(t, f, t0, e)
		var v event.View
		_, err := v.Parse(event.AppendBinary(nil, e))
		require.NoError(t, err)
		for _, j := range judges {
			good, bad, group := j.Of(&v)
			if good+bad > 0 {
				x := got[j.ind.spec.ID+group.Key()]
				got[j.ind.spec.ID+group.Key()] = [2]uint64{x[0] + good, x[1] + bad}
			}
		}
	}
	want := map[string][2]uint64{}
	for _, g := range f.Sums(Request{}).Groups {
		if id := g.Indicator.ID; id == "shop/availability" || id == "shop/fast" {
			want[id+g.Values.Key()] = [2]uint64{g.Total[0], g.Total[1]}
		}
	}
	require.Len(t, want, 3)
	require.Equal(t, want, got)

	for _, id := range []string{"shop/volume", "shop/ratio"} {
		_, err := cfg.NewJudge(id)
		require.ErrorIs(t, err, ErrNotJudged)
	}
	_, err := cfg.NewJudge("shop/none")
	require.ErrorContains(t, err, "no indicator shop/none")
}

// TestUncounted: events of unknown types count nowhere if the service admits these, and are no error, not even for an
// indicator that takes every type. Drops of them lower no coverage, and a Judge agrees.
func TestUncounted(t *testing.T) {
	cfg := config(availability())
	cfg.Services[0].Types = []string{"order"}
	ordr := failed(shop(t0.Add(time.Second)))
	ordr.Type = "ordr"
	f := newFold(t, cfg, t0)
	err := tryApply(f, t0.Add(time.Second), Live, ordr)
	require.ErrorIs(t, err, ErrRefused)
	require.EqualValues(t, 1, f.stats.refused)

	cfg.Services[0].AdmitUnknown = true
	f = newFold(t, cfg, t0)
	apply(t, f, t0.Add(time.Second), failed(shop(t0.Add(time.Second))))
	before := f.Sums(Request{})
	for _, mode := range []Mode{Live, Backfill, Replay} {
		require.Equal(t, ErrUncounted, tryApply(f, t0.Add(time.Second), mode, ordr))
	}
	f.Dropped(t0.Add(time.Second).UnixNano(), []byte("shop"), []byte("ordr"), t0.UnixNano(), 5, "rate_limit")
	after := f.Sums(Request{})
	require.Equal(t, before.Groups, after.Groups)
	require.Equal(t, before.Traffic, after.Traffic)
	require.Zero(t, f.stats.refused)

	j, err := cfg.NewJudge("shop/availability")
	require.NoError(t, err)
	var v event.View
	_, err = v.Parse(event.AppendBinary(nil, ordr))
	require.NoError(t, err)
	good, bad, _ := j.Of(&v)
	require.Zero(t, good+bad)
}

// TestAdmittedTypesAreCountedLater: a definition that names a type which was stored uncounted counts it from the log,
// and the time is observed. Where the type was rejected, it is not.
func TestAdmittedTypesAreCountedLater(t *testing.T) {
	fixed := availability()
	fixed.Valid = []Matcher{eq("type", "order")}
	next := config(fixed)
	next.Services[0].Types = []string{"order"}
	for _, admits := range []bool{true, false} {
		wrong := availability()
		wrong.Valid = []Matcher{eq("type", "ordr")}
		then := config(wrong)
		then.Services[0].Types, then.Services[0].AdmitUnknown = []string{"ordr"}, admits
		l, err := NewLone(next, []string{"shop/availability"})
		require.NoError(t, err)
		require.NoError(t, l.Configure(then, t0.UnixNano()))
		require.Equal(t, admits, !l.Absent())
		v := viewOf(t, failed(shop(t0.Add(time.Minute))))
		require.Equal(t, !admits, then.NewRefuser("shop")(t0.Add(time.Minute).UnixNano(), &v))
		if !admits {
			continue
		}
		l.Fold.Advance(t0.Add(time.Minute).UnixNano(), Start)
		apply(t, l.Fold, t0.Add(time.Minute), failed(shop(t0.Add(time.Minute))))
		other := shop(t0.Add(time.Minute))
		other.Type = "ordr"
		require.ErrorIs(t, tryApply(l.Fold, t0.Add(time.Minute), Live, other), ErrRefused, "no indicator needs the type")
		require.Equal(t, []uint64{0, 1}, groupOf(t, l.Fold.Sums(Request{}), "shop/availability").Total)
	}
}

func viewOf(t *testing.T, e *event.Event) (v event.View) {
	t.Helper()
	_, err := v.Parse(event.AppendBinary(nil, e))
	require.NoError(t, err)
	return v
}
