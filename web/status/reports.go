package status

import (
	"fmt"

	"github.com/sloengine/sloengine/web/format"
)

// addReport adds a report that does not reach its targets. It leaves out their addresses.
func addReport(r *ReportStatus, add func(part, name, reason string)) {
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
			format.Plural(failing, "target"), worst.FailingSince.UTC().Format("2006-01-02 15:04:05Z"),
			format.Safe(worst.Brief, format.MaxName)))
	}
}
