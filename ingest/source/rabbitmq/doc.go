// Package rabbitmq takes events from a queue of RabbitMQ, and turns the messages of a dead-letter queue into failures.
//
// AMQP has no positions, so a message is acknowledged once its events are durable, and one that is delivered again
// counts once by its id. The package also declares and verifies queues and exchanges, and reads x-death headers.
//
// It does not know how a connection is made, or how events are counted and stored: the packages source and
// reliability/amqpclient do.
package rabbitmq
