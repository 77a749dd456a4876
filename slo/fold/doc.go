// Package fold turns events into event-time counts: it matches each event to
// the indicators of a Config, adds it to the bucket of its own time, and gives
// the sums over any span of time that the evaluator asks for.
//
// Counts are kept time-major. Every group of an indicator owns a few
// neighbouring columns, one per bin; a block holds the counts of all columns for
// one bucket of time. Buckets are 10 seconds wide for the last hour, a minute
// for three days and five minutes beyond, so window sums of every group are
// additions of a few hundred blocks, with hours and days added up beforehand.
// Indicators that count slices of time keep raw counts per slice beside that.
// What is older than the longest window of an indicator is kept by the hour, for
// ninety days in all and for Read only.
//
// What an event adds to is decided once per combination of the labels that some
// indicator looks at, and remembered in a plan.
//
// The fold is a pure function of the records it was given: it reads no clock and
// draws no random numbers. One goroutine owns it, and it locks nothing. It does
// not know where records are stored, who sent them, how events travel over HTTP,
// what an objective or a budget is, or what its sums are used for.
package fold
