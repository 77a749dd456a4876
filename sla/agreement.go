package sla

import (
	"slices"
	"time"

	"github.com/sloengine/sloengine/slo"
)

// Method says how components become a score.
type Method string

// The scoring methods.
const (
	Attainment Method = "attainment" // 100 x sum(weight x attainment)
	Ratio      Method = "ratio"      // 100 x sum(weight x indicator)
	Bands      Method = "bands"      // steps where a component has bands, else its ratio
)

// NoData says what a component without data does to the score.
type NoData string

// The no-data policies.
const (
	NoDataExclude NoData = "exclude" // renormalise over the others; Low and High show what that hides
	NoDataGood    NoData = "good"    // counts as 1
	NoDataBad     NoData = "bad"     // counts as 0
)

// Agreement (SLA) is a composite of SLOs with weights.
type Agreement struct {
	Service     string
	Name        string
	Description string
	GroupBy     []string
	Window      slo.Window
	Method      Method
	Components  []Component // as written, in the order of the spec
	NoData      NoData
	Warning     float64          // score below which it is a warning; 0 = none
	Critical    float64          // score below which it is critical; 0 = none
	AlertWindow time.Duration    // own, shorter window for alerts; 0 = none
	Catalogue   []CatalogueAlert // further alerts, chosen from the catalogue of package alerts
	// SeedSeverities gives the alerts on the score and those of the catalogue the severities warning and critical, of
	// which critical pages. Without it they are tickets.
	SeedSeverities bool
}

// CatalogueAlert chooses one entry of the catalogue of alerts.
type CatalogueAlert struct {
	Name string // of the entry, such as "latency_critical"

	// SLOs narrows the entry down to these SLOs of the service, which need not be
	// components. Empty means all that the entry fits.
	SLOs []slo.ID
}

// Component is one SLO's part of an agreement.
type Component struct {
	Name   string
	SLO    slo.ID
	Weight float64 // as written, > 0; normalised when scored
	Bands  []Band  // method Bands, latency SLOs only; empty = the ratio
}

// Band is one step: if at least Quantile of the events are within Threshold,
// the component scores Score. The last band has no threshold and catches the rest.
type Band struct {
	Quantile  float64       // such as 0.95
	Threshold time.Duration // 0 in the last band
	Score     float64       // 0 to 100
}

// Watches reports whether an agreement is about an SLO: it is a component, or alerts of the catalogue are about it.
func (a *Agreement) Watches(s *slo.SLO) bool {
	if slices.ContainsFunc(a.Components, func(c Component) bool { return c.SLO == s.ID }) {
		return true
	}
	return slices.ContainsFunc(a.Catalogue, func(e CatalogueAlert) bool {
		switch {
		case len(e.SLOs) > 0:
			return slices.Contains(e.SLOs, s.ID)
		case s.ID.Service() != a.Service:
			return false
		}
		return (e.Name == CatalogueSlowIntegration || e.Name == CatalogueCascading) && s.About("integration") ||
			e.Name == CatalogueCascading && s.About("stage")
	})
}
