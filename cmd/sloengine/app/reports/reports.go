package reports

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sloengine/sloengine/cmd/sloengine/app/config"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/sla/delivery"
	"github.com/sloengine/sloengine/sla/report"
	"github.com/sloengine/sloengine/web/api"
)

// File keeps which reports were sent.
const File = "reports.json"

// Scheduled has reports made by the web, and sent when they are due.
type Scheduled struct {
	*delivery.Sender
	latest func() *sla.Report
}

// WriteFunc writes a report in all forms.
type WriteFunc func(ctx context.Context, title string, ask report.Query) (*api.WrittenReport, error)

// New starts nothing.
func New(dir, instance string, c *config.Config, latest func() *sla.Report, set *metrics.Set,
	log *slog.Logger) (*Scheduled, error) {
	settings, err := c.ReportSettings()
	if err != nil {
		return nil, fmt.Errorf("smtp: %w", err)
	}
	s := &Scheduled{latest: latest}
	s.Sender, err = delivery.New(delivery.Options{
		Settings: settings, File: filepath.Join(dir, File), Instance: instance,
		Metrics: delivery.NewMetrics(set), Logger: log,
		Clock: s.clock, Zone: s.zone,
	})
	return s, err
}

// clock is the time of the newest numbers, which the evaluator has checked against jumps.
func (s *Scheduled) clock() (time.Time, bool) {
	r := s.latest()
	if r == nil {
		return time.Time{}, false
	}
	return r.Time, true
}

func (s *Scheduled) zone(r *delivery.Report) *time.Location {
	return report.CalendarZone(s.latest(), report.Query{Service: r.Service, Agreement: r.Agreement})
}

// Run sends what is due until ctx ends.
func (s *Scheduled) Run(ctx context.Context, write WriteFunc) error {
	return s.Sender.Run(ctx, write.make)
}

func (write WriteFunc) make(ctx context.Context, r *delivery.Report, p report.Period) (*delivery.Content, error) {
	w, err := write(ctx, r.Name, report.Query{Period: p, Service: r.Service, Agreement: r.Agreement, Zone: r.Zone})
	if err != nil {
		return nil, fmt.Errorf("make report: %w", err)
	}
	return &delivery.Content{Subject: w.Subject, Text: w.Text, HTML: w.HTML, CSV: w.CSV, JSON: w.JSON,
		Running: w.Running}, nil
}

// Prepare checks what other settings say about reports, and returns what puts it in force.
func (s *Scheduled) Prepare(c *config.Config) (apply func(), err error) {
	settings, err := c.ReportSettings()
	if err != nil {
		return nil, fmt.Errorf("smtp: %w", err)
	}
	return s.Sender.Prepare(settings)
}
