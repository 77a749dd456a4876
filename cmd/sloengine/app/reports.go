package app

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sloengine/sloengine/cmd/sloengine/config"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/sla/delivery"
	"github.com/sloengine/sloengine/sla/report"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/spec"
	"github.com/sloengine/sloengine/web/api"
	"github.com/sloengine/sloengine/web/status"
)

// ReportsFile keeps which reports were sent.
const ReportsFile = "reports.json"

// scheduledReports has reports made by the web, and sent when they are due.
type scheduledReports struct {
	sender *delivery.Sender
	latest func() *sla.Report
	write  func(ctx context.Context, title string, ask report.Query) (*api.WrittenReport, error) // set before Run
}

func newScheduledReports(dir, instance string, c *config.Config, latest func() *sla.Report, set *metrics.Set, log *slog.Logger) (*scheduledReports, error) {
	settings, err := c.ReportSettings()
	if err != nil {
		return nil, fmt.Errorf("smtp: %w", err)
	}
	s := &scheduledReports{latest: latest}
	s.sender, err = delivery.New(delivery.Options{
		Settings: settings, File: filepath.Join(dir, ReportsFile), Instance: instance, Metrics: delivery.NewMetrics(set), Logger: log,
		Clock: s.clock, Zone: s.zone, Make: s.make,
	})
	return s, err
}

// clock is the time of the newest numbers, which the evaluator has checked against jumps.
func (s *scheduledReports) clock() (time.Time, bool) {
	r := s.latest()
	if r == nil {
		return time.Time{}, false
	}
	return r.Time, true
}

func (s *scheduledReports) zone(r *delivery.Report) *time.Location {
	return report.CalendarZone(s.latest(), report.Query{Service: r.Service, Agreement: r.Agreement})
}

func (s *scheduledReports) make(ctx context.Context, r *delivery.Report, p report.Period) (*delivery.Content, error) {
	w, err := s.write(ctx, r.Name, report.Query{Period: p, Service: r.Service, Agreement: r.Agreement, Zone: r.Zone})
	if err != nil {
		return nil, fmt.Errorf("make report: %w", err)
	}
	return &delivery.Content{Subject: w.Subject, Text: w.Text, HTML: w.HTML, CSV: w.CSV, JSON: w.JSON, Running: w.Running}, nil
}

// prepare checks what other settings say about reports, and returns what puts it in force.
func (s *scheduledReports) prepare(c *config.Config) (apply func(), err error) {
	settings, err := c.ReportSettings()
	if err != nil {
		return nil, fmt.Errorf("smtp: %w", err)
	}
	return s.sender.Prepare(settings)
}

// Known is what a spec has, for the settings that name it; nil if it could not be read.
func Known(sp *spec.Spec) *config.Known {
	if sp == nil {
		return nil
	}
	k := &config.Known{Typical: map[string]time.Duration{}, Groups: groups(sp)}
	for _, s := range sp.SLOs {
		typical := s.Indicator.Threshold
		if s.Indicator.Kind == slo.KindApdex {
			typical = s.Indicator.Tolerating
		} else if s.Indicator.Kind != slo.KindLatency {
			continue
		}
		for _, m := range s.Indicator.Valid {
			if d, ok := k.Typical[m.Value]; m.Name == "type" && m.Op == slo.OpEqual && (!ok || typical < d) {
				k.Typical[m.Value] = typical
			}
		}
	}
	for _, s := range sp.Services {
		k.Services = append(k.Services, s.Name)
	}
	for _, a := range sp.Agreements {
		k.Services, k.Agreements = append(k.Services, a.Service), append(k.Agreements, string(slo.NewID(a.Service, a.Name)))
	}
	return k
}

// noteUnknown logs which reports name what no spec has.
func noteUnknown(c *config.Config, sp *spec.Spec, log *slog.Logger) {
	var names []string
	for _, u := range c.UnknownInReports(*Known(sp)) {
		names = append(names, u.Report+": "+u.Key+" "+u.Name)
	}
	if len(names) > 0 {
		log.Warn("reports name what no spec has, so they will be empty", "reports", names)
	}
}

// status adds the reports to the condition of the engine.
func (s *scheduledReports) status(e *status.Engine) {
	for _, r := range s.sender.Status() {
		x := status.ReportStatus{Name: r.Name, Every: r.Every, Next: r.Next, Targets: []status.ReportTarget{}}
		for _, t := range r.Targets {
			x.Targets = append(x.Targets, status.ReportTarget{
				Kind: string(t.Kind), Name: t.Name, Period: t.Period, Outcome: string(t.Outcome), At: t.At,
				FailingSince: t.FailingSince, Failures: t.Failures, Cause: t.Cause, Brief: t.Brief,
			})
		}
		e.Reports = append(e.Reports, x)
	}
	e.ReportsUnsaved = s.sender.Unsaved() != nil
}
