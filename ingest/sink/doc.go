// Package sink has the sinks that events are delivered to: File, Parquet, HTTP, Kafka and RabbitMQ. Each is a
// dispatch.Sink.
//
// A sink does not retry, batch or limit by itself: reliability/dispatch does. It does not know what reads the events,
// and it declares nothing: topics and exchanges have to exist.
package sink
