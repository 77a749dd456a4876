//go:build !race

package main

// patience multiplies what a test waits for: the race detector is slow.
const patience = 1

// raceDetector says whether the test runs with it.
const raceDetector = false

// memoryFactor multiplies bounds on memory: the race detector keeps shadow memory.
const memoryFactor = 1
