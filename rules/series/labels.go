package series

import "strings"

// Label names that more than one series carries, or whose values are fixed.
const (
	LabelSLOID     = "slo_id" // "service/slo"
	LabelService   = "service"
	LabelSLO       = "slo"
	LabelSLA       = "sla"
	LabelResult    = "result" // ResultGood or ResultBad
	LabelWindow    = "window" // such as 5m, or WindowPeriod
	LabelObjective = "objective"
	LabelComponent = "sla_component"
	LabelSLAType   = "sla_type" // the name of an event threshold
	LabelType      = "type"
	LabelOutcome   = "outcome"
	LabelSeverity  = "severity"     // of an event; on alerts that of the alert
	LabelAhead     = "slo_ahead"    // how far ahead a forecast looks
	LabelBound     = "slo_bound"    // earliest or latest
	LabelQuantile  = "slo_quantile" // of a forecast
	LabelStage     = "slo_stage"    // of work in flight
	LabelPart      = "slo_part"     // of a ratio or an apdex, see slo.IndicatorKind.PartNames
	LabelCurrency  = "slo_currency" // such as EUR
	LabelBasis     = "slo_basis"    // of a cost, such as "12.50 EUR per bad event"
	LabelLE        = "le"           // upper bound in seconds, +Inf for all

	// LabelDefinition of slo_info is DefinitionEarlier while the spec files have a definition whose counts are being
	// rebuilt. Otherwise it is not there.
	LabelDefinition   = "slo_definition"
	DefinitionEarlier = "earlier"
)

// Labels of recorded series, besides those of the exported ones.
const (
	LabelCalendar    = "calendar"    // unit of a calendar window: day, week, month, quarter, year
	LabelTimezone    = "timezone"    // zone of a calendar window
	LabelCorrections = "corrections" // a set of corrections, "service/N"; renumbered freely, never joined over time
	LabelSpan        = "span"        // one occurrence of a correction

	LabelSlothID      = "sloth_id" // "service-slo"
	LabelSlothService = "sloth_service"
	LabelSlothSLO     = "sloth_slo"
	LabelSlothWindow  = "sloth_window"

	LabelSlothSeverity = "sloth_severity" // of alerts: page or ticket
)

// Labels of alerts, besides those of the series that they read.
const (
	LabelAlertName  = "alertname"
	LabelAlertState = "alertstate"    // of the series ALERTS of Prometheus
	LabelTier       = "slo_tier"      // such as page-1h
	LabelLong       = "slo_long"      // long window of the tier
	LabelShort      = "slo_short"     // short window of the tier
	LabelKind       = "slo_kind"      // what kind of promise, such as processing_time
	LabelImpact     = "slo_impact"    // high, medium or low
	LabelAgreement  = "slo_agreement" // name of the agreement that chose the alert
	LabelEffect     = "slo_effect"    // of a cascading failure: the SLO that fails as well
)

// formerAlertLabels are the labels of alerts by the names that they had up to version 0.2.
var formerAlertLabels = map[string]string{
	"tier": LabelTier, "long": LabelLong, "short": LabelShort, "sla": LabelKind, "impact": LabelImpact,
	"agreement": LabelAgreement,
	"effect":    LabelEffect,
}

// RenamedAlertLabel is the present name of a label of alerts, which files of version 0.2 and before have by another
// name.
func RenamedAlertLabel(name string) string {
	if now, ok := formerAlertLabels[name]; ok {
		return now
	}
	return name
}

// exported begins the label of a group whose own name is reserved, as it does in a scrape of Prometheus.
const exported = "exported_"

// Reserved says why users cannot name a label so; "" if they can. Series of groups and alerts carry the label, or
// Prometheus does. Our labels that could be names of business are slo_* or sla_* for that reason, and all others are
// the user's.
func Reserved(name string) string {
	switch name {
	case LabelService, LabelSLO, LabelSLA, LabelResult, LabelWindow, LabelLE:
		return "reserved for the engine's series"
	case LabelSeverity:
		return "reserved for the severity of alerts, which only labels under alerting set"
	case LabelAlertName, LabelAlertState:
		return "reserved for the alerts of Prometheus"
	}
	for _, own := range []string{"slo_", "sla_", "sloth_"} {
		if strings.HasPrefix(name, own) {
			return "reserved: labels that start with " + own + " are the engine's own"
		}
	}
	if strings.HasPrefix(name, "__") {
		return "reserved: labels that start with __ belong to Prometheus"
	}
	return ""
}

// GroupLabel is the label by which series and alerts tell groups or dimensions of a name apart. A name that Prometheus
// takes stays as it is. In others every character outside [a-zA-Z0-9_] becomes an underscore, so http.route is
// http_route. A reserved name, which existing series may have, gets the prefix exported_. No spec is accepted in which
// two names of one list become the same label.
func GroupLabel(name string) string {
	for i := 0; i < len(name); i++ {
		if !labelByte(name[i]) {
			b := []byte(name)
			for k := i; k < len(b); k++ {
				if !labelByte(b[k]) {
					b[k] = '_'
				}
			}
			name = string(b)
			break
		}
	}
	if Reserved(name) != "" {
		return exported + name
	}
	return name
}

func labelByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || c >= '0' && c <= '9'
}

// GroupLabels is GroupLabel of each name; nil without names.
func GroupLabels(names []string) []string {
	if len(names) == 0 {
		return nil
	}
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = GroupLabel(n)
	}
	return out
}
