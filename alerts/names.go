package alerts

// Names of the alerts of every SLO.
const (
	NameBurnPage        = "ErrorBudgetBurnPage"
	NameBurnTicket      = "ErrorBudgetBurnTicket"
	NameBudgetExhausted = "ErrorBudgetExhausted"
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

// Labels that alerts carry besides those of the series.
const (
	LabelTier      = "tier"      // such as page-1h
	LabelLong      = "long"      // long window of the tier
	LabelShort     = "short"     // short window of the tier
	LabelSLA       = "sla"       // what kind of promise, such as processing_time
	LabelImpact    = "impact"    // ImpactHigh, ImpactMedium or ImpactLow
	LabelAgreement = "agreement" // name of the agreement that chose the alert
	LabelEffect    = "effect"    // of NameCascading: the SLO that fails as well
)

// Values of LabelImpact.
const (
	ImpactHigh   = "high"
	ImpactMedium = "medium"
	ImpactLow    = "low"
)
