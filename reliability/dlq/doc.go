// Package dlq stores dead letters: what could not be admitted, counted or delivered, with
// the reason, until it is replayed, discarded or too old.
//
// A [Store] has three storages with the same behaviour: [File] (the default, durable when
// Save returns), [Redis] (shared between instances) and [Memory] (for tests). [Filter]
// decides what is worth storing, [Replayer] replays entries to where they came from,
// oldest first and no faster than told, and [Retention] removes what is too old.
//
// The package does not know what an event means: it reads its attributes only for the
// expression of a filter. It does not know how a replay is counted or delivered, it never
// changes an event, and it takes no decision about what the caller does when the store is
// full.
package dlq
