package counting

import (
	"errors"
	"time"
)

// ParkedStatus is the room that parked generations take.
type ParkedStatus struct {
	Generations int   `json:"generations"`
	Bytes       int64 `json:"bytes"`
	LimitBytes  int64 `json:"limit_bytes"` // beyond it the oldest are evicted
}

// SpecChange is the effect of the last change of the spec on counts, at a start or a reload.
type SpecChange struct {
	At      time.Time   `json:"at"`
	Started []string    `json:"started"` // from zero
	Resumed []string    `json:"resumed"` // with counts that were parked
	Parked  []ParkedSLO `json:"parked"`

	ToRebuild []string `json:"to_rebuild,omitempty"` // those of Started that wait for their counts of the retained log
	Rebuilt   []string `json:"rebuilt,omitempty"`    // with counts of the retained log
}

// ParkedSLO is an SLO whose counts were parked.
type ParkedSLO struct {
	ID      string    `json:"id"`
	Removed bool      `json:"removed"` // false: the spec has it with another definition
	Until   time.Time `json:"retained_until"`
}

// FullStatus is an SLO without room for another group.
type FullStatus struct {
	SLO       string `json:"slo"`
	MaxGroups int    `json:"max_groups"`
	Other     uint64 `json:"other_events"` // valid events that the group __other__ counted
}

// CrowdedStatus is an SLO of completion without room for more work.
type CrowdedStatus struct {
	SLO         string `json:"slo"`
	MaxInFlight int    `json:"max_in_flight"`
	Untracked   uint64 `json:"untracked"` // start events whose work is not tracked
}

// ForgetRequest asks to forget everything that was counted for a service.
type ForgetRequest struct {
	Service string `json:"service"`
	// Restart is needed if the spec has the service: its SLOs start again from zero.
	Restart bool `json:"restart,omitempty"`
}

// Forgotten is the result of Forget.
type Forgotten struct {
	Service   string `json:"service"`
	Parked    int    `json:"parked"`    // generations that are gone
	Restarted int    `json:"restarted"` // generations that were in use
}

// The errors of Forget that are the caller's.
var (
	ErrNothingCounted = errors.New("nothing was counted for this service")
	ErrServiceInUse   = errors.New(
		"the running spec has this service: remove it and reload first, or ask for its SLOs to restart from zero")
	ErrSpecChanged = errors.New("the spec changed meanwhile: try again")
)
