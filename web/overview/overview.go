// Package overview says in one sentence how things are: of everything for the first page, and of each service on a page
// of its own, for those who want no table.
package overview

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/sloengine/sloengine/alerts/incident"
	"github.com/sloengine/sloengine/alerts/state"
	"github.com/sloengine/sloengine/internal/order"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/web/chart"
	"github.com/sloengine/sloengine/web/format"
)

// Summary counts what is good and bad, of everything or of one service.
type Summary struct {
	Pages    int // paging alerts that fire
	Silenced int // of them, those that receivers do not hear of
	Tickets  int // other alerts that fire

	States     map[slo.State]int // groups of service levels
	Groups     int               // the sum of States
	Waiting    int               // groups that are ok by old counts only
	Objectives int               // service levels

	Agreements int // groups of agreements that are judged
	Breached   int
	Unknown    int // agreements without data
}

// Service is the summary of one service.
type Service struct {
	Name string
	Summary
}

// Summarise counts a report and the alerts that are active. silencing lists what keeps an alert quiet; nil if nothing
// does. The services come worst first.
func Summarise(rep *sla.Report, active []*state.Alert, silencing func(*state.Alert) []string) (all Summary,
	services []Service) {
	all.States = map[slo.State]int{}
	by := map[string]*Summary{}
	of := func(service string) *Summary {
		s := by[service]
		if s == nil {
			s = &Summary{States: map[slo.State]int{}}
			by[service] = s
		}
		return s
	}
	var last *slo.SLO
	var current *Summary
	for i := range rep.SLOs {
		r := &rep.SLOs[i]
		if r.SLO != last { // the groups of a service level follow each other
			last, current = r.SLO, of(r.SLO.ID.Service())
			current.Objectives++
		}
		current.States[r.State]++
		if r.Waiting() {
			current.Waiting++
		}
	}
	for i := range rep.SLAs {
		r := &rep.SLAs[i]
		if r.Informative {
			continue
		}
		s := of(r.SLA.Service)
		s.Agreements++
		switch {
		case !r.HasData:
			s.Unknown++
		case r.Breached:
			s.Breached++
		}
	}
	for _, a := range active {
		if a.State != state.Firing {
			continue
		}
		service := a.Service
		if a.Engine {
			service = incident.EngineService
		}
		s := of(service) // which the report may lack
		switch {
		case !a.Urgent:
			s.Tickets++
		default:
			s.Pages++
			if silencing != nil && len(silencing(a)) > 0 {
				s.Silenced++
			}
		}
	}
	for name, s := range by {
		for k, n := range s.States {
			all.States[k] += n
			s.Groups += n
		}
		all.Groups += s.Groups
		all.Objectives += s.Objectives
		all.Waiting += s.Waiting
		all.Pages, all.Silenced, all.Tickets = all.Pages+s.Pages, all.Silenced+s.Silenced, all.Tickets+s.Tickets
		all.Agreements, all.Breached, all.Unknown = all.Agreements+s.Agreements, all.Breached+s.Breached,
			all.Unknown+s.Unknown
		services = append(services, Service{name, *s})
	}
	own := func(s *Service) int { // after the services of users
		if s.Name == incident.EngineService {
			return 1
		}
		return 0
	}
	order.By(services, func(a, b *Service) int {
		return cmp.Or(own(a)-own(b), cmp.Compare(b.Pages, a.Pages), cmp.Compare(a.rank(), b.rank()),
			strings.Compare(a.Name, b.Name))
	})
	return all, services
}

// rank is the place of a mark, worst first.
func (s *Summary) rank() int {
	return slices.Index([]string{"bad", "risk", "none", "wait", "ok"}, s.Mark().Shape)
}

// Mark is the worst that there is.
func (s *Summary) Mark() chart.Mark {
	switch {
	case s.Pages > 0:
		return chart.Bad("paging")
	case s.States[slo.StateExhausted] > 0:
		return chart.StateMark(slo.StateExhausted)
	case s.Breached > 0:
		return chart.Bad("breached")
	case s.States[slo.StateAtRisk] > 0 || s.Tickets > 0:
		return chart.StateMark(slo.StateAtRisk)
	case s.States[slo.StateOK] == 0:
		return chart.StateMark(slo.StateNoData)
	case s.Waiting == s.States[slo.StateOK]:
		return chart.Waiting
	}
	return chart.StateMark(slo.StateOK)
}

// Headline says the worst in a few words: what pages first, then what is spent.
func (s *Summary) Headline() string {
	bad, risk := s.States[slo.StateExhausted], s.States[slo.StateAtRisk]
	var parts []string
	if s.Pages > 0 {
		text := format.Plural(s.Pages, "paging alert") + " firing"
		if s.Silenced > 0 {
			text += " (" + format.Count(s.Silenced) + " silenced)"
		}
		parts = append(parts, text)
	}
	if bad > 0 {
		parts = append(parts, format.Plural(bad, "error budget")+" exhausted")
	}
	switch {
	case risk > 0 && bad > 0:
		parts = append(parts, format.Count(risk)+" at risk")
	case risk > 0:
		parts = append(parts, format.Plural(risk, "error budget")+" at risk")
	}
	if len(parts) == 0 && s.Tickets > 0 {
		parts = append(parts, format.Plural(s.Tickets, "ticket")+" firing")
	}
	switch {
	case len(parts) > 0:
		return strings.Join(parts, ", ")
	case s.Groups == 0:
		return "Nothing to show"
	case s.States[slo.StateOK] == 0:
		return "No data yet"
	case s.Waiting == s.States[slo.StateOK]:
		return "Waiting for data"
	case s.States[slo.StateNoData] > 0:
		return "All objectives with data are met"
	}
	return "All objectives are met"
}

// Sentence says everything that somebody who reads no table has to know.
func (s *Summary) Sentence() string {
	var parts []string
	add := func(n int, of string, rest string) {
		if n > 0 {
			parts = append(parts, format.Count(n)+of+" "+verb(n)+" "+rest)
		}
	}
	add(s.Pages, plural(s.Pages, " paging alert"), "firing")
	add(s.Tickets, plural(s.Tickets, " ticket"), "firing")
	groups := " of " + format.Plural(s.Groups, "error budget")
	bad := len(parts)
	for _, x := range []struct {
		state slo.State
		word  string
	}{{slo.StateExhausted, "exhausted"}, {slo.StateAtRisk, "at risk"}} {
		of := groups
		if len(parts) > bad {
			of = "" // the sentence has said of how many
		}
		add(s.States[x.state], of, x.word)
	}
	add(s.Breached, " of "+format.Plural(s.Agreements, "SLA"), "breached")
	none := s.States[slo.StateNoData]
	if ok := s.States[slo.StateOK]; ok > 0 && s.Waiting == ok && len(parts) == 0 {
		return "Waiting for the first events since the start."
	}
	switch {
	case s.Groups == 0 && s.Agreements == 0 && len(parts) == 0:
		return "Nothing is counted."
	case none == s.Groups && len(parts) == 0:
		return "No SLO has data."
	case len(parts) == 0:
		parts = append(parts, well(s.Groups-none, none, "error budget", "ok"))
		if judged := s.Agreements - s.Unknown; judged > 0 {
			parts = append(parts, well(judged, s.Unknown, "SLA", "met"))
		}
	}
	if none > 0 {
		parts = append(parts, format.Plural(none, "SLO group")+map[bool]string{true: " has",
			false: " have"}[none == 1]+" no data")
	}
	text := parts[0]
	for i, p := range parts[1:] {
		switch {
		case i+2 < len(parts):
			text += ", "
		case len(parts) > 2:
			text += ", and "
		default:
			text += " and "
		}
		text += p
	}
	return strings.ToUpper(text[:1]) + text[1:] + "."
}

// well says that n things are as they should be, and unknown ones may not be.
func well(n, unknown int, what, how string) string {
	switch {
	case n == 1 && unknown == 0:
		return "the " + what + " is " + how
	case unknown == 0:
		return fmt.Sprintf("all %s %ss are %s", format.Count(n), what, how)
	}
	return fmt.Sprintf("%s of %s %s %s", format.Count(n), format.Plural(n+unknown, what), verb(n), how)
}

func verb(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

func plural(n int, what string) string {
	if n == 1 {
		return what
	}
	return what + "s"
}
