// Package ui serves the pages for those who may read: service levels, agreements and reports.
//
// Pages need no script: they are html/template, links and forms, and charts are SVG made on the server. Everything that
// they show comes from one immutable sla.Report and from the counts that callers hand over. The package computes no
// budget: it formats, sorts, filters and pages. It does not know how events are stored, counted or authenticated.
package ui
