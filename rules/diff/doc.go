// Package diff says what a change of specs means: which objective, alert, threshold or window changed, and how much
// earlier or later alerts then fire.
//
// It compares values, not text, and does not read files.
package diff
