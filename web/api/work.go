package api

import (
	"strings"

	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/web/api/v1"
)

// newWork is nil for an SLO that is not one of completion.
func newWork(x *slo.InFlight, group slo.Group) *v1.Work {
	if x == nil {
		return nil
	}
	out := &v1.Work{
		Stages: []v1.WorkStage{}, Oldest: timeOrNil(x.Oldest), Items: []v1.WorkItem{}, Max: x.Max,
		Finished: x.Finished, Expired: x.Expired, Corrected: x.Corrected, Repeated: x.Repeated,
		Unmatched: x.Unmatched, Untracked: x.Untracked, Displaced: x.Displaced, Held: x.Held,
	}
	for _, s := range x.Of(group) {
		out.Stages = append(out.Stages, v1.WorkStage(s))
	}
	for i := range x.Items {
		if it := &x.Items[i]; it.Group.Key() == group.Key() {
			out.Items = append(out.Items, v1.WorkItem{
				Key: strings.ToValidUTF8(it.Key, "\uFFFD"), Cut: it.Cut, Stage: it.Stage, Overdue: it.Overdue,
				Start: timeOrNil(it.Start), Since: timeOrNil(it.Since), Deadline: timeOrNil(it.Deadline),
			})
		}
	}
	return out
}
