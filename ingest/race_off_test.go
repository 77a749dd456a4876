//go:build !race

package ingest

// emptiedPools multiplies the allocations that a test permits: the race detector drops some of the
// values put into a sync.Pool.
const emptiedPools = 1
