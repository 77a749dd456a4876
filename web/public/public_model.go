package public

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/sloengine/sloengine/alerts/incident"
	"github.com/sloengine/sloengine/internal/order"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/sla/history"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/fold"
	"github.com/sloengine/sloengine/web/chart"
	"github.com/sloengine/sloengine/web/site"
)

// Status is what /public and /public.json show.
type Status struct {
	Time        time.Time     `json:"time"`  // of the figures
	State       PublicState   `json:"state"` // the worst of all
	Stale       bool          `json:"stale"` // the figures are old
	Services    []Service     `json:"services"`
	Maintenance []Maintenance `json:"maintenance"` // ongoing, planned and recent, latest first
	// Incidents are those that are not resolved, and then recent ones; null while they are not known.
	Incidents []Incident `json:"incidents"`
	// MoreIncidents is how many that are not resolved are left out.
	MoreIncidents int `json:"more_incidents,omitempty"`
}

type Service struct {
	Service    string      `json:"service"`
	State      PublicState `json:"state"`
	Levels     []Level     `json:"levels"`
	Agreements []Agreement `json:"agreements,omitempty"`

	name string // as the spec has it
}

// Level is an SLO, over all its groups or of one.
type Level struct {
	Name         string            `json:"name"`
	Description  string            `json:"description,omitempty"`
	Group        map[string]string `json:"group,omitempty"`
	State        PublicState       `json:"state"`
	Availability *float64          `json:"availability"` // share of good events over the window; null without data
	Objective    float64           `json:"objective"`
	Window       string            `json:"window"`
	Days         []Day             `json:"days,omitempty"` // oldest first; absent if they cannot be had

	names, values []string // of the group
	objective     slo.Objective
	window        slo.Window
	list          int // which of the lists of rows it is made of
}

// Day is a day in the zone of the SLO's window.
type Day struct {
	Day          string   `json:"day"`
	Availability *float64 `json:"availability"` // null without data
	Met          *bool    `json:"met"`          // its own share reached the objective; null without data

	class string
}

type Agreement struct {
	Name        string            `json:"name"`
	Description string            `json:"description,omitempty"`
	Group       map[string]string `json:"group,omitempty"`
	State       string            `json:"state"` // met, breached, no data
	Score       *float64          `json:"score"` // 0 to 100; null without data
	Lowest      bool              `json:"lowest_of_groups,omitempty"`
	Window      string            `json:"window"`

	names, values []string
	shape         string
	window        slo.Window
}

type Maintenance struct {
	Service string    `json:"service"`
	Levels  []string  `json:"levels"`
	Start   time.Time `json:"start"`
	End     time.Time `json:"end"`
	When    string    `json:"when"` // ongoing, planned, over
}

const (
	maintenanceBefore = 14 * 24 * time.Hour
	maintenanceAhead  = 14 * 24 * time.Hour
	shownMaintenance  = 20
	// publicGroupsAsked is for how many groups of an SLO the days are added up.
	publicGroupsAsked = 2000
	// daysWait is how long the view waits for its days.
	daysWait = 3 * time.Second
	// publicDaysAge is for how long the days of the strip are kept.
	publicDaysAge = time.Minute
)

// newPublicStatus tells what is public of a report. The days are added by addDays.
func (pub *Handler) newPublicStatus(v site.View, book *incident.View) (*Status, [][]*sla.SLOReport) {
	rep := v.Rep
	p := &Status{Time: rep.Time.UTC().Truncate(time.Second), State: UnknownNow, Stale: v.Stale, Services: []Service{},
		Maintenance: []Maintenance{}}
	at := map[string]int{}
	service := func(name string) *Service {
		i, ok := at[name]
		if !ok {
			i = len(p.Services)
			at[name] = i
			p.Services = append(p.Services, Service{Service: jsonText(name), State: UnknownNow, Levels: []Level{}, name: name})
		}
		return &p.Services[i]
	}
	lists := pub.publicRows(rep)
	for i, rows := range lists {
		x := combine(rows)
		s := service(x.slo.ID.Service())
		l := Level{
			Name: jsonText(x.slo.ID.Name()), Description: jsonText(x.slo.Description), State: x.state(),
			Objective: x.slo.Objective.Ratio(), Window: x.slo.Window.String(), objective: x.slo.Objective,
			window: x.slo.Window, list: i,
		}
		if x.budget.HasData {
			l.Availability = &x.budget.SLI
		}
		if publicGroups(x.slo) && len(x.slo.GroupBy) > 0 {
			l.names, l.values = x.slo.GroupBy, rows[0].Group
			l.Group = groupMap(l.names, l.values)
		}
		s.State = s.State.worse(l.State)
		p.State = p.State.worse(l.State)
		s.Levels = append(s.Levels, l)
	}
	for _, a := range pub.publicAgreements(rep) {
		s := service(a.service)
		s.Agreements = append(s.Agreements, a.Agreement)
	}
	order.By(p.Services, func(a, b *Service) int { return cmp.Compare(a.Service, b.Service) })
	p.Maintenance = append(p.Maintenance, maintenances(lists, rep.Time.UTC())...)
	p.Incidents, p.MoreIncidents = incidents(book, v.Now, p.Services)
	return p, lists
}

func jsonText(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

func groupMap(names, values []string) map[string]string {
	m := map[string]string{}
	for i, n := range names {
		if i < len(values) {
			m[jsonText(n)] = jsonText(values[i])
		}
	}
	return m
}

type agreementOf struct {
	Agreement
	service string
}

// publicAgreements are the public agreements: by group where groups may be shown, else
// that of the lowest score.
func (pub *Handler) publicAgreements(rep *sla.Report) (out []agreementOf) {
	type chosen struct{ public, groups bool }
	of, known := map[*sla.Agreement]int{}, map[*sla.Agreement]chosen{}
	for i := range rep.SLAs {
		r := &rep.SLAs[i]
		may, ok := known[r.SLA]
		if !ok {
			may.public, may.groups = pub.isPublicSLA(rep, r.SLA)
			known[r.SLA] = may
		}
		if !may.public || r.Informative {
			continue
		}
		m := chart.AgreementMark(r)
		a := Agreement{Name: jsonText(r.SLA.Name), Description: jsonText(r.SLA.Description), State: m.Word,
			Window: r.SLA.Window.String(), shape: m.Shape, window: r.SLA.Window}
		if r.HasData {
			a.Score = &r.Score
		}
		if may.groups && len(r.SLA.GroupBy) > 0 {
			a.names, a.values = r.SLA.GroupBy, r.Group
			a.Group = groupMap(a.names, a.values)
			out = append(out, agreementOf{a, r.SLA.Service})
			continue
		}
		a.Lowest = len(r.SLA.GroupBy) > 0
		k, ok := of[r.SLA]
		switch {
		case !ok:
			of[r.SLA] = len(out)
			out = append(out, agreementOf{a, r.SLA.Service})
		case a.Score != nil && (out[k].Score == nil || *a.Score < *out[k].Score):
			out[k].Agreement = a
		}
	}
	return out
}

// maintenances are the planned maintenances of public SLOs. What they were for and who
// did them stays inside.
func maintenances(lists [][]*sla.SLOReport, now time.Time) []Maintenance {
	type key struct {
		service    string
		start, end int64
	}
	found := map[key]*Maintenance{}
	around := slo.Span{From: now.Add(-maintenanceBefore), To: now.Add(maintenanceAhead)}
	done := map[slo.ID]bool{}
	for _, rows := range lists {
		s := rows[0].SLO
		if done[s.ID] {
			continue
		}
		done[s.ID] = true
		for _, c := range s.Corrections {
			for _, sp := range c.Occurrences(around) {
				k := key{s.ID.Service(), sp.From.Unix(), sp.To.Unix()}
				m := found[k]
				if m == nil {
					m = &Maintenance{Service: jsonText(k.service), Start: sp.From.UTC(), End: sp.To.UTC(), When: "ongoing"}
					switch {
					case !sp.To.After(now):
						m.When = "over"
					case sp.From.After(now):
						m.When = "planned"
					}
					found[k] = m
				}
				if name := jsonText(s.ID.Name()); !slices.Contains(m.Levels, name) {
					m.Levels = append(m.Levels, name)
				}
			}
		}
	}
	var out []Maintenance
	for _, m := range found {
		out = append(out, *m)
	}
	rank := map[string]int{"ongoing": 0, "planned": 1, "over": 2}
	order.By(out, func(a, b *Maintenance) int {
		newest := b.Start.Compare(a.Start)
		if a.When == "planned" {
			newest = -newest
		}
		return cmp.Or(rank[a.When]-rank[b.When], newest, cmp.Compare(a.Service, b.Service), a.End.Compare(b.End))
	})
	return out[:min(len(out), shownMaintenance)]
}

// publicDays are the days of all lists of rows, in their order; nil for those that
// cannot be had.
func (pub *Handler) publicDays(ctx context.Context, rep *sla.Report, lists [][]*sla.SLOReport) ([][]Day, error) {
	out := make([][]Day, len(lists))
	if pub.Opt.Counts == nil || len(lists) == 0 {
		return out, nil
	}
	grids := make([]history.Grid, len(lists))
	queries := make([]fold.ReadRequest, len(lists))
	for i, rows := range lists {
		s, slice := rows[0].SLO, rows[0].Slice
		grids[i] = history.DayGrid(rep.Time.UTC(), history.ZoneOf(s), chart.CalendarDays, func(sp slo.Span) []slo.Span {
			return history.Excluded(s, sp, slice)
		})
		queries[i] = fold.ReadRequest{ID: string(s.ID), Spans: grids[i].Spans()}
		if len(rows) <= publicGroupsAsked {
			for _, r := range rows {
				queries[i].Groups = append(queries[i].Groups, r.Group)
			}
		}
	}
	ctx, cancel := context.WithTimeout(ctx, daysWait)
	defer cancel()
	answers, err := pub.Opt.Counts.Ask(ctx, queries)
	if err != nil {
		return nil, err
	}
	for i, rows := range lists {
		if a := &answers[i]; a.Known && len(rows) <= publicGroupsAsked {
			out[i] = publicDaysOf(rows[0].SLO, queries[i].Groups, a, &grids[i])
		}
	}
	return out, nil
}

// addDays adds the days of the lists, if they could be had.
func (p *Status) addDays(days [][]Day) {
	for i := range p.Services {
		for k := range p.Services[i].Levels {
			if l := &p.Services[i].Levels[k]; l.list < len(days) {
				l.Days = days[l.list]
			}
		}
	}
}

func publicDaysOf(s *slo.SLO, groups []slo.Group, a *fold.ReadResult, g *history.Grid) []Day {
	sums := make([]history.Tally, len(g.Steps))
	for k, bins := range a.Groups {
		for i, p := range g.Points(s, groups[k], a, bins) {
			sums[i] = sums[i].Plus(p.Net)
		}
	}
	out := make([]Day, len(g.Steps))
	zone := history.ZoneOf(s)
	for i, sp := range g.Steps {
		d := Day{Day: sp.From.In(zone).Format(time.DateOnly), class: "none"}
		if b := sums[i].Budget(s); b.HasData {
			met := b.Consumed <= 1
			d.Availability, d.Met = &b.SLI, &met
			d.class, _ = chart.DayClass(b)
		}
		out[i] = d
	}
	return out
}
