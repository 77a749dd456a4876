// Package fsys is the small part of a file system that durable code needs, as an
// interface, so that power loss, a full disk and broken disks can be simulated.
//
// Every sync in production code names its [Site]. A test can then drop exactly one
// kind of sync and must find a violation. A sync that can be dropped unnoticed is
// not tested.
//
// It also holds what small state files share: a format number, and what happens to a
// damaged one.
//
// The package does not know what is stored: no sequence numbers, no retries. It never
// decides whether an error is fatal.
package fsys
