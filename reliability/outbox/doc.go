// Package outbox is the outbox table of PostgreSQL: a service writes an event into it in the same transaction as its
// data, so that neither is there without the other, and a relay publishes the row later.
//
// The package owns the names of tables and columns, the statements that create them, partitions and retention, and
// the operations of people on rows: list, retry and replay. Names are mapped, so that an existing table of another
// owner works as well.
//
// It does not know brokers: it neither claims rows for publishing nor publishes them, and it opens no connections.
package outbox
