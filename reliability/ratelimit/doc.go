// Package ratelimit bounds how much comes in: in all, by type, and by context
// such as a user, an address or a tenant. All layers that apply must have room,
// or none is charged; what is over is dropped, sampled, throttled or merged, as the
// policy says.
//
// A caller first makes a Ticket for each event (Policy.Add), which can be done
// by many goroutines, and later has a Limiter decide about many tickets at once.
// The counters are in a Store: Table keeps them in this process.
//
// It does not know what an event is, where dead letters go, or how a merged
// event looks. It only says what is to become of each.
package ratelimit
