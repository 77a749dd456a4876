package slo

import "time"

// InFlight is the work of one SLO of KindCompletion that has started and not finished.
type InFlight struct {
	SLO     ID
	GroupBy []string // of the SLO
	Max     int      // most work that is tracked at once

	Groups []InFlightGroup // those with work in flight, by values, the "other" group last
	Oldest time.Time       // earliest start; zero if nothing is in flight
	Items  []InFlightItem  // those that started first, the oldest first; at most MaxInFlightItems

	// Counters since the counts of the SLO began, across restarts.
	Finished  uint64 // work that ended before its deadline passed
	Expired   uint64 // work whose deadline passed
	Corrected uint64 // of that, work that had ended in time, which came to light late
	Repeated  uint64 // start and end events of work that had one
	Unmatched uint64 // end events that were ignored
	Untracked uint64 // start events beyond Max, which lower coverage
	Displaced uint64 // expired work and early ends that were forgotten to make room

	Held  int // end events that wait for their start, now
	Bytes int // memory of the table, now
}

// MaxInFlightItems is the most work that InFlight lists one by one.
const MaxInFlightItems = 100

// InFlightGroup is the work of one group, by stage.
type InFlightGroup struct {
	Group  Group
	Stages []InFlightStage // those with work, by name
}

// InFlightStage is how much work is at a stage.
type InFlightStage struct {
	Stage   string // value of the stage attribute, which is untrusted text; "" without one
	Open    uint64 // its deadline has not passed
	Overdue uint64 // counted as bad, and still not finished
}

// InFlightItem is one piece of work. Texts are untrusted.
type InFlightItem struct {
	Key      string // the first bytes of its key, which may end within a character
	Cut      bool   // the key is longer
	Group    Group
	Stage    string
	Start    time.Time
	Since    time.Time // when it came to its stage
	Deadline time.Time
	Overdue  bool // counted as bad
}

// Total adds up the groups.
func (f *InFlight) Total() (open, overdue uint64) {
	for _, g := range f.Groups {
		for _, s := range g.Stages {
			open, overdue = open+s.Open, overdue+s.Overdue
		}
	}
	return open, overdue
}

// Of gives the work of a group, by stage.
func (f *InFlight) Of(g Group) []InFlightStage {
	for i := range f.Groups {
		if f.Groups[i].Group.Key() == g.Key() {
			return f.Groups[i].Stages
		}
	}
	return nil
}
