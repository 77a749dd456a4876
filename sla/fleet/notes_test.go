package fleet

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/sla/annotation"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/traces"
)

// TestAnnotationsOfEngines: a fleet shows what its engines noted, each once, and asks for changes only.
func TestAnnotationsOfEngines(t *testing.T) {
	w := newWorld(t, 3)
	w.open(Options{})
	note := func(i, minute int, kind annotation.Kind, text string) annotation.Annotation {
		return annotation.Annotation{ID: fmt.Sprintf("%d-%d", i, minute), At: began.Add(time.Duration(minute) * time.Minute),
			Kind: kind, Service: "shop", Text: text, Author: fmt.Sprint(i)}
	}
	texts := func(service string, sp slo.Span) (out []string) {
		for _, a := range w.fleet.Annotations().List(service, sp) {
			out = append(out, a.Text)
		}
		return out
	}
	told := func() (out []int) {
		for _, p := range w.parts {
			p.set(func() { out = append(out, p.told) })
		}
		return out
	}
	for i, p := range w.parts {
		p.set(func() {
			p.notes = Notes{Changes: 1, All: []annotation.Annotation{note(i, 5, annotation.Deployment, "v2 deployed"),
				note(i, 10+i, annotation.Spec, "spec a replaced by b")}}
		})
	}
	w.pass(time.Hour, 9)
	w.tick(w.all)
	all := []string{"v2 deployed", "spec a replaced by b", "spec a replaced by b", "spec a replaced by b"}
	require.Equal(t, all, texts("shop", slo.Span{}))
	require.Empty(t, texts("web", slo.Span{}))
	require.Equal(t, all[2:], texts("", slo.Span{From: began.Add(11 * time.Minute)}))
	require.Equal(t, []int{1, 1, 1}, told())

	// Nothing changed, then one did.
	before := w.fleet.Annotations().Changes()
	w.pass(time.Minute, 9)
	w.tick(w.all)
	require.Equal(t, []int{1, 1, 1}, told(), "they are not told again")
	require.Equal(t, before, w.fleet.Annotations().Changes())
	w.parts[1].set(func() {
		w.parts[1].notes = Notes{Changes: 2, All: []annotation.Annotation{note(1, 7, annotation.Note, "load test")}}
	})
	w.pass(time.Minute, 9)
	w.tick(w.all)
	now := []string{"v2 deployed", "load test", "spec a replaced by b", "spec a replaced by b"}
	require.Equal(t, now, texts("shop", slo.Span{}))
	require.Equal(t, []int{1, 2, 1}, told())
	require.Greater(t, w.fleet.Annotations().Changes(), before)

	// An engine that is missing keeps those of its last answer. One that began again tells all of its own.
	w.parts[0].set(func() { w.parts[0].wrong = answers(503, "text/plain", "") })
	w.parts[2].set(func() { w.parts[2].run, w.parts[2].notes.All = "second", nil })
	w.pass(time.Minute, 9)
	w.tick(w.all)
	require.Equal(t, now[:3], texts("shop", slo.Span{}))
	require.Equal(t, []int{1, 2, 2}, told(), "the changes of another process mean nothing")

	// Another spec in force changes none.
	require.NoError(t, w.fleet.SetSpec("hash", w.cfg))
	require.Equal(t, now[:3], texts("shop", slo.Span{}))

	// What an engine tells is bounded.
	w.parts[2].set(func() {
		w.parts[2].notes = Notes{Changes: 3, All: make([]annotation.Annotation, MaxNotes+1)}
	})
	w.pass(time.Minute, 9)
	w.tick(w.all)
	require.Equal(t, "it has more than 1000 annotations", w.fleet.Engines()[2].Reason)
}

// TestOnsetsOfEngines: incidents of all engines are told apart. They are not known if one engine does not know its own.
func TestOnsetsOfEngines(t *testing.T) {
	w := newWorld(t, 2)
	w.open(Options{})
	w.parts[0].set(func() { w.parts[0].onsets = someOnsets })
	w.parts[1].set(func() { w.parts[1].onsets = someOnsets[:1] })
	w.pass(time.Hour, 9)
	w.tick(w.all)
	sp := slo.Span{From: began, To: w.now}
	all, known := w.fleet.Onsets(t.Context(), sp)
	require.True(t, known)
	require.Len(t, all, 3)
	require.NotEqual(t, all[0].Incident, all[2].Incident)
	require.Equal(t, someOnsets[0].Affected, all[2].Affected)

	w.parts[1].set(func() { w.parts[1].forgets = true })
	_, known = w.fleet.Onsets(t.Context(), sp)
	require.False(t, known)
	w.parts[1].Close()
	_, known = w.fleet.Onsets(t.Context(), sp)
	require.False(t, known)
}

// TestTracesOfEngines: the newest of all engines come first, and one that does not answer takes nothing from the
// others.
func TestTracesOfEngines(t *testing.T) {
	w := newWorld(t, 2)
	w.open(Options{})
	w.tick(w.all)
	engines := len(w.parts)
	const id = "shop/availability"
	now := time.Now().UTC().Truncate(time.Second)
	trace := func(n int, group string) *traces.Trace {
		return &traces.Trace{ID: traces.ID{15: byte(n)}, Time: now.Add(-time.Duration(n) * time.Minute), Duration: -1,
			Group: slo.Group{group}, Type: "order", Outcome: "failure"}
	}
	for i, p := range w.parts {
		p.set(func() {
			p.traces = traces.NewStore()
			for n := range traces.MaxPerSLO - 1 {
				p.traces.Add(id, now.UnixNano(), trace(engines*n+i, "a"))
			}
			p.traces.Add(id, now.UnixNano()+1, trace(0, "a")) // all engines know this one
		})
	}
	all := w.fleet.Traces(t.Context(), id, slo.Group{"a"})
	require.Len(t, all, traces.MaxPerSLO)
	for n := range all {
		require.Equal(t, *trace(n, "a"), all[n])
	}
	require.Empty(t, w.fleet.Traces(t.Context(), id, slo.Group{"b"}))
	require.Len(t, w.fleet.Traces(t.Context(), id, nil), traces.MaxPerSLO)

	w.parts[1].Close()
	all = w.fleet.Traces(t.Context(), id, slo.Group{"a"})
	require.Len(t, all, traces.MaxPerSLO)
	require.NotContains(t, all, *trace(1, "a"))
}
