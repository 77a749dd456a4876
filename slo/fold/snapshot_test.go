package fold

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sloengine/sloengine/slo"
)

// encode gives all parts of a fold, and how a part's version became known.
func encode(f *Fold) (map[string]string, map[string]uint64) {
	data, versions := map[string]string{}, map[string]uint64{}
	for _, p := range f.Parts() {
		data[p.Name] = string(p.Encode(nil))
		versions[p.Name] = p.Version
	}
	return data, versions
}

func restored(t require.TestingT, parts map[string]string) *Fold {
	f, err := New(Options{MaxPlans: 3})
	require.NoError(t, err)
	for name, data := range parts { // in no order
		require.NoError(t, f.RestorePart(name, []byte(data)))
	}
	require.NoError(t, f.FinishRestore())
	return f
}

// TestReplayEqualsSnapshotAndTail stops at random places, goes on from the
// snapshot, and must end with the bytes of the fold that never stopped.
func TestReplayEqualsSnapshotAndTail(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		whole, err := New(Options{})
		require.NoError(rt, err)
		parts := whole
		do := func(change func(f *Fold)) { change(whole); change(parts) }
		parts, err = New(Options{})
		require.NoError(rt, err)
		rec := t0
		do(func(f *Fold) { f.Advance(rec.UnixNano(), Start) })
		lastData, lastVersions := encode(parts)
		for range rapid.IntRange(1, 25).Draw(rt, "steps") {
			switch rapid.IntRange(0, 13).Draw(rt, "step") {
			case 0:
				cfg := mixed()
				n := rapid.IntRange(1, len(cfg.Indicators)).Draw(rt, "indicators")
				cfg.Indicators = cfg.Indicators[len(cfg.Indicators)-n:]
				cfg.Indicators[0].Retention = time.Duration(rapid.IntRange(1, 9).Draw(rt, "days")) * day
				cfg.Indicators[n-1].MaxGroups = rapid.IntRange(0, 2).Draw(rt, "max")
				for i := range cfg.Indicators {
					if ind := &cfg.Indicators[i]; ind.Slice == nil && ind.Work == nil {
						ind.Source = rapid.SampledFrom([]string{"", "", "a", "b"}).Draw(rt, "source")
					}
				}
				cfg.Services[0].Dimensions = []string{"channel"}[:rapid.IntRange(0, 1).Draw(rt, "dims")]
				cfg.Services[0].Buckets = []time.Duration{time.Second}[:rapid.IntRange(0, 1).Draw(rt, "buckets")]
				do(func(f *Fold) { require.NoError(rt, f.SetConfig(cfg, rec.UnixNano())) })
			case 1, 2, 3:
				rec = rec.Add(time.Duration(rapid.OneOf(rapid.IntRange(0, 60), rapid.IntRange(0, 2*86400),
					rapid.IntRange(0, 2*86400), rapid.IntRange(0, 40*86400)).Draw(rt, "pass")) * time.Second)
				mark := rapid.SampledFrom([]Mark{Tick, Tick, Start, Stop}).Draw(rt, "mark")
				do(func(f *Fold) { f.Advance(rec.UnixNano(), mark) })
			case 4, 5:
				parts = restored(rt, lastData)
				again, versions := encode(parts)
				require.Equal(rt, lastData, again)
				require.Equal(rt, lastVersions, versions)
			case 13:
				source := rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "source")
				from := rec.Add(-time.Duration(rapid.IntRange(0, 3*86400).Draw(rt, "from")) * time.Second)
				length := time.Duration(rapid.IntRange(0, 7200).Draw(rt, "for")) * time.Second
				do(func(f *Fold) { f.Observe(source, from.UnixNano(), from.Add(length).UnixNano()) })
			case 6:
				x := drawDrop(rt, rec)
				do(func(f *Fold) { x.apply(f) })
			case 7:
				budget := rapid.Int64Range(0, 10_000).Draw(rt, "budget")
				numbers, services := whole.Evictions(budget, day)
				if rapid.IntRange(0, 3).Draw(rt, "forget") == 0 {
					services = []string{"shop"}
				}
				do(func(f *Fold) { f.Forget(numbers, services) })
			default:
				e := drawEvent(rt, rec)
				mode := rapid.SampledFrom([]Mode{Live, Backfill, Replay}).Draw(rt, "mode")
				do(func(f *Fold) {
					if err := tryApply(f, rec, mode, e); err != nil {
						require.ErrorIs(rt, err, ErrRefused)
					}
				})
			}
			var data map[string]string
			var versions map[string]uint64
			data, versions = encode(parts)
			for name, v := range versions {
				if old, ok := lastVersions[name]; ok && old == v {
					require.Equal(rt, lastData[name], data[name], "same version, same bytes: %s", name)
				}
			}
			lastData, lastVersions = data, versions
		}
		data, versions := encode(whole)
		require.Equal(rt, data, lastData)
		require.Equal(rt, versions, lastVersions)
		require.Equal(rt, plain(whole.Sums(everything(rec))), plain(parts.Sums(everything(rec))))
		var requests []ReadRequest
		for _, ind := range whole.inds {
			r := ReadRequest{ID: ind.spec.ID, Spans: []slo.Span{last(rec, 100*day), last(rec, 10*day)}}
			for _, g := range ind.sorted {
				r.Groups = append(r.Groups, g.values)
			}
			requests = append(requests, r)
		}
		require.Equal(rt, whole.Read(requests), parts.Read(requests))
	})
}

func TestSnapshotVersionsFollowChanges(t *testing.T) {
	f := newFold(t, config(availability()), t0)
	for h := range 20 {
		apply(t, f, t0, shop(t0.Add(-time.Duration(h)*time.Hour)))
	}
	_, before := encode(f)
	apply(t, f, t0, shop(t0.Add(-3*time.Hour)))
	_, after := encode(f)
	var changed []string
	for name, v := range after {
		if before[name] != v {
			changed = append(changed, name)
		}
	}
	late := eventsPart(int64(30*day/time.Second), middleWidth, t0.Add(-3*time.Hour).Unix())
	at, ago := receivedPart(fineWidth, t0.Unix()), receivedPart(middleWidth, t0.Add(-3*time.Hour).Unix())
	require.ElementsMatch(t, []string{"state", late, at, ago}, changed)
}

func TestRestoreErrors(t *testing.T) {
	f := newFold(t, mixed(), t0.Add(-6*day))
	tick(f, t0.Add(-6*day), t0.Add(-6*day+20*time.Hour))
	apply(t, f, t0.Add(-6*day+20*time.Hour), took(shop(t0.Add(-6*day+10*time.Hour), "product", "A"), time.Second))
	for i := range 50 {
		e := took(shop(t0.Add(-time.Duration(i*i)*time.Minute), "product", "A"), time.Second)
		e.Weight = 3
		apply(t, f, t0, e)
		f.Dropped(t0.UnixNano(), []byte("shop"), []byte("order"), e.Time.UnixNano(), 2, "limit")
	}
	good, _ := encode(f)
	for _, kind := range []string{"events-", "slices-", "hours-", "judged-"} {
		require.True(t, slices.ContainsFunc(slices.Collect(maps.Keys(good)), func(name string) bool {
			return strings.HasPrefix(name, kind)
		}), kind)
	}

	require.Error(t, f.RestorePart("state", []byte(good["state"])), "not a new fold")
	for name, data := range good {
		for cut := range len(data) {
			bad := map[string]string{}
			for n, d := range good {
				bad[n] = d
			}
			bad[name] = data[:cut]
			require.Error(t, restore(bad), "%s cut to %d of %d bytes", name, cut, len(data))
		}
		for _, with := range []string{data + "\x00", "\x01" + data[1:], string(rune(stateFormat+1)) + data[1:]} {
			bad := map[string]string{"state": good["state"], "config": good["config"]}
			bad[name] = with
			require.Error(t, restore(bad), name)
		}
	}
	require.Error(t, restore(map[string]string{"config": good["config"]}))
	require.Error(t, restore(map[string]string{"state": good["state"]}))
	require.Error(t, restore(map[string]string{"state": good["state"], "config": good["config"], "what": "\x01\x00\x00"}))
	require.NoError(t, restore(nil), "nothing to restore")

	// Whatever is flipped, nothing panics.
	for name, data := range good {
		for i := range min(len(data), 4000) {
			flipped := bytes.Clone([]byte(data))
			flipped[i] ^= 0x15
			bad := map[string]string{"state": good["state"], "config": good["config"], name: string(flipped)}
			_ = restore(bad)
		}
	}
}

func restore(parts map[string]string) error {
	f, err := New(Options{})
	if err != nil {
		return err
	}
	for name, data := range parts {
		if err := f.RestorePart(name, []byte(data)); err != nil {
			return err
		}
	}
	return f.FinishRestore()
}

// TestSnapshotIsSmallAfterSmallChanges: a minute of traffic to 2,000 groups that
// were busy for 30 days changes no more than a twentieth of the bytes.
func TestSnapshotIsSmallAfterSmallChanges(t *testing.T) {
	f := busy(t, 200, 50)
	data, versions := encode(f)
	total := 0
	for _, d := range data {
		total += len(d)
	}
	rec := unix(f.rec)
	for s := range 60 {
		f.Advance(rec.Add(time.Duration(s)*time.Second).UnixNano(), Tick)
		for g := range 200 {
			apply(t, f, unix(f.rec), took(shop(unix(f.rec), "g", fmt.Sprintf("group-%03d", g)), 2*time.Second))
		}
	}
	changed := 0
	for _, p := range f.Parts() {
		if versions[p.Name] != p.Version {
			changed += len(p.Encode(nil))
		}
	}
	require.Less(t, 20*changed, total)
	require.Positive(t, changed)
}

func TestBlockCodec(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		counts := rapid.SliceOfN(rapid.OneOf(rapid.Just(uint64(0)), rapid.Uint64Range(0, 300), rapid.Uint64Range(0, 1<<40)),
			1, 60).Draw(rt, "counts")
		counts = append(counts, 1)
		var b block[uint16]
		b.grow(len(counts) + 5)
		for c, n := range counts {
			b.bump1(uint32(c), n)
		}
		r := newReader(appendBlock(nil, &b))
		got := readBlock[uint16](&r)
		require.NoError(rt, r.done())
		for c, n := range counts {
			require.Equal(rt, n, got.at(uint32(c)))
		}
		require.Len(rt, got.cells, len(counts))
	})
}

// TestRatioThroughKills: numerator and denominator of a ratio are those of a naive table by group and minute, with
// events that come late and in no order, and a fold that is restored at random places has the bytes of one that was
// never stopped.
func TestRatioThroughKills(t *testing.T) {
	for seed := range uint64(8) {
		rnd := rand.New(rand.NewPCG(seed, 9))
		cfg := config(Indicator{
			ID: "shop/conversion", Service: "shop", Kind: Ratio, GroupBy: []string{"product"}, Retention: 2 * day,
			Numerator: []Matcher{eq("type", "connected")}, Valid: []Matcher{eq("type", "applied")},
		}, availability())
		whole, cut := newFold(t, cfg, t0), newFold(t, cfg, t0)
		const hours = 30
		naive := map[string]*[hours * 60][2]uint64{}
		rec, kills := t0, 0
		for range 3000 {
			if rec = rec.Add(time.Duration(rnd.IntN(70)) * time.Second); rec.Sub(t0) >= hours*time.Hour {
				break
			}
			at := rec.Add(-time.Duration(rnd.Int64N(1 + rnd.Int64N(1+int64(rec.Sub(t0))))))
			e := times(shop(at, "product", string(rune('A'+rnd.IntN(3)))), 1+uint32(rnd.IntN(3)))
			bin := RatioDenominator
			switch rnd.IntN(5) {
			case 0, 1:
				e.Type = "applied"
			case 2, 3: // also where nobody has applied yet
				e.Type, bin = "connected", RatioNumerator
			default:
				bin = -1
			}
			apply(t, whole, rec, e)
			apply(t, cut, rec, e)
			if key := (slo.Group{e.Attr("product")}).Key(); bin >= 0 {
				if naive[key] == nil {
					naive[key] = new([hours * 60][2]uint64)
				}
				naive[key][int(at.Sub(t0)/time.Minute)][bin] += uint64(e.Count)
			}
			if rnd.IntN(200) == 0 {
				data, _ := encode(cut)
				cut = restored(t, data)
				kills++
				rec = rec.Add(time.Duration(rnd.IntN(600)) * time.Second)
				whole.Advance(rec.UnixNano(), Start)
				cut.Advance(rec.UnixNano(), Start)
			}
		}
		require.NotZero(t, kills)
		a, _ := encode(whole)
		b, _ := encode(cut)
		require.Equal(t, a, b)
		to := rec.Truncate(5 * time.Minute)
		for range 100 {
			span := slo.Span{
				From: t0.Add(time.Duration(rnd.Int64N(int64(to.Sub(t0)/(5*time.Minute)))) * 5 * time.Minute), To: to}
			for key, got := range sums(cut, "shop/conversion", span) {
				var want [2]uint64
				for m := int(span.From.Sub(t0) / time.Minute); m < int(to.Sub(t0)/time.Minute); m++ {
					want[0], want[1] = want[0]+naive[key][m][0], want[1]+naive[key][m][1]
				}
				require.Equal(t, want[:], got[0], "%s from %s", key, span.From)
			}
		}
	}
}
