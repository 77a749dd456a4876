package slo

import "time"

// DefaultGoal is the reduction that a Baseline wants unless it says otherwise.
const DefaultGoal = 0.5

// Baseline says how long the detection of incidents, and the response to them, took before there was an engine, and
// what is wanted of it. It is about the incidents of a service in which an alert was about one of SLOs, or was chosen
// by one of Agreements; about all of them if both are empty.
type Baseline struct {
	Service    string
	Name       string // such as performance
	SLOs       []string
	Agreements []string

	Detection Before // from the onset to the first alert
	Response  Before // from the first alert to the acknowledgement

	// Goal is the share by which the mean is to be shorter than From, in (0,1).
	Goal float64
}

// Before is a range of durations that was usual, and the longest that is wanted now. All are zero if nothing is known.
type Before struct {
	From, To time.Duration
	Target   time.Duration // 0: none is set
}
