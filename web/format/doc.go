// Package format prints values for people: numbers, durations, times, and text that may be hostile.
//
// It knows values and how a reader wants them, and no page: it neither escapes HTML nor decides which values are
// shown.
package format
