// Package annotation keeps what people and the engine note about a time: deployments, notes, and changes of the spec.
// They are drawn on charts. A file holds all of them, and is written before an annotation is acknowledged.
//
// It does not know who may write, how they are drawn, or what a spec says.
package annotation

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/sloengine/sloengine/slo"
)

// Kind is what an annotation is about.
type Kind string

// The kinds. The engine makes those of the spec itself.
const (
	Deployment Kind = "deployment"
	Note       Kind = "note"
	Spec       Kind = "spec"
)

// Bounds. Texts are in characters. Beyond Max, the annotation of the earliest time makes way.
const (
	Max       = 5000
	MaxAge    = 400 * 24 * time.Hour
	MaxText   = 500
	MaxAuthor = 200
	maxAhead  = time.Hour // in which a time may lie in the future
)

// Errors. ErrInvalid is wrapped by those that say what is wrong.
var (
	ErrInvalid  = errors.New("invalid annotation")
	ErrNotFound = errors.New("there is no such annotation")
)

// Annotation is what was noted about a time.
type Annotation struct {
	ID      string    `json:"id"`
	At      time.Time `json:"at"`
	Kind    Kind      `json:"kind"`
	Service string    `json:"service,omitempty"` // "": about all services
	Text    string    `json:"text"`
	Author  string    `json:"author,omitempty"`
	Created time.Time `json:"created_at"`
}

// Concerns reports whether the annotation is about a service.
func (a *Annotation) Concerns(service string) bool { return a.Service == "" || a.Service == service }

// check completes an annotation as of now, or says what is wrong with it.
func (a *Annotation) check(now time.Time) error {
	if a.At.IsZero() {
		a.At = now
	}
	a.At = a.At.UTC().Truncate(time.Second)
	if a.Kind == "" {
		a.Kind = Note
	}
	switch {
	case a.At.Before(now.Add(-MaxAge)):
		return invalid("the time is more than %s ago", slo.FormatDuration(MaxAge))
	case a.At.After(now.Add(maxAhead)):
		return invalid("the time is more than %s ahead of the clock of the engine", slo.FormatDuration(maxAhead))
	}
	return a.Validate()
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrInvalid}, args...)...)
}

// Validate says what is wrong with the kind and the texts of an annotation, wherever it came from.
func (a *Annotation) Validate() error {
	switch {
	case a.Kind != Deployment && a.Kind != Note && a.Kind != Spec:
		return invalid("kind %q (want deployment or note)", a.Kind)
	case strings.TrimSpace(a.Text) == "":
		return invalid("the text is missing")
	case len(a.Service) > 128:
		return invalid("the service has more than 128 bytes")
	}
	for _, f := range []struct {
		name, text string
		most       int
	}{{"text", a.Text, MaxText}, {"author", a.Author, MaxAuthor}, {"service", a.Service, 128}} {
		switch {
		case !utf8.ValidString(f.text):
			return invalid("the %s is not UTF-8", f.name)
		case utf8.RuneCountInString(f.text) > f.most:
			return invalid("the %s has more than %d characters", f.name, f.most)
		case strings.ContainsFunc(f.text, unicode.IsControl):
			return invalid("the %s has control characters", f.name)
		}
	}
	return nil
}
