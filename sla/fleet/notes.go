package fleet

import (
	"encoding/binary"
	"fmt"

	"github.com/sloengine/sloengine/ingest/binread"
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

func appendNotes(b []byte, n *Notes) []byte {
	b = binread.AppendBool(binary.AppendUvarint(b, n.Changes), n.Same)
	if n.Same {
		return b
	}
	b = binary.AppendUvarint(b, uint64(len(n.All)))
	for i := range n.All {
		a := &n.All[i]
		b = appendTime(appendTime(b, a.At), a.Created)
		for _, text := range []string{a.ID, string(a.Kind), a.Service, a.Text, a.Author} {
			b = binread.AppendText(b, text)
		}
	}
	return b
}

// notes reads annotations. One that is invalid is left out, since it says nothing about the counts.
func (r *reader) notes() (n Notes, err error) {
	if n.Changes, n.Same = r.Uint(), r.Bool(); n.Same {
		return n, nil
	}
	told := r.Count(7)
	if told > MaxNotes {
		return n, fmt.Errorf("it has more than %d annotations", MaxNotes)
	}
	for range told {
		a := annotation.Annotation{At: r.time(), Created: r.time(), ID: r.Text(), Kind: annotation.Kind(r.Text()), Service: r.Text(), Text: r.Text(), Author: r.Text()}
		if len(a.ID) <= maxNoteID && a.Validate() == nil {
			n.All = append(n.All, a)
		}
	}
	return n, nil
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

// List returns those of a span that are about a service, or all with "", in the order of their times. A span without an end
// has none.
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
