package redact

import (
	"strings"

	"github.com/sloengine/sloengine/ingest/event"
)

func isGlob(pattern string) bool { return strings.ContainsAny(pattern, "*?") }

// validGlob reports whether some name can match.
func validGlob(pattern string) bool {
	return event.ValidName(strings.NewReplacer("*", "_", "?", "_").Replace(pattern))
}

// match reports whether name is what the pattern says. Its time is at most the
// product of the two lengths.
func match(pattern, name string) bool {
	p, n, star, after := 0, 0, -1, 0
	for n < len(name) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, after = p, n
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == name[n]):
			p++
			n++
		case star >= 0: // let the last star take one character more
			after++
			p, n = star+1, after
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}

func matchAny(patterns []string, name string) bool {
	for _, p := range patterns {
		if match(p, name) {
			return true
		}
	}
	return false
}
