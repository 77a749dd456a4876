// Package ingest is the way in: HTTP handlers that take events, and the Engine
// that makes them durable, counts each id once and hands them on in log order.
//
// The Engine owns one data folder. Commit queues decoded batches; one committer
// goroutine looks their ids up, writes what is new as one record per request,
// syncs once for the whole group, and only then answers. One reader goroutine
// applies durable records to a State in log order. From time to time both are
// captured in a checkpoint (CHECKPOINT.md), which lets old log segments go.
// After a crash the newest valid checkpoint is loaded and the rest of the log
// applied, which gives the same counts: they are a function of the log alone.
//
// The package does not know what is counted: the State it fills, the
// configuration records it carries and the catalogue of services belong to its
// caller.
package ingest
