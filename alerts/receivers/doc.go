// Package receivers notifies people of the live alerts without an Alertmanager. Its receivers are configured in
// Alertmanager's own format, and Alertmanager's own library sends to them. Its routes, groups, intervals and inhibition
// rules are those that package alertmanager generates for a spec, so both ways notify alike. Silences and escalation
// are its own.
//
// What was sent, and when each group is due, is on disk (see State) before anything is sent, and again after each
// notification. So a kill repeats at most one notification of each integration, and a restart repeats none.
//
// Each integration of a receiver, such as one webhook, has a goroutine, a breaker and a queue of its own. The queue
// holds keys of groups, each once, and what is sent is the state of the group at that time. So the queue cannot grow
// beyond the number of groups, and a receiver that hangs delays no other.
//
// It is the only package that imports Alertmanager's code, whose Go API is not stable. It does not evaluate alerts, and
// knows no specs.
package receivers
