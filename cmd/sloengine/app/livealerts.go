package app

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sloengine/sloengine/alerts"
	"github.com/sloengine/sloengine/alerts/notify"
	"github.com/sloengine/sloengine/alerts/own"
	"github.com/sloengine/sloengine/alerts/receivers"
	"github.com/sloengine/sloengine/alerts/state"
	"github.com/sloengine/sloengine/cmd/sloengine/app/config"
	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/rules"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/spec"
	"github.com/sloengine/sloengine/slo/traces"
	"github.com/sloengine/sloengine/web/site"
)

// AlertsFile keeps the alert states over restarts.
const AlertsFile = "alerts.json"

// NotificationsFile keeps the sent notifications and the silences.
const (
	NotificationsFile    = "notifications.json"
	notificationsJournal = NotificationsFile + receivers.JournalSuffix
)

// maintenanceAhead is how far ahead maintenance mutes alerts that cannot be expressed as a recurrence of
// Alertmanager's.
const maintenanceAhead = 366 * 24 * time.Hour

// incidentWait is how long the receivers wait for the incidents of new alerts, so that messages link to them. Mostly
// the incidents are written within milliseconds, and the receivers hear of the alerts then.
const incidentWait = 2 * time.Second

// alertsKept is how long resolved alerts are remembered, for the timelines.
const alertsKept = 30 * 24 * time.Hour

// alertsSaved is how often the states are saved when nothing changes.
const alertsSaved = time.Minute

// slowSave is how long the alerts on the engine wait for their states to be saved. On a disk that hangs they are
// delivered without, because they are what tells of it.
const slowSave = 5 * time.Second

// liveAlerts steps the alert states with every report, keeps them on disk, and then has them delivered. The alerts on
// the engine have a loop of their own, which goes on when the evaluator is stuck.
type liveAlerts struct {
	machine   *state.Machine
	notifier  *notify.Notifier
	receivers *receivers.Dispatcher
	watcher   *own.Watcher // of the alerts on the engine; used by one goroutine, under watching
	address   string       // default of their label instance
	file      fsys.StateFile[json.RawMessage]
	log       *slog.Logger

	off      atomic.Bool // notifications.send is false
	watching sync.Mutex

	restoring sync.Mutex // guards restored
	restored  bool

	saving  chan struct{} // holds one while the file is written, who put it in owns saved
	saved   time.Time
	hanging bool // the last save of the engine's loop, which owns it, took too long

	telling   sync.Mutex // held while the notifier is told; guards evaluated
	evaluated bool       // there was a report, so all alerts have their definitions
	late      chan dueView

	// stepped holds one signal for the steps since it was read, once there was a report: before it, alerts of the earlier
	// process are not known to be over. What its reader sees is on disk.
	stepped chan struct{}
}

// maxTraceLinks is how many failing traces an alert links to.
const maxTraceLinks = 5

// traceLinks makes links to failing traces; nil without an address for them.
func (b *builder) traceLinks(of *traces.Store) func(slo.ID, slo.Group) []string {
	address := b.config.Web.TraceURL
	if address == "" {
		return nil
	}
	return func(id slo.ID, group slo.Group) (links []string) {
		list := of.Of(id, group, time.Now())
		for i := range list[:min(len(list), maxTraceLinks)] {
			links = append(links, site.TraceURL(address, list[i].ID))
		}
		return links
	}
}

func (b *builder) liveAlerts(incidentOf func(string) (receivers.Incident, bool),
	incidents func() ([]receivers.IncidentState, bool), traceLinks func(slo.ID, slo.Group) []string,
	why func(slo.ID, slo.Group) string,
) (*liveAlerts, error) {
	c, set, breakers, log := &b.config, b.set, b.delivery.Breakers(), b.Log
	m, err := state.New(state.Options{
		Alerts:       c.AlertOptions(),
		Sending:      c.AlertSending(),
		Grace:        max(2*time.Minute, 4*c.Evaluator.Interval),
		KeepResolved: alertsKept,
		Metrics:      state.NewMetrics(set),
		Traces:       traceLinks,
		Why:          why,
	})
	if err != nil {
		return nil, fmt.Errorf("create alert states: %w", err)
	}
	metrics := notify.NewMetrics(set)
	n, err := notify.New(notify.Options{Settings: sending(c), Metrics: metrics, Breakers: breakers, Logger: log})
	if err != nil {
		return nil, err
	}
	notified, err := notifying(c, b.first.Spec)
	if err != nil {
		return nil, err
	}
	d, err := receivers.New(receivers.Options{
		Settings: notified, File: filepath.Join(b.DataDir, NotificationsFile), Incident: incidentOf,
		Incidents: incidents,
		Metrics:   metrics, Breakers: breakers, Logger: log,
	})
	if err != nil {
		return nil, err
	}
	l := &liveAlerts{
		machine: m, notifier: n, receivers: d, address: b.front.base.Host, log: log,
		saving: make(chan struct{}, 1), late: make(chan dueView, 1), stepped: make(chan struct{}, 1),
	}
	l.file = fsys.StateFile[json.RawMessage]{
		Name: filepath.Join(b.DataDir, AlertsFile), What: "alert states",
		Damaged: "alert states are unreadable, starting without them",
		Files:   fsys.OS(), Oldest: 1, Newest: state.SnapshotVersion, Logger: log,
	}
	began := time.Now().Unix()
	l.watcher, err = own.New(own.Options{
		Settings: l.aboutEngine(c), Metrics: own.NewMetrics(set), Logger: log,
		Gather: func(w io.Writer) {
			set.WritePrometheus(w)
			_, _ = fmt.Fprintln(w, alerts.ProcessStart, began) // at /metrics from another registry
		},
	})
	if err != nil {
		return nil, err
	}
	l.sends(c)
	return l, l.file.CheckVersion() // any other damage costs the states alone, see restore
}

// aboutEngine are the alerts on the engine, with the labels that a scrape gives them.
func (l *liveAlerts) aboutEngine(c *config.Config) own.Settings {
	s := own.Settings{Rules: alerts.EngineAlerts(c.AlertOptions()), Job: c.Notifications.Job,
		Instance: c.Notifications.Instance}
	if s.Instance == "" {
		s.Instance = l.address
	}
	return s
}

// sending is who this engine sends its alerts to.
func sending(c *config.Config) notify.Settings {
	s := c.NotifySettings()
	if !c.Notifications.Send {
		s.Peers = nil
	}
	return s
}

// notifying is who this engine notifies without an Alertmanager.
func notifying(c *config.Config, in *spec.Spec) (receivers.Settings, error) {
	if !c.Notifications.Send {
		return receivers.Settings{}, nil
	}
	now := time.Now()
	return c.ReceiverSettings(rules.Spec{SLOs: in.SLOs, Thresholds: in.Thresholds, Agreements: in.Agreements}, now,
		now.Add(maintenanceAhead))
}

// prepare makes what another spec and other settings say about notifications, as far as it can fail, and returns what
// puts it in force.
func (l *liveAlerts) prepare(next *config.Config, in *spec.Spec) (apply func(), err error) {
	change, err := l.notifier.Prepare(sending(next))
	if err != nil {
		return nil, err
	}
	rewatch, err := l.watcher.Prepare(l.aboutEngine(next))
	if err != nil {
		return nil, err
	}
	notified, err := notifying(next, in)
	if err != nil {
		return nil, err
	}
	route, err := l.receivers.Prepare(notified)
	if err != nil {
		return nil, err
	}
	return func() {
		l.machine.SetLinks(next.AlertOptions(), next.AlertSending())
		l.watching.Lock()
		defer l.watching.Unlock()
		rewatch()
		change()
		route()
		l.sends(next)
	}, nil
}

// sends notes whether this engine notifies, and logs a change.
func (l *liveAlerts) sends(c *config.Config) {
	off := !c.Notifications.Send
	switch was := l.off.Swap(off); {
	case off && !was:
		l.log.Info("notifications are off: notifications.send is false")
	case was && !off:
		l.log.Info("notifications are on")
	}
}

// step takes a report. It runs inside the evaluator's tick. logged has the tick logged: no state is saved before, so
// that after a kill the log has every tick that the states know of.
func (l *liveAlerts) step(r *sla.Report, logged func(before time.Time, states uint32)) {
	if !l.ready() {
		return
	}
	l.saving <- struct{}{}
	before := l.machine.View()
	changes := l.machine.Step(r)
	l.logChanges(changes)
	resent := l.logSenders(before.SentBy, l.machine.View().SentBy)
	logged(before.Time, l.machine.Hash())
	l.write(len(changes) > 0 || resent, r.Time)
	<-l.saving
	l.tell(true) // what is sent is on disk
}

// watch evaluates the alerts on the engine until ctx ends. It begins once the engine is ready or, where that takes
// longer, after one interval: no usual start is pending as an engine that is not ready.
func (l *liveAlerts) watch(ctx context.Context, ready <-chan struct{}) error {
	tick := time.NewTicker(own.Interval)
	defer tick.Stop()
	select {
	case <-ctx.Done():
		return nil
	case <-ready:
	case <-tick.C:
	}
	for {
		l.stepEngine(ctx, time.Now())
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (l *liveAlerts) stepEngine(ctx context.Context, now time.Time) {
	if !l.ready() {
		return
	}
	l.watching.Lock()
	r := l.watcher.Report(ctx, now)
	l.watching.Unlock()
	if ctx.Err() != nil {
		return // its queries were cut off
	}
	changes := l.machine.StepEngine(r)
	l.logChanges(changes)
	l.trySave(len(changes) > 0, now)
	l.tell(false)
}

func (l *liveAlerts) logChanges(changes []state.Transition) {
	for _, c := range changes {
		l.log.Info("alert", "name", c.Alert.Name, "from", c.From, "to", c.To, "slo", c.Alert.SLO, "group", c.Alert.Group,
			"value", c.Alert.Value)
	}
}

// logSenders logs who sends the alerts of SLOs on counters from now on, once for all with the same reason.
func (l *liveAlerts) logSenders(before, now map[slo.ID]state.SentBy) (changed bool) {
	type change struct {
		from, to slo.AlertsBy
		why      string
	}
	slos := map[change][]slo.ID{}
	for _, id := range slices.Sorted(maps.Keys(now)) {
		was, is := before[id], now[id]
		changed = changed || was != is
		if was.By != is.By || was.Why != is.Why {
			c := change{was.By, is.By, is.Why}
			slos[c] = append(slos[c], id)
		}
	}
	for c, of := range slos {
		l.log.Info("who sends the alerts of SLOs on counters", "by", cmp.Or(string(c.to), "undecided"), "before", c.from,
			"why", c.why, "slos", len(of), "first", of[0])
	}
	return changed || len(before) != len(now)
}

// tell passes the alerts on to the notifier. Before the first report, only those on the engine have texts.
func (l *liveAlerts) tell(evaluated bool) {
	l.telling.Lock()
	defer l.telling.Unlock()
	l.evaluated = l.evaluated || evaluated
	v := l.machine.View().ToSend()
	switch {
	case evaluated:
		l.notifier.Update(v)
	case l.evaluated:
		l.notifier.Refresh(v)
	default:
		l.notifier.Refresh(v.OnEngine())
	}
	if !l.evaluated {
		return
	}
	select {
	case l.stepped <- struct{}{}:
	default: // its reader has yet to look
	}
	select {
	case <-l.late: // of an earlier step, which this one replaces
	default:
	}
	l.late <- dueView{v, time.Now().Add(incidentWait)}
}

// dueView is a view that the receivers take at a time at the latest.
type dueView struct {
	view *state.View
	due  time.Time
}

// updateLate passes the alerts on to the receivers once they have waited long enough for incidents.
func (l *liveAlerts) updateLate(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case next := <-l.late:
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(time.Until(next.due)):
				l.receivers.Update(next.view)
			}
		}
	}
}

// ready restores the states of an earlier process at the first call.
func (l *liveAlerts) ready() bool {
	l.restoring.Lock()
	defer l.restoring.Unlock()
	l.restored = l.restored || l.restore()
	return l.restored
}

// restore reads what an earlier process knew. Without it alerts start from the
// reports alone, so a broken file is moved aside and logged.
//
// It is false if it could not be read for now. The next tick tries again.
func (l *liveAlerts) restore() bool {
	_, err := l.file.Load(func(data *json.RawMessage) error { return l.machine.Restore(*data) })
	if err != nil {
		l.log.Error("reading alert states failed, alerts are not evaluated until it succeeds", "file",
			l.file.Name, "err", err)
	}
	return err == nil
}

// trySave writes the states, and gives up after slowSave. The file is then written as soon as the disk answers.
func (l *liveAlerts) trySave(changed bool, now time.Time) {
	limited, cancel := context.WithTimeout(context.Background(), slowSave)
	defer cancel()
	saved := make(chan struct{})
	select {
	case l.saving <- struct{}{}:
		go func() {
			defer close(saved)
			defer func() { <-l.saving }()
			l.write(changed, now)
		}()
	case <-limited.Done():
	}
	select {
	case <-saved:
		l.hanging = false
	case <-limited.Done():
		if !l.hanging {
			l.log.Warn("saving alert states takes long, alerts on the engine are delivered before they are saved",
				"file", l.file.Name)
		}
		l.hanging = true
	}
}

// write writes the states if they changed, or now and then. The caller has put one into saving.
func (l *liveAlerts) write(changed bool, now time.Time) {
	if !changed && now.Sub(l.saved).Abs() < alertsSaved {
		return
	}
	data := l.machine.Snapshot()
	if err := l.file.Write(data); err != nil {
		l.log.Error("saving alert states failed", "file", l.file.Name, "err", err)
		return
	}
	l.saved = now
}
