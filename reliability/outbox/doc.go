// Package outbox is the outbox table of PostgreSQL: a service writes an event into it in the same transaction as its
// data, so that neither is there without the other, and a relay publishes the row later.
//
// The package owns the names of tables and columns, the statements that create them, partitions and retention, and what
// people do to rows: list, retry and replay them. Names are mapped, so that a table made by someone else works as well.
//
// It does not know brokers: it neither claims rows for publishing nor publishes them, and it opens no connections.
package outbox
