// Package publish has the publishers of the relay, for Kafka, RabbitMQ and HTTP. They tell what is wrong with a row
// from what is wrong with the broker, since only the former is an attempt of the row.
//
// It does not know where rows come from and when they are published again.
package publish
