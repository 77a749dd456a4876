package spec

import (
	"fmt"

	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/yamldoc"
)

// covering warns of corrections that, alone or together, leave nothing of an SLO's window, so
// that it has no data: a maintenance that is written as daily and takes a day, for one. about
// are the names of the SLOs that c corrects.
func (a *assembly) covering(s *assembled, c *correctionDraft, about []string) {
	if c.Start.IsZero() || c.Duration == 0 {
		return
	}
	var covered []*sloDraft
	for _, name := range about {
		// Once for those that do it, and not again for others in the same time.
		if sd := s.slos[name]; sd.ok && leavesNothing(sd.Corrections, c.Correction, sd.Window) && !leavesNothing(sd.covered, c.Correction, sd.Window) {
			sd.covered = append(sd.covered, c.Correction)
			covered = append(covered, sd)
		}
	}
	if len(covered) == 0 {
		return
	}
	first := covered[0]
	more := ""
	if n := len(covered) - 1; n > 0 {
		more = fmt.Sprintf(" (and of %d more)", n)
	}
	a.Warnf(c.at, "shorten it or its recurrence, or set `slos` to those that it is about",
		"correction %s: from %s on the corrections take out the whole window (%s) of slo %q%s, which then has no data",
		yamldoc.Printable(c.Name), c.Start.Format("2006-01-02T15:04Z07:00"), first.Window, first.ID.Name(), more)
}

// leavesNothing reports whether the window that begins with c is taken out as a whole.
func leavesNothing(all []slo.Correction, c slo.Correction, w slo.Window) bool {
	whole := slo.Span{From: c.Start, To: c.Start.Add(w.Nominal())}
	// Mostly the time right after the first occurrence tells.
	near := slo.Span{From: c.Start, To: c.Start.Add(c.Duration + slo.CorrectionStep)}
	return takesOut(all, near.Intersect(whole)) && takesOut(all, whole)
}

func takesOut(all []slo.Correction, sp slo.Span) bool {
	out := slo.TakenOut(all, sp)
	return len(out) == 1 && out[0] == sp
}
