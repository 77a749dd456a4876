package main

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/alerts"
	"github.com/sloengine/sloengine/cmd/sloengine/app/config"
	"github.com/sloengine/sloengine/cmd/sloengine/demo"
	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/reliability/ratelimit"
)

type eventAttrs struct{ of *event.Event }

func (a eventAttrs) Attr(name string) (value []byte, ok bool) {
	v := a.of.Attr(name)
	return []byte(v), v != ""
}

// TestDemoLimitsRaiseNoAlert: the demo exceeds both of its rate limits, but for less than any alert on them takes to
// fire.
func TestDemoLimitsRaiseNoAlert(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, err := config.Read("demo", []byte(demoLimits))
		require.NoError(t, err)
		policy, err := c.RatePolicy(nil)
		require.NoError(t, err)
		l, err := ratelimit.New(ratelimit.Options{Policy: policy})
		require.NoError(t, err)
		m := demo.New(time.Now().Add(-10*time.Minute), 1)
		of := alerts.EngineThresholds{}.WithDefaults()
		busy := map[string]time.Time{} // since when a layer is above 80%
		hits := map[string][]uint64{}  // each second
		for range 15 * 60 {
			now := time.Now()
			tickets := &ratelimit.Tickets{}
			for _, e := range m.Views(now, now.Add(time.Second), "t") {
				policy.Add(&ratelimit.Caller{}, &ratelimit.Subject{Type: []byte(e.Type), Attrs: eventAttrs{&e}}, tickets)
			}
			require.NoError(t, l.Decide(t.Context(), now, []*ratelimit.Tickets{tickets}))
			for _, s := range l.Status() {
				at := append(hits[s.Layer], s.Hits)
				hits[s.Layer] = at
				if s.Current <= 0.8*s.PerSecond {
					delete(busy, s.Layer)
				} else if busy[s.Layer].IsZero() {
					busy[s.Layer] = now
				} else {
					require.Less(t, now.Sub(busy[s.Layer]), time.Minute, "RateLimitUtilisationHigh of %s", s.Layer)
				}
				before := at[max(0, len(at)-1-5*60)]
				limit := map[string]float64{"type": of.TypeHits, "context": of.ContextHits}[s.Layer]
				require.Less(t, float64(s.Hits-before)/5, limit, "%s, hits per minute", s.Layer)
			}
			time.Sleep(time.Second)
		}
		for _, layer := range []string{"type", "context"} {
			require.Positive(t, hits[layer][len(hits[layer])-1], "%s: the limit shows what it does", layer)
		}
	})
}

func TestDemoNotice(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 11, 27, 13, 30, 0, 0, time.UTC)
	m := demo.New(start, 1)
	m.FailAt(start.Add(3 * time.Minute))
	for after, want := range map[time.Duration]string{
		0:                           "Demo: mdm fails in 3m0s",
		2*time.Minute + time.Second: "Demo: mdm fails in 59s",
		4 * time.Minute:             "Demo: mdm has been failing for 1m0s",
		9 * time.Minute:             "Demo: mdm works again since 13:39:00 UTC",
		4 * time.Hour:               "",
	} {
		n, ok := demoNotice(m.Outage(), start.Add(after))
		require.Equal(t, want != "", ok)
		require.Equal(t, want, n.Title)
		for _, l := range n.Links {
			require.True(t, strings.HasPrefix(l.Href, "/"), l.Href)
		}
	}
	n, ok := demoNotice(nil, start)
	require.True(t, ok)
	require.Equal(t, "Demo: loading the history", n.Title)
}
