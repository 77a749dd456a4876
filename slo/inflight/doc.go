// Package inflight tracks work between the event that starts it and the one that ends it: which keys are open, when the
// deadline of each passes, and whether an end was in time.
//
// A Table reads no clock and draws no random numbers: the same calls in the same order give the same outcomes and the
// same bytes of a snapshot. Entries hold no pointers, so a million of them are nothing that the garbage collector looks
// at. What is stored of a key is a 128-bit hash and its first bytes, so long keys cost no more memory than short ones.
//
// The package does not know events, matchers, groups or buckets. Its caller names groups and stages by numbers, passes
// the time of the record at hand, and adds outcomes to its counts. A Table has no lock: one goroutine owns it.
package inflight
