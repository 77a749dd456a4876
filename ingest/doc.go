// Package ingest is the HTTP front of the engine: the handler of POST
// /api/v1/events, tokens and their permissions, and the middleware that checks
// them for every other handler.
//
// A request is authenticated, read into a pooled buffer, decoded, validated,
// given tickets for its rate limits, redacted and handed to a [Committer]. What
// can be refused from the headers alone is refused before the body is read.
//
// The package does not know how events are stored or what is counted: it
// answers what the Committer, an *engine.Engine, says about a batch. It writes
// no file.
package ingest
