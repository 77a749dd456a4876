package spec

import "github.com/sloengine/sloengine/slo/yamldoc"

// The parts of a problem, as the reader reports them.
type (
	Position = yamldoc.Position
	Problem  = yamldoc.Problem
	Problems = yamldoc.Problems
	Severity = yamldoc.Severity
)

// The severities. Only errors keep a spec from being used.
const (
	Error   = yamldoc.SeverityError
	Warning = yamldoc.SeverityWarning
)
