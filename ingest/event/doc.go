// Package event is the event that users send: its Go value, its JSON and binary
// forms, and the validation between them.
//
// A Decoder turns untrusted JSON, NDJSON or CloudEvents into a Batch of events
// in the binary form of FORMAT.md, or into per-event errors with advice. A View reads that form in
// place, without copying or allocating.
//
// The package does not know where bodies come from, which ids were seen before, how events are
// counted, or the current time: the present is an option of Decode.
package event
