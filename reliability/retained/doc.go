// Package retained keeps the log behind the last checkpoint: closed segments, compressed, with an index each that says
// what is in them. FORMAT.md beside this file describes the files.
//
// A Store moves segments out of the log one after the other, and deletes the oldest when they are too old, too large,
// or in the way of a full disk. The log deletes a segment only when [Store.Floor] has passed it, so a crash leaves the
// segment, its compressed form, or both. A [Reader] reads the files and then the log, each record once. Damage costs
// the records that it hit, and never a start.
//
// The package does not know what a record means: its owner describes records for the index. Only one Store may change
// a folder. Any number of readers may read it, also those of other processes.
package retained
