// Package chart draws what pages show of numbers: plots over time, calendars, timelines of alerts, sparklines, gauges
// and the marks of states. Drawings are values that templates print as SVG, each with a table of the same numbers.
//
// The package knows nothing of requests, addresses and pages, and it reads no counts: callers hand it reports and
// points.
package chart
