package receivers

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	amnotify "github.com/prometheus/alertmanager/notify"

	"github.com/sloengine/sloengine/alerts/notify"
	"github.com/sloengine/sloengine/alerts/state"
)

// Dispatcher groups the live alerts and notifies receivers of them. It is safe for concurrent use.
type Dispatcher struct {
	opt     Options
	started time.Time
	news    atomic.Pointer[news] // nil before the first
	wake    chan struct{}        // holds one
	store   store

	previews previews

	mu        sync.Mutex // guards the fields below
	plan      *plan
	lanes     map[string]*lane // by target
	changed   bool             // the lanes of the plan do not run yet
	read      *news            // the last that was taken over
	items     map[string]*item // by fingerprint
	groups    map[string]*group
	sources   map[sourceKey]inhibitors // alerts that inhibit others
	round     uint64
	inhibited inhibitions // as of read
	changes   changeSet   // that are not saved
	silences  silences

	incidents []IncidentState                     // as of the last step
	told      map[string]map[string]knownIncident // by target and ID
}

// news is a view of the alerts and when it came.
type news struct {
	view *state.View
	at   time.Time
}

// New checks the settings and reads what was sent. A file of a newer version is an error that wraps fsys.ErrNewer. It
// connects to nothing.
func New(o Options) (*Dispatcher, error) {
	o.applyDefaults()
	d := &Dispatcher{
		opt: o, started: o.Now(), wake: make(chan struct{}, 1), store: newStore(&o),
		lanes: map[string]*lane{}, items: map[string]*item{}, groups: map[string]*group{},
		changes: changeSet{groups: map[string]bool{}}, told: map[string]map[string]knownIncident{},
	}
	apply, err := d.Prepare(o.Settings)
	if err != nil {
		return nil, err
	}
	apply()
	return d, d.load()
}

// Update takes the alerts as of a tick. It never waits, and ignores a view that is older than another, or the same.
func (d *Dispatcher) Update(v *state.View) {
	next := &news{v, d.opt.Now()}
	for {
		n := d.news.Load()
		if n != nil && n.view.Step >= v.Step {
			return
		}
		if d.news.CompareAndSwap(n, next) {
			d.poke()
			return
		}
	}
}

func (d *Dispatcher) poke() {
	select {
	case d.wake <- struct{}{}:
	default: // it will look anyway
	}
}

// Prepare makes what other settings need, as far as it can fail, and returns what puts them in force. What was sent
// stays known, so receivers are notified of changes only.
func (d *Dispatcher) Prepare(s Settings) (apply func(), err error) {
	p, err := newPlan(s, &d.previews, d.opt.Now)
	if err != nil {
		return nil, fmt.Errorf("notifications: %w", err)
	}
	lanes := map[string]*lane{}
	for _, t := range p.all() {
		if lanes[t.name], err = d.newLane(t, p.settings.Timeout); err != nil {
			return nil, fmt.Errorf("notifications: %w", err)
		}
	}
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.plan, d.lanes, d.changed = p, lanes, true
		clear(d.items) // their places may be others now
		for _, g := range d.groups {
			g.waiting = 0
		}
		d.read = nil
		d.poke()
	}, nil
}

// Run notifies until ctx ends. A message that is being sent then is finished.
func (d *Dispatcher) Run(ctx context.Context) error {
	running := map[string]runningLane{} // the last of each target
	var all sync.WaitGroup
	defer func() { // ctx has ended
		for _, r := range running {
			r.stop()
		}
		all.Wait()
		d.endJournal()
	}()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		d.mu.Lock()
		lanes, changed := d.lanes, d.changed
		d.changed = false
		d.mu.Unlock()
		if changed {
			for name, r := range running {
				if lanes[name] == nil {
					all.Go(func() { d.forget(name, r.stop) })
				}
			}
			for name, l := range lanes {
				if r := running[name]; r.lane != l {
					running[name] = l.follow(ctx, r.stop)
				}
			}
		}
		timer.Reset(d.step())
		select {
		case <-timer.C:
		case <-d.wake:
		case <-ctx.Done():
			return nil
		}
	}
}

// runningLane is a lane whose goroutine has begun. stop may be called more than once.
type runningLane struct {
	lane *lane
	stop func()
}

// follow runs a lane once its predecessor at the same target has ended, if there is one. That may be sending a message
// that hangs, and only then it is known whether the target was notified.
func (l *lane) follow(ctx context.Context, stopBefore func()) runningLane {
	return runningLane{l, notify.Start(ctx, func(ctx context.Context) {
		if stopBefore != nil {
			stopBefore()
		}
		l.run(ctx)
	})}
}

// forget stops the lane of a target that has left the settings, and drops its series unless it came back meanwhile.
func (d *Dispatcher) forget(name string, stop func()) {
	stop()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.lanes[name] == nil {
		d.opt.Metrics.Forget(name)
		d.opt.Breakers.Forget(breakerName(name))
	}
}

// step takes over the news and hands the groups that are due to the lanes. It returns the time until the next is due.
func (d *Dispatcher) step() time.Duration {
	d.readIncidents()
	now := d.opt.Now()
	d.mu.Lock()
	if d.plan.root == nil { // what was sent stays known, receivers may come back
		d.mu.Unlock()
		return time.Minute
	}
	if n := d.news.Load(); n != nil && n != d.read {
		d.observe(n, now)
	}
	var due []*group
	next := time.Minute
	if d.read != nil {
		for _, g := range d.groups {
			if !now.Before(g.due) {
				due = append(due, g)
				g.flushed, g.due = true, now.Add(g.interval)
				d.changes.group(g.key)
			}
			next = min(next, g.due.Sub(now))
		}
	}
	slices.SortFunc(due, func(a, b *group) int { return cmp.Compare(a.key, b.key) })
	d.mu.Unlock()
	if len(due) > 0 || !d.UnsavedSince().IsZero() {
		d.save() // before anything is sent
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, g := range due {
		d.flush(g)
	}
	d.endIdleFailures(now)
	return max(next, time.Millisecond)
}

// endIdleFailures ends the failures of targets for which nothing waits: the last notification was about alerts that are
// over.
func (d *Dispatcher) endIdleFailures(now time.Time) {
	for _, l := range d.lanes {
		if d.read != nil && len(l.queued) == 0 && !l.health.Read().FailingSince.IsZero() && l.incident(now) == nil &&
			!d.untold(l.target, now) {
			l.health.Idle()
		}
	}
}

// untold reports whether a target has to be notified of a group.
func (d *Dispatcher) untold(to *target, now time.Time) bool {
	for _, g := range d.groups {
		if told := d.tell(g, now); slices.Contains(d.plan.targets[g.receiver], to) &&
			told.reason(g, to, now) != amnotify.ReasonDoNotNotify {
			return true
		}
	}
	return false
}

// flush hands a group to the lanes of its receiver.
func (d *Dispatcher) flush(g *group) {
	if d.groups[g.key] != g || d.read == nil {
		return // the settings have changed meanwhile
	}
	for _, t := range d.plan.targets[g.receiver] {
		d.lanes[t.name].add(g)
	}
	d.prune(g)
}

// UnsavedSince is when the file began to lag behind, because it could not be written; zero if it does not.
func (d *Dispatcher) UnsavedSince() time.Time { return d.store.failing.Failure().Since }

// Status tells of each integration, by name.
func (d *Dispatcher) Status() []notify.Status {
	d.mu.Lock()
	p, lanes := d.plan, d.lanes
	d.mu.Unlock()
	var out []notify.Status
	for _, t := range p.all() {
		l := lanes[t.name]
		s := l.health.Read()
		s.Breaker = l.breaker.Status().State.String()
		out = append(out, s)
	}
	return out
}
