package reports

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"path/filepath"
	"slices"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sloengine/sloengine/cmd/sloengine/app/config"
	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/sla/delivery"
	"github.com/sloengine/sloengine/sla/report"
	"github.com/sloengine/sloengine/web/api"
	"github.com/sloengine/sloengine/web/api/v1"
)

// File keeps which reports were sent, and Dir those that were made to be sent, as JSON.
const (
	File = "reports.json"
	Dir  = "reports"
)

// AnnotationsFile keeps the annotations.
const AnnotationsFile = "annotations.json"

// maxStored is how many reports are stored. Beyond it the oldest are deleted.
const maxStored = 1000

// maxStoredBytes bounds one of them.
const maxStoredBytes = 256 << 20

// SiteStore is where stored reports become durable.
const SiteStore fsys.Site = "reports.store"

// Scheduled has reports made by the web, and sent when they are due.
type Scheduled struct {
	*delivery.Sender
	latest func() *sla.Report
	dir    string
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
	s := &Scheduled{latest: latest, dir: filepath.Join(dir, Dir)}
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
	return s.Sender.Run(ctx, s.Making(write))
}

// Making makes reports and stores them before they are sent.
func (s *Scheduled) Making(write WriteFunc) delivery.MakeFunc {
	return func(ctx context.Context, r *delivery.Report, p report.Period) (*delivery.Content, error) {
		w, err := write(ctx, r.Name, report.Query{Period: p, Service: r.Service, Agreement: r.Agreement, Zone: r.Zone})
		if err != nil {
			return nil, fmt.Errorf("make report: %w", err)
		}
		if !w.Running && w.Seal != nil {
			if err := s.store(r.Name, p, w); err != nil {
				return nil, fmt.Errorf("store report: %w", err)
			}
		}
		return contentOf(w), nil
	}
}

// store keeps the JSON of a report, under the position of the log that it was made of.
func (s *Scheduled) store(name string, p report.Period, w *api.WrittenReport) error {
	if err := fsys.MkdirAllSynced(fsys.OS(), s.dir, SiteStore); err != nil {
		return err
	}
	file := filepath.Join(s.dir, fmt.Sprintf("%020d-%s-%s.json", w.Seal.Position, url.PathEscape(name), p))
	if err := fsys.WriteAtomic(fsys.OS(), file, func(to io.Writer) error {
		_, err := to.Write(w.JSON)
		return err
	}); err != nil {
		return err
	}
	names, err := fsys.OS().List(s.dir)
	if err != nil {
		return err
	}
	names = slices.DeleteFunc(names, func(n string) bool { return filepath.Ext(n) != ".json" })
	slices.Sort(names)
	for _, n := range names[:max(0, len(names)-maxStored)] {
		if err := fsys.OS().Remove(filepath.Join(s.dir, n)); err != nil {
			return err
		}
	}
	return nil
}

// Stored is the JSON of the stored report of a position that answers a query; nil if there is none.
func Stored(dataDir string, at uint64, ask *report.Query) ([]byte, error) {
	dir := filepath.Join(dataDir, Dir)
	names, err := filepath.Glob(filepath.Join(dir, fmt.Sprintf("%020d-*.json", at)))
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		data, err := fsys.ReadFile(name, maxStoredBytes)
		if err != nil {
			return nil, err
		}
		var x v1.PeriodReport
		if err := json.Unmarshal(data, &x); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		zone := ""
		if ask.Zone != nil {
			zone = ask.Zone.String()
		}
		if x.Period == ask.Period.String() && x.Service == ask.Service && x.Agreement == string(ask.Agreement) &&
			x.Zone == zone {
			return data, nil
		}
	}
	return nil, nil
}

func contentOf(w *api.WrittenReport) *delivery.Content {
	return &delivery.Content{Subject: w.Subject, Text: w.Text, HTML: w.HTML, CSV: w.CSV, JSON: w.JSON,
		Running: w.Running}
}

// Prepare checks what other settings say about reports, and returns what puts it in force.
func (s *Scheduled) Prepare(c *config.Config) (apply func(), err error) {
	settings, err := c.ReportSettings()
	if err != nil {
		return nil, fmt.Errorf("smtp: %w", err)
	}
	return s.Sender.Prepare(settings)
}
