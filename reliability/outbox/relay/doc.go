// Package relay publishes the rows of an outbox table: it leases hash buckets of the keys, takes their rows in order,
// hands them to a publisher, and writes the results, each under the condition that the lease still holds. Any number of
// relays share a table without knowing each other. Only the database's clock decides who holds a lease. Rows of a table
// with versions can be claimed one by one instead, without order.
//
// A row is published at least once. It is published again if the relay dies between the broker's acknowledgement and
// the result, or is paused for longer than its lease. Consumers recognise the row by its idempotency key.
//
// Kafka, RabbitMQ and HTTP are its publishers. They distinguish errors of a row from errors of the broker, since only
// the former count as an attempt of the row. The relay itself knows no broker: see Publisher. Names of tables and
// columns are those of package outbox.
package relay
