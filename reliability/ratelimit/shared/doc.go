// Package shared holds rate limits that several engines have in common, in Redis.
//
// Store counts events: one atomic script for a whole commit group, by Redis' own clock. Outbound limits calls to a
// service that handles only so many from all engines together. Link watches the connection, and Failover continues with
// the limits of this engine alone while Redis is unavailable. Nothing here fails or waits for long because of Redis,
// and nothing goes to a local limit because a shared one is exceeded.
//
// The counts live in Redis' memory. If Redis loses them, by a restart without persistence, a failover to a replica that
// lags or a maxmemory policy that evicts keys, counting starts again: up to twice the limit can then pass in one
// window.
//
// Dead letters in Redis (reliability/dlq) have the address, the credentials and the key prefix of the same settings,
// and a client of their own: a rate limit must answer within milliseconds and is never retried, because a charge whose
// answer was lost would be made twice, while a dead letter is waited for, and saving it again changes nothing. So they
// have no breaker and no fallback, and their scripts share no key with these.
//
// It does not know the form of an event, nor how a policy is written: package ratelimit does.
package shared
