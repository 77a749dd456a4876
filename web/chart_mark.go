package web

import (
	"github.com/sloengine/sloengine/alerts/state"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
)

// mark is a state by shape, colour and word.
type mark struct {
	Shape string // ok, risk, bad, none, wait: also the class
	Word  string
}

func markOK(word string) mark   { return mark{"ok", word} }
func markRisk(word string) mark { return mark{"risk", word} }
func markBad(word string) mark  { return mark{"bad", word} }
func markNone(word string) mark { return mark{"none", word} }
func markWait(word string) mark { return mark{"wait", word} }

// stateMark shows the state of an error budget.
func stateMark(s slo.State) mark {
	switch s {
	case slo.StateOK:
		return markOK("ok")
	case slo.StateAtRisk:
		return markRisk("at risk")
	case slo.StateExhausted:
		return markBad("exhausted")
	}
	return markNone("no data")
}

// slaMark shows the state of an agreement.
func slaMark(r *sla.SLAReport) mark {
	switch {
	case !r.HasData || r.Level == sla.LevelNoData:
		return markNone("no data")
	case r.Informative:
		return markNone("informs only")
	case r.Level == sla.LevelCritical:
		return markBad("critical")
	case r.Level == sla.LevelWarning:
		return markRisk("warning")
	case r.Breached:
		return markRisk("breached")
	}
	return markOK("met")
}

// slaMarks are what slaMark can say, worst first.
var slaMarks = []mark{markBad("critical"), markRisk("warning"), markRisk("breached"), markNone("no data"), markOK("met"), markNone("informs only")}

// alertMark shows the state of an alert.
func alertMark(a *state.Alert) mark {
	switch {
	case a.State == state.Resolved:
		return markOK("resolved")
	case a.State == state.Pending:
		return markWait("pending")
	case a.Urgent:
		return markBad("firing")
	}
	return markRisk("firing")
}
