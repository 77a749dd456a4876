// Package shared keeps limits that several instances have in common, in Redis.
//
// Store counts events: one atomic script for a whole commit group, by Redis' own clock.
// Outbound gives turns for calls to a service that handles only so many from all instances
// together. Link watches over the connection, and Failover goes on with limits of this
// instance alone while Redis is not reachable. Nothing here fails or waits for long because of
// Redis, and nothing goes to a local limit because a shared one is exceeded.
//
// What is counted lives in Redis' memory. If Redis loses it, by a restart without
// persistence or a failover to a replica that lags, counting starts again: up to twice the
// limit can then pass within one window. So it is with a maxmemory policy that evicts keys.
//
// It does not know what an event is, nor how a policy is written: package ratelimit does.
package shared
