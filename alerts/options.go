package alerts

import (
	"time"

	"github.com/sloengine/sloengine/rules"
)

// Options say how alerts are written. The zero value works.
type Options struct {
	rules.Options

	// Recent is how long a recovery notice looks back for the alert that is over.
	// Default 15m.
	Recent time.Duration

	// NoDataAfter is how long the counters of an SLO may be missing. Default 10m.
	NoDataAfter time.Duration

	// SilentMinEvents is how many events a service must have sent in the same half
	// hour of last week (or yesterday) for a silent one to mean anything. Default 20.
	SilentMinEvents uint64

	// TablesMargin is how long before the end of literal tables of calendar windows
	// and corrections an alert asks for new ones. Default 7 days.
	TablesMargin time.Duration

	// Engine are the limits of the alerts on the engine itself; NoEngine leaves
	// them out, for rule files of several specs that share one engine.
	Engine   EngineThresholds
	NoEngine bool

	// TestRules is the folder of the rule files, as the files of Tests name it. Default ../rules.
	TestRules string
}

func (o Options) withDefaults() Options {
	set(&o.Recent, 15*time.Minute)
	set(&o.NoDataAfter, 10*time.Minute)
	set(&o.SilentMinEvents, 20)
	set(&o.TablesMargin, 7*24*time.Hour)
	set(&o.RunbookURL, "https://github.com/sloengine/sloengine/blob/main/docs/runbooks")
	o.Options = o.Intervals()
	return o
}
