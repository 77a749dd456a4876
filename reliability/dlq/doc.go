// Package dlq stores dead letters: events that could not be admitted, counted or delivered, with
// the reason, until they are replayed, discarded or too old.
//
// A [Store] has three storages with the same behaviour: [File] (the default, durable when
// Save returns), [Redis] (shared between instances) and [Memory] (for tests). [Filter] decides
// which dead letters to store, [Replayer] replays entries to where they came from, oldest first and
// within a given rate, and [Retention] removes entries that are too old. A [RangeStore] keeps the ranges of
// the write-ahead log that single dead letters stand for.
//
// The package does not know the meaning of an event: it reads its attributes only for the
// expression of a filter. It does not know how a replay is counted or delivered, it never changes
// an event, and it leaves the reaction to a full store to the caller.
package dlq
