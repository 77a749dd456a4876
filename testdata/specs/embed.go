// Package specs holds example specs, for the demo and for tests.
package specs

import "embed"

// All are the specs, each in a file of its own.
//
//go:embed *.yaml
var All embed.FS

// Insurance is the spec of the insurance process that the demo plays.
//
//go:embed insurance.yaml
var Insurance []byte

// InsuranceSales is the rest of it: work in flight, conversion, volume and Apdex.
//
//go:embed insurance-sales.yaml
var InsuranceSales []byte

// Own are the engine's own objectives, which the demo evaluates with the engine's own
// events.
//
//go:embed sloengine.yaml
var Own []byte
