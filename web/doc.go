// Package web shows what the engine knows: the status page, the read API with
// its OpenAPI document, the health endpoints and /metrics.
//
// Everything about SLOs and agreements comes from one immutable sla.Report, so
// that page, API and metrics never disagree. The package never computes a
// budget; it formats, sorts, filters and pages.
//
// Pages need no script: they are html/template, links and forms; charts are SVG
// made on the server. Where scripts run, one event stream per visible tab says
// that there is something new (see Run), and the page is fetched at its own
// address and morphed in place. The content security policy allows neither
// inline script nor inline style, and nothing is loaded from another host. Names,
// labels and group values may be hostile: they appear only as escaped text
// (isolated with <bdi> and cut to a readable length), as JSON strings and as
// query parameters.
//
// A page that moves unasked is hard to read and to hear: updates keep scroll,
// focus and what is open, and can be paused. Without scripts a page reloads
// itself only when its reader asks for it with ?refresh=10 (see refreshHeader).
//
// The package does not know how events are stored, counted or authenticated,
// nor how a spec is read: callers hand it functions (see Options). It starts no
// goroutine, and what pages show knows no clock but Options.Now.
package web
