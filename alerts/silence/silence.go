// Package silence holds a silence as a value: which alerts receivers do not hear of, from when until when, and why. It
// does not know how matchers are read, what is stored, or who is notified.
package silence

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Max is how many silences there are at most, with those that have expired but are still listed.
const Max = 1000

// Bounds of the texts of a silence, in characters.
const (
	MaxMatchers = 4 << 10
	MaxAuthor   = 200
	MaxComment  = 1000
)

// Errors of silences. ErrInvalid is wrapped by those that say what is wrong with one.
var (
	ErrInvalid  = errors.New("invalid silence")
	ErrNotFound = errors.New("there is no such silence")
	ErrTooMany  = fmt.Errorf("there are %d silences: expire some", Max)
)

// Silence keeps the receivers from hearing of the alerts that it matches.
type Silence struct {
	ID       string    `json:"id"`
	Matchers string    `json:"matchers"` // as in Alertmanager: service="shop",severity=~"page|ticket"
	Starts   time.Time `json:"starts_at"`
	Ends     time.Time `json:"ends_at"`
	Author   string    `json:"author"`
	Comment  string    `json:"comment"`
	Created  time.Time `json:"created_at"`
}

// State is whether a silence holds.
type State string

// The states of a silence.
const (
	Active  State = "active"
	Pending State = "pending"
	Expired State = "expired"
)

// State is the state of the silence at a time.
func (s *Silence) State(now time.Time) State {
	switch {
	case !now.Before(s.Ends):
		return Expired
	case now.Before(s.Starts):
		return Pending
	}
	return Active
}

var escapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

// Equal is a matcher of the alerts that have a label with just this value. What cannot be shown is in it by its number,
// so that a matcher is one line that can be read.
func Equal(label, value string) string {
	unreadable := func(r rune) bool { return !unicode.IsPrint(r) || r == utf8.RuneError }
	if !strings.ContainsFunc(value, unreadable) {
		return label + `="` + escapes.Replace(value) + `"`
	}
	var b strings.Builder
	for _, r := range value {
		if unreadable(r) {
			fmt.Fprintf(&b, `\x{%x}`, r)
		} else {
			b.WriteString(regexp.QuoteMeta(string(r)))
		}
	}
	return label + `=~"` + escapes.Replace(b.String()) + `"`
}
