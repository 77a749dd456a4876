package site

import (
	"net/url"
	"strings"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/web/chart"
	"github.com/sloengine/sloengine/web/format"
)

// Found is something other than an SLO that a search found.
type Found struct {
	Mark             chart.Mark
	Kind, Text, Href string
	Group            []format.Label
}

// mostFound bounds what a search finds of one kind.
const mostFound = 5

// Find finds agreements, alerts and incidents that contain a text in lower case: the worst agreements and alerts, and
// the latest incidents.
func (site *Site) Find(rep *sla.Report, text string) (out []Found) {
	if text == "" {
		return nil
	}
	list, _ := site.Alerts(AlertFilter{Search: text})
	for _, a := range list[:min(len(list), mostFound)] {
		out = append(out, Found{chart.AlertMark(a), "alert", format.Safe(a.Name, format.MaxName),
			site.AlertHref(a.Fingerprint), format.Labels(a.GroupBy, a.Group)})
	}
	has := func(s string) bool { return strings.Contains(strings.ToLower(s), text) }
	if site.Opt.Incidents != nil {
		n := 0
		for inc := range site.Opt.Incidents.View().All() {
			if n == mostFound {
				break
			}
			if !has(inc.ID) && !has(inc.Title) && !has(inc.Service) {
				continue
			}
			n++
			m := chart.Bad("open")
			switch {
			case inc.IsResolved():
				m = chart.OK("resolved")
			case inc.Ack != nil:
				m = chart.Wait("acknowledged")
			}
			out = append(out, Found{m, "incident", inc.ID + " " + format.Safe(inc.Title, format.MaxTitle),
				site.Href(IncidentPath, url.Values{"id": {inc.ID}}), nil})
		}
	}
	if rep != nil {
		out = append(out, site.findAgreements(rep, has)...)
	}
	return out
}

func (site *Site) findAgreements(rep *sla.Report, has func(string) bool) (out []Found) {
	for _, m := range chart.AgreementMarks {
		for i := range rep.SLAs {
			r := &rep.SLAs[i]
			name := r.SLA.Service + "/" + r.SLA.Name
			matches := has(name)
			for _, v := range r.Group {
				matches = matches || has(v)
			}
			if !matches || chart.AgreementMark(r) != m {
				continue
			}
			if len(out) == mostFound {
				return out
			}
			q := GroupQuery(r.SLA.GroupBy, r.Group)
			q.Set("service", r.SLA.Service)
			q.Set("sla", r.SLA.Name)
			out = append(out, Found{m, "agreement", format.Safe(name, format.MaxTitle), site.Href("/sla", q),
				format.Labels(r.SLA.GroupBy, r.Group)})
		}
	}
	return out
}
