package state

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sloengine/sloengine/alerts"
	"github.com/sloengine/sloengine/rules"
	"github.com/sloengine/sloengine/rules/series"
	"github.com/sloengine/sloengine/slo"
)

// SentBy says who sends the alerts of an SLO on counters that a source reads.
type SentBy struct {
	Source string       `json:"source"`
	By     slo.AlertsBy `json:"by"` // "": not decided yet, so nothing is sent
	Since  time.Time    `json:"since"`
	Why    string       `json:"why"`
}

// RulesSeen are the alerting rules in the Prometheus of a source, or in all of them.
type RulesSeen struct {
	Round   uint64 // grows with each answer
	Servers []ServerRules
}

// ServerRules are the alerting rules of one Prometheus.
type ServerRules struct {
	Server string // for people
	// Rules are the labels of each rule, alertname among them, by the label slo_id, or else by the name of the group.
	Rules map[string][]map[string]string
	Note  string // why no rule is known; "": they are
	// Sent are the labels of a rule's alert as Alertmanager gets them; an error if the Prometheus does not tell.
	Sent func(labels map[string]string) (map[string]string, error)
}

// Sending is what decides whether an alert of the engine equals that of a rule.
type Sending struct {
	ExternalLabels map[string]string // of all alerts that lack them
	NotBoth        string            // why nothing deduplicates what the engine and a rule send; "": Alertmanager does
}

// The number of answers that must agree before another sends the alerts of an SLO: a Prometheus may reload its rules
// meanwhile.
const seenBefore, missedBefore = 2, 3

// turn is a change of who sends that waits for more answers.
type turn struct {
	to      slo.AlertsBy
	round   uint64 // of the last answer that said so
	answers int
}

// SeeRules takes over what the Prometheus of a source says about its rules, from the next step on. nil: they are
// unknown.
func (m *Machine) SeeRules(source string, seen *RulesSeen) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.seen[source] = seen; seen == nil {
		delete(m.seen, source)
	}
}

// Sends reports whether the engine tells of an alert on an SLO, which ended at a time if that is not zero. It does not
// where rules in Prometheus send it, or while that is unknown.
func (v *View) Sends(id slo.ID, ended time.Time) bool {
	by, known := v.SentBy[id]
	return !known || by.By == slo.AlertsLive || by.By == slo.AlertsBoth ||
		!ended.IsZero() && !ended.After(by.Since) // what ended before was sent, and so is its end
}

// ToSend is a view of the alerts that the engine tells of.
func (v *View) ToSend() *View {
	if len(v.SentBy) == 0 {
		return v
	}
	rest := func(a Alert) bool { return !v.Sends(a.SLO, a.ResolvedAt) }
	return &View{
		Step: v.Step, Time: v.Time, Active: slices.DeleteFunc(slices.Clone(v.Active), rest),
		Resolved: slices.DeleteFunc(slices.Clone(v.Resolved), rest), Held: v.Held, SentBy: v.SentBy,
	}
}

// decide says for each SLO that a source reads who sends its alerts from now on.
func (st *step) decide() {
	next := map[slo.ID]SentBy{}
	for s, p := range st.plan.slos {
		if s.Indicator.PromSource == "" {
			continue
		}
		old := st.sentBy[s.ID]
		if old.Source != s.Indicator.PromSource {
			old = SentBy{Source: s.Indicator.PromSource, Since: st.now,
				Why: "the Prometheus has not said yet whether it has rules for it"}
		}
		next[s.ID] = st.decideOne(s, p, old)
	}
	if !maps.Equal(next, st.sentBy) {
		st.sentBy = next
	}
	maps.DeleteFunc(st.turns, func(id slo.ID, _ turn) bool { _, known := next[id]; return !known })
}

func (st *step) decideOne(s *slo.SLO, p *sloPlan, old SentBy) SentBy {
	by, why := s.Indicator.PromAlerts, "it is set so"
	answer := by == slo.AlertsRules || by == slo.AlertsLive
	if !answer {
		seen := st.seen[old.Source]
		if seen == nil || seen.Round == 0 {
			return old // as before, until it answers
		}
		if by, why = st.bySeen(s, p, seen); by != old.By && old.By != "" {
			t := st.turns[s.ID]
			if t.to != by {
				t = turn{to: by}
			}
			if t.round != seen.Round {
				t.round = seen.Round
				t.answers++
			}
			st.turns[s.ID] = t
			needed := seenBefore
			if by == slo.AlertsLive {
				needed = missedBefore
			}
			if t.answers < needed || by == slo.AlertsRules && st.alerting(s.ID) {
				return old // an alert that the engine began, the engine ends
			}
		}
	}
	delete(st.turns, s.ID)
	if by == old.By {
		old.Why = why
		return old
	}
	return SentBy{old.Source, by, st.now, why}
}

// alerting reports whether some alert of an SLO is pending or fires.
func (st *step) alerting(id slo.ID) bool {
	for _, sc := range []scope{scopeSLO, scopeWhole} {
		for _, row := range st.rows[sc].list {
			if row.id == string(id) && slices.ContainsFunc(row.active, func(a *alert) bool { return a != nil }) {
				return true
			}
		}
	}
	return false
}

// bySeen decides by the rules of a Prometheus.
func (st *step) bySeen(s *slo.SLO, p *sloPlan, seen *RulesSeen) (by slo.AlertsBy, why string) {
	var with, without []string
	differ := st.opt.Sending.NotBoth
	for i := range seen.Servers {
		server := &seen.Servers[i]
		found := server.of(s, p)
		switch {
		case len(found) > 0:
			with = append(with, server.Server)
			if differ == "" {
				differ = st.difference(p, server, found)
			}
		case server.Note != "":
			without = append(without, server.Server+" ("+server.Note+")")
		default:
			without = append(without, server.Server)
		}
	}
	both := s.Indicator.PromAlerts == slo.AlertsBoth
	switch {
	case len(with) == 0:
		return slo.AlertsLive, "no rules for it are in " + strings.Join(without, ", ")
	case len(without) > 0:
		return slo.AlertsLive, "rules for it are in " + strings.Join(with, ", ") + " only, and not in " +
			strings.Join(without, ", ")
	case both && differ == "":
		return slo.AlertsBoth, "it is set so, and the labels are equal"
	case both:
		return slo.AlertsRules, "both would notify twice: " + differ
	}
	return slo.AlertsRules, "rules for it are in " + strings.Join(with, ", ")
}

// of finds the rules of an SLO: those with its ID that have the name of an alert of the engine, and those in the groups
// that sloengine and Sloth make for it.
func (r *ServerRules) of(s *slo.SLO, p *sloPlan) (out []map[string]string) {
	for _, rule := range r.Rules[string(s.ID)] {
		if p.named(rule[series.LabelAlertName], "") != nil {
			out = append(out, rule)
		}
	}
	for _, group := range []string{"sloengine-alerts-" + string(s.ID), rules.ShortGroup(s), rules.LongGroup(s),
		"sloth-slo-alerts-" + s.ID.Service() + "-" + s.ID.Name()} {
		out = append(out, r.Rules[group]...)
	}
	return out
}

// named finds the condition of an alert name and a tier, if there is one.
func (p *sloPlan) named(name, tier string) *condition {
	for _, list := range [][]condition{p.group, p.whole} {
		for k := range list {
			if c := &list[k]; c.Alert == name && (tier == "" || c.Labels[series.LabelTier] == tier) {
				return c
			}
		}
	}
	return nil
}

// difference says in which labels the alert of a rule differs from that of the engine; "" if in none.
func (st *step) difference(p *sloPlan, server *ServerRules, found []map[string]string) string {
	for _, rule := range found {
		name := rule[series.LabelAlertName]
		sent, err := server.Sent(rule)
		if err != nil {
			return server.Server + ": " + err.Error()
		}
		c := p.named(name, rule[series.LabelTier])
		if c == nil {
			return fmt.Sprintf("the engine has no alert %s with the labels of the rule in %s", name, server.Server)
		}
		own := map[string]string{}
		maps.Copy(own, st.opt.Sending.ExternalLabels)
		for _, l := range newLabels(c.Alert, c.Labels, nil, nil) {
			own[l.Name] = l.Value
		}
		names := slices.AppendSeq(slices.Collect(maps.Keys(own)), maps.Keys(sent))
		slices.Sort(names)
		var differ []string
		for _, n := range slices.Compact(names) {
			if theirs := alerts.LabelText(sent[n]); theirs != own[n] && len(differ) < 3 {
				differ = append(differ, fmt.Sprintf("%s is %q by the rule and %q by the engine", n, theirs, own[n]))
			}
		}
		if len(differ) > 0 {
			return name + " in " + server.Server + ": " + strings.Join(differ, ", ")
		}
	}
	return ""
}
