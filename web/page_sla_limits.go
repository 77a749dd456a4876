package web

import (
	"time"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
)

// slaLimitRow is one per-event limit with its violations.
type slaLimitRow struct {
	Service, Name, Match string
	Warning, Critical    string
	Day, Month           [2]figure // warning, critical
	Within               string
	Last                 stamp
	LastAgo              string
}

func newLimitRows(rep *sla.Report, now time.Time) []slaLimitRow {
	return limitRowsOf(rep, now, "")
}

// limitRowsOf are the limits of a service; of all if it is "".
func limitRowsOf(rep *sla.Report, now time.Time, service string) []slaLimitRow {
	var out []slaLimitRow
	for _, l := range rep.Limits {
		if service != "" && l.Limit.Service != service {
			continue
		}
		r := slaLimitRow{
			Service: show(l.Limit.Service, shownName), Name: show(l.Limit.Name, shownName), Match: show(l.Limit.Match.String(), shownTitle),
			Within: compact(l.Month.Within), Last: newStamp(l.LastEvent, now), LastAgo: ago(l.LastEvent, now),
		}
		var warns, crits bool
		r.Warning, r.Critical, warns, crits = limitTexts(l.Limit)
		for to, v := range map[*[2]figure]sla.Violations{&r.Day: l.Day, &r.Month: l.Month} {
			to[0], to[1] = violations(v.Warning, warns), violations(v.Critical, crits)
		}
		out = append(out, r)
	}
	return out
}

// limitTexts are the durations of a limit, and which severities it has.
func limitTexts(l *slo.Limit) (warning, critical string, warns, crits bool) {
	warning, critical = noValue, noValue
	warns, crits = l.Warning > 0, l.Critical > 0
	if warns {
		warning = slo.FormatDuration(l.Warning)
	}
	if crits {
		critical = slo.FormatDuration(l.Critical)
	}
	switch l.Each {
	case "warning":
		warning, warns = "every one", true
	case "critical":
		critical, crits = "every one", true
	}
	return warning, critical, warns, crits
}

func violations(n uint64, exists bool) figure {
	if !exists {
		return figure{Value: noValue}
	}
	return figure{Value: compact(n), Title: count(n), Bad: n > 0}
}
