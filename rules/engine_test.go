package rules_test

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/rules"
	"github.com/sloengine/sloengine/rules/rulestest"
	"github.com/sloengine/sloengine/slo"
)

const shop = `
version: sloengine/v1
service: shop
slos:
  - name: checkout
    objective: 99.9
    indicator:
      events: {valid: '{type="order"}', bad: '{outcome="failure"}'}
`

const (
	good = `slo_events_total{slo_id="shop/checkout",service="shop",slo="checkout",result="good"}`
	bad  = `slo_events_total{slo_id="shop/checkout",service="shop",slo="checkout",result="bad"}`
)

const scrape = 15 * time.Second

var monday = time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)

// value reads the only sample of an expression.
func value(t testing.TB, w *rulestest.World, expr string) float64 {
	t.Helper()
	v, ok := w.Value(expr, w.Now())
	require.True(t, ok, "%s has no sample", expr)
	return v
}

// traffic turns rates into counters.
type traffic struct {
	valid, bad float64
}

func (c *traffic) add(valid, badShare float64) {
	n := valid * scrape.Seconds()
	c.valid += n
	c.bad += n * badShare
}

func (c *traffic) scrape(add func(string, float64)) {
	add(good, math.Round(c.valid-c.bad))
	add(bad, math.Round(c.bad))
}

// coarse keeps what a window of days needs, evaluated as rarely as the long
// group reads it. What is evaluated then is the same.
func coarse(groups []rules.Group, records ...string) []rules.Group {
	var out []rules.Group
	for _, g := range groups {
		g.Rules = slices.DeleteFunc(slices.Clone(g.Rules), func(r rules.Rule) bool {
			return !slices.Contains(records, r.Record)
		})
		if len(g.Rules) > 0 {
			g.Interval = 5 * time.Minute
			out = append(out, g)
		}
	}
	return out
}

// seldom evaluates what reads days less often than what it reads.
func seldom(groups []rules.Group, interval time.Duration) []rules.Group {
	for _, g := range groups {
		i := slices.IndexFunc(g.Rules, func(r rules.Rule) bool { return strings.HasPrefix(r.Record, "slo:sli_error") })
		if i >= 0 {
			groups = append(groups, rules.Group{Name: g.Name + "/seldom", Interval: interval, Rules: g.Rules[i:]})
			groups[slices.IndexFunc(groups, func(x rules.Group) bool { return x.Name == g.Name })].Rules = g.Rules[:i]
		}
	}
	return groups
}

// The half of the day with a hundredth of the traffic must not weigh as much as
// the other half.
func TestThirtyDaysAreWeightedByEvents(t *testing.T) {
	if testing.Short() {
		t.Skip("thirty days of scrapes")
	}
	in := load(t, shop)
	groups := coarse(recording(t, in, rules.Options{Scrape: time.Minute}),
		"slo:valid_events:rate5m", "slo:bad_events:rate5m", "slo:valid_events:increase5m", "slo:bad_events:increase5m",
		"slo:sli_error:ratio_rate30d", "slo:period_burn_rate:ratio", "slo:period_error_budget_remaining:ratio")
	groups = seldom(groups, 24*time.Hour)
	daily := groups[len(groups)-1:]
	// One day is like the other but for the outage. In its day the rules count from
	// scrapes; for the others the test writes what they record.
	const id = `{slo_id="shop/checkout",service="shop",slo="checkout"}`
	for _, c := range []struct {
		name            string
		from            time.Duration // of the outage, on the fifteenth day
		ratio, remained float64
	}{
		{"at peak", 14*24*time.Hour + 3*time.Hour, 0.0027503, -1.7503},
		{"at night", 14*24*time.Hour + 15*time.Hour, 0.000027503, 0.972497},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := rulestest.New(t, monday, daily)
			w.Sparse = true
			n := traffic{valid: 1e6} // nothing failed before: the bad ones leave zero
			var then traffic
			outage := monday.Add(c.from)
			run := func(to time.Time, every time.Duration, recorded bool) {
				w.Run(to, every, func(at time.Time, add func(string, float64)) {
					rate, share := 100.0, 0.0
					if at.Sub(monday)%(24*time.Hour) >= 12*time.Hour {
						rate = 1
					}
					if !at.Before(outage) && at.Before(outage.Add(time.Hour)) {
						share = 1
					}
					n.scrape(add) // what happened until now
					if recorded && at.After(monday) {
						add("slo:valid_events:increase5m"+id, n.valid-then.valid)
						add("slo:bad_events:increase5m"+id, n.bad-then.bad)
					}
					then = n
					n.add(every.Seconds()/scrape.Seconds()*rate, share)
				})
			}
			run(monday.Add(14*24*time.Hour), 5*time.Minute, true)
			w.Replace(groups)
			run(monday.Add(15*24*time.Hour), 4*scrape, false)
			require.InEpsilon(t, 43200*101, value(t, w, rules.Options{}.EventsOver(in.SLOs[0], 24*time.Hour)), 0.001)
			then = traffic{n.valid - 5*60, n.bad} // a night's last five minutes are recorded next
			w.Replace(daily)
			run(monday.Add(30*24*time.Hour+2*time.Second), 5*time.Minute, true)
			o := rules.Options{}
			require.InEpsilon(t, c.ratio, value(t, w, o.PeriodErrorRatio(in.SLOs[0])), 0.001)
			require.InDelta(t, c.remained, value(t, w, o.PeriodRemaining(in.SLOs[0])), 0.003)
			require.InEpsilon(t, 30*43200*101, value(t, w, o.EventsOver(in.SLOs[0], 30*24*time.Hour)), 0.001)
		})
	}
}

// short are all rules but those of days.
func short(groups []rules.Group) []rules.Group {
	return slices.DeleteFunc(slices.Clone(groups), func(g rules.Group) bool { return g.Interval == 5*time.Minute })
}

// A full outage is seen as soon as the events weigh enough, not when the mean of
// five-minute means does.
func TestShortWindowsAreExact(t *testing.T) {
	in := load(t, shop)
	s, o := in.SLOs[0], rules.Options{}
	w := rulestest.New(t, monday, short(recording(t, in, o)))
	var n traffic
	outage := monday.Add(7 * time.Hour)
	windows := []time.Duration{5 * time.Minute, 30 * time.Minute, time.Hour, 2 * time.Hour, 6 * time.Hour}
	var fired, quiet time.Time
	w.After = func(at time.Time) {
		if at.Sub(monday) < 6*time.Hour+10*time.Minute {
			return
		}
		for _, window := range windows {
			bad := earlier(at, outage.Add(20*time.Minute)).Sub(later(at.Add(-window), outage))
			got, ok := w.Value(o.ErrorRatio(s, window), at)
			require.True(t, ok)
			// One scrape and one evaluation may pass before an event is seen.
			require.InDelta(t, max(0, bad).Seconds()/window.Seconds(), got, 46/window.Seconds(), "%s at %s", window, at)
		}
		if got, _ := w.Value(o.ErrorRatio(s, time.Hour), at); got > 14.4*0.001 && fired.IsZero() {
			fired = at
		}
		if got, _ := w.Value(o.ErrorRatio(s, 30*time.Minute), at); got > 6*0.001 {
			quiet = at
		}
	}
	w.Run(outage.Add(3*time.Hour), scrape, func(at time.Time, add func(string, float64)) {
		share := 0.0
		if !at.Before(outage) && at.Before(outage.Add(20*time.Minute)) {
			share = 1
		}
		n.scrape(add)
		n.add(10, share)
	})
	require.InDelta(t, 52, fired.Sub(outage).Seconds(), 46)
	require.InDelta(t, 29.8*60, quiet.Sub(outage.Add(20*time.Minute)).Seconds(), 46)
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

const existing = `
version: sloengine/v1
service: web
slos:
  - name: bad
    objective: 99
    indicator: {prometheus: {bad: 'http_requests_total{code=~"5.."}', total: 'http_requests_total'}}
  - name: good
    objective: 99
    indicator: {prometheus: {good: 'http_requests_total{code!~"5.."}', total: '(http_requests_total)'}}
  - name: grouped
    objective: 99
    group_by: [path]
    indicator: {prometheus: {bad: 'http_requests_total{code=~"5.."}', total: 'http_requests_total'}}
`

// Nothing has failed yet, so there is no series of failures: that is a ratio of
// zero. When one comes it is weighed against everything, also the past.
func TestErrorSeriesBornLate(t *testing.T) {
	in := load(t, existing)
	o := rules.Options{}
	w := rulestest.New(t, monday, short(recording(t, in, o)))
	var ok, failed float64
	born := monday.Add(3 * time.Hour)
	w.Run(monday.Add(4*time.Hour), scrape, func(at time.Time, add func(string, float64)) {
		failing := !at.Before(born) && at.Before(born.Add(6*time.Minute))
		add(`http_requests_total{code="200",path="/a",instance="x"}`, ok)
		add(`http_requests_total{code="200",path="/b",instance="x"}`, ok)
		if failed > 0 {
			add(`http_requests_total{code="500",path="/a",instance="x"}`, failed)
		}
		ok += 10 * scrape.Seconds()
		if failing {
			failed += 10 * scrape.Seconds()
		}
		if at.Equal(born) {
			for _, s := range in.SLOs {
				for _, v := range w.Query(o.ErrorRatio(s, 2*time.Hour), w.Now()) {
					require.Zero(t, v.F)
				}
			}
		}
	})
	// 6m x 10/s failed of 2h x 20/s and 6m x 10/s. What a new series begins with,
	// here 15s of the 6m, is an increase from nothing, which no rate sees.
	want := (6 * 60 * 10.0) / (2*3600*20 + 6*60*10)
	require.InEpsilon(t, want, value(t, w, o.ErrorRatio(byName(in, "bad"), 2*time.Hour)), 0.08)
	require.InEpsilon(t, want, value(t, w, o.ErrorRatio(byName(in, "good"), 2*time.Hour)), 0.08)
	g := byName(in, "grouped")
	require.InEpsilon(t, 2*want, value(t, w, o.Where(`path="/a"`).ErrorRatio(g, 2*time.Hour)), 0.08)
	require.Zero(t, value(t, w, o.Where(`path="/b"`).ErrorRatio(g, 2*time.Hour)))
}

func byName(in rules.Spec, name string) *slo.SLO {
	for _, s := range in.SLOs {
		if s.ID.Name() == name {
			return s
		}
	}
	return nil
}

// Twenty quiet minutes are no data for the short windows and nothing at all for
// the longer ones. No sample is ever not a number.
func TestQuietMinutes(t *testing.T) {
	in := load(t, shop)
	s, o := in.SLOs[0], rules.Options{}
	w := rulestest.New(t, monday, recording(t, in, o))
	var n traffic
	from := monday.Add(3 * time.Hour)
	w.After = func(at time.Time) {
		for _, v := range w.Query(`{__name__=~"slo:.+"}`, at) {
			require.False(t, math.IsNaN(v.F) || math.IsInf(v.F, 0), "%s at %s", v.Metric, at)
		}
		if at.After(from.Add(6*time.Minute)) && at.Before(from.Add(19*time.Minute)) {
			require.Empty(t, w.Query(o.ErrorRatio(s, 5*time.Minute), at))
			require.Empty(t, w.Query(o.CurrentBurnRate(s), at))
		}
	}
	w.Run(monday.Add(4*time.Hour), scrape, func(at time.Time, add func(string, float64)) {
		rate := 10.0
		if !at.Before(from) && at.Before(from.Add(20*time.Minute)) {
			rate = 0
		}
		n.scrape(add)
		n.add(rate, 0.1)
	})
	for _, window := range []time.Duration{5 * time.Minute, time.Hour, 2 * time.Hour, 24 * time.Hour, 3 * 24 * time.Hour} {
		require.InDelta(t, 0.1, value(t, w, o.ErrorRatio(s, window)), 1e-3, window.String())
	}
	require.InDelta(t, -99, value(t, w, o.PeriodRemaining(s)), 0.5)
}

// Two replicas count halves of the traffic, and one of them starts over.
func TestReplicasAndResets(t *testing.T) {
	in := load(t, shop)
	s, o := in.SLOs[0], rules.Options{}
	w := rulestest.New(t, monday, recording(t, in, o))
	var n [2]traffic
	w.Run(monday.Add(4*time.Hour), scrape, func(at time.Time, add func(string, float64)) {
		for i, instance := range []string{"a", "b"} {
			c := &n[i]
			if i == 1 && at.Equal(monday.Add(2*time.Hour)) {
				*c = traffic{}
			}
			c.scrape(func(series string, v float64) {
				add(series[:len(series)-1]+`,instance="`+instance+`",service_pod="x"}`, v)
			})
			c.add(10+20*float64(i), 0.3-0.3*float64(i))
		}
	})
	for _, window := range []time.Duration{2 * time.Hour, 6 * time.Hour, 24 * time.Hour} {
		require.InDelta(t, 0.075, value(t, w, o.ErrorRatio(s, window)), 4e-4, window.String())
	}
	require.InEpsilon(t, 3600*40, value(t, w, o.EventsOver(s, time.Hour)), 0.001)
	require.InEpsilon(t, 3600*3, value(t, w, o.BadEventsOver(s, time.Hour)), 0.001)
}
