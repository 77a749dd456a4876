//go:build !race

package main

// patience multiplies what a test waits for: other tests use the machine, too, and the race detector is slow.
const patience = 3

// raceDetector says whether the test runs with it.
const raceDetector = false

// memoryFactor multiplies bounds on memory: the race detector keeps shadow memory.
const memoryFactor = 1
