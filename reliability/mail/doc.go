// Package mail sends a message to one recipient through a mail server that relays it (a smarthost).
//
// It does not know SLOs and stores nothing: the caller decides about messages and retries.
package mail
