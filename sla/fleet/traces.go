package fleet

import (
	"context"
	"slices"

	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/traces"
)

// TracesOf is an SLO, and one of its groups or nil for all of them.
type TracesOf struct {
	ID    slo.ID    `json:"id"`
	Group slo.Group `json:"group"`
}

// Traces are those of the last bad events on all engines that answer, as traces.Store.Of returns them: a trace that
// several engines know is there once.
func (f *Fleet) Traces(ctx context.Context, id slo.ID, group slo.Group) (all []traces.Trace) {
	f.mu.Lock()
	q, joined := &CountsQuery{Spec: f.spec, Traces: &TracesOf{id, group}}, f.joined
	f.mu.Unlock()
	parts, err := f.ask(ctx, q, joined)
	if err != nil {
		return nil // the page says which engines do not answer
	}
	for _, p := range parts {
		if p != nil {
			all = append(all, p.Traces...)
		}
	}
	traces.Sort(all)
	known := map[traces.ID]bool{}
	all = slices.DeleteFunc(all, func(t traces.Trace) bool {
		was := known[t.ID]
		known[t.ID] = true
		return was
	})
	return all[:min(len(all), traces.MaxPerSLO)]
}
