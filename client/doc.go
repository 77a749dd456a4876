// Package client sends events from a Go application to sloengine.
//
// It keeps two promises. To the business: telling about an order never makes the
// order fail and never holds it up; with the default options no method returns an
// error because the server is unavailable, and none blocks longer than the deadline of its
// context or Options.Timeout. To the numbers: what was handed over is counted once.
// Every event gets an id when it is handed over, so that attempts, replays and
// restarts of the application don't count it twice; and what is lost all the same is
// counted in sloengine_client_failures_total with its reason, logged (not each one),
// and given to Options.OnError.
//
// # What nil means
//
//	               server answers   server down, with spool      server down, no spool
//	Send           acknowledged     on disk, sent later          in memory, sent later
//	SendStrict     acknowledged     error                        error
//	SendAsync      in memory        in memory, then on disk      in memory, sent later
//
// So with a spool, what Send returned nil for survives a crash of the application and
// of the machine, unless it was counted as a failure: the spool was full, its disk
// failed or was slower than the deadline, or the server refused the event for good.
//
// # The spool
//
// A folder that belongs to one process, bounded in size. It is sent oldest first, at
// a bounded rate, once the server is back, also by the next process on the same
// folder. When it is full, new events are refused and counted; the old ones stay,
// since their senders have been told that they are safe. A folder that cannot be
// opened (another process holds it, say) doesn't keep the application from starting:
// it is logged and tried again every few seconds.
//
// The server takes events up to its allowed lateness (24 hours). What lay in the
// spool for longer is refused then, and counted.
//
// # How it behaves when the server is unwell
//
// Failed requests are tried again with backoff, as long as the deadline allows. After
// a few failures the breaker opens, and Send goes to the spool at once; as long as
// something lies there, the probes that close the breaker again are made by the
// sender of the spool and not by the application's calls. Retry-After is kept to by
// all of a client's requests. Single events that the server wants later are sent
// later; a batch that it finds malformed or too large is halved until the bad event
// is found.
//
// The package does not know specs, indicators or what is done with an event; nor does
// it check events beyond what is needed to send them: the server says what is wrong.
package client
