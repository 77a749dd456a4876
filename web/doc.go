// Package web shows what the engine knows: the status page, the read API with
// its OpenAPI document, the health endpoints and /metrics.
//
// Everything about SLOs and agreements comes from one immutable sla.Report, so
// that page, API and metrics never disagree. The package never computes a
// budget; it formats, sorts, filters and pages.
//
// Pages need no script. They are html/template with one style sheet; charts are
// SVG made on the server. The content security policy allows neither inline
// script nor inline style, and nothing is loaded from another host. Names,
// labels and group values may be hostile: they appear only as escaped text
// (isolated with <bdi> and cut to a readable length), as JSON strings and as
// query parameters.
//
// A page reloads itself only when its reader asks for it with ?refresh=10 (see
// refreshHeader), since a page that moves unasked is hard to read and to hear.
//
// The package does not know how events are stored, counted or authenticated,
// nor how a spec is read: callers hand it functions (see Options). It starts no
// goroutine and reads no clock but Options.Now.
package web
