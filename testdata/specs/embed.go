// Package specs holds example specs, for the demo and for tests.
package specs

import _ "embed"

// Insurance is the spec of the insurance process that the demo plays.
//
//go:embed insurance.yaml
var Insurance []byte

// Own are the engine's own objectives, which the demo evaluates with the engine's own
// events.
//
//go:embed sloengine.yaml
var Own []byte
