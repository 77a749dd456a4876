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

const (
	// keepResolved is how long a resolved alert waits for a receiver that does not accept it.
	keepResolved = 24 * time.Hour
	// watchdogFresh is how long the watchdog fires on after the last evaluation.
	watchdogFresh = 4 * time.Minute
)

// Dispatcher groups the live alerts and notifies receivers of them. It is safe for concurrent use.
type Dispatcher struct {
	opt     Options
	started time.Time
	news    atomic.Pointer[news] // nil before the first
	wake    chan struct{}        // holds one
	store   store

	mu       sync.Mutex // guards the fields below
	plan     *plan
	lanes    map[string]*lane // by target
	changed  bool             // the lanes of the plan do not run yet
	read     *news            // the last that was taken over
	items    map[string]*item // by fingerprint
	groups   map[string]*group
	sources  map[sourceKey]sourceCount // alerts that keep others quiet
	round    uint64
	version  uint64 // grows with what is to be saved
	silences silences
}

// news is a view of the alerts and when it came.
type news struct {
	view *state.View
	at   time.Time
}

type sourceKey struct {
	rule  int
	equal string
}

// sourceCount counts firing alerts. both are targets of the same rule, too, and keep no such alert quiet.
type sourceCount struct{ all, both int }

// New checks the settings and reads what was sent. A file of a newer version is an error that wraps fsys.ErrNewer. It
// connects to nothing.
func New(o Options) (*Dispatcher, error) {
	o.applyDefaults()
	d := &Dispatcher{
		opt: o, started: o.Now(), wake: make(chan struct{}, 1), store: store{file: o.File, log: o.Logger},
		lanes: map[string]*lane{}, items: map[string]*item{}, groups: map[string]*group{},
	}
	apply, err := d.Prepare(o.Settings)
	if err != nil {
		return nil, err
	}
	apply()
	return d, d.load()
}

// Update takes the alerts as of a tick. It never waits, and ignores a view that is a little older than another, or the
// same.
func (d *Dispatcher) Update(v *state.View) {
	next := &news{v, d.opt.Now()}
	for {
		n := d.news.Load()
		if n != nil {
			if age := n.view.Time.Sub(v.Time); n.view == v || age > 0 && age < time.Minute { // more: the clock was set back
				return
			}
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
// stays known, so receivers are told of changes only.
func (d *Dispatcher) Prepare(s Settings) (apply func(), err error) {
	p, err := newPlan(s)
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
	running := map[*lane]func(){}
	stop := func(keep func(*lane) bool) {
		var all sync.WaitGroup
		for l, stop := range running {
			if !keep(l) {
				all.Go(stop)
				delete(running, l)
			}
		}
		all.Wait()
	}
	defer stop(func(*lane) bool { return false })
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		d.mu.Lock()
		lanes, changed := d.lanes, d.changed
		d.changed = false
		d.mu.Unlock()
		if changed {
			gone := map[string]bool{}
			for l := range running {
				gone[l.target.name] = lanes[l.target.name] == nil
			}
			stop(func(l *lane) bool { return lanes[l.target.name] == l })
			for name, gone := range gone {
				if gone {
					d.opt.Metrics.Forget(name)
					d.opt.Breakers.Forget(breakerName(name))
				}
			}
			for _, l := range lanes {
				running[l] = start(ctx, l.run)
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

func start(ctx context.Context, run func(ctx context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		run(ctx)
	}()
	return func() {
		cancel()
		<-done
	}
}

// step takes over the news and hands the groups that are due to the lanes. It returns the time until the next is due.
func (d *Dispatcher) step() time.Duration {
	now := d.opt.Now()
	d.mu.Lock()
	if d.plan.root == nil {
		clear(d.groups)
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
				d.version++
			}
			next = min(next, g.due.Sub(now))
		}
	}
	slices.SortFunc(due, func(a, b *group) int { return cmp.Compare(a.key, b.key) })
	d.mu.Unlock()
	if len(due) > 0 {
		d.save() // before anything is sent
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, g := range due {
		d.flush(g)
	}
	return max(next, time.Millisecond)
}

// observe takes over a view: alerts join groups, and those that ended are found.
func (d *Dispatcher) observe(n *news, now time.Time) {
	first := d.read == nil
	d.read = n
	d.round++
	d.sources = map[sourceKey]sourceCount{}
	if w := d.items[watchdogID]; w != nil {
		d.fires(w, now)
	} else if w := d.plan.watchdog(d.started); w != nil {
		d.items[watchdogID] = w
		d.fires(w, now)
	}
	for i := range n.view.Active {
		a := &n.view.Active[i]
		if a.State != state.Firing {
			continue
		}
		it := d.items[a.Fingerprint]
		if it == nil {
			it = d.plan.newItem(a)
			d.items[a.Fingerprint] = it
		}
		it.alert = *a
		d.fires(it, now)
	}
	d.ended(n.view)
	if first {
		d.adopt()
	}
	for id, it := range d.items {
		if it.seen != d.round && !d.grouped(id, it) {
			delete(d.items, id)
		}
	}
}

// fires notes that an alert goes on, which may join its group.
func (d *Dispatcher) fires(it *item, now time.Time) {
	it.seen = d.round
	for _, r := range it.roles {
		if r.source {
			k := sourceKey{r.rule, r.equal}
			c := d.sources[k]
			c.all++
			if r.target {
				c.both++
			}
			d.sources[k] = c
		}
	}
	d.join(it, it.group, it.route, now)
	d.escalate(it, now)
}

// join puts an alert into a group, which it may begin.
func (d *Dispatcher) join(it *item, key string, r route, now time.Time) {
	g := d.groups[key]
	if g == nil {
		g = newGroup(key, now.Add(r.wait))
		if it.alert.FiredAt.Add(r.wait).Before(now) {
			g.due = now // it has waited long enough
		}
		d.groups[key] = g
		d.version++
	}
	g.route, g.labels = r, it.by
	if at, ok := g.members[it.alert.Fingerprint]; !ok || !at.Equal(it.alert.FiredAt) {
		g.members[it.alert.Fingerprint] = it.alert.FiredAt
		d.version++
		if !g.flushed && it.alert.FiredAt.Add(r.wait).Before(now) {
			g.due = now
		}
	}
}

// ended looks up the alerts that are in a group and do not fire any more.
func (d *Dispatcher) ended(v *state.View) {
	missing := map[string]bool{}
	for _, g := range d.groups {
		for id := range g.members {
			if it := d.items[id]; it == nil || it.seen != d.round && it.firing() {
				missing[id] = true
			}
		}
	}
	for i := len(v.Resolved) - 1; i >= 0 && len(missing) > 0; i-- {
		a := &v.Resolved[i]
		if !missing[a.Fingerprint] {
			continue
		}
		delete(missing, a.Fingerprint)
		it := d.items[a.Fingerprint]
		if it == nil {
			it = d.plan.newItem(a)
			d.items[a.Fingerprint] = it
		}
		it.alert = *a
	}
	for id := range missing { // nobody remembers how it ended
		if it := d.items[id]; it != nil {
			it.alert.State, it.alert.ResolvedAt = state.Resolved, v.Time
		}
	}
}

// adopt gives the groups that were restored, or that other settings made, what only their alerts know. Alerts that have
// another place now leave, and so do those of which nothing is known.
func (d *Dispatcher) adopt() {
	for key, g := range d.groups {
		for _, id := range g.list() {
			it := d.items[id]
			if it == nil {
				g.leave(id)
				continue
			}
			r, ok := d.routeOf(it, key)
			if !ok {
				g.leave(id)
				continue
			}
			g.route, g.labels = r, it.by
		}
		for name := range g.sent {
			if d.lanes[name] == nil {
				delete(g.sent, name)
			}
		}
		if len(g.members) == 0 {
			delete(d.groups, key)
			d.version++
		} else if g.flushed {
			g.due = d.opt.Now() // other receivers may have to be told
		}
	}
}

// routeOf finds where an alert goes with a group.
func (d *Dispatcher) routeOf(it *item, key string) (route, bool) {
	if key == it.group {
		return it.route, true
	}
	for i, s := range d.steps(it) {
		if key == escalated(it.group, i) {
			return it.route.escalated(s), true
		}
	}
	return route{}, false
}

// grouped reports whether an alert is in a group.
func (d *Dispatcher) grouped(id string, it *item) bool {
	in := func(key string) bool {
		g := d.groups[key]
		if g == nil {
			return false
		}
		_, ok := g.members[id]
		return ok
	}
	for i := range d.steps(it) {
		if in(escalated(it.group, i)) {
			return true
		}
	}
	return in(it.group)
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

// prune takes alerts out of a group that have resolved, once every target of the receiver was told.
func (d *Dispatcher) prune(g *group) {
	if g.waiting > 0 {
		return
	}
	now := d.opt.Now()
	told := d.tell(g, now)
	var open []*target
	for _, t := range d.plan.targets[g.receiver] {
		if r := told.reason(g, t, now); r != amnotify.ReasonDoNotNotify && r != amnotify.ReasonRepeatIntervalElapsed {
			open = append(open, t)
		}
	}
	for _, id := range g.list() {
		it := d.items[id]
		var untold []*target
		for _, t := range open {
			if !g.sent[t.name].resolvedOf(id) { // the group has more to tell, but perhaps not of this alert
				untold = append(untold, t)
			}
		}
		switch {
		case it == nil:
		case it.firing(), len(untold) > 0 && now.Sub(it.alert.ResolvedAt) < keepResolved:
			continue
		}
		for _, t := range untold {
			d.lanes[t.name].health.Expired(1)
		}
		g.leave(id)
		d.version++
	}
	if len(g.members) == 0 {
		delete(d.groups, g.key)
		d.version++
	}
}

// telling is what a group comes to at a time, without the alerts that are kept quiet.
type telling struct {
	items            []*item
	firing, resolved []string // fingerprints, sorted
	acknowledged     bool     // everything that fires is, so nothing is repeated
}

func (t *telling) reason(g *group, to *target, now time.Time) amnotify.NotifyReason {
	if len(t.items) == 0 {
		return amnotify.ReasonDoNotNotify
	}
	return g.sent[to.name].reason(t.firing, t.resolved, to.resolved, t.acknowledged, g.repeat, now)
}

func (d *Dispatcher) tell(g *group, now time.Time) (t telling) {
	if muted, _, err := d.plan.mutes.Mutes(g.mutes, now); muted && err == nil {
		return t
	}
	t.acknowledged = true
	for _, id := range g.list() {
		it := d.items[id]
		if it == nil || id == watchdogID && now.Sub(d.read.at) > watchdogFresh || d.quiet(it, now) {
			continue
		}
		t.items = append(t.items, it)
		if it.firing() {
			t.firing = append(t.firing, id)
			t.acknowledged = t.acknowledged && d.acknowledged(id)
		} else {
			t.resolved = append(t.resolved, id)
		}
	}
	return t
}

// quiet reports whether nobody is told of an alert now.
func (d *Dispatcher) quiet(it *item, now time.Time) bool {
	return d.inhibited(it) || d.silences.match(it.labels, now) != nil
}

// inhibited reports whether another alert says more than this one.
func (d *Dispatcher) inhibited(it *item) bool {
	return slices.ContainsFunc(it.roles, func(r role) bool {
		if !r.target {
			return false
		}
		c := d.sources[sourceKey{r.rule, r.equal}]
		if r.source {
			return c.all > c.both
		}
		return c.all > 0
	})
}

// Status tells of each integration, by name.
func (d *Dispatcher) Status() []notify.Status {
	d.mu.Lock()
	p, lanes := d.plan, d.lanes
	d.mu.Unlock()
	var out []notify.Status
	for _, t := range p.all() {
		l := lanes[t.name]
		s := l.health.Read()
		s.Breaker = l.breaker.Status()
		out = append(out, s)
	}
	return out
}
