package redact

import (
	"slices"
	"strings"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/reliability/pattern"
)

func isGlob(pattern string) bool { return strings.ContainsAny(pattern, "*?") }

// validGlob reports whether some name can match.
func validGlob(pattern string) bool {
	return event.ValidName(strings.NewReplacer("*", "_", "?", "_").Replace(pattern))
}

// matchAny reports whether name matches one of the patterns.
func matchAny(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return pattern.Glob(p, name) })
}
