package api

import (
	"strings"
	"time"

	"github.com/sloengine/sloengine/slo"
)

// workJSON is the work in flight of one group of an SLO of completion.
type workJSON struct {
	Stages []stageJSON `json:"stages"` // of the group
	Oldest *time.Time  `json:"oldest"` // start of the oldest work of all groups
	Items  []itemJSON  `json:"items"`  // the group's among the oldest work of all groups, the oldest first

	// Of all groups.
	Max       int    `json:"max_in_flight"`
	Finished  uint64 `json:"finished"`  // before the deadline passed
	Expired   uint64 `json:"expired"`   // the deadline passed
	Corrected uint64 `json:"corrected"` // expired, and found to have finished in time
	Repeated  uint64 `json:"repeated"`
	Unmatched uint64 `json:"unmatched"`
	Untracked uint64 `json:"untracked"`
	Displaced uint64 `json:"displaced"`
	Held      int    `json:"held"`
}

type stageJSON struct {
	Stage   string `json:"stage"`
	Open    uint64 `json:"open"`
	Overdue uint64 `json:"overdue"`
}

type itemJSON struct {
	Key      string     `json:"key"` // its beginning
	Cut      bool       `json:"key_cut"`
	Stage    string     `json:"stage"`
	Start    *time.Time `json:"started_at"`
	Since    *time.Time `json:"stage_since"`
	Deadline *time.Time `json:"deadline"`
	Overdue  bool       `json:"overdue"`
}

// newWork is nil for an SLO that is not one of completion.
func newWork(x *slo.InFlight, group slo.Group) *workJSON {
	if x == nil {
		return nil
	}
	out := &workJSON{
		Stages: []stageJSON{}, Oldest: timeOrNil(x.Oldest), Items: []itemJSON{}, Max: x.Max,
		Finished: x.Finished, Expired: x.Expired, Corrected: x.Corrected, Repeated: x.Repeated,
		Unmatched: x.Unmatched, Untracked: x.Untracked, Displaced: x.Displaced, Held: x.Held,
	}
	for _, s := range x.Of(group) {
		out.Stages = append(out.Stages, stageJSON(s))
	}
	for i := range x.Items {
		if it := &x.Items[i]; it.Group.Key() == group.Key() {
			out.Items = append(out.Items, itemJSON{
				Key: strings.ToValidUTF8(it.Key, "\uFFFD"), Cut: it.Cut, Stage: it.Stage, Overdue: it.Overdue,
				Start: timeOrNil(it.Start), Since: timeOrNil(it.Since), Deadline: timeOrNil(it.Deadline),
			})
		}
	}
	return out
}
