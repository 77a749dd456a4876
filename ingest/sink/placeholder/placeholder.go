// Package placeholder fills the fields of an event into a text, such as the routing key of a message. It does not
// know the purpose of the text.
package placeholder

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sloengine/sloengine/reliability/dispatch"
)

// names are the valid placeholders.
var names = []string{"id", "service", "type", "severity"}

// Text is a text with placeholders.
type Text struct {
	parts []string // at odd indices: names of fields
	size  int      // of the text outside placeholders, in bytes
}

// Parse reads a text such as "events.{service}.{type}". A brace that is not a placeholder is an error.
func Parse(text string) (*Text, error) {
	t := &Text{}
	for rest := text; ; {
		plain, after, found := strings.Cut(rest, "{")
		if strings.Contains(plain, "}") {
			return nil, fmt.Errorf("%q has a } without a {", text)
		}
		t.parts = append(t.parts, plain)
		t.size += len(plain)
		if !found {
			return t, nil
		}
		name, next, found := strings.Cut(after, "}")
		if !found || !slices.Contains(names, name) {
			return nil, fmt.Errorf("%q has an unknown placeholder {%s} (want {%s})", text, name, strings.Join(names, "}, {"))
		}
		t.parts, rest = append(t.parts, name), next
	}
}

// Of fills in the fields of an event. missing is the first placeholder for which the event has no value, "" if there is
// none.
func (t *Text) Of(it *dispatch.Item) (text, missing string) {
	b := make([]byte, 0, t.size+64)
	for i, p := range t.parts {
		if i%2 == 0 {
			b = append(b, p...)
			continue
		}
		value := ""
		switch p {
		case "id":
			value = it.ID
		case "service":
			value = it.Service
		case "type":
			value = it.Type
		case "severity":
			value = it.Severity
		}
		if value == "" && missing == "" {
			missing = p
		}
		b = append(b, value...)
	}
	return string(b), missing
}
