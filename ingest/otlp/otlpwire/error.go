package otlpwire

import (
	"fmt"
	"strconv"
)

// Error says where a request is not well-formed.
type Error struct {
	Path   string // "resourceSpans[2].scopeSpans[0].spans[17].traceId", empty for the request itself
	Offset int    // bytes before the mistake
	Reason string
}

// Error has the place before the reason.
func (e *Error) Error() string {
	place := "byte " + strconv.Itoa(e.Offset)
	if e.Path != "" {
		place = e.Path + " (" + place + ")"
	}
	return place + ": " + e.Reason
}

// stopped is returned inside the package when the caller's function returned an error.
var stopped = &Error{}

func errorAt(offset int, reason string, args ...any) *Error {
	return &Error{Offset: offset, Reason: fmt.Sprintf(reason, args...)}
}

// in puts the field that contains the mistake before its path. A negative index is for a field that does not repeat.
func (e *Error) in(name string, index int) *Error {
	if e == nil { // in a function of its own, so that what is well-formed costs no call
		return nil
	}
	return e.inside(name, index)
}

func (e *Error) inside(name string, index int) *Error {
	if e == stopped {
		return e
	}
	if index >= 0 {
		name += "[" + strconv.Itoa(index) + "]"
	}
	if e.Path != "" {
		name += "." + e.Path
	}
	e.Path = name
	return e
}
