package history

import (
	"slices"

	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/fold"
)

// Ledger charges the budget that a group of an SLO spent to accounts.
type Ledger struct {
	slo.Span
	Lines  []slo.LedgerLine // that are charged with something; corrections first, which are beside the budget
	Spent  uint64           // parts: the sum of the lines without corrections
	Unit   string           // events or slices
	Scale  uint64           // how many parts make one of the unit
	Budget slo.Budget       // of the same counts, with corrections taken out
	Unread int              // explanations that were too many
}

// NewLedger charges what a group counted in the pieces of a plan, read at one position of the log. It is nil if nothing
// is known of the group.
func NewLedger(s *slo.SLO, plan *slo.LedgerPlan, a *fold.ReadResult, bins [][]uint64) *Ledger {
	if !a.Known || len(bins) < len(plan.Pieces) || len(plan.Pieces) == 0 {
		return nil
	}
	out := &Ledger{Span: plan.Span, Unread: plan.Unread}
	out.Unit, out.Scale = s.LedgerUnit(a.Sliced)
	parts := make([]uint64, len(plan.Pieces))
	var net slo.Counts
	for i := range plan.Pieces {
		t := NewTally(s, a, bins[i])
		parts[i] = t.Bad
		if s.ByRatio() && len(bins[i]) > sliceRatioBin {
			parts[i] = t.Valid()*out.Scale - min(bins[i][sliceRatioBin], t.Valid()*out.Scale)
		}
		if !plan.IsCorrection(i) {
			net = net.Add(t.Counts)
		}
	}
	out.Lines, out.Spent = plan.Charge(parts)
	out.Budget = slo.NewBudget(s.Objective, net)
	if valid := net.Valid(); s.ByRatio() && valid > 0 {
		mean := float64(valid*out.Scale-out.Spent) / float64(out.Scale) / float64(valid)
		out.Budget = slo.NewRatioBudget(s.Objective, net, mean, true)
	}
	return out
}

// Explains reports whether something is charged to a cause.
func (l *Ledger) Explains() bool {
	return slices.ContainsFunc(l.Lines, func(x slo.LedgerLine) bool { return x.Account != slo.AccountUnexplained })
}

// Of is the part of the budget that a number of parts is: its share of Budget.Consumed.
func (l *Ledger) Of(parts uint64) float64 {
	if l.Spent == 0 {
		return 0
	}
	return l.Budget.Consumed * float64(parts) / float64(l.Spent)
}

// Amount is a number of parts in the unit.
func (l *Ledger) Amount(parts uint64) float64 { return float64(parts) / float64(l.Scale) }

// Since is how much the ledger has beyond the budget of a report that was made before it was read: what was received in
// between. The lines add up to the budget of the report and this.
func (l *Ledger) Since(s *slo.SLO, report slo.Budget) uint64 {
	was := report.Counts.Bad
	if s.ByRatio() {
		valid := float64(report.Counts.Valid())
		was = uint64((1-report.SLI)*valid*float64(l.Scale) + 0.5)
	}
	return l.Spent - min(l.Spent, was)
}
