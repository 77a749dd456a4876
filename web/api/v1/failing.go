package v1

import (
	"time"

	"github.com/sloengine/sloengine/slo"
)

// Failing is what pages of incidents fire on that are not resolved.
type Failing struct {
	// Summary says it in a sentence: what fails, since when and how badly, what it affects, and whether somebody has
	// acknowledged it. It names a cause only if the spec declares one.
	Summary string  `json:"summary"`
	Faults  []Fault `json:"faults"` // the first is the one to look at
	Engine  []Fault `json:"engine"` // on the engine itself
}

// Failure is an SLO or an agreement in one group on which pages fire.
type Failure struct {
	Service  string            `json:"service"`
	SLO      *slo.ID           `json:"slo"`       // null: it is about no single SLO
	SLA      *string           `json:"agreement"` // null: it is about an SLO
	Group    map[string]string `json:"group"`
	Alert    string            `json:"alert"` // name of the first page; empty for an incident without alerts
	Since    time.Time         `json:"since"` // the onset
	BadRatio *float64          `json:"bad_ratio"`
	Window   string            `json:"window,omitempty"` // of bad_ratio, such as 5m
	Incident string            `json:"incident"`

	Acknowledged *time.Time `json:"acknowledged"` // null: not acknowledged
}

// Fault is a failure that no other explains.
type Fault struct {
	Failure
	Affected []Failure `json:"affected"` // that the spec declares to suffer from it
}
