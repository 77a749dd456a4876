package delivery

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sloengine/sloengine/reliability/mail"
	"github.com/sloengine/sloengine/sla/report"
	"github.com/sloengine/sloengine/slo"
)

// Format is a form of a report.
type Format string

// The formats.
const (
	HTML Format = "html"
	CSV  Format = "csv"
	JSON Format = "json"
)

// Type is the media type of a format.
func (f Format) Type() string {
	switch f {
	case HTML:
		return "text/html; charset=utf-8"
	case CSV:
		return "text/csv; charset=utf-8; header=present"
	}
	return "application/json"
}

// Report is one report that comes by itself.
type Report struct {
	Name      string
	Every     slo.CalendarUnit // slo.Week or slo.Month
	Weekday   time.Weekday     // of weekly reports. 0 is Sunday
	Day       int              // of monthly ones, 1 to 28. Default 1
	At        Clock            // time of day in the zone
	Service   string           // "": all
	Agreement slo.ID           // "": all
	Zone      *time.Location   // of period and time of day; nil: see Options.Zone
	Formats   []Format         // default HTML and CSV
	Mail      []string         // addresses
	Webhooks  []Webhook
	Folder    string // "": none
}

// Clock is a time of day.
type Clock struct{ Hour, Minute int }

// Webhook receives reports by POST.
type Webhook struct {
	URL   string
	Token func() (string, error) // asked for with each request; nil: none
}

// Settings may change while reports are sent.
type Settings struct {
	Reports []Report
	Server  *mail.Server  // nil: no report has addresses
	Timeout time.Duration // of a request to a webhook. Default 30s
}

func (s *Settings) applyDefaults() {
	s.Timeout = cmp.Or(s.Timeout, 30*time.Second)
	for i := range s.Reports {
		r := &s.Reports[i]
		r.Day = cmp.Or(r.Day, 1)
		if len(r.Formats) == 0 {
			r.Formats = []Format{HTML, CSV}
		}
	}
}

func (s *Settings) validate() error {
	var errs []error
	names := map[string]bool{}
	for i := range s.Reports {
		r := &s.Reports[i]
		if r.Name == "" || names[r.Name] {
			errs = append(errs, fmt.Errorf("report %q: want a name of its own", r.Name))
		}
		names[r.Name] = true
		if r.Every != slo.Week && r.Every != slo.Month {
			errs = append(errs, fmt.Errorf("report %s: every %q: want week or month", r.Name, r.Every))
		}
		if r.Day < 1 || r.Day > 28 || r.Weekday < 0 || r.Weekday > 6 || r.At.Hour < 0 || r.At.Hour > 23 ||
			r.At.Minute < 0 || r.At.Minute > 59 {
			errs = append(errs, fmt.Errorf("report %s: invalid day or time", r.Name))
		}
		if len(r.Mail) > 0 && s.Server == nil {
			errs = append(errs, fmt.Errorf("report %s: there is no mail server", r.Name))
		}
	}
	return errors.Join(errs...)
}

// due is when the report on a period is sent.
func (r *Report) due(p report.Period, zone *time.Location) time.Time {
	y, m, d := p.Shift(1).In(zone).From.In(zone).Date() // the Monday, or the first of the month
	if r.Every == slo.Week {
		d += (int(r.Weekday) + 6) % 7
	} else {
		d += r.Day - 1
	}
	return slo.WallTime(time.Date(y, m, d, r.At.Hour, r.At.Minute, 0, 0, time.UTC), zone)
}

// latest is the newest period whose report is due, and since when.
func (r *Report) latest(now time.Time, zone *time.Location) (report.Period, time.Time) {
	p := report.PeriodOf(r.Every, now.In(zone)).Shift(-1)
	at := r.due(p, zone)
	for at.After(now) {
		p = p.Shift(-1)
		at = r.due(p, zone)
	}
	return p, at
}

// next is when the report is due for the next time.
func (r *Report) next(now time.Time, zone *time.Location) time.Time {
	p, _ := r.latest(now, zone)
	return r.due(p.Shift(1), zone)
}

func (r *Report) has(f Format) bool { return slices.Contains(r.Formats, f) }

// fingerprint stands for an address in files and message ids, where it need not be read.
func fingerprint(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d:%s", len(p), p)
	}
	return hex.EncodeToString(h.Sum(nil))[:20]
}
