// Package incidents serves the pages and the API of incidents, their export, and the page behind the link that
// acknowledges one.
//
// It checks what people ask for and records it in the audit log. What an operation does is decided in alerts/incident.
package incidents
