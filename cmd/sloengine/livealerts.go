package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sloengine/sloengine/alerts"
	"github.com/sloengine/sloengine/alerts/state"
	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/rules"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/web"
)

// alertsFile keeps the alert states over restarts.
const alertsFile = "alerts.json"

// alertsKept is how long resolved alerts are remembered, for the timelines.
const alertsKept = 30 * 24 * time.Hour

// alertsSaved is how often the states are saved when nothing changes.
const alertsSaved = time.Minute

// liveAlerts steps the alert states with every report and keeps them on disk.
type liveAlerts struct {
	machine *state.Machine
	file    string
	log     *slog.Logger

	restored bool
	saved    time.Time
	shown    atomic.Pointer[[]web.Alert]
	held     atomic.Pointer[[]web.HeldAlert]
}

func newLiveAlerts(dir string, set *metrics.Set, evalInterval time.Duration, log *slog.Logger) (*liveAlerts, error) {
	m, err := state.New(state.Options{
		Alerts:       alerts.Options{Options: rules.Options{}},
		Grace:        max(2*time.Minute, 4*evalInterval),
		KeepResolved: alertsKept,
		Metrics:      state.NewMetrics(set),
	})
	if err != nil {
		return nil, fmt.Errorf("make alert states: %w", err)
	}
	l := &liveAlerts{machine: m, file: filepath.Join(dir, alertsFile), log: log}
	l.shown.Store(&[]web.Alert{})
	l.held.Store(&[]web.HeldAlert{})
	return l, nil
}

// step takes a report. It runs inside the evaluator's tick, and therefore only
// once the data folder is ours.
func (l *liveAlerts) step(r *sla.Report) {
	if !l.restored && !l.restore() {
		return
	}
	l.restored = true
	changes := l.machine.Step(r)
	for _, c := range changes {
		l.log.Info("alert", "name", c.Alert.Name, "from", c.From, "to", c.To, "slo", c.Alert.SLO, "group", c.Alert.Group, "value", c.Alert.Value)
	}
	view := l.machine.View()
	list := make([]web.Alert, 0, len(view.Active)+len(view.Resolved))
	for i := range view.Active {
		list = append(list, webAlert(&view.Active[i]))
	}
	for i := range view.Resolved {
		list = append(list, webAlert(&view.Resolved[i]))
	}
	l.shown.Store(&list)
	held := make([]web.HeldAlert, 0, len(view.Held))
	for i := range view.Held {
		h := &view.Held[i]
		held = append(held, web.HeldAlert{
			Name: h.Name, Severity: h.Severity, Tier: h.Tier, Service: h.Service, SLO: h.SLO, Agreement: h.Agreement,
			Group: groupLabels(h.GroupBy, h.Group), Value: h.Value, Why: h.Why,
		})
	}
	l.held.Store(&held)
	if len(changes) > 0 || r.Time.Sub(l.saved) >= alertsSaved {
		l.save(r.Time)
	}
}

// restore reads what an earlier process knew. Without it alerts start from the
// reports alone, so a broken file is put aside and said, not fatal.
//
// It is false if there was no file descriptor to read it with: then the next tick tries.
func (l *liveAlerts) restore() bool {
	data, err := os.ReadFile(l.file)
	if errors.Is(err, fs.ErrNotExist) {
		return true
	}
	if fsys.Classify(err) == fsys.NoFiles {
		l.log.Error("alert states are not read yet, no alert is evaluated until they are", "file", l.file, "err", err)
		return false
	}
	if err == nil {
		err = l.machine.Restore(data)
	}
	if err != nil {
		l.log.Error("alert states could not be read; they start anew", "file", l.file, "kept", l.file+".broken", "err", err)
		_ = os.Rename(l.file, l.file+".broken") // without it the next save takes its place
	}
	return true
}

func (l *liveAlerts) save(now time.Time) {
	data := l.machine.Snapshot()
	err := fsys.WriteAtomic(fsys.OS(), l.file, func(w io.Writer) error { _, err := w.Write(data); return err })
	if err != nil {
		l.log.Error("alert states could not be saved", "file", l.file, "err", err)
		return
	}
	l.saved = now
}

// list is what page and API show; it does not change.
func (l *liveAlerts) list() []web.Alert { return *l.shown.Load() }

// heldBack is list for the alerts that are held back.
func (l *liveAlerts) heldBack() []web.HeldAlert { return *l.held.Load() }

func webAlert(a *state.Alert) web.Alert {
	out := web.Alert{
		Fingerprint: a.Fingerprint, Name: a.Name, State: web.AlertState(a.State), Severity: a.Severity, Urgent: a.Urgent,
		Service: a.Service, SLO: a.SLO, Agreement: a.Agreement, Value: a.Value,
		ActiveSince: a.ActiveSince, FirstBad: a.FirstBad, FiredAt: a.FiredAt, ResolvedAt: a.ResolvedAt, Removed: a.Removed,
	}
	for _, lb := range a.Labels {
		out.Labels = append(out.Labels, web.AlertLabel{Name: lb.Name, Value: lb.Value})
	}
	out.Group = groupLabels(a.GroupBy, a.Group)
	return out
}

func groupLabels(names []string, group slo.Group) (out []web.AlertLabel) {
	for i, name := range names[:min(len(names), len(group))] {
		out = append(out, web.AlertLabel{Name: name, Value: group[i]})
	}
	return out
}
