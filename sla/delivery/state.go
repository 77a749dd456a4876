package delivery

import (
	"time"

	"github.com/sloengine/sloengine/reliability/fsys"
)

// StateVersion is the version of the file that keeps what was sent.
const StateVersion = 1

// forgetAfter is how long it is known what was sent to a target that is not in the settings any more.
const forgetAfter = 400 * 24 * time.Hour

// Outcome is what became of a report at one target.
type Outcome string

// The outcomes.
const (
	Sending Outcome = "sending" // the file says so before the first attempt, so that nothing is forgotten
	Sent    Outcome = "sent"
	Failed  Outcome = "failed" // given up after a day
	Late    Outcome = "late"   // not sent, since the engine was down for too long after it was due
)

// record is what is known of one target.
type record struct {
	// when the target was first in the settings. Reports that were due before are not sent
	Since   time.Time `json:"since"`
	Period  string    `json:"period,omitempty"`
	Outcome Outcome   `json:"outcome,omitempty"`
	Begun   time.Time `json:"begun,omitzero"` // first attempt for the period
	At      time.Time `json:"at,omitzero"`    // of the outcome
}

type stateFile struct {
	Version int               `json:"version"`
	Targets map[string]record `json:"targets"`
}

// newStateFile is the file of that name. It is read when the first report may be due.
func newStateFile(o *Options) fsys.StateFile[stateFile] {
	return fsys.StateFile[stateFile]{
		Files: o.Files, Name: o.File, What: "state of reports",
		Damaged: "state of reports is unreadable, sending none that were due before now",
		Newest:  StateVersion, Logger: o.Logger,
	}
}
