package site

import (
	"net/url"
	"slices"
	"time"

	"github.com/sloengine/sloengine/alerts/incident"
	"github.com/sloengine/sloengine/alerts/state"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/web/format"
)

// Situation is what fails now, as far as the reader of the site may see it.
func (site *Site) Situation(v View) *incident.Situation {
	if site.Opt.Incidents == nil || !v.Eng.State.Recovered() {
		return &incident.Situation{}
	}
	return site.Opt.Incidents.View().Failing(v.Rep)
}

// Onset is the earliest onset of the firing alerts on a group; zero if none fires.
func (site *Site) Onset(r *sla.SLOReport) time.Time {
	if site.Opt.Incidents == nil {
		return time.Time{}
	}
	return site.Opt.Incidents.View().OnsetOf(string(r.SLO.ID), r.Group)
}

// Headline is a situation on a page.
type Headline struct {
	Sentence []Phrase   // nil if only the engine itself fails
	Links    []Exit     // the incident and the runbook of the first fault
	Why      string     // what is different about the bad events of the first fault; "" if nothing is known
	Lines    [][]Phrase // each fault, if there are several
	Own      []Phrase   // the same of the engine itself; nil if nothing fails there
	Text     string     // all of it, by which headlines are compared
}

// Phrase is a part of a sentence, with the page of what it is about.
type Phrase struct {
	Text, Href string
	At         format.Stamp
}

// Exit is a link with its text. Out means that it leads to another site.
type Exit struct {
	Text, Href string
	Out        bool
}

// shownFaults is how many faults a page lists one by one.
const shownFaults = 5

// NewHeadline says a situation; nil if nothing fails.
func (site *Site) NewHeadline(s *incident.Situation, now time.Time) *Headline {
	if len(s.Faults)+len(s.Engine) == 0 {
		return nil
	}
	h := &Headline{}
	say := func(parts []incident.Phrase) []Phrase {
		h.Text += incident.Text(parts) + "\n"
		return site.phrases(parts, now)
	}
	if len(s.Engine) > 0 {
		h.Own = say((&incident.Situation{Engine: s.Engine}).Sentence(now, SafeName))
	}
	if len(s.Faults) == 0 {
		return h
	}
	h.Sentence = say(s.Sentence(now, SafeName))
	first := &s.Faults[0].Failure
	h.Links = append(h.Links, Exit{Text: first.Incident.ID, Href: site.IncidentHref(first.Incident.ID)})
	if to := site.runbook(first); to != "" {
		h.Links = append(h.Links, Exit{Text: "Runbook", Href: to, Out: true})
	}
	h.Why = site.Why(slo.ID(first.SLO), first.Group)
	h.Text += h.Why
	if len(s.Faults) > 1 {
		for k := range s.Faults[:min(len(s.Faults), shownFaults)] {
			h.Lines = append(h.Lines, say(s.Line(&s.Faults[k], now, SafeName)))
		}
	}
	return h
}

// SafeName makes a name readable that came with events or a spec.
func SafeName(s string) string { return format.Safe(s, format.MaxName) }

func (site *Site) phrases(parts []incident.Phrase, now time.Time) []Phrase {
	out := make([]Phrase, len(parts))
	for i := range parts {
		p := &parts[i]
		out[i].Text = p.Text
		switch {
		case p.Of != nil:
			out[i].Href = site.FailureHref(p.Of)
		case p.Incident != nil:
			out[i].Href = site.IncidentHref(p.Incident.ID)
		case !p.At.IsZero():
			out[i].At = format.Stamp{ISO: format.NewStamp(p.At, now).ISO, Text: p.Text}
		}
	}
	return out
}

// IncidentHref is the address of an incident's page.
func (site *Site) IncidentHref(id string) string {
	return site.Href(IncidentPath, url.Values{"id": {id}})
}

// FailureHref is the address of the page about what fails: the SLO, the agreements of its service, or the incident.
func (site *Site) FailureHref(f *incident.Failure) string {
	switch {
	case f.SLO != "" && f.Spec != nil:
		q := url.Values{}
		if len(f.Spec.GroupBy) == len(f.Group) {
			q = GroupQuery(f.Spec.GroupBy, f.Group)
		}
		q.Set("id", f.SLO)
		return site.Href("/slo", q)
	case f.Agreement != "":
		return site.Href("/slas", url.Values{"service": {f.Service()}})
	}
	return site.IncidentHref(f.Incident.ID)
}

// Why is what is different about the bad events of a group of an SLO that pages; "" if nothing is known.
func (site *Site) Why(id slo.ID, group slo.Group) string {
	if site.Opt.Alerts == nil {
		return ""
	}
	active := site.Opt.Alerts().Active
	i := slices.IndexFunc(active, func(a state.Alert) bool {
		return a.Why != "" && a.State == state.Firing && a.SLO == id && a.Group.Key() == group.Key()
	})
	if i < 0 {
		return ""
	}
	return format.Safe(active[i].Why, format.MaxText)
}

// runbook is the address in the alerts that fire on a failure, the paging ones first; "" if they have none.
func (site *Site) runbook(f *incident.Failure) (found string) {
	if site.Opt.Alerts == nil {
		return ""
	}
	active := site.Opt.Alerts().Active
	for i := range active {
		a := &active[i]
		if a.State != state.Firing || string(a.SLO) != f.SLO || f.SLO == "" && a.Name != f.Alert ||
			slo.Group(f.Group).Key() != a.Group.Key() {
			continue
		}
		for _, note := range a.Annotations() {
			if note.Name == "runbook_url" && note.Value != "" && (found == "" || a.Urgent) {
				found = note.Value
			}
		}
		if a.Urgent && found != "" {
			return found
		}
	}
	return found
}
