package alerts

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
)

// Entry is one choice of the catalogue.
type Entry struct {
	Name   string
	Alerts []string // names of the alerts that it can make
	Fits   string   // which SLOs it is for if the agreement names none
	About  string
}

// Catalogue lists all entries in the order of the documentation.
func Catalogue() []Entry {
	return []Entry{
		{sla.CatalogueLatency, []string{NameLatencyViolation}, "latency components",
			"more events than agreed are slower than the limit"},
		{sla.CatalogueLatencyCritical, []string{NameLatencyCritical}, "latency components",
			"as many are slower than the critical limit"},
		{sla.CatalogueErrorRate, []string{NameErrorRateViolation}, "event components other than availability",
			"more bad events than agreed over 5m"},
		{sla.CatalogueErrorRateCritical, []string{NameErrorRateCritical}, "event components other than availability",
			"five times as many bad events as agreed over 5m"},
		{sla.CatalogueAvailability, []string{NameAvailabilityViolation}, "event components named availability, else all",
			"more bad events than agreed over 1h"},
		{sla.CatalogueThroughput, []string{NameThroughputViolation}, "throughput components",
			"most slices of time are below the target"},
		{sla.CatalogueComposite, []string{NameCompositeWarning, NameCompositeCritical}, "the agreement",
			"score below its warning, or its critical"},
		{sla.CatalogueLimit80, []string{NameLatencyNear}, "latency components", "80 % of what the limit allows is used"},
		{sla.CatalogueErrorTrend, []string{NameErrorRateTrend}, "event components",
			"half of the limit is used and the ratio rises"},
		{sla.CatalogueSlowIntegration, []string{NameSlowIntegration}, "latency SLOs of the service's integrations",
			"80 % of what an integration's own limit allows is used"},
		{sla.CatalogueThroughputDecline, []string{NameThroughputDecline}, "throughput components",
			"less than a fifth above the target"},
		{sla.CatalogueRecovery, []string{NameLatencyRecovered, NameErrorRateRecovered, NameAvailabilityRecovered,
			NameThroughputRecovered, NameCompositeRecovered}, "the violation alerts that the agreement has",
			"one of them fired a moment ago and is over"},
		{sla.CatalogueCascading, []string{NameCascading}, "event SLOs of integrations, and of stages",
			"an integration and a stage fail at the same time"},
	}
}

// chosen is one entry of one agreement with the SLOs that it is for.
type chosen struct {
	entry string
	slos  []*slo.SLO
}

// choose reads an agreement's choice. The thresholds of its score choose the
// composite entry by themselves.
func (g *generator) choose(a *sla.Agreement) []chosen {
	picks := slices.Clone(a.Catalogue)
	has := func(name string) bool {
		return slices.ContainsFunc(picks, func(c sla.CatalogueAlert) bool { return c.Name == name })
	}
	if (a.Warning > 0 || a.Critical > 0) && !has(sla.CatalogueComposite) {
		picks = append(picks, sla.CatalogueAlert{Name: sla.CatalogueComposite})
	}
	var out []chosen
	for _, e := range Catalogue() { // in its order, whatever the order of the spec
		i := slices.IndexFunc(picks, func(c sla.CatalogueAlert) bool { return c.Name == e.Name })
		if i < 0 {
			continue
		}
		c := chosen{entry: e.Name}
		if len(picks[i].SLOs) > 0 {
			c.slos = g.named(a, e.Name, picks[i].SLOs)
		} else {
			c.slos = g.fitting(a, e.Name)
			if len(c.slos) == 0 && needsSLOs(e.Name) {
				g.find(agreementID(a), FindingWarning, fmt.Sprintf("alert %s is left out: it applies to nothing in the agreement",
					e.Name), "name SLOs for it, or remove it: it applies to "+e.Fits)
			}
		}
		out = append(out, c)
	}
	for _, p := range picks {
		if !slices.ContainsFunc(Catalogue(), func(e Entry) bool { return e.Name == p.Name }) {
			g.find(agreementID(a), FindingError, fmt.Sprintf("unknown catalogue alert %q", p.Name), "want one of "+entryNames())
		}
	}
	return out
}

func needsSLOs(entry string) bool {
	return entry != sla.CatalogueRecovery && entry != sla.CatalogueComposite
}

func entryNames() string {
	var names []string
	for _, e := range Catalogue() {
		names = append(names, e.Name)
	}
	return strings.Join(names, ", ")
}

// agreementID names an agreement in findings.
func agreementID(a *sla.Agreement) slo.ID { return slo.NewID(a.Service, a.Name) }

func (g *generator) named(a *sla.Agreement, entry string, ids []slo.ID) []*slo.SLO {
	var out []*slo.SLO
	for _, id := range ids {
		s := g.byID[id]
		switch {
		case s == nil:
			g.find(agreementID(a), FindingError, fmt.Sprintf("alert %s: unknown SLO %s", entry, id),
				"name one of the service's SLOs")
		case !fitsKind(entry, s):
			g.find(agreementID(a), FindingWarning, fmt.Sprintf("alert %s does not apply to %s, which is %s, and is left out",
				entry, id, s.Indicator.Kind), "name an SLO of the right kind")
		default:
			out = append(out, s)
		}
	}
	return out
}

// fitsKind says whether an entry makes sense for an SLO's kind of indicator.
func fitsKind(entry string, s *slo.SLO) bool {
	switch entry {
	case sla.CatalogueLatency, sla.CatalogueLatencyCritical, sla.CatalogueLimit80, sla.CatalogueSlowIntegration:
		return s.Indicator.Kind == slo.KindLatency
	case sla.CatalogueThroughput, sla.CatalogueThroughputDecline:
		return s.Indicator.Kind == slo.KindThroughput
	}
	return s.Indicator.Kind == slo.KindEvents || s.Indicator.Kind == slo.KindPrometheus
}

// fitting picks the SLOs of an entry that names none.
func (g *generator) fitting(a *sla.Agreement, entry string) []*slo.SLO {
	switch entry {
	case sla.CatalogueSlowIntegration, sla.CatalogueCascading:
		var out []*slo.SLO
		for _, s := range g.in.SLOs {
			if s.ID.Service() == a.Service && fitsKind(entry, s) &&
				(s.About("integration") || entry == sla.CatalogueCascading && s.About("stage")) {
				out = append(out, s)
			}
		}
		return out
	}
	var fit, up []*slo.SLO
	for _, c := range a.Components {
		s := g.byID[c.SLO]
		if s == nil || !fitsKind(entry, s) {
			continue
		}
		if strings.Contains(c.Name, "availability") {
			up = append(up, s)
		} else {
			fit = append(fit, s)
		}
	}
	switch entry {
	case sla.CatalogueAvailability:
		if len(up) > 0 {
			return up
		}
	case sla.CatalogueErrorRate, sla.CatalogueErrorRateCritical:
		if len(fit) > 0 {
			return fit
		}
		return up
	}
	return append(up, fit...)
}
