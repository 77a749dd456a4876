package status

import (
	"errors"
	"time"
)

// Generation is what was counted for an SLO, or for something else of the spec, with
// one definition. It is in use, or parked: the spec does not have it any more.
type Generation struct {
	ID         string   `json:"id"`
	Former     []string `json:"former_ids,omitempty"` // that it had before it was renamed
	Service    string   `json:"service"`
	Definition string   `json:"definition"` // equal for generations that count the same
	Generation uint32   `json:"generation"`
	Groups     int      `json:"groups"`

	Number uint64    `json:"number"` // of a parked one, from 1 on; 0 while it is in use
	Parked time.Time `json:"parked_at,omitzero"`
	Until  time.Time `json:"retained_until"` // if it is in use: if it were parked now
	Bytes  int64     `json:"bytes"`          // of a parked one
}

// ParkedStatus is the room that parked generations take.
type ParkedStatus struct {
	Generations int   `json:"generations"`
	Bytes       int64 `json:"bytes"`
	LimitBytes  int64 `json:"limit_bytes"` // beyond it the oldest are evicted
}

// SpecChange is what the last change of the spec did to counts, at a start or a reload.
type SpecChange struct {
	At      time.Time   `json:"at"`
	Started []string    `json:"started"` // from zero
	Resumed []string    `json:"resumed"` // with counts that were parked
	Parked  []ParkedSLO `json:"parked"`
}

// ParkedSLO is an SLO whose counts were parked.
type ParkedSLO struct {
	ID      string    `json:"id"`
	Removed bool      `json:"removed"` // false: the spec has it with another definition
	Until   time.Time `json:"retained_until"`
}

// ForgetRequest asks to forget everything that was counted for a service.
type ForgetRequest struct {
	Service string `json:"service"`
	// Restart is needed if the spec has the service: its SLOs start again from zero.
	Restart bool `json:"restart,omitempty"`
}

// Forgotten says what was forgotten.
type Forgotten struct {
	Service   string `json:"service"`
	Parked    int    `json:"parked"`    // generations that are gone
	Restarted int    `json:"restarted"` // generations that were in use
}

// The errors of Options.Forget that are the caller's.
var (
	ErrNothingCounted = errors.New("nothing was counted for this service")
	ErrServiceInUse   = errors.New("the running spec has this service: remove it and reload first, or ask for its SLOs to restart from zero")
	ErrSpecChanged    = errors.New("the spec changed meanwhile: try again")
)
