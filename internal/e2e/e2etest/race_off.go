//go:build !race

package e2etest

// Patience multiplies what a test waits for: other tests use the machine, too, and the race detector is slow.
const Patience = 3

// RaceDetector says whether the test runs with it.
const RaceDetector = false

// MemoryFactor multiplies bounds on memory: the race detector keeps shadow memory.
const MemoryFactor = 1
