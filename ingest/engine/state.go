package engine

import (
	"fmt"
	"runtime"
	"strings"
	"sync"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/ingest/record"
	"github.com/sloengine/sloengine/reliability/wal"
)

// This file holds the interface of the caller's State, and the helper that passes the events of a record to it
// one by one.

// State is the result of folding the log. All its methods except Loss are called by one goroutine at a time. The
// content of a State must follow from the calls alone, never from a clock or from chance: a restart reads the log
// again and must get the same.
//
// The engine calls Restore and FinishRestore first, then Apply and Parts, all from Run.
type State interface {
	// Apply takes the next record of the log. The record's payload is valid only during the call. Events that cannot
	// be counted are passed to refuse, which copies them, and do not stop the record. After an error or a panic the
	// record itself becomes a dead letter, too. EachEvent confines a panic to the event that caused it.
	Apply(rec wal.Record, refuse Refuse) error

	// Parts lists the pieces of the state that are saved separately. A piece whose version did not change since an
	// earlier call must encode to the same bytes.
	Parts() []Part

	// Restore loads one saved part, in any order, before the first Apply. FinishRestore follows the last one. The data
	// is valid only during the call. It is nil for a part that is lost, and the State continues without it.
	Restore(name string, data []byte) error
	FinishRestore() error

	// Loss describes to the operator the cost of continuing without a saved part. ok is false if the others are
	// useless without it. It must not touch the state: any goroutine may call it.
	Loss(name string) (what string, ok bool)
}

// Refuse takes the event at index of its record, in its binary form, and the reason why it cannot be counted.
//
// Index -1 is the record as a whole. The reason must follow from the log alone, so that reading the record again
// gives the same dead letter.
type Refuse func(index int, event []byte, reason string)

// Part is one piece of a State.
//
// Encode is called before the next Apply, in the same goroutine. Version is compared with that of the last
// checkpoint and need not rise.
type Part struct {
	Name    string // unique, at most 64 KiB
	Version uint64
	Encode  func(dst []byte) []byte // appends the piece
	// the others are useless without it: every checkpoint writes it again, so no two share a copy
	Vital bool
}

var views = sync.Pool{New: func() any { return new(event.View) }}

// EachEvent calls f with every event of an events record. An event for which f returns an error or panics is refused,
// and the next one follows. An error of EachEvent means that the record itself is invalid.
//
// Events in front of the place where a record is invalid have been passed to f by then. The view is valid only
// during the call.
func EachEvent(payload []byte, f func(backfill bool, v *event.View) error, refuse Refuse) error {
	events, err := record.ParseEvents(payload)
	if err != nil {
		return err
	}
	view := views.Get().(*event.View)
	defer func() { *view = event.View{}; views.Put(view) }()
	body := events.Body
	for index := 0; index < events.Count; {
		if index, body, err = eachUntilPanic(view, events, index, body, f, refuse); err != nil {
			return err
		}
	}
	if len(body) > 0 {
		return fmt.Errorf("events record: %d bytes after the last event", len(body))
	}
	return nil
}

// eachUntilPanic continues from the event at index from. If f panics, it refuses that event and returns the position
// after it.
//
// Recovering is per call and not per event, because a deferred function for each event would cost more than most
// events do.
func eachUntilPanic(view *event.View, events record.Events, from int, rest []byte, f func(bool, *event.View) error,
	refuse Refuse) (index int, body []byte, err error) {
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

// panicReason names the panic and the function it came from, without addresses: reading the record again must give the
// same text, and with it the same dead letter.
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
