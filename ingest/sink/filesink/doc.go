// Package filesink writes events as lines of JSON into a file that is rotated by size
// and age.
//
// The file at hand is events.ndjson in the sink's folder; closed ones are called
// events-<time of closing>-<number>.ndjson and never change again. After a crash the
// file at hand is checked line by line before it is written on: torn or damaged lines,
// which hold nothing that was called durable, are taken out, so every line of every file
// is one whole event. Events may appear twice after a crash, never not at all.
//
// It does not know who reads the files, nor does it compress or upload them.
package filesink
