package delivery

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
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
	Since   time.Time `json:"since"` // when the target was first in the settings. Reports that were due before are not sent
	Period  string    `json:"period,omitempty"`
	Outcome Outcome   `json:"outcome,omitempty"`
	Begun   time.Time `json:"begun,omitzero"` // first attempt for the period
	At      time.Time `json:"at,omitzero"`    // of the outcome
}

// stateFile is the file.
type stateFile struct {
	Version int               `json:"version"`
	Targets map[string]record `json:"targets"`
}

// CheckVersion refuses a file of a newer version. Any other damage costs the knowledge alone, see read.
func CheckVersion(name string) error {
	return fsys.CheckVersion("state of reports", name, StateVersion)
}

// readState returns no targets if there is no file.
func readState(name string) (map[string]record, error) {
	data, err := fsys.ReadFile(name, fsys.MaxStateBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return map[string]record{}, nil
	}
	if err != nil {
		return nil, err
	}
	var f stateFile
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, fmt.Errorf("decode %s: %w", name, err)
	}
	if f.Version != StateVersion {
		return nil, fmt.Errorf("%s has format %d: want %d", name, f.Version, StateVersion)
	}
	if f.Targets == nil {
		f.Targets = map[string]record{}
	}
	return f.Targets, nil
}

func writeState(files fsys.FS, name string, targets map[string]record) error {
	data, err := json.MarshalIndent(stateFile{StateVersion, targets}, "", " ")
	if err != nil {
		return fmt.Errorf("encode %s: %w", name, err)
	}
	return fsys.WriteAtomic(files, name, func(w io.Writer) error { _, err := w.Write(data); return err })
}
