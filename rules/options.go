package rules

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Naming chooses the names of series and labels.
type Naming string

// The namings.
const (
	Own   Naming = ""      // labels slo_id, service, slo
	Sloth Naming = "sloth" // labels sloth_id, sloth_service, sloth_slo, sloth_window, for dashboards made for Sloth
)

const (
	day        = 24 * time.Hour
	base       = 5 * time.Minute // window of the two recorded rates
	shortLimit = 6 * time.Hour   // windows beyond it come from the events of every five minutes
)

// Options say how rules are written. The zero value works for a spec without
// calendar windows and recurring corrections.
type Options struct {
	Names   Naming
	Profile Profile

	Scrape   time.Duration // scrape interval of the counters; default 15s, at most 2m
	Eval     time.Duration // evaluation interval of windows up to 6h; default 30s; divides 5m
	LongEval time.Duration // evaluation interval of longer windows; default and longest 5m

	// From and Until bound the literal tables of calendar windows and
	// corrections. The rules must be generated again before Until.
	From, Until time.Time

	PageURL, DashboardURL, RunbookURL string

	where string // further matchers, each with a leading comma
}

// ErrNoTables is returned for a spec with calendar windows or recurring
// corrections if the options have no From and Until.
var ErrNoTables = errors.New("calendar windows and corrections become tables of times: say from when until when")

func (o Options) withDefaults() (Options, error) {
	o = o.Intervals()
	switch {
	case o.Names != Own && o.Names != Sloth:
		return o, fmt.Errorf("unknown names %q: want none or %s", o.Names, Sloth)
	case o.Profile != Full && o.Profile != Minimal:
		return o, fmt.Errorf("unknown profile %q: want %s or none", o.Profile, Minimal)
	case o.Minimal() && o.Eval < o.Scrape:
		return o, fmt.Errorf("evaluation interval %s: want at least the scrape interval, %s", o.Eval, o.Scrape)
	case o.Minimal() && o.LongEval != base:
		return o, fmt.Errorf("evaluation interval of long windows %s: profile %s wants 5m", o.LongEval, Minimal)
	case o.Scrape < time.Second || o.Scrape > 2*time.Minute:
		return o, fmt.Errorf("scrape interval %s: want 1s to 2m", o.Scrape)
	case o.Eval < time.Second || base%o.Eval != 0 || o.Eval > base/2:
		return o, fmt.Errorf("evaluation interval %s: want a part of 5m such as 15s, 30s or 1m", o.Eval)
	case o.LongEval < o.Eval || o.LongEval > base:
		return o, fmt.Errorf("evaluation interval of long windows %s: want %s to 5m", o.LongEval, o.Eval)
	case o.Until.Before(o.From):
		return o, fmt.Errorf("tables end (%s) before they begin (%s)", o.Until.Format(time.RFC3339),
			o.From.Format(time.RFC3339))
	}
	for _, d := range []time.Duration{o.Scrape, o.Eval, o.LongEval} {
		if d%time.Millisecond != 0 {
			return o, fmt.Errorf("interval %s: want whole milliseconds", d)
		}
	}
	return o, nil
}

// Intervals returns options that say how often is scraped and evaluated, by the defaults where they say nothing.
func (o Options) Intervals() Options {
	o.Scrape, o.Eval, o.LongEval = o.scrape(), o.eval(), o.longEval()
	return o
}

func (o Options) scrape() time.Duration { return or(o.Scrape, 15*time.Second) }
func (o Options) eval() time.Duration {
	if o.Minimal() {
		return or(o.Eval, evalFor(o.scrape()))
	}
	return or(o.Eval, 30*time.Second)
}
func (o Options) longEval() time.Duration { return or(o.LongEval, base) }

func or(d, def time.Duration) time.Duration {
	if d == 0 {
		return def
	}
	return d
}

// Where returns options whose query builders add label matchers such as
// `product=~"$product"` to every series of an SLO or agreement that they name.
// Only series per group carry group labels: Objective, ErrorBudget, Days and
// Info do not.
func (o Options) Where(matchers ...string) Options {
	for _, m := range slices.Compact(matchers) {
		o.where += "," + m
	}
	return o
}
