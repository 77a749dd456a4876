package explain

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sloengine/sloengine/rules"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
)

// Changes compares two specs: first the SLOs by identity, then the agreements and
// limits.
func Changes(old, new rules.Spec) []Change {
	var out []Change
	was := byID(old.SLOs, func(s *slo.SLO) string { return string(s.ID) })
	now := byID(new.SLOs, func(s *slo.SLO) string { return string(s.ID) })
	renamed := map[string]bool{}
	for _, id := range slices.Sorted(maps.Keys(now)) {
		n := now[id]
		o := was[id]
		if o == nil && n.Was != "" && was[string(n.Was)] != nil && now[string(n.Was)] == nil {
			o = was[string(n.Was)]
			renamed[string(n.Was)] = true
			out = append(out, Change{Changed, "slo", id, "name", string(o.ID), id,
				"the engine keeps its counts; recorded series start again"})
		}
		if o == nil {
			out = append(out, Change{Kind: Added, What: "slo", ID: id, New: n.Objective.String() + " over " + n.Window.String()})
			continue
		}
		out = append(out, compareSLO(o, n)...)
	}
	for _, id := range slices.Sorted(maps.Keys(was)) {
		if now[id] == nil && !renamed[id] {
			out = append(out, Change{Kind: Removed, What: "slo", ID: id, Meaning: "its alerts are gone too"})
		}
	}
	out = append(out, agreements(old.Agreements, new.Agreements)...)
	return append(out, thresholds(old.Thresholds, new.Thresholds)...)
}

func byID[T any](all []*T, id func(*T) string) map[string]*T {
	m := make(map[string]*T, len(all))
	for _, x := range all {
		m[id(x)] = x
	}
	return m
}

// fields collects the changes of one thing.
type fields struct {
	what, id string
	out      []Change
}

func (f *fields) add(field, old, new, meaning string) {
	if old == new {
		return
	}
	kind := Changed
	switch {
	case old == "":
		kind = Added
	case new == "":
		kind = Removed
	}
	f.out = append(f.out, Change{kind, f.what, f.id, field, old, new, meaning})
}

func compareSLO(o, n *slo.SLO) []Change {
	f := fields{what: "slo", id: string(n.ID)}
	budget := func(s *slo.SLO) string {
		p := s.Window.Nominal()
		return Human(time.Duration(float64(p)*s.Objective.Budget())) + " per " + slo.FormatDuration(p)
	}
	f.add("caused_by", causes(o), causes(n), "other pages keep its alerts quiet")
	changed := "budget " + budget(o) + " -> " + budget(n)
	f.add("objective", o.Objective.String(), n.Objective.String(), changed)
	f.add("window", o.Window.String(), n.Window.String(), changed+"; alert factors follow")
	f.add("indicator", indicator(&o.Indicator), indicator(&n.Indicator),
		"what is counted changes, so counts start from zero")
	f.add("budgeting", budgeting(o.Budgeting), budgeting(n.Budgeting),
		"what is counted changes, so counts start from zero")
	f.add("group_by", strings.Join(o.GroupBy, ", "), strings.Join(n.GroupBy, ", "), "recorded series start again")
	f.add("corrections", corrections(o), corrections(n), "the past is counted again with them")
	f.add("labels", labelText(o.Labels), labelText(n.Labels),
		"on the info series and on alerts, and on every series with --names sloth; routing may change")
	f.add("capacity", capacity(&o.Indicator), capacity(&n.Indicator),
		"the counts stay; the engine compares the weeks that it knows with it")
	f.add("cost", cost(o.Cost), cost(n.Cost), "on everything that is still counted; incidents that are over keep theirs")
	f.tiers(o, n)
	f.add("exhausted_soon", soon(o), soon(n), "")
	f.add("budget_left", budgetLeft(o), budgetLeft(n), "")
	f.add("min_events", fmt.Sprint(o.Alerting.MinEvents), fmt.Sprint(n.Alerting.MinEvents), "")
	f.add("inherit_labels", fmt.Sprint(!o.Alerting.NoSpecLabels), fmt.Sprint(!n.Alerting.NoSpecLabels),
		"routing may change")
	f.add("false_pages", falsePages(o), falsePages(n), "pages need more or less evidence")
	for _, s := range []struct {
		name string
		o, n slo.AlertSettings
	}{{"page", o.Alerting.Page, n.Alerting.Page}, {"ticket", o.Alerting.Ticket, n.Alerting.Ticket},
		{"no_data", o.Alerting.NoData, n.Alerting.NoData},
		{"exhausted_soon", o.Alerting.Soon.AlertSettings, n.Alerting.Soon.AlertSettings}} {
		f.add(s.name+" disabled", fmt.Sprint(s.o.Disabled), fmt.Sprint(s.n.Disabled), "")
		f.add(s.name+" labels", labelText(s.o.Labels), labelText(s.n.Labels), "routing may change")
	}
	return f.out
}

// tiers compares when the burn-rate alerts fire, for full outages and for ten
// of the old budgets.
func (f *fields) tiers(o, n *slo.SLO) {
	name := func(t Tier) string {
		kind := "ticket"
		if t.Page {
			kind = "page"
		}
		return "alert " + kind + " over " + slo.FormatDuration(t.Long)
	}
	say := func(t Tier) string {
		text := fmt.Sprintf("%s/%s above %s %% bad", slo.FormatDuration(t.Long), slo.FormatDuration(t.Short),
			slo.FormatRatio(round(100*t.Threshold)))
		if t.For > 0 {
			text += " for " + slo.FormatDuration(t.For)
		}
		return text
	}
	policy := func(t Tier) Policy {
		return Policy{{Windows: []Window{{Length: t.Long, Factor: t.Threshold},
			{Length: t.Short, Factor: t.Threshold}}, For: t.For}}
	}
	was, now := Tiers(o), Tiers(n)
	for _, t := range now {
		i := slices.IndexFunc(was, func(x Tier) bool { return name(x) == name(t) })
		if i < 0 {
			f.add(name(t), "", say(t), "with everything failing it fires "+t.Outage.String())
			continue
		}
		f.add(name(t), say(was[i]), say(t), meaning(policy(was[i]), policy(t), 1, min(1, 10*o.Objective.Budget())))
	}
	for _, t := range was {
		if !slices.ContainsFunc(now, func(x Tier) bool { return name(x) == name(t) }) {
			f.add(name(t), say(t), "", "nothing fires any more where it did "+t.Outage.String()+" of full outage")
		}
	}
}

func indicator(in *slo.Indicator) string {
	if text := in.Measure(); text != "" {
		return text
	}
	parts := []string{"prometheus"}
	for _, p := range [][2]string{
		{"bad", in.PromBad}, {"good", in.PromGood}, {"total", in.PromTotal},
		{"bad", in.PromBadQuery}, {"good", in.PromGoodQuery}, {"total", in.PromTotalQuery},
		{"error ratio", in.PromErrorRatioQuery},
	} {
		if p[1] != "" {
			parts = append(parts, p[0]+" "+p[1])
		}
	}
	if in.PromQuery != "" {
		parts = append(parts, in.PromQuery, string(in.PromOp), slo.FormatRatio(in.PromValue))
	}
	return strings.Join(parts, " ")
}

func budgeting(b slo.Budgeting) string {
	switch b.Method {
	case slo.Timeslices:
		return fmt.Sprintf("%s of %s with %s", b.Method, slo.FormatDuration(b.Slice), b.Target)
	case slo.RatioTimeslices:
		return fmt.Sprintf("%s of %s", b.Method, slo.FormatDuration(b.Slice))
	}
	return string(slo.Occurrences)
}

func capacity(in *slo.Indicator) string {
	if in.Capacity.IsZero() {
		return ""
	}
	return in.Capacity.String()
}

// soon is the alert on the forecast.
func soon(s *slo.SLO) string {
	a := &s.Alerting.Soon
	if a.Within == 0 {
		return ""
	}
	text := fmt.Sprintf("within %s with %s %%", slo.FormatDuration(a.Within), slo.FormatRatio(round(100*a.Probability)))
	if a.For > 0 {
		text += " for " + slo.FormatDuration(a.For)
	}
	return text
}

// budgetLeft are the alerts on what is left of the budget.
func budgetLeft(s *slo.SLO) string {
	var out []string
	for _, a := range s.Alerting.Left {
		text := slo.FormatRatio(round(100*a.Share)) + " %"
		if a.Page {
			text += " (page)"
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}

func falsePages(s *slo.SLO) string { return slo.FormatRatio(s.Alerting.MaxFalsePages()) + "/y" }

func cost(c *slo.Cost) string {
	if c == nil {
		return ""
	}
	out := c.Basis()
	if c.Baseline.Per > 0 {
		out += ", before " + c.Baseline.Text(c.Currency)
	}
	if c.Investment.Per > 0 {
		out += ", invested " + c.Investment.Text(c.Currency)
	}
	return out
}

func corrections(s *slo.SLO) string {
	var parts []string
	for _, c := range s.Corrections {
		text := c.Name + " " + c.Start.Format(time.RFC3339) + " for " + slo.FormatDuration(c.Duration)
		if c.RRule != "" {
			text += " " + c.RRule
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, ", ")
}

func labelText(m map[string]string) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, k+"="+m[k])
	}
	return strings.Join(parts, ", ")
}

func agreements(old, new []*sla.Agreement) []Change {
	id := func(a *sla.Agreement) string { return a.Service + "/" + a.Name }
	was, now := byID(old, id), byID(new, id)
	var out []Change
	for _, key := range slices.Sorted(maps.Keys(now)) {
		o, n := was[key], now[key]
		if o == nil {
			out = append(out, Change{Kind: Added, What: "sla", ID: key,
				New: fmt.Sprintf("%s of %d components over %s", n.Method, len(n.Components), n.Window)})
			continue
		}
		f := fields{what: "sla", id: key}
		f.add("score", string(o.Method), string(n.Method), "scores before and after cannot be compared")
		f.add("window", o.Window.String(), n.Window.String(), "")
		f.add("alert_window", window(o.AlertWindow), window(n.AlertWindow), "")
		f.add("group_by", strings.Join(o.GroupBy, ", "), strings.Join(n.GroupBy, ", "), "recorded series start again")
		f.add("no_data", string(o.NoData), string(n.NoData), "")
		f.add("warning", level(o.Warning), level(n.Warning), sooner(o.Warning, n.Warning))
		f.add("critical", level(o.Critical), level(n.Critical), sooner(o.Critical, n.Critical))
		f.add("severities", severities(o), severities(n), "other receivers are notified")
		f.components(o, n)
		out = append(out, f.out...)
	}
	for _, key := range slices.Sorted(maps.Keys(was)) {
		if now[key] == nil {
			out = append(out, Change{Kind: Removed, What: "sla", ID: key})
		}
	}
	return out
}

func window(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return slo.FormatDuration(d)
}

func causes(s *slo.SLO) string {
	var out []string
	for i := range s.CausedBy {
		c := &s.CausedBy[i]
		text := string(c.SLO)
		if len(c.Group) > 0 {
			text += fmt.Sprintf(" group %v", c.Group)
		}
		if len(c.Affects) > 0 {
			text += fmt.Sprintf(" affects %v", c.Affects)
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}

func severities(a *sla.Agreement) string {
	if a.SeedSeverities {
		return "seed"
	}
	return "ticket"
}

func level(x float64) string {
	if x == 0 {
		return ""
	}
	return slo.FormatRatio(x)
}

func sooner(old, new float64) string {
	switch {
	case old == 0 || new == 0:
		return ""
	case new > old:
		return "fires at smaller losses"
	}
	return "fires at larger losses only"
}

func (f *fields) components(o, n *sla.Agreement) {
	share := func(a *sla.Agreement) map[string]string {
		total := 0.0
		for _, c := range a.Components {
			total += c.Weight
		}
		m := map[string]string{}
		for _, c := range a.Components {
			text := fmt.Sprintf("%s with %.4g %%", c.SLO, 100*c.Weight/total)
			for _, b := range c.Bands {
				text += fmt.Sprintf(", p%s within %s: %s", slo.FormatRatio(100*b.Quantile), slo.FormatDuration(b.Threshold),
					slo.FormatRatio(b.Score))
			}
			m[c.Name] = text
		}
		return m
	}
	was, now := share(o), share(n)
	names := slices.Collect(maps.Keys(was))
	names = append(names, slices.Collect(maps.Keys(now))...)
	slices.Sort(names)
	for _, c := range slices.Compact(names) {
		f.add("component "+c, was[c], now[c], "")
	}
}

func thresholds(old, new []*slo.Threshold) []Change {
	id := func(l *slo.Threshold) string { return l.Service + "/" + l.Name }
	was, now := byID(old, id), byID(new, id)
	var out []Change
	for _, key := range slices.Sorted(maps.Keys(now)) {
		o, n := was[key], now[key]
		if o == nil {
			out = append(out, Change{Kind: Added, What: "threshold", ID: key, New: n.Match.String()})
			continue
		}
		f := fields{what: "threshold", id: key}
		f.add("match", o.Match.String(), n.Match.String(), "counts start from zero")
		f.add("warning", window(o.Warning), window(n.Warning), "")
		f.add("critical", window(o.Critical), window(n.Critical), "")
		f.add("each", o.Each, n.Each, "")
		f.add("group_by", strings.Join(o.GroupBy, ", "), strings.Join(n.GroupBy, ", "), "counts start from zero")
		out = append(out, f.out...)
	}
	for _, key := range slices.Sorted(maps.Keys(was)) {
		if now[key] == nil {
			out = append(out, Change{Kind: Removed, What: "threshold", ID: key})
		}
	}
	return out
}
