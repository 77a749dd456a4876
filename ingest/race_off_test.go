//go:build !race

package ingest

// emptiedPools multiplies what a test may allocate: the race detector drops some of what is
// put into a sync.Pool.
const emptiedPools = 1
