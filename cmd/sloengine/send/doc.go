// Package send is the logic of the send command: it reads events and access
// logs from files or standard input, follows them if asked to, and posts them to
// a server until every line is accepted, known already, or rejected for good.
//
// A Parser makes an event of a record of an access log (see Formats), of a file of events, or of JSON that a map reads,
// a Reader of a whole stream. A record that cannot be read is a
// *LineError and nothing more: the next one is read as if it had not been there. It is one package of its size because
// nothing else reads logs.
//
// # Ids
//
// An event without an id of its own gets one from the record's bytes, the
// ParserOptions.Source, and how many identical records came before it in the stream.
// So sending a file twice counts it once, also after it grew, was renamed,
// rotated, compressed or joined with others, and two equal requests within a
// second are still two. The limits of this:
//
//   - Files of several machines may hold identical lines that are different
//     requests. Give each machine a Source of its own.
//   - Identical lines that a rotation put into two files are taken for one, if the
//     files are sent as two streams: the second file starts counting from the beginning.
//   - Identical records are recognised across 262,144 distinct ones at least,
//     which bounds the memory. Records have their time in them, so identical ones
//     stand close together.
//   - The server forgets ids beyond its dedup window, and counts events that are resent after it
//     again.
//
// The package does not know flags, specs or what the server does with events.
package send
