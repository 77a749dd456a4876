// Package ratelimit limits the rate of events: in all, by type, and by context such as a user, an
// address or a tenant. All layers that apply must have room, or no layer is charged; events over a
// limit are dropped, sampled, throttled or merged, as the policy says.
//
// A caller first makes a Ticket for each event (Policy.Add), which can be done
// by many goroutines, and later has a Limiter decide about many tickets at once.
// The counters are in a Store: Table keeps them in this process.
//
// It does not know the form of an event, where dead letters go, or how a merged event looks. It
// only decides the treatment of each event.
package ratelimit
