// Package cpuid answers from golang.org/x/sys/cpu what xxh3 asks of the package: see internal/unlinked/README.md.
package cpuid

import "golang.org/x/sys/cpu"

// A FeatureID is an extension of the instruction set of amd64.
type FeatureID int

const (
	AVX2 FeatureID = iota
	AVX512F
	SSE2
)

// A CPUInfo is the processor that runs the program.
type CPUInfo struct{}

var CPU CPUInfo

// Has reports whether the processor and the operating system support id.
func (CPUInfo) Has(id FeatureID) bool {
	switch id {
	case AVX2:
		return cpu.X86.HasAVX2
	case AVX512F:
		return cpu.X86.HasAVX512F
	case SSE2:
		return cpu.X86.HasSSE2
	}
	return false
}
