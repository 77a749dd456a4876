// Package sources runs what an engine reads events from, brokers and outbox tables: sources come, change and go by a
// reload, and each begins at the position that the log has for it.
package sources
