package ui

import (
	"time"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/web/format"
	"github.com/sloengine/sloengine/web/site"
)

// work is what is in flight of an SLO of completion, in one group.
type work struct {
	Within string
	Oldest string // age of the oldest work of all groups
	Stages []workStage
	Items  []workItem
	More   string // how much work is not listed
	Notes  []string
}

type workStage struct{ Stage, Open, Overdue string }

type workItem struct {
	Key, Stage, Age, AtStage string
	Start, Deadline          format.Stamp
	Overdue                  bool
}

// shownWork is how much work a page lists one by one.
const shownWork = 20

// newWork is nil for an SLO that is not one of completion.
func newWork(rep *sla.Report, r *sla.SLOReport, now time.Time) *work {
	x := rep.Work(r.SLO.ID)
	if x == nil {
		return nil
	}
	w := &work{Within: slo.FormatDuration(r.SLO.Indicator.Completion.Within), Oldest: format.NoValue}
	if !x.Oldest.IsZero() {
		w.Oldest = format.Duration(now.Sub(x.Oldest))
	}
	total := uint64(0)
	for _, s := range x.Of(r.Group) {
		total += s.Open + s.Overdue
		w.Stages = append(w.Stages, workStage{stageName(s.Stage), format.Count(s.Open), format.Count(s.Overdue)})
	}
	for i := range x.Items {
		it := &x.Items[i]
		if it.Group.Key() != r.Group.Key() || len(w.Items) == shownWork {
			continue
		}
		key := it.Key
		if it.Cut {
			key += "…"
		}
		w.Items = append(w.Items, workItem{
			Key: format.Safe(key, format.MaxTitle), Stage: stageName(it.Stage), Overdue: it.Overdue,
			Age: format.Duration(now.Sub(it.Start)), AtStage: format.Duration(now.Sub(it.Since)),
			Start: format.NewStamp(it.Start, now), Deadline: format.NewStamp(it.Deadline, now),
		})
	}
	if n := total - min(total, uint64(len(w.Items))); n > 0 {
		w.More = format.Count(n)
	}
	if x.Untracked > 0 {
		w.Notes = append(w.Notes, format.Count(x.Untracked)+" start events were not tracked, because max_in_flight ("+
			format.Count(x.Max)+") was reached. They lower coverage.")
	}
	if x.Corrected > 0 {
		w.Notes = append(w.Notes, format.Count(x.Corrected)+
			" times, work counted as bad at its deadline, and an event that came later showed that it had ended in time. The "+
			"SLI is corrected. The exported counters are not.")
	}
	if x.Held > 0 {
		w.Notes = append(w.Notes, format.Count(x.Held)+" end events wait for their start event.")
	}
	return w
}

func stageName(s string) string {
	if s == "" {
		return slo.None
	}
	return format.Safe(s, format.MaxName)
}

// workFacts say what starts and ends work.
func workFacts(c *slo.Completion) []site.Fact {
	fs := []site.Fact{
		{Name: "Work starts with", Value: format.Safe(c.Started.String(), format.MaxText), Code: true},
		{Name: "Work finishes with", Value: format.Safe(c.Finished.String(), format.MaxText), Code: true},
	}
	if len(c.Failed) > 0 {
		fs = append(fs, site.Fact{Name: "Work fails with", Value: format.Safe(c.Failed.String(), format.MaxText), Code: true})
	}
	return append(fs,
		site.Fact{Name: "Key", Value: format.Safe(c.Key, format.MaxName), Code: true},
		site.Fact{Name: "Bad if not finished within", Value: slo.FormatDuration(c.Within),
			Note: "at most " + format.Count(c.MaxInFlight) + " tracked at once"})
}
