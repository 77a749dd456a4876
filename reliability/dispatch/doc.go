// Package dispatch brings every record of a durable log to every sink, at least once.
//
// Each sink has a lane of its own: a cursor on the log that is kept on disk, batches,
// retries, breaker, bulkhead, time-out and limits. Lanes share nothing but the log, so
// a sink that hangs or refuses holds up no other. What a sink refuses for good, what
// still fails after the last retry and what has grown too old goes to the dead
// letters, and only when it is safe there does the cursor move on. A sink that lags
// behind further than allowed skips a range of the log, which the caller keeps.
//
// A cursor on disk may be a little behind what was delivered, so after a crash some
// items are delivered again; none is left out. With a concurrency of 1, items arrive
// in the order of the log, except for those that were retried.
//
// Memory: per sink at most Concurrency + 2 batches, and the records they came from.
//
// It does not know what the records say, what an event is, where dead letters go, or
// how a sink is reached: callers pass that in.
package dispatch
