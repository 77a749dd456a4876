package incident

import (
	"slices"
	"time"

	"github.com/sloengine/sloengine/internal/order"
	"github.com/sloengine/sloengine/slo"
)

// Measures say how quickly the incidents of a time were detected and answered. Only incidents of severity critical
// count for what is compared with a baseline: a ticket is about a slow burn, which was unnoticed before.
type Measures struct {
	From      time.Time `json:"from"`
	To        time.Time `json:"to"`
	Incidents int       `json:"incidents"` // detected in this time
	Automated int       `json:"automated"` // of these, opened by an alert
	// AutomatedRatio is Automated / Incidents, in [0,1]; nil without incidents.
	AutomatedRatio *float64          `json:"automated_ratio"`
	Detection      map[string]Figure `json:"detection"` // by severity
	Response       map[string]Figure `json:"response"`  // by team; "" if none is known
	Comparisons    []Comparison      `json:"comparisons"`
	Warned         Warned            `json:"warned"`
}

// Figure summarises durations, in seconds.
type Figure struct {
	Count  int     `json:"count"`
	Mean   float64 `json:"mean_seconds"`
	Median float64 `json:"median_seconds"`
	P90    float64 `json:"p90_seconds"` // nine of ten took no longer
	Max    float64 `json:"max_seconds"`
}

// NewFigure summarises durations. The median of an even number is the longer of the two in the middle. P90 is the
// nearest rank: the shortest of the durations that at least nine tenths do not exceed, so of fewer than ten it is the
// longest.
func NewFigure(all []time.Duration) Figure {
	n := len(all)
	if n == 0 {
		return Figure{}
	}
	all = slices.Sorted(slices.Values(all))
	sum := 0.0
	for _, d := range all {
		sum += d.Seconds()
	}
	return Figure{Count: n, Mean: sum / float64(n), Median: all[n/2].Seconds(), P90: all[(9*n+9)/10-1].Seconds(),
		Max: all[n-1].Seconds()}
}

// Verdicts of a comparison.
const (
	VerdictMet    = "met"
	VerdictMissed = "missed"
	VerdictNoData = "no data"
)

// What a comparison is about.
const (
	OfDetection = "detection"
	OfResponse  = "response"
)

// Comparison holds a baseline against what was measured.
type Comparison struct {
	Service  string  `json:"service"`
	Baseline string  `json:"baseline"`
	Of       string  `json:"of"`           // OfDetection or OfResponse
	From     float64 `json:"from_seconds"` // before
	To       float64 `json:"to_seconds"`
	Target   float64 `json:"target_seconds,omitempty"`
	Now      Figure  `json:"now"`
	// Within is how many of the incidents took no longer than the target.
	Within int `json:"within_target"`
	// Change is how much the mean changed against From, the shorter end of what was usual: -0.5 is half as long. So the
	// comparison favors neither side. nil without incidents.
	Change  *float64 `json:"change"`
	Goal    float64  `json:"goal"` // the change that is wanted, such as -0.5
	Verdict string   `json:"verdict"`
}

// Warned says which violations were announced by a proactive warning: an alert of the catalogue about the same SLO and
// group that fired before, and that fired on, or ended no more than JoinWithin before the violation.
type Warned struct {
	Violations int      `json:"violations"`
	Warned     int      `json:"warned"`
	Ratio      *float64 `json:"ratio"` // Warned / Violations, in [0,1]; nil without violations
	Leads      []Lead   `json:"leads"` // oldest violation first, at most maxLeads of the latest
}

// maxLeads bounds Warned.Leads.
const maxLeads = 1000

// Lead is how much earlier a warning fired than the violation that it announced.
type Lead struct {
	Incident string    `json:"incident"` // of the violation
	Warning  string    `json:"warning"`  // name of the alert
	SLO      string    `json:"slo"`
	Group    []string  `json:"group,omitempty"`
	Fired    time.Time `json:"fired"` // the warning
	Violated time.Time `json:"violated"`
	Seconds  float64   `json:"lead_seconds"`
}

// Measure measures the incidents that were detected from from to to, before to, against baselines.
func (v *View) Measure(from, to time.Time, baselines []*slo.Baseline) Measures {
	m := Measures{From: from, To: to, Detection: map[string]Figure{}, Response: map[string]Figure{},
		Comparisons: []Comparison{}}
	var list []*Incident
	detection, response := map[string][]time.Duration{}, map[string][]time.Duration{}
	for inc := range v.All() {
		if inc.Detected.Before(from) || !inc.Detected.Before(to) {
			continue
		}
		list = append(list, inc)
		m.Incidents++
		if inc.Automated {
			m.Automated++
		}
		detection[string(inc.Severity)] = append(detection[string(inc.Severity)], inc.Detection())
		if d, ok := inc.Response(); ok {
			response[inc.ResponseTeam()] = append(response[inc.ResponseTeam()], d)
		}
	}
	m.AutomatedRatio = ratio(m.Automated, m.Incidents)
	for severity, all := range detection {
		m.Detection[severity] = NewFigure(all)
	}
	for team, all := range response {
		m.Response[team] = NewFigure(all)
	}
	for _, b := range baselines {
		if b.Detection.From > 0 {
			m.Comparisons = append(
				m.Comparisons, compare(b, OfDetection, b.Detection, list, func(inc *Incident) (time.Duration, bool) {
					return inc.Detection(), true
				}))
		}
		if b.Response.From > 0 {
			m.Comparisons = append(m.Comparisons, compare(b, OfResponse, b.Response, list, (*Incident).Response))
		}
	}
	m.Warned = v.warned(list)
	return m
}

func ratio(n, of int) *float64 {
	if of == 0 {
		return nil
	}
	r := float64(n) / float64(of)
	return &r
}

func compare(b *slo.Baseline, of string, before slo.Before, list []*Incident,
	took func(*Incident) (time.Duration, bool)) Comparison {
	c := Comparison{
		Service: b.Service, Baseline: b.Name, Of: of, From: before.From.Seconds(), To: before.To.Seconds(),
		Target: before.Target.Seconds(),
		Goal:   -b.Goal, Verdict: VerdictNoData,
	}
	var all []time.Duration
	for _, inc := range list {
		d, ok := took(inc)
		if !ok || inc.Severity != Critical || !inc.covered(b) {
			continue
		}
		all = append(all, d)
		if before.Target > 0 && d <= before.Target {
			c.Within++
		}
	}
	c.Now = NewFigure(all)
	if c.Now.Count > 0 {
		change := c.Now.Mean/c.From - 1
		c.Change, c.Verdict = &change, VerdictMissed
		if change <= c.Goal {
			c.Verdict = VerdictMet
		}
	}
	return c
}

// covered reports whether a baseline is about the incident.
func (i *Incident) covered(b *slo.Baseline) bool {
	if i.Service != b.Service {
		return false
	}
	if len(b.SLOs)+len(b.Agreements) == 0 {
		return true
	}
	for k := range i.Alerts {
		a := &i.Alerts[k]
		if a.SLO != "" && slices.Contains(b.SLOs, slo.ID(a.SLO).Name()) || slices.Contains(b.Agreements, a.Agreement) {
			return true
		}
	}
	return false
}

// warned finds the violations of incidents, one for each SLO and group, and the warnings before them.
func (v *View) warned(list []*Incident) Warned {
	w := Warned{Leads: []Lead{}}
	type place struct{ slo, group string }
	at := func(a *Alert) place { return place{a.SLO, slo.Group(a.Group).Key()} }
	warnings := map[place][]*Alert{}
	for inc := range v.All() {
		for k := range inc.Alerts {
			if a := &inc.Alerts[k]; a.Proactive {
				warnings[at(a)] = append(warnings[at(a)], a)
			}
		}
	}
	for _, inc := range list {
		first := map[place]*Alert{}
		var order []place
		for k := range inc.Alerts {
			a := &inc.Alerts[k]
			if a.SLO == "" || a.Proactive || a.Severity != Critical && a.Agreement == "" {
				continue // neither a page nor a violation of an agreement
			}
			if first[at(a)] == nil {
				first[at(a)] = a
				order = append(order, at(a))
			}
		}
		for _, p := range order {
			violation := first[p]
			w.Violations++
			var best *Alert
			for _, a := range warnings[p] {
				ends := a.Resolved.IsZero() || violation.Fired.Sub(a.Resolved) <= JoinWithin
				if a.Fired.Before(violation.Fired) && ends && (best == nil || a.Fired.After(best.Fired)) {
					best = a
				}
			}
			if best != nil {
				w.Warned++
				w.Leads = append(w.Leads, Lead{inc.ID, best.Name, best.SLO, best.Group, best.Fired, violation.Fired,
					violation.Fired.Sub(best.Fired).Seconds()})
			}
		}
	}
	order.By(w.Leads, func(a, b *Lead) int { return a.Violated.Compare(b.Violated) })
	w.Leads = w.Leads[max(0, len(w.Leads)-maxLeads):]
	w.Ratio = ratio(w.Warned, w.Violations)
	return w
}
