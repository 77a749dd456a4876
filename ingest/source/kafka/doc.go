// Package kafka takes events from topics of Apache Kafka. The position of a batch (topic, topic ID, partition, offsets)
// is part of the log's record of its events, so each message counts once, even if the engine is killed. Commits to
// the broker follow and serve the monitoring of lag only.
//
// With static ownership an engine takes the partitions whose number modulo the number of engines is its ordinal. In a
// consumer group the broker assigns them, and an engine that takes over begins at the last commit of the one before.
//
// The package does not know the form of events (package source does), how connections are secured, or how events are
// counted.
package kafka
