// Package mail sends a message to one recipient through a mail server that relays it (a smarthost).
//
// It knows nothing of SLOs and keeps nothing: the caller decides what to send, and whether and when to try again.
package mail
