package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
)

// WholeCoverage is the coverage from which on a line counts as observed.
const WholeCoverage = 0.9995

// Each hands the covered part of each line to see: SLOs, agreements, event thresholds.
func (r *Report) Each(see func(*Covered)) {
	for i := range r.SLOs {
		see(&r.SLOs[i].Covered)
	}
	for i := range r.SLAs {
		see(&r.SLAs[i].Covered)
	}
	for i := range r.Thresholds {
		see(&r.Thresholds[i].Covered)
	}
}

// LowestCoverage is that of the SLO, agreement or event threshold with the lowest, in [0,1]. Those that are newer than
// the period are left out, see NewLines. It is false if none is left.
func (r *Report) LowestCoverage() (low float64, ok bool) {
	low = 1
	r.Each(func(c *Covered) {
		if c.NewFrom.IsZero() {
			low, ok = min(low, c.Coverage), true
		}
	})
	return low, ok
}

// NewLines names the SLOs, agreements and event thresholds that were not counted yet when the period began, in the
// order of the report.
func (r *Report) NewLines() (names []string) {
	for i := range r.SLOs {
		if x := &r.SLOs[i]; !x.NewFrom.IsZero() {
			names = append(names, string(x.Now.SLO.ID))
		}
	}
	for i := range r.SLAs {
		if x := &r.SLAs[i]; !x.NewFrom.IsZero() {
			names = append(names, string(slo.NewID(x.SLA.Service, x.SLA.Name)))
		}
	}
	for i := range r.Thresholds {
		if x := &r.Thresholds[i]; !x.NewFrom.IsZero() {
			names = append(names, string(slo.NewID(x.Now.Threshold.Service, x.Now.Threshold.Name)))
		}
	}
	return slices.Compact(names) // groups follow each other
}

// Tally counts verdicts. What only informs is in none of its numbers.
type Tally struct{ Met, Breached, NoData int }

// Judged is how many had data.
func (t Tally) Judged() int { return t.Met + t.Breached }

func (t *Tally) add(v Verdict) {
	switch v {
	case Met:
		t.Met++
	case Breached:
		t.Breached++
	case NoData:
		t.NoData++
	}
}

// Objectives counts the verdicts on SLOs and groups.
func (r *Report) Objectives() (t Tally) {
	for i := range r.SLOs {
		t.add(r.SLOs[i].Verdict)
	}
	return t
}

// Agreements counts the verdicts on agreements.
func (r *Report) Agreements() (t Tally) {
	for i := range r.SLAs {
		t.add(r.SLAs[i].Verdict)
	}
	return t
}

// Violations adds up those of all event thresholds.
func (r *Report) Violations() (sum sla.Violations) {
	for i := range r.Thresholds {
		v := r.Thresholds[i].Violations
		sum.Within, sum.Warning, sum.Critical = sum.Within+v.Within, sum.Warning+v.Warning, sum.Critical+v.Critical
	}
	return sum
}

// WorstFirst orders lines: breached, without data, met, and those that only inform. Equal ones stay in their order.
func WorstFirst[T any](lines []T, verdict func(*T) Verdict) []*T {
	rank := map[Verdict]int{Breached: 0, NoData: 1, Met: 2, Informative: 3}
	out := make([]*T, len(lines))
	for i := range lines {
		out[i] = &lines[i]
	}
	slices.SortStableFunc(out, func(a, b *T) int { return rank[verdict(a)] - rank[verdict(b)] })
	return out
}

// shownNewLines is how many new lines the notes name.
const shownNewLines = 10

// Notes say what people must know to read the numbers.
func (r *Report) Notes() []string {
	out := []string{"An objective is met if the errors within this period are at most what the objective allows. " +
		"Budget spent is the share of the period's own error budget. It may differ from the budget " +
		"of the objective's window."}
	kept, partial, rounded := false, false, false
	r.Each(func(c *Covered) {
		kept = kept || !c.KeptFrom.IsZero()
		rounded = rounded || c.Rounded
		partial = partial || c.Coverage < WholeCoverage && c.NewFrom.IsZero()
	})
	if slices.ContainsFunc(r.SLOs, func(x SLO) bool { return x.Corrected > 0 }) {
		out = append(out, "Planned maintenance, rounded outward to five minutes, is excluded from all but raw numbers.")
	}
	if kept {
		out = append(out, "Some counts do not go back to the start of the period. Such rows show when their counts "+
			"begin and do not include what happened before. Agreements then leave out whole days.")
	}
	if rounded {
		out = append(out, "Beyond an SLO's window counts are retained by the hour. In lines with \"whole hours\", "+
			"days, or planned maintenance, that begin or end within an hour are rounded to the next full "+
			"hour of UTC.")
	}
	if names := r.NewLines(); len(names) > 0 {
		more := ""
		if n := len(names) - shownNewLines; n > 0 {
			names, more = names[:shownNewLines], fmt.Sprintf(" and %d more", n)
		}
		out = append(out, "New in this period, and left out of the lowest coverage: "+strings.Join(names, ", ")+more+".")
	}
	if partial {
		out = append(out, "Coverage below 100%: for the rest of the time the engine was not running or counted by "+
			"another definition, slices were backfilled when they were older than the window, or rate "+
			"limits dropped events.")
	}
	return append(out, "Late events count in the minute they happened, so the same report may show more events later.")
}
