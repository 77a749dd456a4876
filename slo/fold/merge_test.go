package fold

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sloengine/sloengine/ingest/event"
)

// merge joins the events that may be one, in the order in which they come.
func merge(t require.TestingT, cfg *Config, events []*event.Event) []*event.Event {
	attrs, step := cfg.MergeBy("shop")
	byKey := map[string]*event.Merger{}
	var out []*event.Event
	done := func(m *event.Merger) {
		var v event.View
		_, err := v.Parse(m.Append(nil, "merged"))
		require.NoError(t, err)
		e := new(event.Event)
		v.Event(e)
		out = append(out, e)
		m.Reset(attrs)
	}
	for _, e := range events {
		var v event.View
		_, err := v.Parse(event.AppendBinary(nil, e))
		require.NoError(t, err)
		key := string(event.MergeKey(nil, &v, attrs, step))
		m := byKey[key]
		if m == nil {
			m = &event.Merger{}
			m.Reset(attrs)
			byKey[key] = m
		}
		if !m.Add(&v) {
			done(m)
			require.True(t, m.Add(&v))
		}
	}
	for _, m := range byKey {
		done(m)
	}
	return out
}

// TestMergedEventsCountAlike: what was merged gives the same sums of everything
// as the events one by one, for indicators of all kinds.
func TestMergedEventsCountAlike(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		cfg := mixed()
		cfg.Services[0].Dimensions = []string{"channel"}
		cfg.Services[0].Buckets = []time.Duration{100 * time.Millisecond, time.Second}
		cfg.Indicators[4].Slice.Per = rapid.SampledFrom(
			[]time.Duration{time.Second, 15 * time.Second, time.Minute}).Draw(rt, "per")
		rec := t0.Add(9 * time.Hour)
		var events []*event.Event
		for range rapid.IntRange(1, 8).Draw(rt, "bursts") {
			e := drawEvent(rt, rec)
			for i := range rapid.IntRange(1, 12).Draw(rt, "burst") {
				x := *e
				x.Attributes = append([]event.Attr(nil), e.Attributes...)
				x.Time = e.Time.Add(time.Duration(i) * 777 * time.Millisecond)
				x.Set("noise", rapid.SampledFrom([]string{"x", "y"}).Draw(rt, "noise"))
				if x.HasDuration {
					x.Duration += time.Duration(i%3) * 400 * time.Millisecond
				}
				events = append(events, &x)
			}
		}
		rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 0)).Shuffle(len(events), func(i, j int) {
			events[i], events[j] = events[j], events[i]
		})
		run := func(events []*event.Event) *Sums {
			f := newFold(t, cfg, rec.Add(-time.Hour))
			tick(f, rec.Add(-time.Hour), rec)
			for _, e := range events {
				require.NoError(rt, tryApply(f, rec, Live, e))
			}
			f.Advance(rec.Add(20*time.Minute).UnixNano(), Tick)
			s := plain(f.Sums(everything(rec.Add(20 * time.Minute))))
			s.Stats.Events, s.Stats.Late, s.Stats.TooOld = 0, 0, 0 // these are of events as they come
			return s
		}
		joined := merge(rt, cfg, events)
		require.LessOrEqual(rt, len(joined), len(events))
		require.Equal(rt, run(events), run(joined))
	})
}

func TestMergeBy(t *testing.T) {
	cfg := mixed()
	cfg.Indicators[0].Valid = []Matcher{eq("type", "order"), ne("region", "none")}
	cfg.Services[0].Dimensions = []string{"error_type"}
	other := availability("elsewhere")
	other.Service = "bank"
	cfg.Indicators = append(cfg.Indicators, other)
	attrs, step := cfg.MergeBy("shop")
	require.Equal(t, []string{"channel", "error_type", "product", "region"}, attrs)
	require.Equal(t, 10*time.Second, step)
	for per, want := range map[time.Duration]time.Duration{
		15 * time.Second: 5 * time.Second, time.Second: time.Second, 2500 * time.Millisecond: 2500 * time.Millisecond,
		7 * time.Second: time.Second, time.Hour: 10 * time.Second,
	} {
		cfg.Indicators[3].Slice.Per = per
		_, step = cfg.MergeBy("shop")
		require.Equal(t, want, step, "%s", per)
	}
	attrs, step = cfg.MergeBy("nobody")
	require.Empty(t, attrs)
	require.Equal(t, 10*time.Second, step)
	require.Equal(t, event.MergeStep, step)
}

func TestTellsApart(t *testing.T) {
	cfg := mixed()
	cfg.Indicators[0].Valid = []Matcher{eq("type", "order"), ne("region", "none"), eq("customer", "42")}
	cfg.Services[0].Dimensions = []string{"error_type"}
	for value, want := range map[string]string{
		"customer=42": cfg.Indicators[0].ID + " matches customer=", "customer=420": "", "region=eu": "",
		"region=none": cfg.Indicators[0].ID + " matches region!=", "error_type=x": "shop splits its counters by it",
		"product=x": "groups by it", "other=x": "",
	} {
		name, text, _ := strings.Cut(value, "=")
		got := cfg.TellsApart(name, text, "erased-1")
		require.Contains(t, got, want)
		require.Equal(t, want == "", got == "", value)
	}
}
