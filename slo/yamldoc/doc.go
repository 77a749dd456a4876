// Package yamldoc reads YAML strictly. Unknown, repeated and empty keys, wrong types and values out of range are
// problems with file, line, column and a hint, and all of them are reported at once. There are two ways in:
//
//   - Value and Object walk a document key by key, for formats whose keys depend on each other (specs).
//   - Decoder fills structs by their yaml tags, for settings (engine.yaml, tokens, receivers).
//
// The package knows neither formats nor SLOs: keys, bounds and the notation of durations are the caller's.
package yamldoc
