package alerts

import (
	"fmt"
	"strconv"
	"time"

	"github.com/sloengine/sloengine/rules"
	"github.com/sloengine/sloengine/slo"
)

// The values of the label severity.
const (
	SeverityPage   = "page"   // a person is needed now
	SeverityTicket = "ticket" // a person is needed this week
	SeverityInfo   = "info"   // good news
	SeverityNone   = "none"   // of NameWatchdog
)

// The values that catalogue alerts have with `severities: seed`, beside SeverityInfo.
const (
	SeverityCritical = "critical"
	SeverityWarning  = "warning"
)

// Pages reports whether an alert with this value of the label severity needs a person now.
func Pages(severity string) bool { return severity == SeverityPage || severity == SeverityCritical }

// Tier is a burn-rate tier made concrete for one SLO.
type Tier struct {
	slo.Tier
	Name      string        // stable, such as "page-1h"; the label tier
	Severity  string        // SeverityPage or SeverityTicket
	Factor    float64       // burn rate that both windows must exceed
	Threshold float64       // the same as an error ratio in (0,1): Factor x budget
	For       time.Duration // how long it must burn

	Rate     float64 // error ratio that the true one must exceed: that of the budget, or Threshold where that is below
	Evidence float64 // of that which a page needs; 0 for tickets

	Quiet slo.Quiet // how a page is read at little traffic

	Labels, Annotations map[string]string // the user's own
}

// Tiers gives the tiers of an SLO that can fire, pages first as they are
// written, and findings about those that cannot: the error ratio never exceeds
// 1, and a window longer than the period looks past it.
func Tiers(s *slo.SLO) ([]Tier, []Finding) {
	if s.Indicator.Kind == slo.KindVolume {
		return nil, nil // its periods are longer than the windows of tiers
	}
	period := s.Window.Nominal()
	all := s.Alerting.Tiers
	if len(all) == 0 {
		all = slo.Tiers
	}
	var out []Tier
	var left []Finding
	taken := map[string]bool{}
	for _, t := range all {
		set, severity := s.Alerting.Ticket, SeverityTicket
		if t.Page {
			set, severity = s.Alerting.Page, SeverityPage
		}
		if set.Disabled {
			continue
		}
		r := Tier{
			Tier: t, Name: severity + "-" + slo.FormatDuration(t.Long), Severity: severity,
			Quiet:  rules.Quiet(s, t),
			Factor: exact(t.Factor(period)), For: set.For, Labels: set.Labels, Annotations: set.Annotations,
		}
		r.Threshold = exact(r.Factor * s.Objective.Budget())
		if t.Page {
			r.Rate, r.Evidence = min(s.Objective.Budget(), r.Threshold), slo.EvidenceNeeded(s.Alerting.MaxFalsePages())
		}
		if taken[r.Name] {
			r.Name += "-" + slo.FormatDuration(t.Short)
		}
		finding := func(severity FindingSeverity, message, hint string) {
			left = append(left, Finding{SLO: s.ID, Severity: severity, Message: message, Hint: hint})
		}
		switch {
		case s.Indicator.Kind == slo.KindRatio && r.Factor < 1:
			finding(FindingInfo,
				fmt.Sprintf("the %s alert over %s is left out: its burn rate of %s is below 1, so it would fire while the ratio "+
					"meets its objective", severity, slo.FormatDuration(t.Long), slo.FormatRatio(r.Factor)),
				"use a window of 30d or more to get this alert")
		case taken[r.Name]:
			finding(FindingWarning, fmt.Sprintf("two %s alerts have the same windows %s and %s, so the second is left out",
				severity, slo.FormatDuration(t.Long), slo.FormatDuration(t.Short)), "remove one of them")
		case t.Short >= t.Long:
			finding(FindingWarning, fmt.Sprintf("the %s alert over %s is left out: its short window (%s) is not shorter",
				severity, slo.FormatDuration(t.Long), slo.FormatDuration(t.Short)), "use a twelfth of the long window")
		case t.Long >= period:
			finding(FindingInfo, fmt.Sprintf("the %s alert over %s is left out: the window of the SLO (%s) must be longer",
				severity, slo.FormatDuration(t.Long), s.Window), "use a longer SLO window to get this alert")
		case r.Threshold >= 1:
			finding(FindingInfo,
				fmt.Sprintf("the %s alert over %s is left out because it can never fire: a burn rate of %s means that %s %% of "+
					"all events are bad", severity, slo.FormatDuration(t.Long), slo.FormatRatio(r.Factor),
					slo.FormatRatio(100*r.Threshold)), "raise the objective or shorten the window")
		default:
			taken[r.Name] = true
			out = append(out, r)
		}
	}
	return out, left
}

// exact takes the rounding noise out of a product of decimals, so that 14.4
// times 0.001 is 0.0144.
func exact(x float64) float64 {
	y, err := strconv.ParseFloat(slo.FormatRatio(x), 64)
	if err != nil {
		return x
	}
	return y
}
