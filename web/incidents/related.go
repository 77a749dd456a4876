package incidents

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/sloengine/sloengine/alerts/incident"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/web/format"
	"github.com/sloengine/sloengine/web/site"
)

// Bounds of what the page relates an incident to.
const (
	changesBefore = time.Hour // before the start
	shownChanges  = 10        // of the service, and as many of other services
	shownSimilar  = 5
	shownRunbooks = 10
)

// change is an annotation from shortly before the incident.
type change struct {
	At                          format.Stamp
	Before                      string // the start of the incident
	Kind, Service, Text, Author string
}

// changes are the deployments, changes of the spec and notes from the hour before the incident, the latest first.
type changes struct {
	Own, Others []change
	More        int // that are not listed
	Service     string
	Known       bool // there are annotations
}

func (h *Handler) newChanges(inc *incident.Incident, now time.Time) (out changes) {
	if h.Opt.Annotations == nil {
		return out
	}
	out.Known, out.Service = true, format.Safe(inc.Service, format.MaxName)
	all := h.Opt.Annotations.List("", slo.Span{From: inc.Onset.Add(-changesBefore), To: inc.Onset})
	for _, a := range slices.Backward(all) {
		into := &out.Others
		if a.Concerns(inc.Service) {
			into = &out.Own
		}
		if len(*into) == shownChanges {
			out.More++
			continue
		}
		*into = append(*into, change{
			At: format.NewStamp(a.At, now), Before: format.Duration(inc.Onset.Sub(a.At)), Kind: string(a.Kind),
			Service: format.Safe(a.Service, format.MaxName), Text: format.Safe(a.Text, format.MaxText),
			Author: format.Safe(a.Author, format.MaxName),
		})
	}
	return out
}

// runbook is the runbook of one or more alerts of the incident.
type runbook struct{ Alert, Href string }

// runbooks lists the runbooks of the alerts, those of firing alerts first, each once.
func runbooks(inc *incident.Incident) (out []runbook) {
	seen := map[string]bool{}
	for _, firing := range []bool{true, false} {
		for k := range inc.Alerts {
			a := &inc.Alerts[k]
			link := site.WebLink(a.Runbook)
			if link != "" && a.Resolved.IsZero() == firing && !seen[link] && len(out) < shownRunbooks {
				seen[link] = true
				out = append(out, runbook{format.Safe(a.Name, format.MaxName), link})
			}
		}
	}
	return out
}

// similar is an earlier incident of the same SLOs or agreements.
type similar struct {
	ID, Href   string
	Title      string
	Started    format.Stamp
	Lasted     string
	Shared     string // what it shares with the incident
	Note       string // the last thing that was written about it
	PostMortem string
}

// newSimilar lists earlier incidents that affected an SLO or agreement of this one: first those that share the most
// alerts and groups, and of those the latest.
func (h *Handler) newSimilar(inc *incident.Incident, now time.Time) (out []similar) {
	type subject struct{ about, alert, group string }
	about := func(a *incident.Alert) string { return cmp.Or(a.SLO, a.Agreement) }
	mine, subjects := map[string]bool{}, map[subject]bool{}
	of := func(a *incident.Alert) subject { return subject{about(a), a.Name, slo.Group(a.Group).Key()} }
	for k := range inc.Alerts {
		if a := &inc.Alerts[k]; about(a) != "" {
			mine[about(a)], subjects[of(a)] = true, true
		}
	}
	if len(mine) == 0 {
		return nil
	}
	type match struct {
		*incident.Incident
		same int
	}
	var found []match // those that share most first; the latest of equal ones
	seen := map[subject]bool{}
	for other := range h.Opt.Incidents.View().All() {
		if other.Service != inc.Service || incident.CompareIDs(other.ID, inc.ID) >= 0 {
			continue
		}
		clear(seen)
		related := false
		for k := range other.Alerts {
			if a := &other.Alerts[k]; mine[about(a)] {
				related = true
				if s := of(a); subjects[s] {
					seen[s] = true
				}
			}
		}
		at := len(found)
		for at > 0 && found[at-1].same < len(seen) {
			at--
		}
		if related && at < shownSimilar {
			found = slices.Insert(found, at, match{other, len(seen)})
			found = found[:min(len(found), shownSimilar)]
		}
		if n := len(found); n == shownSimilar && found[n-1].same == len(subjects) {
			break // earlier ones share no more
		}
	}
	for _, m := range found {
		var names []string
		for k := range m.Alerts {
			a := &m.Alerts[k]
			name := format.Safe(cmp.Or(slo.ID(a.SLO).Name(), a.Agreement), format.MaxName)
			if mine[about(a)] && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
		x := similar{
			ID: m.ID, Href: h.href(m.ID), Title: format.Safe(m.Title, format.MaxTitle), Started: format.NewStamp(m.Onset, now),
			Lasted: format.Duration(m.End(now).Sub(m.Onset)), PostMortem: m.PostMortem,
			Shared: strings.Join(names[:min(len(names), 3)], ", "),
		}
		if more := len(names) - 3; more > 0 {
			x.Shared += " and " + format.Count(more) + " more"
		}
		if n := len(m.Updates); n > 0 {
			x.Note = format.Safe(m.Updates[n-1].Text, format.MaxTitle)
		}
		if n := len(m.Notes); n > 0 && (len(m.Updates) == 0 || m.Notes[n-1].Time.After(m.Updates[len(m.Updates)-1].Time)) {
			x.Note = format.Safe(m.Notes[n-1].Text, format.MaxTitle)
		}
		out = append(out, x)
	}
	return out
}

// step is a status that the incident has had.
type step struct {
	Word string
	At   format.Stamp
	Now  bool // it is the present one
}

func newSteps(inc *incident.Incident, now time.Time) (out []step) {
	all := inc.StatusChanges(false)
	for i, c := range all {
		out = append(out, step{string(c.Status), format.NewStamp(c.Time, now), i == len(all)-1})
	}
	return out
}

// statusOptions are the statuses that an update may set.
func statusOptions(inc *incident.Incident) (out []site.Option) {
	if inc.IsResolved() {
		return nil
	}
	now := inc.CurrentStatus(false).Status
	for _, s := range incident.Statuses {
		if s != now {
			out = append(out, site.Option{Value: string(s), Word: string(s)})
		}
	}
	return out
}
