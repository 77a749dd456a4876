// Package brokers is the commands that work on Kafka and RabbitMQ with the connections of engine.yaml: kafka topics and
// rabbitmq show, peek and purge.
//
// It asks no engine. How topics are created and checked is in reliability/kafkaclient/topics, how a queue is read in
// ingest/source/rabbitmq.
package brokers
