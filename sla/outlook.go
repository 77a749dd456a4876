package sla

import (
	"time"

	"github.com/sloengine/sloengine/sla/forecast"
)

// Outlook is what is expected of an SLO in one group. It is made after a report and is part of the next ones, until it
// is made again. It does not change.
type Outlook struct {
	Forecast forecast.Forecast
	Week     *forecast.Week     // usual traffic; nil while less than a day is known
	Capacity *forecast.Capacity // of a throughput with a capacity; nil otherwise
	Record   forecast.Record    // of the SLO, in all groups
}

// Outlooks is what a report says about all outlooks.
type Outlooks struct {
	Groups int             // that have an outlook, or will have one soon
	Of     int             // all groups
	Record forecast.Record // of all SLOs
	Failed string          // why the counts could not be read the last time; "" if they could
	Since  time.Time       // of Failed
}
