// Package wal is a write-ahead log: numbered records in preallocated segment files,
// durable when Append returns. FORMAT.md beside this file holds the format, the crash cases and the
// assumptions about the disk.
//
// One goroutine appends; any number of readers run beside it and see durable records
// only. Nothing is ever reset by itself: damage to synced data stops [Open] with the
// segment and the offset, and the override moves data aside instead of deleting it.
//
// The package does not know the meaning of a record, has no clock (the receive time comes with the
// record), starts no goroutine, and takes no lock on the folder: the owner of the folder must see
// to it that only one Log is open on it.
package wal
