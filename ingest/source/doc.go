// Package source holds the common parts of all sources of events: messages of a broker or rows of a table become
// batches of events, which the engine stores together with the position that they came from.
//
// An Intake decodes messages (event JSON, CloudEvents, or foreign JSON by a Mapping), redacts them, makes their
// rate-limit tickets and submits them. A message that cannot be decoded becomes a dead letter before a position
// covers it. While the engine, the disk, a rate limit or the dead letters refuse, the Intake waits and tries again:
// it never drops a message.
//
// The package does not know how messages are fetched, the form of a position, or how events are counted. The
// packages below it do: one for each kind of broker.
package source
