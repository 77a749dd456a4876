package event

import (
	"slices"
	"strings"
	"time"
)

// Outcome is the result of the operation that the event reports.
type Outcome uint8

// The outcomes. Success is the default.
const (
	Success Outcome = iota
	Failure
)

// String returns "success" or "failure".
func (o Outcome) String() string {
	if o == Failure {
		return "failure"
	}
	return "success"
}

// Event is one event as a plain Go value, for code that makes events: the
// client, the log readers, the demo. Code that reads stored events uses View.
type Event struct {
	ID       string    // 1 to 256 bytes; "" lets the server assign one
	Time     time.Time // zero means "now" in the JSON form
	Service  string
	Type     string
	Outcome  Outcome
	Severity string // "" is none

	Duration    time.Duration // meant only with HasDuration; 0 to MaxDuration
	HasDuration bool

	Count uint32 // equal events merged into this one; 0 means 1

	// Weight is how many events each of the Count stands for, because the others
	// were left out by sampling; 0 means 1. Only the engine gives weights.
	Weight uint32

	Attributes []Attr // in any order; each name once

	// Durations are those of an aggregated event. Their counts add up to Count,
	// and HasDuration is false.
	Durations []DurationCount
}

// Attr is one attribute. Numbers and booleans are kept as their text.
type Attr struct{ Name, Value string }

// DurationCount says that Count of the merged events took Duration.
type DurationCount struct {
	Duration time.Duration
	Count    uint32
}

// MaxDuration is the longest duration an event may have: 366 days.
const MaxDuration = 366 * 24 * time.Hour

// Reset empties e and keeps its slices for reuse.
func (e *Event) Reset() {
	*e = Event{Attributes: e.Attributes[:0], Durations: e.Durations[:0]}
}

// Set gives the attribute a value, replacing an earlier one.
func (e *Event) Set(name, value string) {
	for i := range e.Attributes {
		if e.Attributes[i].Name == name {
			e.Attributes[i].Value = value
			return
		}
	}
	e.Attributes = append(e.Attributes, Attr{name, value})
}

// Attr returns the attribute's value, "" if it has none.
func (e *Event) Attr(name string) string {
	for i := range e.Attributes {
		if e.Attributes[i].Name == name {
			return e.Attributes[i].Value
		}
	}
	return ""
}

// sortedAttributes returns the attributes by name, without changing e.
func (e *Event) sortedAttributes() []Attr {
	byName := func(a, b Attr) int { return strings.Compare(a.Name, b.Name) }
	if slices.IsSortedFunc(e.Attributes, byName) {
		return e.Attributes
	}
	sorted := slices.Clone(e.Attributes)
	slices.SortStableFunc(sorted, byName)
	return sorted
}
