package report

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sloengine/sloengine/internal/order"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/sla/annotation"
	"github.com/sloengine/sloengine/sla/history"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/fold"
)

// LedgerOptions say how spent budgets are charged to accounts.
type LedgerOptions struct {
	// Accounts in the order of their precedence. What a left-out account explains is charged to the next ones. Nil is
	// slo.LedgerOrder.
	Accounts []slo.Account `yaml:"accounts"`
	// Deployment is how long bad events after a deployment are charged to it; 0 is DeploymentTime.
	Deployment time.Duration `yaml:"deployment" min:"1m" max:"7d"`
}

// DeploymentTime is the default of LedgerOptions.Deployment.
const DeploymentTime = time.Hour

// Order is the precedence of the accounts.
func (o *LedgerOptions) Order() []slo.Account {
	if o.Accounts == nil {
		return slo.LedgerOrder
	}
	return o.Accounts
}

// AfterDeployment is how long bad events after a deployment are charged to it.
func (o *LedgerOptions) AfterDeployment() time.Duration { return cmp.Or(o.Deployment, DeploymentTime) }

// AnnotationsFunc lists the annotations about a service in a span, in the order of their times.
type AnnotationsFunc func(service string, sp slo.Span) []annotation.Annotation

// MadeBy lists those that there were at a time, of those that list makes a new list of.
func MadeBy(at time.Time, list AnnotationsFunc) AnnotationsFunc {
	return func(service string, sp slo.Span) []annotation.Annotation {
		return slices.DeleteFunc(list(service, sp), func(a annotation.Annotation) bool { return a.Created.After(at) })
	}
}

// Ledger charges what a group of an SLO spent of its budget over its period. It is nil if nothing was counted, and for
// indicators that slo.IndicatorKind.Unledgered has a reason for.
func (from *Source) Ledger(ctx context.Context, rep *sla.Report, r *sla.SLOReport) (*history.Ledger, error) {
	if from.Counts == nil {
		return nil, ErrNoHistory
	}
	plan := from.LedgerPlan(rep, r, r.Period)
	if plan == nil {
		return nil, nil
	}
	grid := history.Grid{Span: plan.Span, Steps: plan.Pieces}
	answers, err := from.Counts.Ask(ctx, []fold.ReadRequest{grid.Query(string(r.SLO.ID), []slo.Group{r.Group})})
	if err != nil || len(answers[0].Groups) == 0 {
		return nil, err
	}
	return history.NewLedger(r.SLO, plan, &answers[0], answers[0].Groups[0]), nil
}

// LedgerPlan divides a span of a group among what explains its bad events; nil if nothing can be charged.
func (from *Source) LedgerPlan(rep *sla.Report, r *sla.SLOReport, sp slo.Span) *slo.LedgerPlan {
	if sp = (slo.Span{From: sp.From.UTC(), To: sp.To.UTC()}); sp.Duration() == 0 ||
		r.SLO.Indicator.Kind.Unledgered() != "" {
		return nil
	}
	return slo.NewLedgerPlan(sp, from.LedgerOptions.Order(), r.Slice, from.explanations(rep, r, sp))
}

// explanations are all that the engine knows of why a group may have had bad events in a span.
func (from *Source) explanations(rep *sla.Report, r *sla.SLOReport, sp slo.Span) (out []slo.Explanation) {
	id := r.SLO.ID
	planned := func(account slo.Account, all []slo.Correction) {
		for i := range all {
			for _, s := range slo.TakenOut(all[i:i+1], sp) {
				out = append(out, slo.Explanation{Account: account, Name: all[i].Name, Text: all[i].Reason, Span: s})
			}
		}
	}
	planned(slo.AccountCorrection, r.SLO.Corrections)
	planned(slo.AccountMaintenance, otherCorrections(rep, r.SLO))

	var incidents []Incident
	var mine []slo.Span
	if from.Incidents != nil {
		incidents, _ = from.Incidents(sp.From, sp.To)
	}
	for i := range incidents {
		x := &incidents[i]
		for _, s := range x.about(r, sp.To) {
			mine = append(mine, s)
			out = append(out, slo.Explanation{Account: slo.AccountIncident, Name: x.ID, Text: x.Title, Span: s})
		}
		out = append(out, failedCauses(rep, r, x, sp.To)...)
	}
	if from.Annotations == nil {
		return out
	}
	length := from.LedgerOptions.AfterDeployment()
	deployed := slices.DeleteFunc(from.Annotations(id.Service(), slo.Span{From: sp.From.Add(-length), To: sp.To}),
		func(a annotation.Annotation) bool { return a.Kind != annotation.Deployment })
	for i := range deployed {
		a := &deployed[i]
		after := slo.Span{From: a.At, To: a.At.Add(length)}
		if i+1 < len(deployed) && deployed[i+1].At.Before(after.To) && deployed[i+1].At.After(a.At) {
			after.To = deployed[i+1].At
		}
		for _, s := range deploymentSpans(after, mine) {
			out = append(out, slo.Explanation{Account: slo.AccountDeployment, Name: a.Text, Span: s})
		}
	}
	return out
}

// sameMoment is how much earlier than a deployment the onset of an incident may be that it caused: onsets are read from
// buckets.
const sameMoment = time.Minute

// deploymentSpans are the time after a deployment and the incidents that began in it, but no incident that had begun
// before: its bad events are not of the deployment that may have ended it.
func deploymentSpans(after slo.Span, incidents []slo.Span) []slo.Span {
	var before, since []slo.Span
	for _, x := range incidents {
		switch {
		case x.From.Before(after.From.Add(-sameMoment)):
			before = append(before, x)
		case x.From.Before(after.To):
			since = append(since, x)
		}
	}
	_, own := slo.Divide([]slo.Span{after}, slo.MergeSpans(before))
	return slo.MergeSpans(append(own, since...))
}

// otherCorrections are those of the service that leave the budget of an SLO alone, each once.
func otherCorrections(rep *sla.Report, s *slo.SLO) (out []slo.Correction) {
	known := map[string]bool{}
	for i := range s.Corrections {
		known[s.Corrections[i].Name] = true
	}
	for i := range rep.SLOs {
		if x := rep.SLOs[i].SLO; x.ID.Service() == s.ID.Service() {
			for _, c := range x.Corrections {
				if !known[c.Name] {
					known[c.Name], out = true, append(out, c)
				}
			}
		}
	}
	return out
}

// about are the times in which an incident was about a group of an SLO, or about its whole service.
func (x *Incident) about(r *sla.SLOReport, now time.Time) (out []slo.Span) {
	if len(x.Affected) == 0 && x.Service == r.SLO.ID.Service() {
		return []slo.Span{x.span(&Affected{}, now)}
	}
	for i := range x.Affected {
		if a := &x.Affected[i]; a.SLO == r.SLO.ID && (len(a.Group) == 0 || slices.Equal(a.Group, r.Group)) {
			out = append(out, x.span(a, now))
		}
	}
	return slo.MergeSpans(out)
}

// span is when an incident was about something.
func (x *Incident) span(a *Affected, now time.Time) slo.Span {
	return slo.Span{From: cmp.Or(a.Onset, x.Onset), To: cmp.Or(a.Resolved, x.Resolved, now)}
}

// failedCauses are the causes that an SLO declares and that an incident was about.
func failedCauses(rep *sla.Report, r *sla.SLOReport, x *Incident, now time.Time) (out []slo.Explanation) {
	for i := range r.SLO.CausedBy {
		c := &r.SLO.CausedBy[i]
		for k := range x.Affected {
			a := &x.Affected[k]
			if a.SLO != c.SLO {
				continue
			}
			rows := Rows(rep, a.SLO)
			if len(rows) == 0 || !c.Links(rows[0].SLO.GroupBy, a.Group, r.SLO.GroupBy, r.Group) {
				continue
			}
			name := string(a.SLO)
			if by := rows[0].SLO.GroupBy; len(a.Group) == len(by) && len(by) > 0 {
				parts := make([]string, len(by))
				for k := range by {
					parts[k] = by[k] + "=" + a.Group[k]
				}
				name += fmt.Sprintf("{%s}", strings.Join(parts, ","))
			}
			out = append(out, slo.Explanation{Account: slo.AccountDependency, Name: name, Text: x.ID, Span: x.span(a, now)})
		}
	}
	return out
}

// MaxLedgers is how many lines of a report have a ledger: those that spent most of their budget.
const MaxLedgers = 20

// fillLedgers charges what the lines of a report spent.
func (from *Source) fillLedgers(ctx context.Context, rep *sla.Report, lines []SLO) error {
	var worst []*SLO
	for i := range lines {
		if x := &lines[i]; x.Raw.Consumed > 0 && x.Now.SLO.Indicator.Kind.Unledgered() == "" {
			worst = append(worst, x)
		}
	}
	order.By(worst, func(a, b **SLO) int { return cmp.Compare((*b).Net.Consumed, (*a).Net.Consumed) })
	var l history.Batch
	worst = worst[:min(len(worst), MaxLedgers)]
	plans, series := make([]*slo.LedgerPlan, len(worst)), make([]*history.Series, len(worst))
	for i, x := range worst {
		if plans[i] = from.LedgerPlan(rep, x.Now, x.Span); plans[i] != nil {
			series[i] = l.Add(string(x.Now.SLO.ID), x.Now.Group.Key(),
				history.Grid{Span: plans[i].Span, Steps: plans[i].Pieces}, []slo.Group{x.Now.Group})
		}
	}
	if err := l.Run(ctx, from.Counts); err != nil {
		return err
	}
	for i, x := range worst {
		if s := series[i]; s != nil && len(s.Answer.Groups) == 1 {
			x.Ledger = history.NewLedger(x.Now.SLO, plans[i], &s.Answer, s.Answer.Groups[0])
		}
	}
	return nil
}
