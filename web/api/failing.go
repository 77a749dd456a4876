package api

import (
	"github.com/sloengine/sloengine/alerts/incident"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/web/api/v1"
)

// newFailing is what fails; nil if nothing does.
func newFailing(s *incident.Situation, summary string) *v1.Failing {
	if summary == "" {
		return nil
	}
	return &v1.Failing{Summary: summary, Faults: newFaults(s.Faults), Engine: newFaults(s.Engine)}
}

func newFaults(list []incident.Fault) []v1.Fault {
	out := make([]v1.Fault, len(list))
	for i := range list {
		out[i] = v1.Fault{Failure: newFailure(&list[i].Failure), Affected: make([]v1.Failure, len(list[i].Affects))}
		for k := range list[i].Affects {
			out[i].Affected[k] = newFailure(&list[i].Affects[k])
		}
	}
	return out
}

func newFailure(f *incident.Failure) v1.Failure {
	out := v1.Failure{Service: f.Service(), Group: map[string]string{}, Alert: f.Alert, Since: f.Onset.UTC(),
		Incident: f.Incident.ID}
	switch {
	case f.SLO != "":
		id := slo.ID(f.SLO)
		out.SLO = &id
	case f.Agreement != "":
		out.SLA = &f.Agreement
	}
	if f.Spec != nil && len(f.Spec.GroupBy) == len(f.Group) {
		out.Group = groupJSON(f.Spec.GroupBy, f.Group)
	}
	if f.Bad >= 0 {
		out.BadRatio, out.Window = &f.Bad, slo.FormatDuration(f.Window)
	}
	if f.Incident.Ack != nil {
		out.Acknowledged = &f.Incident.Ack.Time
	}
	return out
}
