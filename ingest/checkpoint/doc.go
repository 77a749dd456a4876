// Package checkpoint writes checkpoints of the engine, and chooses and assesses them at a start. A checkpoint holds the
// state at one record of the log and the deduplication table at another, so that a restart reads only the log after
// them. FORMAT.md beside this file describes the files, the order in which they become durable, and the cost of
// damage to each.
//
// The package does not know the meaning of the parts of the state, and does not read the log: it only asks which
// records the log has. Deleting old log is up to its caller, who asks Floor.
package checkpoint
