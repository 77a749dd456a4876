package status

import (
	"fmt"
	"time"

	"github.com/sloengine/sloengine/web/format"
)

// ReportStatus is one report that comes by itself.
type ReportStatus struct {
	Name    string         `json:"name"`
	Every   string         `json:"every"`         // week or month
	Next    time.Time      `json:"next,omitzero"` // when it is due for the next time
	Targets []ReportTarget `json:"targets"`
}

// ReportTarget is one mail address, webhook or folder that a report goes to.
type ReportTarget struct {
	Kind         string    `json:"kind"`              // email, webhook or folder
	Name         string    `json:"name"`              // an address, host or folder
	Period       string    `json:"period,omitempty"`  // of the newest report that was due
	Outcome      string    `json:"outcome,omitempty"` // sending, sent, failed or late
	At           time.Time `json:"at,omitzero"`       // of the outcome
	FailingSince time.Time `json:"failing_since,omitzero"`
	Failures     uint64    `json:"failures"`        // since then
	Cause        string    `json:"cause,omitempty"` // the last error
	Brief        string    `json:"brief,omitempty"` // the same, without what others wrote
}

// degraded tells of a report that does not reach its targets. It leaves out their addresses.
func (r *ReportStatus) degraded(add func(part, name, reason string)) {
	failing := 0
	var worst *ReportTarget
	for i := range r.Targets {
		t := &r.Targets[i]
		if t.FailingSince.IsZero() {
			continue
		}
		failing++
		if worst == nil || t.FailingSince.Before(worst.FailingSince) {
			worst = t
		}
	}
	if worst != nil {
		add("report", r.Name, fmt.Sprintf("it has not reached %s since %s: %s",
			format.Plural(failing, "target"), worst.FailingSince.UTC().Format("2006-01-02 15:04:05Z"), format.Safe(worst.Brief, format.MaxName)))
	}
}
