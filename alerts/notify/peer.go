package notify

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/sloengine/sloengine/alerts/state"
	"github.com/sloengine/sloengine/reliability/breaker"
	"github.com/sloengine/sloengine/reliability/retry"
)

const (
	// validFor is how many resend intervals an alert fires on at a peer that hears nothing more.
	validFor = 4
	// repeatResolved is how long a resolved alert is repeated, for a peer that lost it.
	repeatResolved = 15 * time.Minute
	// keepResolved is how long a resolved alert is offered to a peer that has not accepted it.
	keepResolved = 24 * time.Hour
	// repeatRefused is how often an alert is offered that the peer refused as invalid.
	repeatRefused = time.Hour
	// maxRefused bounds the requests of a round by which refused alerts are separated from the others.
	maxRefused = 64
	// refusedPause is the wait before the next such round. Each finds some of them.
	refusedPause = 200 * time.Millisecond
)

var errMoreRefused = errors.New("more alerts are refused")

// Backoff and breaker of a peer. They are short, since an alert waits, and a request is cheap.
var (
	backoff = retry.Options{Base: 500 * time.Millisecond, Cap: 10 * time.Second, Jitter: retry.Equal,
		MaxRetries: retry.Unlimited}
	opening = breaker.Options{Consecutive: breaker.Consecutive{Failures: 5, Open: 10 * time.Second, Probes: 1},
		Rate: breaker.Rate{Off: true}}
)

// peer is one Alertmanager. Its goroutine owns known, round and body.
type peer struct {
	settings Peer
	client   *client
	external []state.Label
	resend   time.Duration
	watchdog *watchdog // nil: none
	news     func() *news
	wake     chan struct{} // holds one
	breaker  *breaker.Breaker
	policy   *retry.Policy
	health   *Health
	log      *slog.Logger
	now      func() time.Time

	known map[string]*entry // by fingerprint
	round uint64
	body  []byte
}

type entry struct {
	starts   time.Time // of the instance that it knows
	resolved bool      // it knows that this one has resolved
	sent     time.Time // last; zero: it knows nothing
	waits    bool      // the present state is not delivered
	refused  bool      // the peer did not take it
	round    uint64    // in which the alert was last there
}

// knows reports whether the peer has accepted an alert in a state.
func (e *entry) knows(a *state.Alert) bool {
	return !e.sent.IsZero() && e.starts.Equal(a.FiredAt) && e.resolved == (a.State == state.Resolved)
}

// outgoing is an alert that is due.
type outgoing struct {
	alert *state.Alert // nil: the watchdog
	entry *entry
}

// run delivers until ctx ends.
func (p *peer) run(ctx context.Context) {
	defer p.client.http.CloseIdleConnections()
	check := time.NewTicker(max(time.Second, p.resend/4)) // also if nothing new comes
	defer check.Stop()
	failures, wait := 0, time.Duration(0)
	for {
		if ok, open, changed := p.breaker.Ready(); !ok {
			if !retry.SleepOr(ctx, open, changed) {
				return
			}
			continue
		}
		switch err := p.deliver(ctx); {
		case ctx.Err() != nil:
			return
		case errors.Is(err, errMoreRefused):
			if !retry.Sleep(ctx, refusedPause) {
				return
			}
		case err != nil:
			wait = p.policy.Delay(failures, wait)
			failures++
			if after, ok := retry.AfterOf(err); ok {
				wait = max(wait, min(after, p.policy.MaxRetryAfter()))
			}
			if !retry.Sleep(ctx, wait) {
				return
			}
		default:
			failures, wait = 0, 0
			select {
			case <-p.wake:
			case <-check.C:
			case <-ctx.Done():
				return
			}
		}
	}
}

// deliver sends everything that is due. It stops at the first error that is not about single alerts.
func (p *peer) deliver(ctx context.Context) error {
	n := p.news()
	if n == nil {
		return nil
	}
	due := p.due(n, p.now())
	if len(p.known) == 0 {
		p.health.Idle()
	}
	budget := maxRefused
	for len(due) > 0 {
		batch := p.encode(due, n, p.now())
		if err := p.send(ctx, due[:batch], n, &budget); err != nil {
			return err
		}
		due = due[batch:]
	}
	return nil
}

// due lists what the peer does not know, and what it is time to repeat.
func (p *peer) due(n *news, now time.Time) []outgoing {
	p.round++
	var due []outgoing
	pending := 0
	consider := func(fingerprint string, a *state.Alert, repeat bool) {
		e := p.known[fingerprint]
		if e == nil {
			e = &entry{}
			p.known[fingerprint] = e
		}
		if e.round == p.round {
			return // it fires again, or this is an older instance
		}
		e.round = p.round
		if a != nil {
			e.waits = !e.knows(a)
		} else {
			e.waits = e.sent.IsZero()
		}
		if e.waits {
			pending++
		}
		interval := p.resend
		if e.refused {
			interval = repeatRefused
		}
		if e.waits || repeat && now.Sub(e.sent) >= interval {
			due = append(due, outgoing{a, e})
		}
	}
	if p.watchdog != nil && now.Before(n.at.Add(validFor*p.resend)) {
		consider("", nil, true)
	}
	for i := range n.view.Active {
		if a := &n.view.Active[i]; a.State == state.Firing {
			consider(a.Fingerprint, a, true)
		}
	}
	for i := len(n.view.Resolved) - 1; i >= 0; i-- {
		a := &n.view.Resolved[i]
		age := n.view.Time.Sub(a.ResolvedAt)
		if age >= keepResolved {
			break
		}
		consider(a.Fingerprint, a, age < repeatResolved)
	}
	for fingerprint, e := range p.known {
		if e.round != p.round {
			if e.waits {
				p.health.Expired(1)
			}
			delete(p.known, fingerprint)
		}
	}
	p.health.Pending(pending)
	return due
}

// encode fills the body with as many alerts as go into one request, and returns their number.
func (p *peer) encode(due []outgoing, n *news, now time.Time) (count int) {
	p.body = append(p.body[:0], '[')
	for _, o := range due {
		before := len(p.body)
		if count > 0 {
			p.body = append(p.body, ',')
		}
		var m message
		if o.alert != nil {
			m = newMessage(o.alert, now.Add(validFor*p.resend))
		} else {
			m = p.watchdog.message(n.at.Add(validFor * p.resend))
		}
		p.body = m.appendTo(p.body, p.external)
		if count > 0 && (count >= maxAlerts || len(p.body) >= maxBytes) {
			p.body = p.body[:before]
			break
		}
		count++
	}
	p.body = append(p.body, ']')
	return count
}

// send posts the body, which holds the alerts of batch. Where the peer refuses some of them, halves are sent until
// those are found, as long as the budget lasts.
func (p *peer) send(ctx context.Context, batch []outgoing, n *news, budget *int) error {
	err := p.call(ctx)
	if err == nil {
		p.delivered(batch)
		p.health.Sent(len(batch))
		return nil
	}
	if tooMuch(err) && *budget <= 0 {
		return errMoreRefused
	}
	if !tooMuch(err) {
		p.health.Failed(ctx, err, brief(err))
		return err
	}
	*budget--
	if len(batch) == 1 {
		p.refused(batch[0], err)
		return nil
	}
	for _, half := range [][]outgoing{batch[:len(batch)/2], batch[len(batch)/2:]} {
		for len(half) > 0 {
			count := p.encode(half, n, p.now())
			if err := p.send(ctx, half[:count], n, budget); err != nil {
				return err
			}
			half = half[count:]
		}
	}
	return nil
}

// call posts the body through the breaker.
func (p *peer) call(ctx context.Context) error {
	permit, err := p.breaker.Acquire()
	if err != nil {
		return err
	}
	limited, cancel := permit.Context(ctx)
	defer cancel()
	began := p.now()
	err = p.client.post(limited, p.body)
	permit.Done(breaker.Judge(err))
	p.health.Called(ctx, p.now().Sub(began), err)
	return err
}

// delivered notes what the peer knows now.
func (p *peer) delivered(batch []outgoing) {
	now := p.now()
	waited := 0
	for _, o := range batch {
		if o.entry.waits {
			waited++
		}
		o.entry.sent, o.entry.waits, o.entry.refused = now, false, false
		if o.alert != nil {
			o.entry.starts, o.entry.resolved = o.alert.FiredAt, o.alert.State == state.Resolved
		}
	}
	p.health.Pending(p.health.Read().Pending - waited)
}

// refused gives up on one alert until it is due again.
func (p *peer) refused(o outgoing, err error) {
	if o.entry.waits {
		p.health.Refused(1)
		name := "Watchdog"
		if o.alert != nil {
			name = o.alert.Name
		}
		p.log.Warn("alertmanager refused alert", "alertmanager", p.settings.Name, "alert", name, "err", err)
	}
	p.delivered([]outgoing{o})
	o.entry.refused = true
}

// read is the present status.
func (p *peer) read() Status {
	s := p.health.Read()
	s.Breaker = p.breaker.Status().State.String()
	return s
}
