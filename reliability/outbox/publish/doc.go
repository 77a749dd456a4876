// Package publish has the publishers of the relay: Kafka, RabbitMQ and HTTP. Each tells what is wrong with a row from what
// is wrong with the broker, since only the former is an attempt of the row.
//
// It does not know where rows come from and when they are published again.
package publish
