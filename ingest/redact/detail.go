package redact

import (
	"strings"

	"github.com/sloengine/sloengine/ingest/event"
)

// found is the prefix that package event puts before the offending text.
const found = ", found "

// ItemError removes from an error any text that may be a piece of an attribute's value. Only syntax
// errors repeat one: they show up to 16 bytes from the place where the JSON broke, which may lie
// within a value. All others name fields, attributes and limits, or repeat fields that are not
// attributes: id, service, type, outcome, severity, time.
//
// It is meant for errors that are logged or kept; a sender may see its own text.
func (r *Redactor) ItemError(e *event.ItemError) {
	if r.active() && syntax(e.Code) {
		e.Detail = withoutFound(e.Detail)
	}
}

// BodyError does the same for an error about a whole body.
func (r *Redactor) BodyError(e *event.BodyError) {
	if r.active() && syntax(e.Code) {
		e.Reason = withoutFound(e.Reason)
	}
}

func (r *Redactor) active() bool { return r != nil && len(r.plans.rules) > 0 }

func syntax(c event.Code) bool {
	return c == event.CodeInvalidJSON || c == event.CodeInvalidUTF8 || c == event.CodeTooDeep
}

func withoutFound(text string) string {
	before, after, ok := strings.Cut(text, found)
	if !ok || after == "end of input" || after == "end of input." || strings.HasPrefix(after, "a byte order mark") {
		return text
	}
	if strings.HasSuffix(after, ".") {
		before += "."
	}
	return before
}
