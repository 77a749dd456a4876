// Package brokers is the commands that work on what events come from: kafka topics and rabbitmq show, peek and purge
// with the connections of engine.yaml, and those below outbox, which create an outbox table, show its rows, and retry
// and replay them.
//
// It asks no engine and no relay. How topics are created and checked is in reliability/kafkaclient/topics, how a
// queue is read in ingest/source/rabbitmq.
package brokers
