package receivers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	amalert "github.com/prometheus/alertmanager/alert"
	"github.com/prometheus/alertmanager/nflog"
	amnotify "github.com/prometheus/alertmanager/notify"
	"github.com/prometheus/common/model"

	"github.com/sloengine/sloengine/alerts/notify"
	"github.com/sloengine/sloengine/reliability/breaker"
	"github.com/sloengine/sloengine/reliability/retry"
)

// Backoff and breaker of a lane.
var (
	backoff = retry.Options{Base: 500 * time.Millisecond, Cap: 30 * time.Second, Jitter: retry.Equal,
		MaxRetries: retry.Unlimited}
	opening = breaker.Options{Consecutive: breaker.Consecutive{Failures: 5, Open: 10 * time.Second, Probes: 1},
		Rate: breaker.Rate{Off: true}}
)

// maxHung bounds the calls of a lane that did not end in time and go on: a mail server that never answers holds one
// until its connection breaks, and Alertmanager's library gives no way to end it.
const maxHung = 8

// lane sends to one target, one message at a time. A group whose message failed waits for itself: new ones go first,
// and only a receiver that does not answer, or asks for a pause, holds up all.
type lane struct {
	d       *Dispatcher
	target  *target
	timeout time.Duration
	health  *notify.Health
	breaker *breaker.Breaker
	policy  *retry.Policy
	wake    chan struct{} // holds one
	hung    chan struct{} // one for each call that goes on
	now     func() time.Time

	queue  []*entry          // not tried yet, or due; guarded by the dispatcher's mutex, as are the fields below
	failed []*entry          // tried, by when they are due
	queued map[string]*entry // all of both, by the key of the group
	calm   time.Time         // failed ones wait until then, so that many of them do not become a storm

	// refused are the alerts and incidents whose events the target refused, and until when they wait
	refused map[string]time.Time

	unanswered string // the group of the last call that got no answer; only run uses it
}

// entry is a group that the target is to be notified of.
type entry struct {
	key      string
	failures int
	wait     time.Duration
	due      time.Time
}

// retryGap is the least time between two calls for groups that failed before, while calls fail.
const retryGap = 100 * time.Millisecond

// breakerName keeps the breakers of receivers apart from those of sinks.
func breakerName(target string) string { return "receiver " + target }

func (d *Dispatcher) newLane(t *target, timeout time.Duration) (*lane, error) {
	policy, err := retry.New(backoff)
	if err != nil {
		return nil, err
	}
	o := opening
	o.Name, o.Metrics, o.ProbeTimeout = breakerName(t.name), d.opt.Breakers, timeout
	b, err := breaker.New(o)
	if err != nil {
		return nil, err
	}
	l := newSendLane(t, timeout, d.opt.Now)
	l.d, l.breaker, l.policy, l.wake, l.queued = d, b, policy, make(chan struct{}, 1), map[string]*entry{}
	l.refused = map[string]time.Time{}
	l.health = d.opt.Metrics.Health("receiver", t.name, "", d.opt.Logger, d.opt.Now)
	return l, nil
}

// newSendLane makes what send needs.
func newSendLane(t *target, timeout time.Duration, now func() time.Time) *lane {
	if t.client != nil {
		t.client.Timeout = timeout // some libraries do not pass on the deadline
	}
	return &lane{target: t, timeout: timeout, now: now, hung: make(chan struct{}, maxHung)}
}

// add queues a group. The dispatcher's mutex is held.
func (l *lane) add(g *group) {
	if l.queued[g.key] != nil {
		return
	}
	g.waiting++
	l.enqueue(&entry{key: g.key})
}

func (l *lane) enqueue(e *entry) {
	l.queued[e.key], l.queue = e, append(l.queue, e)
	l.health.Pending(len(l.queued))
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// message is the notification of a group to a target.
type message struct {
	entry    *entry // nil for a test
	key      string
	receiver string
	labels   model.LabelSet
	repeat   time.Duration
	alerts   []*amalert.Alert
	reason   amnotify.NotifyReason
	sent     *sent // to be noted when it is delivered

	// Of an event: the alert or the incident that it is about, what the id of a repeated one ends with, and what is to be
	// noted of an incident. event is nil for an alert.
	only, again string
	event       *cloudEvent
	incident    knownIncident
}

// next finds the first group of the queue that the target has to be notified of, and drops those before it. Without
// one, it says how long to wait for a group that failed; 0 is until one is added.
func (l *lane) next() (*message, time.Duration) {
	l.d.mu.Lock()
	defer l.d.mu.Unlock()
	for {
		now := l.now()
		if len(l.queue) == 0 {
			if len(l.failed) == 0 {
				return nil, 0
			}
			due := l.failed[0].due
			if due.Before(l.calm) {
				due = l.calm
			}
			if due.After(now) {
				return nil, due.Sub(now)
			}
			l.queue, l.failed = append(l.queue, l.failed[0]), l.failed[1:]
		}
		e := l.queue[0]
		if e.key == incidentsKey {
			if s := l.incident(now); s != nil {
				return l.incidentMessage(e, s), 0
			}
			l.drop(e)
			continue
		}
		g := l.d.groups[e.key]
		if g == nil || l.d.read == nil {
			l.drop(e)
			continue
		}
		t := l.d.tell(g, now)
		reason := t.reason(g, l.target, now)
		if reason == amnotify.ReasonDoNotNotify {
			l.drop(e)
			continue
		}
		m := &message{
			entry: e, key: e.key, receiver: g.receiver, labels: g.labels, repeat: g.repeat, reason: reason,
			sent: &sent{Firing: t.firing, Resolved: t.resolved},
		}
		if !l.target.resolved && len(t.firing) == 0 { // nothing to say, and to be remembered
			l.note(m, now)
			l.drop(e)
			continue
		}
		if l.target.format != "" {
			it, again := l.pick(&t, g.sent[l.target.name], reason, now)
			if it == nil {
				l.drop(e)
				continue
			}
			t.items, m.sent = []*item{it}, g.sent[l.target.name].and(it)
			m.only, m.again = it.alert.Fingerprint, again
		}
		for _, it := range t.items {
			if it.firing() || l.target.resolved {
				incident, linked := l.d.opt.Incident(it.alert.Fingerprint)
				a := it.message(l.target.show, incident, linked, now)
				if affected := l.d.affected(it, l.target.show); affected != "" {
					a.Annotations["affected"] = model.LabelValue(affected)
				}
				m.alerts = append(m.alerts, a)
			}
		}
		m.labels = shownLabels(m)
		return m, 0
	}
}

// shownLabels are the labels of the group, with the values that its alerts show.
func shownLabels(m *message) model.LabelSet {
	out := maps.Clone(m.labels)
	for name := range out {
		if value, ok := m.alerts[0].Labels[name]; ok {
			out[name] = value
		}
	}
	return out
}

// drop takes the first group out of the queue. The dispatcher's mutex is held.
func (l *lane) drop(e *entry) {
	l.queue = l.queue[1:]
	delete(l.queued, e.key)
	l.health.Pending(len(l.queued))
	if g := l.d.groups[e.key]; g != nil && l.d.lanes[l.target.name] == l {
		g.waiting--
		l.d.prune(g)
	}
}

// note remembers what the target was sent. The dispatcher's mutex is held.
func (l *lane) note(m *message, now time.Time) {
	if m.event != nil {
		l.d.noteIncident(l.target.name, m)
		return
	}
	if g := l.d.groups[m.key]; g != nil {
		m.sent.At = now
		g.sent[l.target.name] = m.sent
		l.d.changes.group(g.key)
	}
}

// run sends until ctx ends.
func (l *lane) run(ctx context.Context) {
	if c := l.target.client; c != nil {
		defer c.CloseIdleConnections()
	}
	for ctx.Err() == nil {
		if ok, open, changed := l.breaker.Ready(); !ok {
			if !retry.SleepOr(ctx, open, changed) {
				return
			}
			continue
		}
		m, wait := l.next()
		if m == nil {
			if wait == 0 && !l.health.Read().FailingSince.IsZero() {
				l.d.poke() // it looks itself only after it has filled the queue
			}
			if !l.idle(ctx, wait) {
				return
			}
			continue
		}
		err := l.call(ctx, m)
		if err != nil && retry.ClassOf(err) == retry.ClassBreakerOpen {
			continue
		}
		if wait = l.done(ctx, m, err); wait > 0 && !retry.Sleep(ctx, wait) {
			return
		}
	}
}

// idle waits for a group to be added, or for one to be due. It is false if ctx ended.
func (l *lane) idle(ctx context.Context, wait time.Duration) bool {
	var due <-chan time.Time
	if wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-l.wake:
	case <-due:
	case <-ctx.Done():
		return false
	}
	return true
}

// done does what a call came to. It returns how long the receiver wants to be left alone.
func (l *lane) done(ctx context.Context, m *message, err error) time.Duration {
	now, o := l.now(), outcomeOf(err)
	l.d.mu.Lock()
	if err == nil {
		l.calm = time.Time{}
		l.health.Sent(len(m.alerts))
		l.note(m, now)
	} else {
		l.health.Failed(ctx, err, brief(err))
	}
	if err != nil && (o == unreachable || o == again || o == limited) {
		pause := l.later(m.entry, err, now)
		l.d.mu.Unlock()
		return pause
	}
	if err != nil { // the next flush of the group offers it again
		l.health.Refused(len(m.alerts))
	}
	l.drop(m.entry)
	if m.only != "" {
		if o == refused || err != nil && m.event != nil { // no flush of a group offers incidents
			l.refuse(m.only, now)
		}
		if err == nil || o == refused {
			l.following(m)
		}
	}
	l.d.mu.Unlock()
	if err == nil {
		l.d.save() // before the next message, so that a kill repeats one at most
	}
	return 0
}

// following queues the next event after one. The dispatcher's mutex is held.
func (l *lane) following(m *message) {
	switch g := l.d.groups[m.key]; {
	case l.d.lanes[l.target.name] != l: // the settings have changed meanwhile
	case m.event != nil:
		l.addIncidents()
	case g != nil:
		l.add(g)
	}
}

// later puts the first group of the queue aside. It returns how long the others have to wait, too. The dispatcher's
// mutex is held.
func (l *lane) later(e *entry, err error, now time.Time) (pause time.Duration) {
	e.wait = l.policy.Delay(e.failures, e.wait)
	e.failures++
	if after, ok := retry.AfterOf(err); ok {
		e.wait = max(e.wait, min(after, l.policy.MaxRetryAfter()))
		pause = e.wait
	} else if outcomeOf(err) == limited {
		pause = e.wait
	}
	e.due, l.calm = now.Add(e.wait), now.Add(retryGap)
	l.queue = l.queue[1:]
	i, _ := slices.BinarySearchFunc(l.failed, e.due, func(x *entry, due time.Time) int { return x.due.Compare(due) })
	l.failed = slices.Insert(l.failed, i, e)
	return pause
}

// call sends a message through the breaker. It goes on when the engine stops, since a message that was cut off may have
// arrived.
func (l *lane) call(ctx context.Context, m *message) error {
	permit, err := l.breaker.Acquire()
	if err != nil {
		return err
	}
	limited, cancel := permit.Context(context.WithoutCancel(ctx))
	defer cancel()
	began := l.now()
	err = l.send(limited, m)
	permit.Done(l.judge(m, err))
	l.health.Called(context.WithoutCancel(ctx), l.now().Sub(began), err)
	return err
}

// judge tells the breaker whether the receiver is reachable. Any answer says that it is. A message that gets none twice
// in a row says nothing new: perhaps it is the message that breaks the connection.
func (l *lane) judge(m *message, err error) breaker.Outcome {
	switch {
	case err == nil || outcomeOf(err) != unreachable:
		l.unanswered = ""
		return breaker.Success
	case l.unanswered == m.key && l.breaker.State() == breaker.Closed:
		return breaker.Ignored
	}
	l.unanswered = m.key
	return breaker.Failure
}

// send gives up after the timeout, even if the call goes on.
func (l *lane) send(ctx context.Context, m *message) error {
	select {
	case l.hung <- struct{}{}:
	default:
		return timedOut(": earlier messages hang")
	}
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	done := make(chan error, 1)
	go func() {
		defer func() { <-l.hung }()
		defer cancel()
		done <- l.target.guarded(ctx, m, l.now())
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	select { // it may have ended just now
	case err := <-done:
		return err
	case <-time.After(100 * time.Millisecond):
		return timedOut("")
	}
}

// guarded turns a panic of Alertmanager's library into a refusal: a text may be the cause, and another may pass.
func (t *target) guarded(ctx context.Context, m *message, now time.Time) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &failure{class: retry.ClassPermanent, outcome: refused, brief: "the message cannot be sent",
				detail: fmt.Sprintf(": panic: %v", p)}
		}
	}()
	return t.send(ctx, m, now)
}

// send calls Alertmanager's library.
func (t *target) send(ctx context.Context, m *message, now time.Time) error {
	var a answer
	ctx = context.WithValue(ctx, answerKey{}, &a)
	ctx = amnotify.WithReceiverName(ctx, m.receiver)
	ctx = amnotify.WithGroupKey(ctx, m.key)
	ctx = amnotify.WithGroupLabels(ctx, m.labels)
	ctx = amnotify.WithRepeatInterval(ctx, m.repeat)
	ctx = amnotify.WithNow(ctx, now)
	ctx = amnotify.WithNotificationReason(ctx, m.reason)
	ctx = amnotify.WithNflogStore(ctx, nflog.NewStore(nil))
	recoverable, err := t.notifier.Notify(t.withEvent(ctx, m), m.alerts...)
	if err == nil && a.lie != "" {
		err, recoverable = errors.New(a.lie), false
	}
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		err = errors.Join(err, context.DeadlineExceeded)
	}
	if t.kind == "pagerduty" && recoverable && a.status == http.StatusForbidden {
		a.status = http.StatusTooManyRequests // so its older API limits the rate
	}
	return newFailure(err, recoverable, &a, now)
}
