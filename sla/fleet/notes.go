package fleet

import (
	"fmt"
	"slices"

	"github.com/sloengine/sloengine/sla/annotation"
	"github.com/sloengine/sloengine/slo"
)

// MaxNotes is how many annotations an engine tells, the latest.
const MaxNotes = 1000

// maxNoteID bounds the id of an annotation, in bytes.
const maxNoteID = 64

// Notes are the annotations of an engine. They go on where they were: what the asker has is not told again.
type Notes struct {
	Changes uint64                  // up to them, by the engine's process
	Same    bool                    // the asker has them
	All     []annotation.Annotation // nil if it has
}

// check leaves out invalid annotations, which say nothing about the counts.
func (n *Notes) check() error {
	if len(n.All) > MaxNotes {
		return fmt.Errorf("it has more than %d annotations", MaxNotes)
	}
	n.All = slices.DeleteFunc(n.All, func(a annotation.Annotation) bool {
		return len(a.ID) > maxNoteID || a.Validate() != nil
	})
	return nil
}

// note takes over the annotations of an answer. f.mu is held.
func (f *Fleet) note(e *engine, run string, n *Notes) {
	if e.noted, e.changes = run, n.Changes; n.Same {
		return
	}
	e.notes = n.All
	lists := make([][]annotation.Annotation, len(f.engines))
	for i := range f.engines {
		lists[i] = f.engines[i].notes
	}
	f.notes = annotation.Merge(lists...)
	f.changes++
}

// Annotations are those of all engines, as of their last answers. They are added to an engine, not here.
type Annotations struct{ fleet *Fleet }

// Annotations are those of the engines.
func (f *Fleet) Annotations() Annotations { return Annotations{f} }

// List returns those of a span that are about a service, or all with "", in the order of their times. A span without an
// end has none.
func (a Annotations) List(service string, sp slo.Span) []annotation.Annotation {
	a.fleet.mu.Lock()
	all := a.fleet.notes
	a.fleet.mu.Unlock()
	return annotation.Select(all, service, sp)
}

// Changes grows with each change, for entity tags.
func (a Annotations) Changes() uint64 {
	a.fleet.mu.Lock()
	defer a.fleet.mu.Unlock()
	return a.fleet.changes
}
