package sla

import "github.com/sloengine/sloengine/slo"

// BandsID names the counter of an agreement's extra latency thresholds on one of
// its SLOs: "service/slo#bands:agreement". No SLO can have such a name.
func BandsID(id slo.ID, agreement string) string { return string(id) + "#bands:" + agreement }

// EventsID names the counter of the plain events of an SLO that judges slices
// of time: "service/slo#events".
func EventsID(id slo.ID) string { return string(id) + "#events" }

// ThresholdID names the counter of an event threshold: "service/limit:name". The word is the old one, because
// checkpoints and the log hold it.
func ThresholdID(service, name string) string { return service + "/limit:" + name }
