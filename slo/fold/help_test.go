package fold

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/slo"
)

// t0 is a Monday, on a boundary of every bucket.
var t0 = time.Date(2026, 11, 16, 0, 0, 0, 0, time.UTC)

// eq and ne are matchers in short.
func eq(name, value string) Matcher { return Matcher{name, slo.OpEqual, value} }
func ne(name, value string) Matcher { return Matcher{name, slo.OpNotEqual, value} }

func config(inds ...Indicator) *Config {
	c := &Config{Version: ConfigVersion, Indicators: inds}
	seen := map[string]bool{}
	for _, i := range inds {
		if !seen[i.Service] {
			c.Services = append(c.Services, Service{Name: i.Service})
		}
		seen[i.Service] = true
	}
	return c
}

// availability is an indicator of the failures of "shop".
func availability(groupBy ...string) Indicator {
	return Indicator{
		ID: "shop/availability", Service: "shop", Kind: Events,
		Bad: []Matcher{eq("outcome", "failure")}, GroupBy: groupBy, Retention: 30 * 24 * time.Hour,
	}
}

func newFold(t testing.TB, cfg *Config, at time.Time) *Fold {
	t.Helper()
	f, err := New(Options{})
	require.NoError(t, err)
	f.Advance(at.UnixNano(), Start)
	require.NoError(t, f.SetConfig(cfg, at.UnixNano()))
	return f
}

// shop is an event of the service that the tests watch.
func shop(at time.Time, attrs ...string) *event.Event {
	e := &event.Event{Service: "shop", Type: "order", Time: at}
	for i := 0; i < len(attrs); i += 2 {
		e.Set(attrs[i], attrs[i+1])
	}
	return e
}

func failed(e *event.Event) *event.Event { e.Outcome = event.Failure; return e }

func took(e *event.Event, d time.Duration) *event.Event {
	e.Duration, e.HasDuration = d, true
	return e
}

func times(e *event.Event, n uint32) *event.Event { e.Count = n; return e }

// apply folds an event at a record time.
func apply(t testing.TB, f *Fold, recv time.Time, e *event.Event) {
	t.Helper()
	require.NoError(t, tryApply(f, recv, Live, e))
}

func tryApply(f *Fold, recv time.Time, mode Mode, e *event.Event) error {
	var v event.View
	if _, err := v.Parse(event.AppendBinary(nil, e)); err != nil {
		return err
	}
	return f.Apply(recv.UnixNano(), mode, &v)
}

// tick lets record time pass without silence.
func tick(f *Fold, from, to time.Time) {
	for at := from; at.Before(to); at = at.Add(20 * time.Second) {
		f.Advance(at.UnixNano(), Tick)
	}
	f.Advance(to.UnixNano(), Tick)
}

func last(now time.Time, d time.Duration) slo.Span { return slo.Span{From: now.Add(-d), To: now} }

// sums asks for spans and gives them per group key.
func sums(f *Fold, id string, spans ...slo.Span) map[string][][]uint64 {
	out := map[string][][]uint64{}
	for _, g := range f.Sums(Request{Now: unix(f.rec), Spans: spans}).Groups {
		if g.Indicator.ID == id {
			out[g.Values.Key()] = g.Spans
		}
	}
	return out
}

func groupOf(t testing.TB, s *Sums, id string, values ...string) Group {
	t.Helper()
	for _, g := range s.Groups {
		if g.Indicator.ID == id && g.Values.Key() == slo.Group(values).Key() {
			return g
		}
	}
	require.Failf(t, "no such group", "%s %q", id, values)
	return Group{}
}
