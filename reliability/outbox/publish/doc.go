// Package publish has the publishers of the relay, for Kafka, RabbitMQ and HTTP. They distinguish errors of a row
// from errors of the broker, since only the former count as an attempt of the row.
//
// It does not know where rows come from and when they are published again.
package publish
