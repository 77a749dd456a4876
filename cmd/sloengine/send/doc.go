// Package send is the logic of the send command: it reads events and access
// logs from files or standard input, follows them if asked to, and posts them to
// a server until every line is accepted, known already, or rejected for good.
//
// Sending is safe to repeat. An event without an id gets one from the content
// and position of its line, before anything else about it is changed, so that
// the second time the server knows it.
//
// The package does not know flags, specs or what the server does with events.
package send
