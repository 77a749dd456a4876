// Package redact takes personal data out of events, right after they were decoded: removed data
// reaches neither the log nor the dead letters nor a sink.
//
// A rule names attributes and event types, and an action for the values: they are removed, masked,
// replaced by a keyed hash, or, being addresses, shortened. Everything later sees the redacted
// event: the matchers of specs and grouping, filters of dead letters, receivers. A hashed value is
// always the same text for the same value and key, so matching, grouping and contexts of rate
// limits still work with it.
//
// The identity of an event, its service and id, is never touched: deduplication uses
// it. Ids with personal data in them must be replaced by the sender. Service, type,
// severity and outcome are no attributes and stay too.
//
// A good event stays a good one: attributes keep their order, values stay UTF-8 and
// within the limit of a value. Empty values stay empty: they mean that nothing is
// known.
//
// The package does not know where rules or keys come from, or who may see which values.
package redact
