// Package state is the live alert machine: it takes the engine's reports, one
// after the other, and moves the alerts that package alerts defines through inactive,
// pending, firing and resolved, as Prometheus would with the generated rules.
//
// Its only time is that of the reports. An alert starts as if the time that was not
// observed had been good, and ends only on proof: missing data changes nothing.
// States outlive restarts as a snapshot that the caller keeps.
//
// It knows nothing of PromQL, of delivery, of where a snapshot is stored, nor of
// how a report comes about.
package state
