package fold

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/ingest/event"
)

// witness writes down what it is told of all indicators but those with a #.
type witness struct{ told []string }

func (*witness) Wants(indicator string) bool { return !strings.Contains(indicator, "#") }

func (w *witness) Bad(e Evidence) bool {
	w.told = append(w.told, strings.Join(append([]string{e.Indicator, string(e.Event.ID), e.Service, e.Type, e.Outcome,
		e.Severity}, append(e.Group, e.Dimensions...)...), " "))
	return e.Outcome == "failure"
}

// TestWitness: the fold tells of exactly the events that count as bad, whatever the indicator, and of those that are
// refused or good it does not.
func TestWitness(t *testing.T) {
	w := &witness{}
	f, err := New(Options{Witness: w})
	require.NoError(t, err)
	keep := 30 * 24 * time.Hour
	latency := Indicator{ID: "shop/latency", Service: "shop", Kind: Latency, Retention: keep,
		Edges: []time.Duration{100 * time.Millisecond, time.Second}}
	slices := availability()
	slices.ID, slices.Slice = "shop/slices", &Slice{Per: time.Minute, Target: 0.9}
	extra := availability()
	extra.ID = "shop/slices#events"
	volume := Indicator{ID: "shop/volume", Service: "shop", Kind: Events, Retention: keep}
	ratio := Indicator{ID: "shop/ratio", Service: "shop", Kind: Ratio, Retention: keep,
		Numerator: []Matcher{eq("outcome", "success")}}
	work := Indicator{ID: "shop/work", Service: "shop", Kind: Completion, Retention: keep, GroupBy: []string{"region"},
		Work: &Work{Started: []Matcher{eq("type", "begin")}, Finished: []Matcher{eq("type", "end")},
			Failed: []Matcher{eq("type", "abort")}, Key: "key", Within: time.Hour}}
	cfg := config(availability("region"), latency, slices, extra, volume, ratio, work)
	cfg.Services[0].Dimensions = []string{"error_type"}
	f.Advance(t0.UnixNano(), Start)
	require.NoError(t, f.SetConfig(cfg, t0.UnixNano()))

	told := func(name string, e *event.Event, want ...string) {
		t.Helper()
		w.told = nil
		e.ID = name
		for range 2 { // the plan is made, and found
			_ = tryApply(f, t0, Live, e)
		}
		require.Equal(t, append(want, want...), w.told, name)
	}
	told("good", shop(t0))
	told("as slow as it may be", took(shop(t0), time.Second))
	told("failed", failed(shop(t0, "region", "eu", "error_type", "timeout")),
		"shop/availability failed shop order failure  eu timeout", "shop/slices failed shop order failure  timeout")
	told("slow", took(shop(t0), time.Second+1), "shop/latency slow shop order success  ")
	told("fast failure", took(failed(shop(t0)), time.Millisecond),
		"shop/availability fast failure shop order failure   ", "shop/slices fast failure shop order failure  ")
	unknown := failed(shop(t0))
	unknown.Service = "unknown"
	told("unknown", unknown)
	future := failed(shop(t0.Add(72 * time.Hour)))
	told("far ahead", future)

	begin := shop(t0, "key", "k1", "region", "us")
	begin.Type = "begin"
	told("begin", begin)
	abort := shop(t0.Add(time.Minute), "key", "k1")
	abort.Type, abort.ID = "abort", "abort"
	w.told = nil
	apply(t, f, t0.Add(time.Minute), abort)
	apply(t, f, t0.Add(time.Minute), abort)
	require.Equal(t, []string{"shop/work abort shop abort success  us "}, w.told,
		"work fails once, in the group of its start")
}

// TestWitnessChangesNothing: counts and snapshots are the same with and without one.
func TestWitnessChangesNothing(t *testing.T) {
	cfg := config(availability("region"))
	with, err := New(Options{Witness: &witness{}})
	require.NoError(t, err)
	with.Advance(t0.UnixNano(), Start)
	require.NoError(t, with.SetConfig(cfg, t0.UnixNano()))
	without := newFold(t, cfg, t0)
	for _, f := range []*Fold{with, without} {
		apply(t, f, t0, failed(shop(t0, "region", "eu")))
		apply(t, f, t0, shop(t0, "region", "us"))
	}
	a, b := with.Parts(), without.Parts()
	require.Len(t, a, len(b))
	for i := range a {
		require.Equal(t, b[i].Name, a[i].Name)
		require.Equal(t, b[i].Encode(nil), a[i].Encode(nil), a[i].Name)
	}
}

// TestWitnessOfAFlood: of what is received at the same time only so many are told, once they were remembered.
func TestWitnessOfAFlood(t *testing.T) {
	w := &witness{}
	f, err := New(Options{Witness: w})
	require.NoError(t, err)
	f.Advance(t0.UnixNano(), Start)
	slow := Indicator{ID: "shop/latency", Service: "shop", Kind: Latency, Retention: time.Hour, Edges: []time.Duration{1}}
	require.NoError(t, f.SetConfig(config(availability(), slow), t0.UnixNano()))
	flood := func(at time.Time, e *event.Event) int {
		w.told = nil
		for range 10 * maxExamples {
			apply(t, f, at, e)
		}
		return len(w.told)
	}
	require.Equal(t, maxExamples, flood(t0, failed(shop(t0))))
	require.Zero(t, flood(t0, failed(shop(t0))))
	require.Equal(t, maxExamples, flood(t0.Add(1), failed(shop(t0))))
	require.Equal(t, 10*maxExamples, flood(t0, took(shop(t0), time.Second)), "none was remembered")
}
