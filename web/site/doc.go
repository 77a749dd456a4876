// Package site holds what pages, API and public view share: the options, the view of the present report, filters,
// links, the layout, templates and static files.
//
// The content security policy allows neither inline script nor inline style, and nothing is loaded from another host.
// Names, labels and group values may be hostile: they appear only as escaped text (isolated with <bdi> and cut to a
// readable length), as JSON strings and as query parameters. The package knows no page of its own but messages.
package site
