// Package reportmail writes a report as people receive it: as an HTML document that mail programs can show, with tables
// and inline styles alone, and as plain text.
//
// It judges nothing: package sla/report made the numbers. Pages of the engine are in web/ui.
package reportmail
