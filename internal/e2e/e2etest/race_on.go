//go:build race

package e2etest

// Patience multiplies what a test waits for: the race detector is slow.
const Patience = 6

// RaceDetector says whether the test runs with it.
const RaceDetector = true

// MemoryFactor multiplies bounds on memory: the race detector keeps shadow memory.
const MemoryFactor = 4
