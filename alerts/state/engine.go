package state

import (
	"slices"
	"strings"
	"time"

	"github.com/sloengine/sloengine/alerts"
	"github.com/sloengine/sloengine/rules/series"
)

// EngineReport is what the rules about the engine itself say at a time.
type EngineReport struct {
	Time time.Time
	// Since is when the observation began that has no gap. An alert that began since then ends when it is not found,
	// whatever is known of the time before: nothing of that time made it begin.
	Since time.Time
	Rules []EngineRule
}

// EngineRule is one rule and what its expression returned.
type EngineRule struct {
	Rule *alerts.Live // of kind LiveEngine
	// Known is false if the expression failed, or if less was observed than it looks back. Then alerts from
	// before EngineReport.Since keep their state.
	Known  bool
	Failed bool // the expression could not be evaluated: all alerts keep their state
	Found  []EngineSample
}

// EngineSample is one element of the result.
type EngineSample struct {
	Labels []Label // by name, without those of the rule
	Value  float64
}

// StepEngine takes the next engine report and returns what changed, in the order of the rules. It is independent of
// Step, so alerts on the engine go on when no reports are made. As in Step, a report that is no newer than the last is
// ignored.
func (m *Machine) StepEngine(r *EngineReport) []Transition {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !r.Time.After(m.engineAt) && m.engineAt.Sub(r.Time) <= m.opt.Grace {
		return nil
	}
	st := step{Machine: m, now: r.Time}
	if !st.now.After(m.last) && m.last.Sub(st.now) <= m.opt.Grace {
		st.now = m.last.Add(1) // readers of views find what is new by times after that of the last view
	}
	st.gap = m.engineAt.IsZero() || r.Time.Sub(m.engineAt).Abs() > m.opt.Grace
	st.engine(r)
	m.engineAt = r.Time
	m.prune(r.Time)
	m.publish()
	return st.out
}

func (st *step) engine(r *EngineReport) {
	rs := &st.rows[scopeEngine]
	before := make(map[string]*row, len(rs.list))
	for _, row := range rs.list {
		before[rowKey(row.id, row.group)] = row
	}
	after := make([]*row, 0, len(rs.list))
	take := func(rule *EngineRule, names, values []string, f finding) {
		id := rule.Rule.Alert + "{" + strings.Join(names, ",") + "}"
		key := rowKey(id, values)
		x := before[key]
		delete(before, key)
		if x == nil {
			x = &row{id: id, group: values}
		}
		if len(x.plan) == 0 || x.plan[0].rule != rule.Rule {
			st.fit(scopeEngine, x, []condition{engineCondition(rule.Rule, names)})
		}
		st.advance(x, 0, f, time.Time{})
		if x.active != nil {
			after = append(after, x)
		}
	}
	rules := make(map[string]*alerts.Live, len(r.Rules))
	for i := range r.Rules {
		rule := &r.Rules[i]
		rules[rule.Rule.Alert] = rule.Rule
		for _, s := range rule.Found {
			names, values := make([]string, len(s.Labels)), make([]string, len(s.Labels))
			for k, l := range s.Labels {
				names[k], values[k] = l.Name, l.Value
			}
			take(rule, names, values, finding{verdict: yes, value: s.Value})
		}
		rest := finding{verdict: no}
		if !rule.Known {
			rest.verdict = unknown
		}
		for _, row := range rs.list { // what the rule no longer returns
			if before[rowKey(row.id, row.group)] == row && row.plan[0].Alert == rule.Rule.Alert {
				f := rest
				if a := row.active[0]; !rule.Failed && !r.Since.IsZero() && !a.ActiveSince.Before(r.Since) {
					f.verdict = no
				}
				take(rule, row.plan[0].names, row.group, f)
			}
		}
		for key, a := range st.kept {
			if key.scope == scopeEngine && a.Name == rule.Rule.Alert {
				take(rule, a.GroupBy, a.Group, rest)
				delete(st.kept, key) // also if the snapshot's key is not the one of its labels
			}
		}
	}
	for _, row := range rs.list { // its rule is gone
		if before[rowKey(row.id, row.group)] == row {
			st.gone(row)
		}
	}
	for key, a := range st.kept {
		if key.scope == scopeEngine {
			st.active++
			st.remove(a)
			delete(st.kept, key)
		}
	}
	rs.list = after
	if slices.ContainsFunc(st.resolved, func(a Alert) bool { return a.Engine && a.live == nil && rules[a.Name] != nil }) {
		st.resolved = slices.Clone(st.resolved) // readers of a view share the old list
		for i := range st.resolved {
			if a := &st.resolved[i]; a.Engine && a.live == nil {
				a.live = rules[a.Name]
			}
		}
	}
}

// engineCondition is the condition of a rule for results with labels of certain names.
func engineCondition(rule *alerts.Live, names []string) condition {
	severity := rule.Labels[series.LabelSeverity]
	return condition{
		Live: *rule, rule: rule, key: rule.Alert, severity: severity, urgent: alerts.Pages(severity),
		groupBy: names, names: names,
	}
}
