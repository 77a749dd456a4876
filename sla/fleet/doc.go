// Package fleet makes the sums of several engines, each of which counted a part of the events, look like those of one
// engine. It holds the format in which an engine answers for its part, fetches the parts side by side, judges slices by
// what all engines counted in them, merges their annotations, and says of each engine whether it answered and how old
// its last answer is.
//
// It does not know objectives, budgets or pages, keeps nothing on disk, and trusts no answer: everything that an engine
// sends is bounded and checked.
package fleet
