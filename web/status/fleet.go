package status

import (
	"fmt"
	"time"

	"github.com/sloengine/sloengine/web/format"
)

// FleetEngine is one of the engines that a view adds up, as of the last report.
type FleetEngine struct {
	Name   string    `json:"name"`
	State  string    `json:"state"`            // ok, waiting, missing or other_spec
	Since  time.Time `json:"since"`            // of the state
	Reason string    `json:"reason,omitempty"` // why its counts are missing, or what is not complete yet
	Spec   string    `json:"spec,omitempty"`   // hash of the spec that it runs

	// Of its last answer.
	Answered    time.Time `json:"answered_at,omitzero"`
	Watermark   time.Time `json:"watermark,omitzero"`
	TookSeconds float64   `json:"took_seconds"`
	Bytes       int       `json:"bytes"`
	Events      uint64    `json:"events"` // that it has counted
}

// The states of an engine of a view.
const (
	FleetOK        = "ok"
	FleetWaiting   = "waiting"
	FleetMissing   = "missing"
	FleetOtherSpec = "other_spec"
)

// Out reports whether the counts of the engine are not in the report.
func (f *FleetEngine) Out() bool { return f.State != FleetOK }

// Text says what is wrong with it, as of now; "" if nothing is.
func (f *FleetEngine) Text(now time.Time) string {
	switch {
	case f.State == FleetWaiting:
		return "it has not been polled yet"
	case f.Out() && f.Answered.IsZero():
		return fmt.Sprintf("%s; it has not answered yet", format.Safe(f.Reason, format.MaxText))
	case f.Out():
		return fmt.Sprintf("%s; its last answer is %s old", format.Safe(f.Reason, format.MaxText),
			format.Duration(now.Sub(f.Answered)))
	}
	return format.Safe(f.Reason, format.MaxText)
}

// brief is Text without what the other side wrote, for readers without a token.
func (f *FleetEngine) brief(now time.Time) string {
	why := "it does not answer with its sums"
	if f.State == FleetOtherSpec {
		why = "it runs another spec"
	}
	if f.Answered.IsZero() {
		return why
	}
	return fmt.Sprintf("%s since %s, and its last answer is %s old", why, f.Since.UTC().Format("2006-01-02 15:04:05Z"),
		format.Duration(now.Sub(f.Answered)))
}
