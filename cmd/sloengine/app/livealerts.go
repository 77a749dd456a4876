package app

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sloengine/sloengine/alerts/notify"
	"github.com/sloengine/sloengine/alerts/state"
	"github.com/sloengine/sloengine/cmd/sloengine/config"
	"github.com/sloengine/sloengine/reliability/breaker"
	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/sla"
)

// AlertsFile keeps the alert states over restarts.
const AlertsFile = "alerts.json"

// alertsKept is how long resolved alerts are remembered, for the timelines.
const alertsKept = 30 * 24 * time.Hour

// alertsSaved is how often the states are saved when nothing changes.
const alertsSaved = time.Minute

// liveAlerts steps the alert states with every report, keeps them on disk, and then has them delivered.
type liveAlerts struct {
	machine  *state.Machine
	notifier *notify.Notifier
	file     string
	log      *slog.Logger

	restored bool
	saved    time.Time
}

func newLiveAlerts(dir string, c *config.Config, set *metrics.Set, breakers *breaker.Metrics, log *slog.Logger) (*liveAlerts, error) {
	m, err := state.New(state.Options{
		Alerts:       c.AlertOptions(),
		Grace:        max(2*time.Minute, 4*c.Evaluator.Interval),
		KeepResolved: alertsKept,
		Metrics:      state.NewMetrics(set),
	})
	if err != nil {
		return nil, fmt.Errorf("create alert states: %w", err)
	}
	n, err := notify.New(notify.Options{Settings: sending(c), Metrics: notify.NewMetrics(set), Breakers: breakers, Logger: log})
	if err != nil {
		return nil, err
	}
	l := &liveAlerts{machine: m, notifier: n, file: filepath.Join(dir, AlertsFile), log: log}
	return l, l.checkVersion()
}

// sending is who this engine sends its alerts to.
func sending(c *config.Config) notify.Settings {
	s := c.NotifySettings()
	if !c.Notifications.Send {
		s.Peers = nil
	}
	return s
}

// prepare makes what other settings say about notifications, as far as it can fail, and returns what puts it in force.
func (l *liveAlerts) prepare(next *config.Config) (apply func(), err error) {
	change, err := l.notifier.Prepare(sending(next))
	if err != nil {
		return nil, err
	}
	return func() {
		l.machine.SetLinks(next.AlertOptions())
		change()
	}, nil
}

// checkVersion refuses states of a newer version. Any other damage costs the states alone, see restore.
func (l *liveAlerts) checkVersion() error {
	data, err := os.ReadFile(l.file)
	var head struct{ Version int }
	if err != nil || json.Unmarshal(data, &head) != nil || head.Version <= state.SnapshotVersion {
		return nil //nolint:nilerr // restore reports it
	}
	return fmt.Errorf("alert states %s have format %d, but this version reads formats up to %d: %w", l.file, head.Version, state.SnapshotVersion, fsys.ErrNewer)
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
	if len(changes) > 0 || r.Time.Sub(l.saved) >= alertsSaved {
		l.save(r.Time)
	}
	l.notifier.Update(l.machine.View()) // what is sent is on disk
}

// restore reads what an earlier process knew. Without it alerts start from the
// reports alone, so a broken file is moved aside and logged.
//
// It is false if there was no file descriptor to read it with. The next tick tries again.
func (l *liveAlerts) restore() bool {
	data, err := os.ReadFile(l.file)
	if errors.Is(err, fs.ErrNotExist) {
		return true
	}
	if fsys.Classify(err) == fsys.NoFiles {
		l.log.Error("reading alert states failed, alerts are not evaluated until it succeeds", "file", l.file, "err", err)
		return false
	}
	if err == nil {
		err = l.machine.Restore(data)
	}
	if err != nil {
		l.log.Error("alert states are unreadable, starting without them", "file", l.file, "kept", l.file+".broken", "err", err)
		_ = os.Rename(l.file, l.file+".broken") // without it the next save takes its place
	}
	return true
}

func (l *liveAlerts) save(now time.Time) {
	data := l.machine.Snapshot()
	err := fsys.WriteAtomic(fsys.OS(), l.file, func(w io.Writer) error { _, err := w.Write(data); return err })
	if err != nil {
		l.log.Error("saving alert states failed", "file", l.file, "err", err)
		return
	}
	l.saved = now
}
