// Package fsys is the small part of a file system that durable code needs, as an
// interface, so that power loss, a full disk and broken disks can be simulated.
//
// Every sync in production code names its [Site]. A test can then drop exactly one
// kind of sync and must find a violation. A sync that can be dropped unnoticed is
// not tested.
//
// It also holds the common parts of small state files: a format number, and the handling of a
// damaged one.
//
// The package does not know the stored data: no sequence numbers, no retries. It never decides
// whether an error is fatal.
package fsys
