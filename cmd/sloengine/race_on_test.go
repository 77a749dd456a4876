//go:build race

package main

// patience multiplies what a test waits for: the race detector is slow.
const patience = 6
