package engine

import (
	"fmt"
	"runtime"
	"strings"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/ingest/record"
	"github.com/sloengine/sloengine/reliability/wal"
)

// State is what the log is folded into. All its methods are called by one
// goroutine at a time; what a State holds must follow from the calls alone,
// never from a clock or from chance.
type State interface {
	// Apply takes the next record of the log. The record's payload is valid only
	// during the call. Events that cannot be counted are handed to refuse, which
	// copies them, and do not stop the record. After an error, or a panic, the
	// record itself becomes a dead letter too; see EachEvent for how to keep a
	// panic to the event that caused it.
	Apply(rec wal.Record, refuse Refuse) error

	// Parts lists the state in pieces that are saved apart. A piece whose
	// version did not change since an earlier call must encode to the same bytes.
	Parts() []Part

	// Restore gives back one saved part, in any order, before the first Apply;
	// FinishRestore says that all were given. The data must not be kept. It is nil for a
	// part that cannot be read and that the State goes on without.
	Restore(name string, data []byte) error
	FinishRestore() error

	// Loss says, for people, what it would cost to go on without a saved part; ok is false
	// if the others are worth nothing without it. It touches nothing.
	Loss(name string) (what string, ok bool)
}

// Refuse takes the event at index of its record, in its binary form, and the
// reason why it cannot be counted.
type Refuse func(index int, event []byte, reason string)

// Part is one piece of a State.
type Part struct {
	Name    string // unique, at most 64 KiB
	Version uint64
	Encode  func(dst []byte) []byte // appends the piece
	Vital   bool                    // the others are worth nothing without it: each checkpoint has its own copy
}

// EachEvent calls f with every event of an events record. What f returns an
// error for, or panics at, is refused, and the next event is tried. The error
// is about the record itself: one that cannot be parsed.
func EachEvent(payload []byte, f func(backfill bool, v *event.View) error, refuse Refuse) error {
	events, err := record.ParseEvents(payload)
	if err != nil {
		return err
	}
	var view event.View
	body := events.Body
	for index := 0; index < events.Count; {
		if index, body, err = eachUntilPanic(&view, events, index, body, f, refuse); err != nil {
			return err
		}
	}
	if len(body) > 0 {
		return fmt.Errorf("events record: %d bytes after the last event", len(body))
	}
	return nil
}

// eachUntilPanic goes on from the event at index. If f panics, that event is
// refused and the position after it returned.
func eachUntilPanic(view *event.View, events record.Events, from int, rest []byte, f func(bool, *event.View) error, refuse Refuse) (index int, body []byte, err error) {
	index, body = from, rest
	var current []byte
	defer func() {
		if reason := recover(); reason != nil {
			refuse(index, current, panicReason(reason))
			index, body, err = index+1, body[len(current):], nil
		}
	}()
	for ; index < events.Count; index++ {
		current = nil
		n, err := view.Parse(body)
		if err != nil {
			return index, body, fmt.Errorf("event %d of the record: %w", index, err)
		}
		current = body[:n:n]
		if err := f(events.Backfill, view); err != nil {
			refuse(index, current, err.Error())
		}
		body = body[n:]
	}
	return index, body, nil
}

// panicReason names the panic and the function it came from, without addresses,
// so that a replay gives the same text.
func panicReason(reason any) string {
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	origin, panicking := "", false
	for {
		frame, more := frames.Next()
		inRuntime := strings.HasPrefix(frame.Function, "runtime.")
		if panicking && !inRuntime {
			origin = " in " + frame.Function
			break
		}
		panicking = panicking || frame.Function == "runtime.gopanic"
		if !more {
			break
		}
	}
	return fmt.Sprintf("panic: %v%s", reason, origin)
}
