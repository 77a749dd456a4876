package series

// AlertState is the state of every alert of the engine that is not inactive: one
// series per alert, with all labels of the alert after the fixed ones.
var AlertState = Series{
	Name: "slo_alert_state", Type: Gauge, Extra: ExtraAlert,
	Help:   "State of an alert that the engine evaluates: 1 is pending, 2 is firing. Absent while inactive and once resolved.",
	Labels: []string{LabelAlertName, LabelService, LabelSeverity},
}

// LabelAlertName is the name of an alert, as on Prometheus' own ALERTS.
const LabelAlertName = "alertname"

// ExtraAlert marks a series that has the labels of an alert.
const ExtraAlert Extra = "alert"

// Values of AlertState.
const (
	AlertPending = 1
	AlertFiring  = 2
)
