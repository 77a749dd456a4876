// Package dispatch delivers every record of a durable log to every sink, at least once.
//
// Each sink has a lane of its own: a cursor on the log that is saved on disk, batches, retries, breaker, bulkhead,
// timeout and rate limits. Lanes share nothing but the log, so a sink that hangs or refuses delays no other. Items that
// a sink refuses for good, that still fail after the last retry, or that are older than the time to live become dead
// letters. The cursor moves over an item only when the item is delivered, dropped by policy, or safe among the dead
// letters. A sink that lags behind further than allowed skips a log range, which the caller retains.
//
// A cursor on disk may be a little behind the deliveries, so after a crash some items are delivered again. No item is
// skipped. With a concurrency of 1, items arrive in the order of the log, except for those that were retried.
//
// Memory: per sink at most Concurrency + 2 batches, and the records that they came from.
//
// It does not know the content of the records, the form of an event, where dead letters are stored, or how a sink
// is reached: callers pass that in. README.md describes the goroutines, the locks and the effect of each kind of
// crash.
package dispatch
