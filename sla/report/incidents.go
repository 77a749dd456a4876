package report

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/sloengine/sloengine/internal/order"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
)

// Incident is what a report says of an incident.
type Incident struct {
	ID, Title, Service string
	Critical           bool // or else of severity warning
	Onset, Detected    time.Time
	Acknowledged       time.Time // zero: unacknowledged
	Resolved           time.Time // zero: it goes on
	Automated          bool      // an alert opened it
	Spent              float64   // the largest share of an error budget that it cost; below 0: not known
	Affected           []Affected
	Cost               []slo.Money // by currency; nil if no affected SLO has a cost
}

// Affected is an SLO or an agreement in one group that an incident was about. No group stands for all groups.
type Affected struct {
	SLO       slo.ID // "" of an agreement
	Agreement slo.ID // service/name; "" of an SLO
	Group     slo.Group
	// Onset and Resolved are those of the alerts about it; zero: those of the incident.
	Onset, Resolved time.Time
}

// IncidentsFunc lists the incidents that touch the time from from to before to, in any order. known is false if those
// of that time are not kept any more, or not known yet.
type IncidentsFunc func(from, to time.Time) (list []Incident, known bool)

// OnsetsFunc is an IncidentsFunc of the onset alone that asks others.
type OnsetsFunc func(ctx context.Context, sp slo.Span) (list []Incident, known bool)

// Incidents are those that were detected in a period, those of severity critical first, and within them in the order of
// detection.
type Incidents struct {
	IncidentFigures
	Before *IncidentFigures // of the period before; nil: not known
	List   []Incident
}

// IncidentFigures sum up incidents. The medians are over those of severity critical: a ticket is about a slow burn.
type IncidentFigures struct {
	Critical, Warnings int
	Automated          int            // of Critical, opened by an alert
	Detection          *time.Duration // median from onset to detection; nil without incidents
	Response           *time.Duration // median from detection to acknowledgement; nil if none was acknowledged
}

// Severity is critical or warning.
func (x *Incident) Severity() string {
	if x.Critical {
		return "critical"
	}
	return "warning"
}

// Detection is the time from the onset to the detection.
func (x *Incident) Detection() time.Duration { return max(0, x.Detected.Sub(x.Onset)) }

// Response is the time from the detection to the acknowledgement. ok is false for an unacknowledged incident.
func (x *Incident) Response() (d time.Duration, ok bool) {
	return max(0, x.Acknowledged.Sub(x.Detected)), !x.Acknowledged.IsZero()
}

// Duration is the time from the onset to the resolution, or until now.
func (x *Incident) Duration(now time.Time) time.Duration {
	if !x.Resolved.IsZero() {
		now = x.Resolved
	}
	return max(0, now.Sub(x.Onset))
}

// Now is the time of the numbers of the report.
func (r *Report) Now() time.Time { return r.now }

// incidents lists the incidents of the period, beside figures of the one before. It is nil if they are not known.
func (b *reporter) incidents(all IncidentsFunc) *Incidents {
	if all == nil {
		return nil
	}
	of := func(p Period) ([]Incident, bool) {
		sp := p.In(cmp.Or(b.Zone, CalendarZone(b.rep, b.Query)))
		list, known := all(sp.From, sp.To)
		return slices.DeleteFunc(list, func(x Incident) bool {
			return x.Detected.Before(sp.From) || !x.Detected.Before(sp.To) || !b.wantsIncident(&x)
		}), known
	}
	list, known := of(b.Period)
	if !known {
		return nil
	}
	order.By(list, func(x, y *Incident) int {
		if x.Critical != y.Critical {
			return strings.Compare(x.Severity(), y.Severity())
		}
		return cmp.Or(x.Detected.Compare(y.Detected), cmp.Compare(x.ID, y.ID))
	})
	out := &Incidents{IncidentFigures: newFigures(list), List: list}
	if list, known := of(b.Period.Shift(-1)); known {
		before := newFigures(list)
		out.Before = &before
	}
	return out
}

// wantsIncident reports whether the query is about an incident: its service, or something that it affected.
func (b *reporter) wantsIncident(x *Incident) bool {
	if len(x.Affected) == 0 || b.Agreement == "" && b.wants(x.Service) {
		return b.wants(x.Service)
	}
	return slices.ContainsFunc(x.Affected, func(a Affected) bool {
		if a.SLO == "" {
			return b.wants(a.Agreement.Service()) && (b.Agreement == "" || b.Agreement == a.Agreement)
		}
		return b.wantsSLO(a.SLO)
	})
}

func newFigures(list []Incident) IncidentFigures {
	var out IncidentFigures
	var detection, response []time.Duration
	for i := range list {
		x := &list[i]
		if !x.Critical {
			out.Warnings++
			continue
		}
		out.Critical++
		if x.Automated {
			out.Automated++
		}
		detection = append(detection, x.Detection())
		if d, ok := x.Response(); ok {
			response = append(response, d)
		}
	}
	out.Detection, out.Response = median(detection), median(response)
	return out
}

// median of an even number is the longer of the two in the middle, as on the page of the incidents.
func median(all []time.Duration) *time.Duration {
	if len(all) == 0 {
		return nil
	}
	slices.Sort(all)
	return &all[len(all)/2]
}

// onsets finds when incidents of a group began.
type onsets struct {
	known bool
	of    map[slo.ID]map[string][]onset // by SLO or agreement, and group; "" for all groups
}

type onset struct {
	id string
	at time.Time
}

// newOnsets reads the incidents whose onset lies in some day of the period, in whatever zone.
func (b *reporter) newOnsets(ctx context.Context, s Source) onsets {
	out := onsets{of: map[slo.ID]map[string][]onset{}}
	sp := b.Period.In(time.UTC)
	sp.From, sp.To = sp.From.AddDate(0, 0, -1), sp.To.AddDate(0, 0, 1)
	var list []Incident
	switch {
	case s.Incidents != nil:
		list, out.known = s.Incidents(sp.From, sp.To)
	case s.Onsets != nil:
		list, out.known = s.Onsets(ctx, sp)
	}
	for i := range list {
		x := &list[i]
		for _, a := range x.Affected {
			id, group := cmp.Or(a.SLO, a.Agreement), ""
			if len(a.Group) > 0 {
				group = a.Group.Key()
			}
			if out.of[id] == nil {
				out.of[id] = map[string][]onset{}
			}
			out.of[id][group] = append(out.of[id][group], onset{x.ID, x.Onset})
		}
	}
	return out
}

// group lists the onsets of the incidents of something in one group, each once.
func (o *onsets) group(id slo.ID, g slo.Group) []onset {
	by := o.of[id]
	if by == nil {
		return nil
	}
	out := slices.Clone(by[""])
	if len(g) > 0 {
		out = append(out, by[g.Key()]...)
	}
	return unique(out)
}

// agreement lists the onsets of the incidents of an agreement in one group, and of its SLOs in that group.
func (o *onsets) agreement(a *sla.Agreement, g slo.Group) []onset {
	if len(o.of) == 0 {
		return nil
	}
	out := o.group(slo.NewID(a.Service, a.Name), g)
	for _, c := range a.Components {
		out = append(out, o.group(c.SLO, g)...)
	}
	return unique(out)
}

func unique(all []onset) []onset {
	order.By(all, func(a, b *onset) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.id, b.id)) })
	return slices.CompactFunc(all, func(a, b onset) bool { return a.id == b.id })
}

// within counts the onsets in a span; -1 if they are not known.
func (o *onsets) within(all []onset, sp slo.Span) int {
	if !o.known {
		return -1
	}
	n := 0
	for _, x := range all {
		if !x.at.Before(sp.From) && x.at.Before(sp.To) {
			n++
		}
	}
	return n
}
