package sla

import "slices"

// The names of the catalogue's entries that an agreement can choose. What each
// alert says and when it fires is room alerts' business.
const (
	CatalogueLatency           = "latency"             // slower than the objective allows
	CatalogueLatencyCritical   = "latency_critical"    // far slower
	CatalogueErrorRate         = "error_rate"          // more failures than the objective allows
	CatalogueErrorRateCritical = "error_rate_critical" // far more
	CatalogueAvailability      = "availability"        // availability below its objective
	CatalogueThroughput        = "throughput"          // fewer events than agreed
	CatalogueComposite         = "composite"           // the score below warning or critical
	CatalogueLimit80           = "limit_80"            // 80 % of a limit is reached
	CatalogueErrorTrend        = "error_trend"         // failures are rising
	CatalogueSlowIntegration   = "slow_integration"    // another system answers slowly
	CatalogueThroughputDecline = "throughput_decline"  // fewer events than usual
	CatalogueRecovery          = "recovery"            // what was broken is good again
	CatalogueCascading         = "cascading"           // another system and a stage fail together
)

// CatalogueNames lists the entries of the catalogue in the order of its pages.
func CatalogueNames() []string {
	return slices.Clone(catalogueNames)
}

var catalogueNames = []string{
	CatalogueLatency, CatalogueLatencyCritical, CatalogueErrorRate, CatalogueErrorRateCritical, CatalogueAvailability,
	CatalogueThroughput, CatalogueComposite, CatalogueLimit80, CatalogueErrorTrend, CatalogueSlowIntegration,
	CatalogueThroughputDecline, CatalogueRecovery, CatalogueCascading,
}
