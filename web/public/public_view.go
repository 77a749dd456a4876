package public

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sloengine/sloengine/web/chart"
	"github.com/sloengine/sloengine/web/format"
	"github.com/sloengine/sloengine/web/site"
)

// publicView is the public page, ready to be shown.
type publicView struct {
	Base        string
	Feed        string // path of the feed
	Brand       brand
	Mark        chart.Mark
	Head, Text  string
	Report      format.Stamp
	Stale       string
	Services    []publicSection
	Maintenance []maintenanceRow

	Current, Recent []incidentRow
	MoreIncidents   int    // of the current ones, left out
	Quiet           string // instead of recent incidents; "" if incidents are not known
}

type publicSection struct {
	Name       string
	Mark       chart.Mark
	Levels     []publicRow
	Agreements []publicScore
}

type publicRow struct {
	Name, Description string
	Group             []format.Label
	Mark              chart.Mark
	Value             string
	Below             bool // the value is below the objective
	Note              string
	Strip             []chart.Bar
	StripLabel        string
	From              string
	Summary           string
	Missed            []string // days that did not reach the objective, latest first
}

type publicScore struct {
	Name, Description, Score, Note string
	Group                          []format.Label
	Mark                           chart.Mark
}

type maintenanceRow struct {
	Mark     chart.Mark
	Service  string
	Levels   string
	From, To format.Stamp
}

// Size of the strip of days.
const (
	stripW = 900
	stripH = 32
)

func (pub *Handler) newPublicView(s *Status, v site.View) publicView {
	p := publicView{Base: pub.Opt.ExternalPath, Feed: feedPath, Brand: newBrand(pub.Opt.Look),
		Report: format.NewStamp(s.Time, v.Now), MoreIncidents: s.MoreIncidents}
	p.Mark, p.Head, p.Text = s.headline()
	for i := range s.Incidents {
		if row := newIncidentRow(&s.Incidents[i], v.Now); row.To.ISO == "" {
			p.Current = append(p.Current, row)
		} else {
			p.Recent = append(p.Recent, row)
		}
	}
	if s.Incidents != nil {
		p.Quiet = fmt.Sprintf("No incident was resolved in the last %d days.", int(incidentsBefore.Hours()/24))
		if len(p.Current) == 0 {
			p.Quiet = fmt.Sprintf("No incidents in the last %d days.", int(incidentsBefore.Hours()/24))
		}
	}
	if s.Stale {
		p.Stale = "These figures are from " + format.NewStamp(s.Time, v.Now).Text + " and are out of date."
	}
	for i := range s.Services {
		x := &s.Services[i]
		sec := publicSection{Name: format.Safe(x.Service, format.MaxName), Mark: x.State.mark()}
		for k := range x.Levels {
			sec.Levels = append(sec.Levels, newPublicRow(&x.Levels[k]))
		}
		for _, a := range x.Agreements {
			r := publicScore{Name: format.Safe(a.Name, format.MaxName), Description: format.Safe(a.Description, format.MaxText),
				Score: format.NoValue, Group: format.Labels(a.names, a.values), Mark: chart.Mark{Shape: a.shape, Word: a.State},
				Note: "of 100, " + format.Window(a.window)}
			if a.Score != nil {
				r.Score = format.Score(*a.Score)
			}
			if a.Lowest {
				r.Note += ", lowest of its groups"
			}
			sec.Agreements = append(sec.Agreements, r)
		}
		p.Services = append(p.Services, sec)
	}
	for _, m := range s.Maintenance {
		r := maintenanceRow{Mark: chart.None("over"), Service: format.Safe(m.Service, format.MaxName),
			Levels: format.Safe(strings.Join(m.Levels, ", "), format.MaxTitle), From: format.NewStamp(m.Start, v.Now),
			To: format.NewStamp(m.End, v.Now)}
		switch m.When {
		case "ongoing":
			r.Mark = chart.Wait("ongoing")
		case "planned":
			r.Mark = chart.None("planned")
		}
		p.Maintenance = append(p.Maintenance, r)
	}
	return p
}

func newPublicRow(l *Level) publicRow {
	r := publicRow{
		Name: format.Safe(l.Name, format.MaxName), Description: format.Safe(l.Description, format.MaxText),
		Group: format.Labels(l.names, l.values), Mark: l.State.mark(), Value: format.NoValue,
		Note: format.Window(l.window) + ", objective " + l.objective.String(),
	}
	decimals := format.Decimals(l.objective)
	if l.Availability != nil {
		r.Value, r.Below = format.Percent(*l.Availability, decimals), *l.Availability < l.Objective
	}
	if len(l.Days) == 0 {
		return r
	}
	// The height says the grade as well as the colour does.
	heights := map[string]float64{"ok": stripH, "risk": 20, "bad": 10, "none": 2}
	step := float64(stripW) / float64(len(l.Days))
	known, missed := 0, 0
	for i, d := range l.Days {
		h := heights[d.class]
		b := chart.NewBar(float64(i)*step, stripH-h, step-2, h, d.class)
		day, err := time.Parse(time.DateOnly, d.Day)
		name := d.Day
		if err == nil {
			name = day.Format("2 Jan 2006")
		}
		b.Title = name + ": no data"
		if d.Availability != nil {
			known++
			b.Title = name + ": " + format.Percent(*d.Availability, decimals)
			if !*d.Met {
				missed++
				r.Missed = append(r.Missed, b.Title)
			}
		}
		r.Strip = append(r.Strip, b)
	}
	slices.Reverse(r.Missed)
	r.From = fmt.Sprintf("%d days ago", len(l.Days)-1)
	switch {
	case known == 0:
		r.Summary = "no data in " + format.Plural(len(l.Days), "day")
	case missed == 0:
		r.Summary = fmt.Sprintf("objective met on all %s", format.Plural(known, "day"))
	default:
		r.Summary = fmt.Sprintf("below the objective on %s of %d", format.Plural(missed, "day"), known)
	}
	if none := len(l.Days) - known; none > 0 && known > 0 {
		r.Summary += fmt.Sprintf(", no data on %d", none)
	}
	r.StripLabel = fmt.Sprintf("The last %d days: %s", len(l.Days), r.Summary)
	return r
}
