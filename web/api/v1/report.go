package v1

import (
	"time"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
)

// Covered is the part of a period that a line of a report is about.
type Covered struct {
	Zone     string     `json:"zone"`
	From     *time.Time `json:"from"`
	To       *time.Time `json:"to"` // of what is over of the period
	Running  bool       `json:"running"`
	KeptFrom *time.Time `json:"kept_from"` // null: everything since from
	Coverage float64    `json:"coverage"`
	Rounded  bool       `json:"rounded"` // days or planned maintenance are rounded to whole hours
}

// ReportDay is a day of an SLO.
type ReportDay struct {
	Date  string   `json:"date"`
	Net   Counts   `json:"counts"` // planned maintenance taken out
	Raw   Counts   `json:"raw_counts"`
	SLI   *float64 `json:"sli"`
	Share float64  `json:"share_of_loss"`

	Rounded bool `json:"rounded"` // the day or planned maintenance is rounded to whole hours
}

// ReportSLO is one group of an SLO over a period.
type ReportSLO struct {
	ID          slo.ID            `json:"id"`
	Service     string            `json:"service"`
	SLO         string            `json:"slo"`
	Group       map[string]string `json:"group"`
	Informative bool              `json:"informative"`
	Kind        slo.IndicatorKind `json:"kind"`
	Objective   float64           `json:"objective"`
	Percent     string            `json:"objective_percent"`
	Slice       float64           `json:"slice_seconds"` // 0: events are judged
	Covered
	Corrected float64      `json:"corrected_seconds"`
	Events    uint64       `json:"events"`     // with planned maintenance, in events whatever is judged
	Verdict   string       `json:"verdict"`    // met, breached, no_data or informative
	Budget    Budget       `json:"budget"`     // planned maintenance taken out: what counts
	Raw       Budget       `json:"raw_budget"` // everything
	WorstDay  *ReportDay   `json:"worst_day"`
	Ledger    *Ledger      `json:"ledger,omitempty"`   // of the 20 lines that spent most of their budget
	Cost      *sla.SLOCost `json:"cost,omitempty"`     // if the spec states one
	Forecast  *Forecast    `json:"forecast,omitempty"` // if the period reaches to now
	Days      []ReportDay  `json:"days,omitempty"`
}

// ReportSLADay is a day of an agreement.
type ReportSLADay struct {
	Date  string   `json:"date"`
	Score *float64 `json:"score"`
	Low   *float64 `json:"low"`
	High  *float64 `json:"high"`
}

// ReportSLA is one group of an agreement over a period.
type ReportSLA struct {
	SLA
	Covered
	Verdict    string         `json:"verdict"`
	Violations Violations     `json:"violations"` // of the event thresholds of its service, of all groups
	Days       []ReportSLADay `json:"days,omitempty"`
}

// ReportThreshold is an event threshold over a period.
type ReportThreshold struct {
	ThresholdDefinition
	Covered
	Violations Violations `json:"violations"`

	Groups []ReportThresholdGroup `json:"groups,omitempty"` // with group_by
}

// ReportThresholdGroup is one group of an event threshold.
type ReportThresholdGroup struct {
	Group      map[string]string `json:"group"`
	Violations Violations        `json:"violations"`
}

// PeriodReport answers /api/v1/report.
type PeriodReport struct {
	Report    Report           `json:"report"`
	Period    string           `json:"period"`
	Unit      slo.CalendarUnit `json:"unit"`
	Previous  string           `json:"previous"`
	Next      string           `json:"next"`
	Service   string           `json:"service,omitempty"`
	Agreement string           `json:"agreement,omitempty"`
	Zone      string           `json:"zone,omitempty"` // that was asked for
	Log       *ReportLog       `json:"log,omitempty"`  // of a report that was sent
	// Accounts is the order in which the ledgers of a report with log charge, without corrections, which come first, and
	// what is unexplained. Deployment is how long a deployment is charged.
	Accounts   []slo.Account     `json:"accounts,omitempty"`
	Deployment float64           `json:"deployment_seconds,omitempty"`
	Begun      bool              `json:"begun"`
	Running    bool              `json:"running"` // the period is not over everywhere
	SLOs       []ReportSLO       `json:"slos"`
	SLAs       []ReportSLA       `json:"slas"`
	Thresholds []ReportThreshold `json:"thresholds"`
	Limits     []ReportThreshold `json:"limits"`          // the same, for clients that know the old name
	Costs      *sla.Costs        `json:"costs,omitempty"` // of all its SLOs, if the spec states any
	Incidents  *ReportIncidents  `json:"incidents"`       // null: not known
}

// ReportLog names the records of the log that a report follows from.
type ReportLog struct {
	Position  uint64    `json:"position"`         // number of the last one
	Digest    string    `json:"digest,omitempty"` // of all of them, if the log is retained
	Evaluated time.Time `json:"evaluated"`        // the time as of which they were evaluated
}

// IncidentFigures sums up the incidents that were detected in a period. Medians are over those of severity critical.
type IncidentFigures struct {
	Critical  int      `json:"critical"`
	Warnings  int      `json:"warnings"`
	Automated int      `json:"automated"` // of critical
	Detection *float64 `json:"median_detection_seconds"`
	Response  *float64 `json:"median_response_seconds"`
}

// ReportIncidents are the incidents that were detected in a period.
type ReportIncidents struct {
	IncidentFigures
	Before *IncidentFigures `json:"previous"` // of the period before; null: not known
	Items  []ReportIncident `json:"items"`
}

// ReportIncident is one of them.
type ReportIncident struct {
	ID        string     `json:"id"`
	Title     string     `json:"title"`
	Service   string     `json:"service"`
	Severity  string     `json:"severity"`
	Onset     time.Time  `json:"onset"`
	Detected  time.Time  `json:"detected"`
	Resolved  *time.Time `json:"resolved"` // null: it goes on
	Automated bool       `json:"automated"`
	Detection float64    `json:"detection_seconds"`
	Response  *float64   `json:"response_seconds"` // null: not acknowledged
	Duration  float64    `json:"duration_seconds"`
	Spent     *float64   `json:"budget_spent"`   // the most of one error budget; null: not known
	Cost      []Money    `json:"cost,omitempty"` // by currency; absent if no affected SLO has a cost
}

// Money is an amount as a decimal text, which no reader takes for a float.
type Money struct {
	Currency string    `json:"currency"`
	Amount   slo.Money `json:"amount"`
}
