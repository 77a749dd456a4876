// Package notify delivers the live alerts to Alertmanagers by their API v2.
//
// Each Alertmanager (a peer) has its own goroutine and its own record of what it knows, so one that hangs, refuses or
// redirects delays no other, and the tick that makes alerts waits for none of them. There is no queue: a peer that
// was down gets the present state of every alert. An alert that fires is sent again every Resend, with an end four
// times that far ahead, so the alerts of an engine that is dead end by themselves. An alert that resolved is sent until
// the peer has accepted it, at most for a day.
//
// What peers know is not stored. After a restart everything is sent again, which Alertmanager deduplicates by labels.
// The states themselves, which package alerts/state restores, are on disk before they come here.
//
// The package does not evaluate alerts, read settings, group, silence or route.
package notify
