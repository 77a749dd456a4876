// Package sinks runs what an engine sends events to: sinks come, change and go by a reload, and what they do not take
// becomes dead letters, which are replayed to them.
package sinks
