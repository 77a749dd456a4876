package alerts

import "github.com/sloengine/sloengine/slo"

// FindingSeverity says how bad a finding is.
type FindingSeverity string

// The severities of a finding.
const (
	FindingError   FindingSeverity = "error"   // the output would be wrong
	FindingWarning FindingSeverity = "warning" // something is left out or will not work
	FindingInfo    FindingSeverity = "info"    // works, but not as well as it could
)

// Finding is something about a spec's alerts that its author should know.
type Finding struct {
	SLO      slo.ID // or "service/agreement"; "" if it is about the whole spec
	Severity FindingSeverity
	Message  string
	Hint     string // what to do about it
}
