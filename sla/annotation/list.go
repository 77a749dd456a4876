package annotation

import (
	"cmp"
	"slices"
	"time"

	"github.com/sloengine/sloengine/internal/order"
	"github.com/sloengine/sloengine/slo"
)

// same reports whether two annotations say the same, by whomever.
func (a *Annotation) same(b *Annotation) bool {
	return a.At.Equal(b.At) && a.Kind == b.Kind && a.Service == b.Service && a.Text == b.Text
}

// Select returns those of a span that are about a service, or all with "". A span without an end has none.
func Select(all []Annotation, service string, sp slo.Span) []Annotation {
	out := []Annotation{}
	for i := range all {
		a := &all[i]
		if (service == "" || a.Concerns(service)) && !a.At.Before(sp.From) && (sp.To.IsZero() || a.At.Before(sp.To)) {
			out = append(out, *a)
		}
	}
	return out
}

// Merge makes one list of several, in the order of the times. What several say alike is there once. Beyond Max, those
// of the earliest times make way.
func Merge(lists ...[]Annotation) []Annotation {
	out := slices.Concat(lists...)
	order.By(out, func(a, b *Annotation) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Service, b.Service),
			cmp.Compare(a.Text, b.Text))
	})
	out = slices.CompactFunc(out, func(a, b Annotation) bool { return a.same(&b) })
	return out[max(0, len(out)-Max):]
}

// prune sorts by time, and leaves out what is too old and what is too much.
func prune(all []Annotation, now time.Time) []Annotation {
	order.By(all, func(a, b *Annotation) int {
		return cmp.Or(a.At.Compare(b.At), a.Created.Compare(b.Created))
	})
	from, _ := slices.BinarySearchFunc(all, now.Add(-MaxAge), func(a Annotation, t time.Time) int {
		return a.At.Compare(t)
	})
	return all[max(from, len(all)-Max):]
}
