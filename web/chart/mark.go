package chart

import (
	"github.com/sloengine/sloengine/alerts/state"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
)

// Mark is a state by shape, colour and word.
type Mark struct {
	Shape string // ok, risk, bad, none, wait: also the class
	Word  string
}

func OK(word string) Mark   { return Mark{"ok", word} }
func Risk(word string) Mark { return Mark{"risk", word} }
func Bad(word string) Mark  { return Mark{"bad", word} }
func None(word string) Mark { return Mark{"none", word} }
func Wait(word string) Mark { return Mark{"wait", word} }

// Firing is the mark of an SLO on which a page fires, whatever is left of its error budget.
var Firing = Bad("firing")

// Waiting is the mark of an SLO that is ok by old counts only, see [sla.SLOReport.Waiting].
var Waiting = Wait("waiting for data")

// LevelMark shows how an SLO does: that a paging alert fires on it, or else the state of its error budget.
func LevelMark(r *sla.SLOReport, paging bool) Mark {
	switch {
	case paging:
		return Firing
	case r.Waiting():
		return Waiting
	}
	return StateMark(r.State)
}

// StateMark shows the state of an error budget.
func StateMark(s slo.State) Mark {
	switch s {
	case slo.StateOK:
		return OK("ok")
	case slo.StateAtRisk:
		return Risk("at risk")
	case slo.StateExhausted:
		return Bad("exhausted")
	}
	return None("no data")
}

// AgreementMark shows the state of an agreement. A score below an alert threshold is no state: it is the severity of an
// alert, and a score can be low while every component meets its objective.
func AgreementMark(r *sla.SLAReport) Mark {
	switch {
	case !r.HasData || r.Level == sla.LevelNoData:
		return None("no data")
	case r.Informative:
		return None("not judged")
	case r.Breached:
		return Bad("breached")
	}
	return OK("met")
}

// AgreementMarks are the results of AgreementMark, worst first.
var AgreementMarks = []Mark{Bad("breached"), None("no data"), OK("met"), None("not judged")}

// AlertMark shows the state of an alert.
func AlertMark(a *state.Alert) Mark {
	switch {
	case a.State == state.Resolved:
		return OK("resolved")
	case a.State == state.Pending:
		return Wait("pending")
	case a.Urgent:
		return Bad("firing")
	}
	return Risk("firing")
}
