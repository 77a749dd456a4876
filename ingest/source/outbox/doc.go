// Package outbox takes events from an outbox table of PostgreSQL. It never skips a row that commits late, as a reader
// that remembers the highest id does.
//
// In the way "claim" it reads the rows that have no counted_at, and sets it once their events are durable. A row that
// is read again after a crash counts once by its idempotency key. In the way "xid" it writes nothing: it reads the rows
// of transactions that ended before every transaction that still runs, in the order of transaction and id, and the
// place that it has reached is part of the log's record of the events.
//
// The package does not know the form of events (package source does), how the table is created and cleaned up, or who
// else reads it.
package outbox
