// Package fsystest is a file system in memory for tests: it can lose power, lose the
// process, run out of space, fail at the n-th operation, and ignore one kind of sync.
//
// It is imported by tests only. It does not know the stored data, and it does not model disks that
// lie about a sync.
package fsystest
