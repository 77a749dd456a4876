package alerts

// Names of the alerts of every SLO.
const (
	NameBurnPage        = "ErrorBudgetBurnPage"
	NameBurnTicket      = "ErrorBudgetBurnTicket"
	NameBudgetExhausted = "ErrorBudgetExhausted"
	NameBudgetLow       = "ErrorBudgetLow"
	NameExhaustedSoon   = "ErrorBudgetExhaustedSoon"
	NameNoData          = "SLONoData"
)

// Names of alerts that are no single SLO's.
const (
	NameSenderSilent = "SenderSilent"
	NameTablesRunOut = "CalendarTablesRunOut"
	NameWatchdog     = "Watchdog"
)

// Names of the alerts of the catalogue.
const (
	NameLatencyViolation      = "LatencySLAViolation"
	NameLatencyCritical       = "LatencySLACriticalViolation"
	NameErrorRateViolation    = "ErrorRateSLAViolation"
	NameErrorRateCritical     = "ErrorRateSLACriticalViolation"
	NameAvailabilityViolation = "AvailabilitySLAViolation"
	NameThroughputViolation   = "ThroughputSLAViolation"
	NameCompositeWarning      = "CompositeSLAWarning"
	NameCompositeCritical     = "CompositeSLACritical"

	NameLatencyNear       = "LatencySLAWarning"
	NameErrorRateTrend    = "ErrorRateTrendWarning"
	NameSlowIntegration   = "IntegrationLatencyWarning"
	NameThroughputDecline = "ThroughputDeclineWarning"
	NameCascading         = "CascadingFailure"

	NameLatencyRecovered      = "LatencySLARecovered"
	NameErrorRateRecovered    = "ErrorRateSLARecovered"
	NameAvailabilityRecovered = "AvailabilitySLARecovered"
	NameThroughputRecovered   = "ThroughputSLARecovered"
	NameCompositeRecovered    = "CompositeSLARecovered"
)

// Proactive reports whether an alert of the catalogue warns before an agreement is violated.
func Proactive(name string) bool {
	switch name {
	case NameLatencyNear, NameErrorRateTrend, NameSlowIntegration, NameThroughputDecline:
		return true
	}
	return false
}

// literalBraces is {{ in a label, which Prometheus takes for a template.
const literalBraces = `{{ "{{" }}`

// Values of series.LabelImpact.
const (
	ImpactHigh   = "high"
	ImpactMedium = "medium"
	ImpactLow    = "low"
)
