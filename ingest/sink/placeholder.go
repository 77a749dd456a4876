package sink

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sloengine/sloengine/reliability/dispatch"
)

// placeholderNames are the valid placeholders.
var placeholderNames = []string{"id", "service", "type", "severity"}

// placeholders is a text with placeholders for fields of an event, such as the routing key of a message.
type placeholders struct {
	parts []string // at odd indices: names of fields
	size  int      // of the text outside placeholders, in bytes
}

// parsePlaceholders reads a text such as "events.{service}.{type}". A brace that is not a placeholder is an error.
func parsePlaceholders(text string) (*placeholders, error) {
	t := &placeholders{}
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
		if !found || !slices.Contains(placeholderNames, name) {
			return nil, fmt.Errorf("%q has an unknown placeholder {%s} (want {%s})", text, name,
				strings.Join(placeholderNames, "}, {"))
		}
		t.parts, rest = append(t.parts, name), next
	}
}

// of fills in the fields of an event. missing is the first placeholder for which the event has no value, "" if there is
// none.
func (t *placeholders) of(it *dispatch.Item) (text, missing string) {
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
