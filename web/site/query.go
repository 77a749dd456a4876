package site

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/sloengine/sloengine/sla/report"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/web/format"
)

func ParseTime(s string) (time.Time, error) {
	if secs, err := strconv.ParseInt(s, 10, 64); err == nil && secs >= 0 && secs < 1<<36 {
		return time.Unix(secs, 0).UTC(), nil
	}
	t, err := slo.ParseTime(strings.ReplaceAll(s, " ", "+")) // an unescaped + arrives as a space
	if err != nil {
		return time.Time{}, fmt.Errorf("want RFC 3339, such as 2026-11-20T09:00:00Z, or Unix seconds")
	}
	return t.UTC(), nil
}

// ReportQuery reads period, service, agreement and zone. A period such as last-month is that of the date in the zone.
func ReportQuery(q url.Values, now time.Time) (report.Query, error) {
	ask := report.Query{Service: q.Get("service"), Agreement: slo.ID(q.Get("agreement"))}
	var err error
	if name := q.Get("zone"); name != "" {
		if ask.Zone, err = loadZone(name); err != nil {
			return ask, err
		}
	}
	if ask.Agreement != "" && (ask.Agreement.Service() == "" || ask.Agreement.Name() == "") {
		return ask, fmt.Errorf("SLA %q: want the service and the name, such as shop/gold",
			format.Safe(string(ask.Agreement), format.MaxName))
	}
	ask.Period, err = report.ResolvePeriod(q.Get("period"), now, ask.Zone)
	return ask, err
}

// loadZone finds a time zone by its name in the IANA database.
func loadZone(name string) (*time.Location, error) {
	// "Local" is the server's own zone, which is nobody's business.
	if name != "Local" && len(name) <= 64 && !strings.ContainsFunc(name, func(r rune) bool {
		return r <= ' ' || r > '~'
	}) {
		if loc, err := time.LoadLocation(name); err == nil {
			return loc, nil
		}
	}
	return nil, fmt.Errorf("invalid zone %q (want a name of the IANA time zone database, such as Europe/Moscow)",
		format.Safe(name, format.MaxName))
}

// ReportValues is the query of a page or file about a report.
func ReportValues(ask report.Query) url.Values {
	q := url.Values{"period": {ask.Period.String()}}
	if ask.Service != "" {
		q.Set("service", ask.Service)
	}
	if ask.Agreement != "" {
		q.Set("agreement", string(ask.Agreement))
	}
	if ask.Zone != nil {
		q.Set("zone", ask.Zone.String())
	}
	return q
}
