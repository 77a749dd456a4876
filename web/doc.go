// Package web assembles the HTTP side of the engine from its packages: it mounts the routes of the pages (ui), the
// read API (api), the public status page (public), the dead letters (deadletters) and /metrics (collector), and adds
// the page about the engine itself, the health endpoints, the reload of the spec and the event stream.
//
// All of them answer from one immutable sla.Report, so page, API and metrics never disagree. A visible tab holds one
// event stream, which tells it that there is a new report (see Run). The tab then fetches its own address and morphs
// the page in place.
//
// A reader of some services gets a site of his own, whose sources are wrapped so that a handler never holds what it
// must not show (see scope).
//
// The package does not know how events are stored, counted or authenticated, nor how a spec is read: callers pass
// functions (see site.Options). It starts no goroutine.
package web
