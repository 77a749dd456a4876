package web

import (
	"time"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/web/format"
)

// slaLimitRow is one per-event limit with its violations.
type slaLimitRow struct {
	Service, Name, Match string
	Warning, Critical    string
	Day, Month           [2]figure // warning, critical
	Within               string
	Last                 format.Stamp
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
			Service: format.Safe(l.Limit.Service, format.MaxName), Name: format.Safe(l.Limit.Name, format.MaxName), Match: format.Safe(l.Limit.Match.String(), format.MaxTitle),
			Within: format.Compact(l.Month.Within), Last: format.NewStamp(l.LastEvent, now), LastAgo: format.Ago(l.LastEvent, now),
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
	warning, critical = format.NoValue, format.NoValue
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
		return figure{Value: format.NoValue}
	}
	return figure{Value: format.Compact(n), Title: format.Count(n), Bad: n > 0}
}
