package incident

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/sloengine/sloengine/internal/order"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
)

const (
	// SameOnset is how far apart two onsets may be to count as one: they are read from buckets of ten seconds and more.
	SameOnset = time.Minute
	// MaxFailures is how many failures are ranked. Further ones are counted.
	MaxFailures = 300
)

// Failure is an SLO or an agreement in one group on which pages of an open incident fire.
type Failure struct {
	Affected
	Alert    string // name of the first page; what fails if SLO and Agreement are empty
	Incident *Incident
	Onset    time.Time

	Spec *slo.SLO // nil if the report lacks the SLO
	// Bad is the share of the events, or slices, of the last Window that were bad, in [0,1]; negative if it is unknown.
	Bad    float64
	Window time.Duration
	// Excess is how many events of the long window of its first page were bad beyond the number that the objective allows.
	Excess float64
}

// Fault is a failure that no other explains, with those that it explains.
type Fault struct {
	Failure
	Affects []Failure // by rank
}

// Situation is what fails now.
type Situation struct {
	Faults []Fault // the first is the one to look at
	Engine []Fault // on the engine itself
	More   int     // failures beyond MaxFailures, which are not ranked

	services bool // the report has several services of users, so the name of an SLO alone does not say which
}

// Failing is the situation of the incidents of severity critical that are not resolved. The report says what the spec
// declares and how many events were bad, so a reader who sees a part of both gets the situation of that part.
//
// A failure is explained by another if the spec declares so and it did not begin before: by caused_by, by an agreement
// with SLOs on integrations, stages and applications, of which the former explain the latter, or by being a component
// of an agreement. Faults that explain others come first, then those that began more than SameOnset before the next,
// then those with most bad events beyond the allowed number.
func (v *View) Failing(rep *sla.Report) *Situation { return newSituation(v.Open(), rep) }

// Failing is the situation as far as one incident is concerned.
func (i *Incident) Failing(rep *sla.Report) *Situation { return newSituation([]*Incident{i}, rep) }

func newSituation(open []*Incident, rep *sla.Report) *Situation {
	out := &Situation{}
	if rep == nil {
		return out
	}
	list := failures(open, rep)
	if len(list) == 0 {
		return out
	}
	out.services = severalServices(rep)
	rank(list)
	out.More = max(0, len(list)-MaxFailures)
	list = list[:len(list)-out.More]

	explained := make([]int, len(list)) // the place of the failure that explains it; -1: none
	of := agreementsOf(rep, list)
	for e := range list {
		explained[e] = -1
		best := 0
		for c := range list {
			if c == e || list[e].Onset.Before(list[c].Onset.Add(-SameOnset)) {
				continue
			}
			if how := list[c].explains(&list[e], of); how > best {
				explained[e], best = c, how
			}
		}
	}
	faults := map[int]*Fault{}
	for k := range list {
		root := rootOf(explained, k)
		f := faults[root]
		if f == nil {
			f = &Fault{Failure: list[root]}
			faults[root] = f
		}
		if k != root {
			f.Affects = append(f.Affects, list[k])
		}
	}
	for _, explains := range []bool{true, false} {
		for k := range list {
			switch f := faults[k]; {
			case f == nil || (len(f.Affects) > 0) != explains:
			case f.Service() == EngineService:
				out.Engine = append(out.Engine, *f)
			default:
				out.Faults = append(out.Faults, *f)
			}
		}
	}
	return out
}

// Service is the service that fails.
func (f *Failure) Service() string {
	if f.SLO != "" {
		return slo.ID(f.SLO).Service()
	}
	return f.Incident.Service
}

// rootOf follows the explanations of a failure. In a circle, which a spec can declare in parts, it is the one that
// ranks first.
func rootOf(explained []int, k int) int {
	seen := []int{}
	for explained[k] >= 0 {
		if at := slices.Index(seen, k); at >= 0 {
			return slices.Min(seen[at:])
		}
		seen = append(seen, k)
		k = explained[k]
	}
	return k
}

// severalServices reports whether a report has several services beside the engine itself.
func severalServices(rep *sla.Report) bool {
	first := ""
	for i := range rep.SLOs {
		switch service := rep.SLOs[i].SLO.ID.Service(); {
		case service == EngineService || service == first:
		case first != "":
			return true
		default:
			first = service
		}
	}
	return false
}

// failures lists what pages fire on, each once, with the earliest onset.
func failures(open []*Incident, rep *sla.Report) (out []Failure) {
	type key struct{ slo, agreement, alert, group string }
	at := map[key]int{}
	for _, inc := range open {
		if inc.Severity != Critical || inc.IsResolved() {
			continue
		}
		before := len(out)
		for k := range inc.Alerts {
			a := &inc.Alerts[k]
			if a.Severity != Critical || !a.Resolved.IsZero() {
				continue
			}
			f := Failure{Affected: Affected{SLO: a.SLO, Agreement: a.Agreement, Group: a.Group}, Alert: a.Name,
				Incident: inc, Onset: cmp.Or(a.Onset, inc.Onset), Bad: -1}
			id := key{slo: a.SLO, group: slo.Group(a.Group).Key()}
			if a.SLO != "" {
				f.Agreement = ""
			} else if id.agreement = inc.Service + "/" + a.Agreement; a.Agreement == "" {
				id.alert = a.Name
			}
			if old, ok := at[id]; ok {
				if f.Onset.Before(out[old].Onset) {
					out[old].Onset = f.Onset
				}
				continue
			}
			at[id] = len(out)
			out = append(out, f)
		}
		if len(out) == before && !inc.Automated {
			out = append(out, Failure{Incident: inc, Onset: inc.Onset, Bad: -1})
		}
	}
	for k := range out {
		out[k].measure(rep)
	}
	return out
}

// measure fills in what the report knows.
func (f *Failure) measure(rep *sla.Report) {
	if f.SLO == "" {
		return
	}
	from, _ := slices.BinarySearchFunc(rep.SLOs, slo.ID(f.SLO), func(r sla.SLOReport, id slo.ID) int {
		return cmp.Compare(r.SLO.ID, id)
	})
	for i := from; i < len(rep.SLOs) && string(rep.SLOs[i].SLO.ID) == f.SLO; i++ {
		r := &rep.SLOs[i]
		f.Spec = r.SLO
		if !slices.Equal(r.Group, f.Group) {
			continue
		}
		tier := firstPage(r.SLO)
		if b := r.Burn(tier.Short); b != nil && b.HasData {
			f.Bad, f.Window = float64(b.Counts.Bad)/float64(b.Counts.Valid()), tier.Short
		}
		if b := r.Burn(tier.Long); b != nil && b.HasData {
			f.Excess = float64(b.Counts.Bad) - r.SLO.Objective.Budget()*float64(b.Counts.Valid())
		}
		return
	}
}

// firstPage is the tier of an SLO that pages first.
func firstPage(s *slo.SLO) slo.Tier {
	for _, t := range s.Alerting.Tiers {
		if t.Page {
			return t
		}
	}
	return slo.Tiers[0]
}

// rank sorts failures: those that began more than SameOnset earlier, then those with most bad events beyond the allowed
// number, then by name.
func rank(list []Failure) {
	order.By(list, func(a, b *Failure) int { return cmp.Or(a.Onset.Compare(b.Onset), a.compare(b)) })
	for from := 0; from < len(list); {
		to := from + 1
		for to < len(list) && list[to].Onset.Sub(list[from].Onset) <= SameOnset {
			to++
		}
		order.By(list[from:to], func(a, b *Failure) int {
			return cmp.Or(cmp.Compare(b.Excess, a.Excess), a.compare(b))
		})
		from = to
	}
}

// compare orders failures by name.
func (f *Failure) compare(o *Failure) int {
	return cmp.Or(strings.Compare(f.SLO, o.SLO), strings.Compare(f.Agreement, o.Agreement),
		slices.Compare(f.Group, o.Group), strings.Compare(f.Alert, o.Alert), CompareIDs(f.Incident.ID, o.Incident.ID))
}

// How a failure explains another; 0 if it does not.
const (
	byAgreement = iota + 1 // one is a layer below the other, or a component
	byCause                // caused_by
)

func (f *Failure) explains(e *Failure, of map[slo.ID][]*sla.Agreement) int {
	switch {
	case f.Spec == nil || f.Agreement != "":
		return 0
	case e.Agreement != "":
		for _, a := range of[f.Spec.ID] {
			if a.Service == e.Incident.Service && a.Name == e.Agreement &&
				shareGroup(f.Spec.GroupBy, f.Group, a.GroupBy, e.Group) {
				return byAgreement
			}
		}
		return 0
	case e.Spec == nil:
		return 0
	}
	for i := range e.Spec.CausedBy {
		c := &e.Spec.CausedBy[i]
		if c.SLO == f.Spec.ID && c.Links(f.Spec.GroupBy, f.Group, e.Spec.GroupBy, e.Group) {
			return byCause
		}
	}
	if layer(f.Spec) >= layer(e.Spec) || !shareGroup(f.Spec.GroupBy, f.Group, e.Spec.GroupBy, e.Group) ||
		slices.ContainsFunc(f.Spec.CausedBy, func(c slo.Cause) bool { return c.SLO == e.Spec.ID }) {
		return 0
	}
	if slices.ContainsFunc(of[f.Spec.ID], func(a *sla.Agreement) bool { return slices.Contains(of[e.Spec.ID], a) }) {
		return byAgreement
	}
	return 0
}

// shareGroup reports whether two groups have the same values of the attributes that both are grouped by.
func shareGroup(by []string, at slo.Group, other []string, in slo.Group) bool {
	return (&slo.Cause{}).Links(by, at, other, in)
}

// layer is how far from the outside a part of a process is: an integration fails before the stage that calls it, and
// the stage before the application.
func layer(s *slo.SLO) int {
	switch {
	case s.About("integration"):
		return 0
	case s.About("stage"):
		return 1
	}
	return 2
}

// agreementsOf lists the agreements of a report that watch each SLO that fails.
func agreementsOf(rep *sla.Report, list []Failure) map[slo.ID][]*sla.Agreement {
	out := map[slo.ID][]*sla.Agreement{}
	for k := range list {
		if s := list[k].Spec; s != nil {
			out[s.ID] = nil
		}
	}
	var last *sla.Agreement
	for i := range rep.SLAs {
		a := rep.SLAs[i].SLA
		if a == last {
			continue
		}
		last = a
		seen := map[slo.ID]bool{}
		for k := range list {
			if s := list[k].Spec; s != nil && !seen[s.ID] {
				if seen[s.ID] = true; a.Watches(s) {
					out[s.ID] = append(out[s.ID], a)
				}
			}
		}
	}
	return out
}
