package fold

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/slo"
)

func TestGenerations(t *testing.T) {
	base := func() Indicator {
		i := availability("product")
		i.Valid = []Matcher{eq("type", "order")}
		return i
	}
	for _, c := range []struct {
		name   string
		change func(*Indicator)
		kept   bool
	}{
		{"nothing", func(*Indicator) {}, true},
		{"max_groups", func(i *Indicator) { i.MaxGroups = 5 }, true},
		{"expect", func(i *Indicator) { i.Expect = [][]string{{"A"}, {"new"}} }, true},
		{"longer retention", func(i *Indicator) { i.Retention = 60 * day }, true},
		{"shorter retention", func(i *Indicator) { i.Retention = day }, true},
		{"rename", func(i *Indicator) { i.Was, i.ID = i.ID, "shop/renamed" }, true},
		{"rename and change", func(i *Indicator) { i.Was, i.ID, i.Bad = i.ID, "shop/renamed", nil }, false},
		{"rename without was", func(i *Indicator) { i.ID = "shop/renamed" }, false},
		{"valid", func(i *Indicator) { i.Valid = nil }, false},
		{"bad", func(i *Indicator) { i.Bad = append(i.Bad, ne("severity", "business")) }, false},
		{"group_by", func(i *Indicator) { i.GroupBy = []string{"product", "channel"} }, false},
		{"kind", func(i *Indicator) { i.Kind, i.Bad, i.Edges = Latency, nil, []time.Duration{1} }, false},
		{"slice", func(i *Indicator) { i.Slice = &Slice{Per: time.Minute} }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			keep := Indicator{ID: "shop/z", Service: "shop", Kind: Latency, Edges: []time.Duration{time.Second},
				Retention: 30 * day}
			f := newFold(t, config(base(), keep), t0)
			now := t0.Add(2 * day)
			for _, at := range []time.Time{t0, t0.Add(-20 * time.Minute), now.Add(-5 * day), now} {
				apply(t, f, now, took(shop(at, "product", "A"), time.Second))
			}
			ind := base()
			c.change(&ind)
			changed := now.Add(time.Hour)
			require.NoError(t, f.SetConfig(config(keep, ind), changed.UnixNano()))

			s := f.Sums(Request{Now: changed, Spans: []slo.Span{last(changed, 3*day-2*time.Hour)}})
			require.Equal(t, []uint64{3, 0}, groupOf(t, s, "shop/z").Spans[0], "the other indicator is not touched")
			var g *Group
			for i := range s.Groups {
				if s.Groups[i].Indicator.ID == ind.ID && s.Groups[i].Values.Key() == "A" {
					g = &s.Groups[i]
				}
			}
			if !c.kept {
				require.Nil(t, g, "its groups are gone")
				apply(t, f, changed, took(shop(changed, "product", "A"), time.Second))
				s = f.Sums(Request{Now: changed.Add(time.Second), Spans: []slo.Span{last(changed.Add(time.Second), 9*day)}})
				for _, g := range s.Groups {
					if g.Indicator.ID == ind.ID {
						require.Equal(t, changed, g.Since)
						want := uint32(1)
						if ind.ID == base().ID {
							want = 2
						}
						require.Equal(t, want, g.Generation)
						if ind.Slice == nil {
							require.EqualValues(t, 1, g.Spans[0][0]+g.Spans[0][1], "reused columns are empty")
						}
					}
				}
				return
			}
			require.NotNil(t, g)
			require.Equal(t, []uint64{4, 0}, g.Total)
			require.Equal(t, []uint64{3, 0}, g.Spans[0])
			require.EqualValues(t, 1, g.Generation)
			require.Equal(t, t0, g.Since)

			data, _ := encode(f)
			again, _ := encode(restored(t, data))
			require.Equal(t, data, again)
		})
	}
}

// TestGenerationsResumeAfterRemoval: a generation that returns is the one that it was.
func TestGenerationsResumeAfterRemoval(t *testing.T) {
	f := newFold(t, config(availability()), t0)
	apply(t, f, t0, shop(t0))
	require.NoError(
		t, f.SetConfig(&Config{Version: ConfigVersion, Services: []Service{{Name: "shop"}}}, t0.Add(time.Hour).UnixNano()))
	s := f.Sums(Request{})
	require.Empty(t, s.Groups)
	require.Len(t, s.Traffic, 1, "the service's own counters go on")
	data, _ := encode(f)
	f = restored(t, data)
	require.NoError(t, f.SetConfig(config(availability()), t0.Add(2*time.Hour).UnixNano()))
	now := t0.Add(2 * time.Hour)
	g := groupOf(t, f.Sums(Request{Now: now, Spans: []slo.Span{last(now, day)}}), "shop/availability")
	require.EqualValues(t, 1, g.Generation)
	require.Equal(t, []uint64{0, 0}, g.Total)
	require.Equal(t, []uint64{1, 0}, g.Spans[0])
	require.Equal(t, now, g.Since)
}

// TestRenamedToAnEarlierID: the number of a generation is not that of another one that had the ID.
func TestRenamedToAnEarlierID(t *testing.T) {
	x, y := availability(), availability("product")
	y.ID = "shop/y"
	f := newFold(t, config(x, y), t0)
	require.NoError(t, f.SetConfig(config(y), t0.Add(time.Hour).UnixNano()))
	y.Was, y.ID = y.ID, x.ID
	now := t0.Add(2 * time.Hour)
	require.NoError(t, f.SetConfig(config(y), now.UnixNano()))
	apply(t, f, now, shop(now, "product", "A"))
	require.EqualValues(t, 2, groupOf(t, f.Sums(Request{}), x.ID, "A").Generation)
}

// TestLongerRetentionDoesNotPromiseThePast: what a shorter retention has dropped
// is gone, so the generation begins later.
func TestLongerRetentionDoesNotPromiseThePast(t *testing.T) {
	ind := availability()
	ind.Retention = 3 * day
	f := newFold(t, config(ind), t0)
	now := t0.Add(10 * day)
	f.Advance(now.UnixNano(), Tick)
	ind.Retention = 30 * day
	require.NoError(t, f.SetConfig(config(ind), now.UnixNano()))
	g := groupOf(t, f.Sums(Request{}), ind.ID)
	require.Equal(t, oldest(now, 3*day), g.Since)
	require.EqualValues(t, 1, g.Generation)
}

func TestConfigErrors(t *testing.T) {
	good := availability("product")
	f := newFold(t, config(good), t0)
	apply(t, f, t0, shop(t0, "product", "A"))
	for want, change := range map[string]func(*Config){
		"config version 2, want 1":   func(c *Config) { c.Version = 2 },
		`service "shop": missing or`: func(c *Config) { c.Services = append(c.Services, c.Services[0]) },
		"buckets must rise":          func(c *Config) { c.Services[0].Buckets = []time.Duration{2, 1} },
		"missing or repeated ID":     func(c *Config) { c.Indicators = append(c.Indicators, c.Indicators[0]) },
		`unknown service "bank"`:     func(c *Config) { c.Indicators[0].Service = "bank" },
		`unknown kind "odd"`:         func(c *Config) { c.Indicators[0].Kind = "odd" },
		"valid: label status": func(c *Config) {
			c.Indicators[0].Valid = []Matcher{{"status", slo.OpRegexp, "("}}
		},
		"bad: label status":                func(c *Config) { c.Indicators[0].Bad = []Matcher{{"status", "~", ""}} },
		"has no edges":                     func(c *Config) { c.Indicators[0].Edges = []time.Duration{1} },
		"needs edges, and they must rise":  func(c *Config) { c.Indicators[0].Kind = Latency },
		"retention 48000h0m0s":             func(c *Config) { c.Indicators[0].Retention = 2000 * day },
		"negative max_groups":              func(c *Config) { c.Indicators[0].MaxGroups = -1 },
		`expected group ["A" "B"]`:         func(c *Config) { c.Indicators[0].Expect = [][]string{{"A", "B"}} },
		"slices of 1ms are not between 1s": func(c *Config) { c.Indicators[0].Slice = &Slice{Per: time.Millisecond} },
		"slice target 2":                   func(c *Config) { c.Indicators[0].Slice = &Slice{Per: time.Minute, Target: 2} },
		"during:": func(c *Config) {
			c.Indicators[0].Slice = &Slice{Per: time.Minute, During: "always"}
		},
		"has exactly one edge": func(c *Config) {
			c.Indicators[0].Kind, c.Indicators[0].Edges = Latency, []time.Duration{1, 2}
			c.Indicators[0].Slice = &Slice{Per: time.Minute}
		},
	} {
		c := config(good)
		change(c)
		require.ErrorContains(t, f.SetConfig(c, t0.Add(time.Minute).UnixNano()), want)
	}
	require.Equal(t, []uint64{1, 0}, groupOf(t, f.Sums(Request{}), good.ID, "A").Total, "a bad config changes nothing")
}
