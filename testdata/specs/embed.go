// Package specs holds example specs, for the demo and for tests.
package specs

import _ "embed"

// Insurance is the spec of the insurance process that the demo plays.
//
//go:embed insurance.yaml
var Insurance []byte
