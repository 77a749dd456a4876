// Package ingest is the HTTP front of the engine: the handler of POST
// /api/v1/events, tokens and their permissions, and the middleware that checks
// them for every other handler.
//
// A request is authenticated, read into a pooled buffer, decoded, validated,
// given tickets for its rate limits, redacted and handed to a [Committer]. A request that its
// headers rule out is refused before the body is read.
//
// The package does not know how events are stored or counted: its answers follow the result of the
// Committer, an *engine.Engine, for a batch. It writes no file.
package ingest
