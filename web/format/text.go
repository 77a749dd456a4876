package format

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/sloengine/sloengine/slo"
)

// NoValue stands where a number would be if there were data.
const NoValue = "–"

// Lengths, in characters, to which untrusted text is cut on pages.
const (
	MaxName  = 80
	MaxTitle = 200
	MaxText  = 600
)

// Safe makes untrusted text readable: control characters and those that change
// the direction of text or have no width become \u{..} escapes, broken UTF-8
// becomes \xNN, and what is longer than limit characters is cut.
func Safe(s string, limit int) string {
	if len(s) <= limit && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' }) {
		return s // printable ASCII, as most names are
	}
	var b strings.Builder
	n := 0
	for i := 0; i < len(s); n++ {
		if n == limit {
			b.WriteString("…")
			break
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case unicode.Is(unicode.Cf, r) || unicode.IsControl(r) || r == '\u2028' || r == '\u2029':
			fmt.Fprintf(&b, `\u{%x}`, r)
		default:
			b.WriteRune(r)
		}
		i += size
	}
	return b.String()
}

// GroupValue is how one value of a group is shown to people.
func GroupValue(v string) string {
	switch v {
	case "":
		return slo.None
	case slo.OtherGroup:
		return "(all others)"
	}
	return Safe(v, MaxName)
}

// Label is one name and value of a group, ready to be shown.
type Label struct{ Name, Value, Title string }

// Labels pairs the names of a group with its values, ready to be shown.
func Labels(names, values []string) []Label {
	var out []Label
	for i, n := range names {
		if i < len(values) {
			out = append(out, Label{Safe(n, MaxName), GroupValue(values[i]), Safe(values[i], MaxTitle)})
		}
	}
	return out
}

// And lists names: "a", "a and b", "a, b and c".
func And(names []string) string {
	if n := len(names); n > 1 {
		return strings.Join(names[:n-1], ", ") + " and " + names[n-1]
	}
	return strings.Join(names, "")
}

// Plural prints a count with its noun.
func Plural[N integer](n N, what string) string {
	s := Count(n) + " " + what
	if n != 1 {
		s += "s"
	}
	return s
}

// CSV makes text harmless as a cell: one that a spreadsheet would take for a formula begins with an apostrophe, broken
// UTF-8 and NUL are replaced.
func CSV(s string) string {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
	if trimmed := strings.TrimLeft(s, " \u00a0"); trimmed != "" &&
		strings.ContainsRune("=+-@\t\r\n＝＋－＠|%", []rune(trimmed)[0]) {
		return "'" + s
	}
	return s
}
