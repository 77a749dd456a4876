// Package engine makes events durable, counts each id once and passes events on in log order. README.md beside this file
// says what it promises and what happens at each kind of crash.
//
// The Engine owns one data folder. Commit queues decoded batches. One committer goroutine looks up their ids, writes the
// new events as one record per request, syncs once for the whole group, and only then answers. One reader goroutine applies
// durable records to a State in log order. From time to time both are captured in a checkpoint (package checkpoint), after
// which old log segments are deleted. After a crash the newest valid checkpoint is loaded and the rest of the log applied,
// which gives the same counts: they are a function of the log alone.
//
// The package does not know HTTP or what is counted: the State it fills, the configuration records it carries and the
// catalog of services belong to its caller.
package engine
