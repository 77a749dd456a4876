package config

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sloengine/sloengine/reliability/mail"
	"github.com/sloengine/sloengine/reliability/remote"
	"github.com/sloengine/sloengine/sla/delivery"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/yamldoc"
)

// reportConfig is one report that comes by itself.
type reportConfig struct {
	Name      string            `yaml:"name" is:"required"`
	Every     slo.CalendarUnit  `yaml:"every" is:"required" one:"week month"`
	Day       string            `yaml:"day"`       // monday to sunday, or 1 to 28
	At        string            `yaml:"at"`        // time of day
	Timezone  string            `yaml:"timezone"`  // "": that of the calendar of the agreements, or UTC
	Service   string            `yaml:"service"`   // "": all
	Agreement slo.ID            `yaml:"agreement"` // service/name; "": all
	Formats   []delivery.Format `yaml:"formats"`
	To        struct {
		Email    []string        `yaml:"email"`
		Webhooks []webhookConfig `yaml:"webhooks"`
		Folder   string          `yaml:"folder" is:"file"`
	} `yaml:"to" is:"required"`
}

// webhookConfig receives reports.
type webhookConfig struct {
	URL       string `yaml:"url" is:"required"`
	TokenFile string `yaml:"token_file" is:"file"`
	TokenEnv  string `yaml:"token_env"` // name of an environment variable
}

const (
	maxReports = 100
	// maxTargets bounds the addresses of a report. For more there are mailing lists.
	maxTargets = 50
	// sendAt is when reports are sent unless they say otherwise.
	sendAt = "08:00"
)

var weekdays = []string{"sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"}

func (c *Config) checkReports(f *yamldoc.Decoder) {
	const section = "reports"
	if len(c.Reports) > maxReports {
		f.Errorf(section, "one report may go to many addresses", "%d reports (at most %d)", len(c.Reports), maxReports)
	}
	names := fileNames{}
	for i := range c.Reports {
		r, path := &c.Reports[i], item(section, i)
		r.check(f, path)
		names.check(f, path, r.Name, "report", "the name identifies the reports that were sent")
		if len(r.To.Email) > 0 && c.SMTP == nil {
			f.Errorf(path+".to.email", "add smtp: {smarthost: mail.example.org:587, from: slo@example.org}",
				"the smtp section is missing")
		}
	}
}

func (r *reportConfig) check(f *yamldoc.Decoder, path string) {
	if r.Day != "" && !f.Broken(path+".every") {
		if _, _, ok := r.day(); !ok && r.Every == slo.Week {
			f.Errorf(path+".day", "want monday to sunday", "%q is not a day of the week", r.Day)
		} else if !ok {
			f.Errorf(path+".day", "want 1 to 28, which every month has", "%q is not a day of every month", r.Day)
		}
	}
	if _, ok := r.at(); !ok {
		f.Errorf(path+".at", "want a time such as 08:00", "%q is not a time of day", r.At)
	}
	if r.Timezone == "Local" {
		f.Errorf(path+".timezone", "want a name such as Europe/Berlin", "%q is not a time zone", r.Timezone)
	} else if _, err := time.LoadLocation(r.Timezone); err != nil {
		f.Errorf(path+".timezone", "want a name such as Europe/Berlin", "%q is not a time zone", r.Timezone)
	}
	if r.Agreement != "" && (r.Agreement.Service() == "" || r.Agreement.Name() == "") {
		f.Errorf(path+".agreement", "want the service and the name, such as shop/gold",
			"%q is not an agreement", string(r.Agreement))
	}
	if r.Agreement != "" && r.Service != "" {
		f.Errorf(path+".service", "remove it", "service and agreement exclude each other")
	}
	for i, x := range r.Formats {
		switch at := item(path+".formats", i); {
		case x != delivery.HTML && x != delivery.CSV && x != delivery.JSON:
			f.Errorf(at, "want html, csv or json", "%q is not a format", string(x))
		case slices.Contains(r.Formats[:i], x):
			f.Errorf(at, "remove it", "%s is listed twice", x)
		}
	}
	to := &r.To
	n := len(to.Email) + len(to.Webhooks)
	if to.Folder != "" {
		n++
	}
	switch {
	case f.Broken(path + ".to"):
	case n == 0:
		f.Errorf(path+".to", "add email, webhooks or folder", "the report goes nowhere")
	case n > maxTargets:
		f.Errorf(path+".to", "use a mailing list", "%d addresses (at most %d)", n, maxTargets)
	}
	for i, a := range to.Email {
		at := item(path+".to.email", i)
		if err := mail.CheckAddress(a); err != nil {
			f.Errorf(at, "as in ops@example.org", "%v", err)
		} else if slices.Contains(to.Email[:i], a) {
			f.Errorf(at, "remove it", "%s is listed twice", a)
		}
	}
	for i := range to.Webhooks {
		w, at := &to.Webhooks[i], item(path+".to.webhooks", i)
		if !f.Broken(at + ".url") {
			if err := remote.CheckURL(w.URL, "token_file"); err != nil {
				f.Errorf(at+".url", "as in https://example.org/reports", "%v", err)
			}
		}
		checkSource(f, at+".token", w.TokenFile, w.TokenEnv, false)
		if slices.ContainsFunc(to.Webhooks[:i], func(o webhookConfig) bool { return o.URL == w.URL }) {
			f.Errorf(at+".url", "remove it", "the URL is listed twice")
		}
	}
}

// day is the day of the week or of the month.
func (r *reportConfig) day() (weekday time.Weekday, day int, ok bool) {
	switch {
	case r.Every == slo.Week && r.Day == "":
		return time.Monday, 1, true
	case r.Every == slo.Week:
		i := slices.Index(weekdays, strings.ToLower(r.Day))
		return time.Weekday(max(i, 0)), 1, i >= 0
	case r.Day == "":
		return 0, 1, true
	}
	n, err := strconv.Atoi(r.Day)
	return 0, n, err == nil && n >= 1 && n <= 28
}

func (r *reportConfig) at() (delivery.Clock, bool) {
	text := r.At
	if text == "" {
		text = sendAt
	}
	t, err := time.Parse("15:04", text)
	return delivery.Clock{Hour: t.Hour(), Minute: t.Minute()}, err == nil
}

// ReportSettings are the reports that come by themselves.
func (c *Config) ReportSettings() (delivery.Settings, error) {
	server, err := c.MailServer()
	if err != nil {
		return delivery.Settings{}, err
	}
	s := delivery.Settings{Server: server}
	for i := range c.Reports {
		r := &c.Reports[i]
		out := delivery.Report{
			Name: r.Name, Every: r.Every, Service: r.Service, Agreement: r.Agreement, Formats: r.Formats,
			Mail: r.To.Email, Folder: r.To.Folder,
		}
		out.Weekday, out.Day, _ = r.day()
		out.At, _ = r.at()
		if r.Timezone != "" {
			if out.Zone, err = time.LoadLocation(r.Timezone); err != nil {
				return s, err
			}
		}
		for _, w := range r.To.Webhooks {
			out.Webhooks = append(out.Webhooks, delivery.Webhook{URL: w.URL, Token: secretSource(w.TokenFile, w.TokenEnv)})
		}
		s.Reports = append(s.Reports, out)
	}
	return s, nil
}
