package receivers

import (
	"context"
	"errors"
	"maps"
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
	backoff = retry.Options{Base: 500 * time.Millisecond, Cap: 30 * time.Second, Jitter: retry.Equal, MaxRetries: retry.Unlimited}
	opening = breaker.Options{Consecutive: breaker.Consecutive{Failures: 5, Open: 10 * time.Second, Probes: 1}, Rate: breaker.Rate{Off: true}}
)

// maxHung bounds the calls of a lane that did not end in time and go on: a mail server that never answers holds one
// until its connection breaks, and Alertmanager's library gives no way to end it.
const maxHung = 8

// lane sends to one target, one message at a time.
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

	queue  []string // keys of groups, each once; guarded by the dispatcher's mutex
	queued map[string]bool
}

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
	return &lane{
		d: d, target: t, timeout: timeout, breaker: b, policy: policy, wake: make(chan struct{}, 1), hung: make(chan struct{}, maxHung), now: d.opt.Now,
		health: d.opt.Metrics.Health("receiver", t.name, "", d.opt.Logger, d.opt.Now), queued: map[string]bool{},
	}, nil
}

// add queues a group. The dispatcher's mutex is held.
func (l *lane) add(g *group) {
	if l.queued[g.key] {
		return
	}
	g.waiting++
	l.queued[g.key] = true
	l.queue = append(l.queue, g.key)
	l.health.Pending(len(l.queue))
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// message is what a target is to be told of a group.
type message struct {
	key      string
	receiver string
	labels   model.LabelSet
	repeat   time.Duration
	alerts   []*amalert.Alert
	reason   amnotify.NotifyReason
	sent     *sent // to be noted when it is delivered
}

// next finds the first group of the queue that the target has to be told of, and drops those before it.
func (l *lane) next() *message {
	l.d.mu.Lock()
	defer l.d.mu.Unlock()
	for len(l.queue) > 0 {
		key, now := l.queue[0], l.now()
		g := l.d.groups[key]
		if g == nil || l.d.read == nil {
			l.drop(key)
			continue
		}
		t := l.d.tell(g, now)
		reason := t.reason(g, l.target, now)
		if reason == amnotify.ReasonDoNotNotify {
			l.drop(key)
			continue
		}
		m := &message{
			key: key, receiver: g.receiver, labels: g.labels, repeat: g.repeat, reason: reason,
			sent: &sent{Firing: t.firing, Resolved: t.resolved},
		}
		if !l.target.resolved && len(t.firing) == 0 { // nothing to say, and to be remembered
			l.note(m, now)
			l.drop(key)
			continue
		}
		for _, it := range t.items {
			if it.firing() || l.target.resolved {
				incident, linked := l.d.opt.Incident(it.alert.Fingerprint)
				m.alerts = append(m.alerts, it.message(l.target.show, incident, linked, now))
			}
		}
		m.labels = shownLabels(m)
		return m
	}
	return nil
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

// drop takes a group out of the queue. The dispatcher's mutex is held.
func (l *lane) drop(key string) {
	if i := slices.Index(l.queue, key); i >= 0 {
		l.queue = slices.Delete(l.queue, i, i+1)
	}
	delete(l.queued, key)
	l.health.Pending(len(l.queue))
	if g := l.d.groups[key]; g != nil && l.d.lanes[l.target.name] == l {
		g.waiting--
		l.d.prune(g)
	}
}

// note remembers what the target was told. The dispatcher's mutex is held.
func (l *lane) note(m *message, now time.Time) {
	if g := l.d.groups[m.key]; g != nil {
		m.sent.At = now
		g.sent[l.target.name] = m.sent
		l.d.version++
	}
}

// run sends until ctx ends.
func (l *lane) run(ctx context.Context) {
	if c := l.target.client; c != nil {
		defer c.CloseIdleConnections()
	}
	failures, wait := 0, time.Duration(0)
	for ctx.Err() == nil {
		m := l.next()
		if m == nil {
			select {
			case <-l.wake:
			case <-ctx.Done():
			}
			continue
		}
		if ok, open, changed := l.breaker.Ready(); !ok {
			if !retry.SleepOr(ctx, open, changed) {
				return
			}
			continue
		}
		err := l.call(ctx, m)
		now, class := l.now(), retry.ClassOf(err)
		switch {
		case err != nil && class == retry.ClassBreakerOpen:
			continue
		case err != nil && class.Retryable() && class != retry.ClassBlocked:
			l.health.Failed(ctx, err, brief(err))
			l.later(m.key)
			wait = l.policy.Delay(failures, wait)
			failures++
			if after, ok := retry.AfterOf(err); ok {
				wait = max(wait, min(after, l.policy.MaxRetryAfter()))
			}
			if !retry.Sleep(ctx, wait) {
				return
			}
			continue
		}
		l.d.mu.Lock()
		if err == nil {
			failures, wait = 0, 0
			l.health.Sent(len(m.alerts))
			l.note(m, now)
		} else { // the next flush of the group offers it again
			l.health.Failed(ctx, err, brief(err))
			l.health.Refused(len(m.alerts))
		}
		l.drop(m.key)
		l.d.mu.Unlock()
		l.d.save() // before the next message, so that a kill repeats one at most
	}
}

// later puts the first group of the queue behind the others, which may be accepted.
func (l *lane) later(key string) {
	l.d.mu.Lock()
	defer l.d.mu.Unlock()
	if i := slices.Index(l.queue, key); i >= 0 {
		l.queue = append(slices.Delete(l.queue, i, i+1), key)
	}
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
	permit.Done(breaker.Judge(err))
	l.health.Called(context.WithoutCancel(ctx), l.now().Sub(began), err)
	return err
}

// send gives up after the timeout, even if the call goes on.
func (l *lane) send(ctx context.Context, m *message) error {
	select {
	case l.hung <- struct{}{}:
	default:
		return &failure{class: retry.ClassTimeout, brief: "no answer in time", detail: ": earlier messages hang"}
	}
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	done := make(chan error, 1)
	go func() {
		defer func() { <-l.hung }()
		defer cancel()
		done <- l.target.send(ctx, m, l.now())
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
		return &failure{class: retry.ClassTimeout, brief: "no answer in time"}
	}
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
	recoverable, err := t.notifier.Notify(ctx, m.alerts...)
	if err == nil && a.lie != "" {
		err, recoverable = errors.New(a.lie), false
	}
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		err = errors.Join(err, context.DeadlineExceeded)
	}
	return newFailure(err, recoverable, &a, now)
}
