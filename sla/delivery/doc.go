// Package delivery sends reports that come by themselves: it knows when each one is due, keeps what was sent, and
// delivers it by mail, to webhooks and into folders, with retries.
//
// It does not know what is in a report: the caller makes it, see [Content].
package delivery
