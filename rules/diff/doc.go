// Package diff says what a change of specs, or of generated rules, means: which
// objective, alert, threshold or window changed, and how much earlier or later
// alerts then fire.
//
// It compares values and expressions, not text. It does not read files and does
// not know how alerts are written, only that they compare recorded error ratios
// with numbers.
package diff
