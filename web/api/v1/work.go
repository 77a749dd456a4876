package v1

import "time"

// Work is the work in flight of one group of an SLO of completion.
type Work struct {
	Stages []WorkStage `json:"stages"` // of the group
	Oldest *time.Time  `json:"oldest"` // start of the oldest work of all groups
	Items  []WorkItem  `json:"items"`  // the group's among the oldest work of all groups, the oldest first

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

// WorkStage is how much work is in a stage.
type WorkStage struct {
	Stage   string `json:"stage"`
	Open    uint64 `json:"open"`
	Overdue uint64 `json:"overdue"`
}

// WorkItem is one piece of work in flight.
type WorkItem struct {
	Key      string     `json:"key"` // its beginning
	Cut      bool       `json:"key_cut"`
	Stage    string     `json:"stage"`
	Start    *time.Time `json:"started_at"`
	Since    *time.Time `json:"stage_since"`
	Deadline *time.Time `json:"deadline"`
	Overdue  bool       `json:"overdue"`
}
