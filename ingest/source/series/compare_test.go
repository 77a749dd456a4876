package series

import (
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// madeSamples is a counter that is scraped every 15 seconds, 7 s after the full minute, and adds 30 between two
// scrapes.
func madeSamples(s *scraped, series string, from, to int, skip func(at int) bool) {
	n := 100.0
	for i := from; i < to; i += 15 {
		if n += 30; !skip(i) {
			s.add(series, at(i+7), n)
		}
	}
}

func compare(t *testing.T, s *scraped, events bool) *Compared {
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	out, err := Compare(t.Context(), &Comparison{URL: server.URL, Client: server.Client(), Total: `r{}`,
		Part: `r{code="500"}`, From: at(0), To: at(3600), Step: 5 * time.Minute, Events: events, MaxSeries: 10,
		MaxSamples: 1e4})
	require.NoError(t, err)
	require.Equal(t, 15*time.Second, out.Scrape)
	for _, side := range []*Side{&out.Total, &out.Part} {
		added := 0.0
		for _, n := range side.Added {
			added += n
		}
		require.InDelta(t, side.Counted, added, 1e-6)
		for _, v := range side.Versions {
			lost := 0.0
			if events {
				lost = side.Lost
			}
			require.InDelta(t, side.Counted, v.Raw+v.Edges+v.GapEdges+side.First+lost, 1e-6)
		}
	}
	return out
}

func never(int) bool { return false }

func TestCompare(t *testing.T) {
	const old = `r{job="web",instance="a",code="200"}`
	for name, tt := range map[string]struct {
		make   func(*scraped)
		source func(*testing.T, *Compared) // as a source counts
		events func(*testing.T, *Compared)
	}{
		"edges": {func(s *scraped) { madeSamples(s, old, -3600, 7200, never) }, func(t *testing.T, c *Compared) {
			require.Equal(t, 7200.0, c.Total.Counted)
			require.Equal(t, Increase{Value: 7200, Raw: 7170, Edges: 30}, c.Total.Versions[0])
		}, func(t *testing.T, c *Compared) {
			require.InDelta(t, 7200, c.Total.Counted, 1e-9)
			require.InDelta(t, 30, c.Total.Versions[1].Edges, 1e-9)
		}},
		"gap inside": {func(s *scraped) {
			madeSamples(s, old, -3600, 7200, func(at int) bool { return at >= 600 && at < 1200 })
		}, func(t *testing.T, c *Compared) {
			require.Equal(t, 7200.0, c.Total.Counted)
			require.Zero(t, c.Total.Versions[0].GapEdges)
			require.Equal(t, []any{1, 1230.0, 615 * time.Second, at(592)},
				[]any{c.Total.Gaps, c.Total.InGaps, c.Total.LongestGap,
					c.Total.GapAt.UTC()})
		}, nil},
		// Its middle is inside the window, and increase() sees only what follows.
		"gap across the start": {func(s *scraped) {
			madeSamples(s, old, -3600, 7200, func(at int) bool { return at >= -300 && at < 600 })
		}, func(t *testing.T, c *Compared) {
			require.Equal(t, 1830.0, c.Total.Versions[0].GapEdges)
			require.Equal(t, 5970.0, c.Total.Versions[0].Raw)
			require.Equal(t, 7800.0, c.Total.Counted)
		}, func(t *testing.T, c *Compared) { // as much of it as lies in the window
			require.InDelta(t, 1830*607/915., c.Total.Versions[0].GapEdges, 1e-9)
		}},
		"gap across the end": {func(s *scraped) {
			madeSamples(s, old, -3600, 7200, func(at int) bool { return at >= 3000 && at < 4500 })
		}, func(t *testing.T, c *Compared) { // its middle is outside
			require.Zero(t, c.Total.Versions[0].GapEdges)
			require.Equal(t, c.Total.Versions[0].Raw+30, c.Total.Counted)
		}, nil},
		"first value": {func(s *scraped) {
			madeSamples(s, old, -3600, 7200, never)
			madeSamples(s, `r{job="web",instance="a",code="500"}`, 1200, 7200, never)
		}, func(t *testing.T, c *Compared) {
			require.Equal(t, []any{1, 130.0, at(1207)}, []any{c.Part.NewSeries, c.Part.First, c.Part.LastNew.UTC()})
			require.Equal(t, 4770.0+130, c.Part.Counted)
			require.Equal(t, 7200+4770.0+130, c.Total.Counted)
		}, nil},
		"a target that is old when it is first scraped": {func(s *scraped) {
			madeSamples(s, old, -3600, 7200, never)
			madeSamples(s, `r{job="web",instance="b",code="500"}`, 1200, 7200, never)
			for i := range s.series[`r{job="web",instance="b",code="500"}`] {
				s.series[`r{job="web",instance="b",code="500"}`][i].n += 1e6
			}
		}, func(t *testing.T, c *Compared) {
			require.Equal(t, []any{1, 1e6 + 130.0, 0}, []any{c.Part.Beginnings, c.Part.AtBeginnings, c.Part.NewSeries})
			require.Equal(t, 4770.0, c.Part.Counted)
		}, func(t *testing.T, c *Compared) { require.Equal(t, 1, c.Part.Beginnings) }},
		"a target that begins": {func(s *scraped) {
			madeSamples(s, old, -3600, 7200, never)
			for i := range 20 {
				s.add(`r{job="web",instance="b",code="500"}`, at(1207+15*i), float64(20+30*i))
			}
		}, func(t *testing.T, c *Compared) { require.Equal(t, 1, c.Part.Beginnings) }, func(t *testing.T, c *Compared) {
			require.Equal(t, []any{1, 20.0}, []any{c.Part.NewSeries, c.Part.First})
		}},
		"reset": {func(s *scraped) {
			madeSamples(s, old, -3600, 1800, never)
			n := 10.0
			for i := 1800; i < 7200; i += 15 {
				s.add(old, at(i+7), n)
				n += 30
			}
		}, func(t *testing.T, c *Compared) {
			require.Equal(t, []any{1, 10.0, 20.0, at(1807)}, []any{c.Total.Resets, c.Total.AfterReset, c.Total.Lost,
				c.Total.LastReset.UTC()})
			require.Equal(t, 7180.0, c.Total.Counted)
		}, func(t *testing.T, c *Compared) { require.InDelta(t, 7200, c.Total.Counted, 1e-9) }},
	} {
		t.Run(name, func(t *testing.T) {
			s := &scraped{t: t, series: map[string][]point{}}
			tt.make(s)
			tt.source(t, compare(t, s, false))
			events := compare(t, s, true)
			if tt.events != nil {
				tt.events(t, events)
			}
		})
	}
}

func TestCompareHasLimits(t *testing.T) {
	s := &scraped{t: t, series: map[string][]point{}}
	for _, series := range []string{`r{code="200"}`, `r{code="500"}`} {
		madeSamples(s, series, 0, 3600, never)
	}
	server := httptest.NewServer(s)
	defer server.Close()
	for _, c := range []Comparison{{MaxSeries: 1, MaxSamples: 1e4}, {MaxSeries: 2, MaxSamples: 479}} {
		c.URL, c.Client, c.Total, c.Part, c.From, c.To, c.Step = server.URL, server.Client(), `r`, `r{code="500"}`, at(0),
			at(3600),
			time.Hour
		_, err := Compare(t.Context(), &c)
		require.ErrorIs(t, err, ErrTooMany)
	}
}
