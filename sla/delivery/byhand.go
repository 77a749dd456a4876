package delivery

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/sloengine/sloengine/reliability/mail"
	"github.com/sloengine/sloengine/sla/report"
)

// Errors of SendNow. ErrPeriod is wrapped by those that say what is wrong with a period.
var (
	ErrUnknown = errors.New("no such report")
	ErrPeriod  = errors.New("invalid period")
	ErrNoData  = errors.New("the engine has not made its first numbers")
	ErrBusy    = errors.New("another report is being sent by hand")
)

// Result is what became of a report at one target.
type Result struct {
	Kind Kind
	Name string // an address, host or folder
	Took time.Duration
	Err  error
}

// SendNow makes the report of a name and sends it to each of its targets once, whether it is due or not. A period such
// as last-month is that of the date in the zone of the report, and "" is the last one that is over. What is known of
// scheduled deliveries stays as it is. One report at a time is sent in this way.
func (s *Sender) SendNow(ctx context.Context, name, period string, build MakeFunc) (p report.Period,
	out []Result, err error) {
	if !s.byHand.TryLock() {
		return p, nil, ErrBusy
	}
	defer s.byHand.Unlock()
	r, targets := s.find(name)
	if r == nil {
		return p, nil, fmt.Errorf("%w: %s", ErrUnknown, name)
	}
	now, ok := s.opt.Clock()
	if !ok {
		return p, nil, ErrNoData
	}
	if period == "" {
		period = "last-" + string(r.Every)
	}
	if p, err = report.ResolvePeriod(period, now, s.zone(r)); err != nil {
		return p, nil, fmt.Errorf("%w: %w", ErrPeriod, err)
	}
	content, err := build(ctx, r, p)
	if err != nil {
		return p, nil, err
	}
	var down error // of the mail server
	for i := range targets {
		t := &targets[i]
		began, err := s.opt.Now(), down
		if err == nil || t.kind != ToMail {
			if err = ctx.Err(); err == nil {
				err = t.send(context.WithoutCancel(ctx), s.opt.Files, s.opt.Instance, p, s.opt.Now(), content)
			}
		}
		var of *mail.Error
		if errors.As(err, &of) && of.Down() {
			down = err // the others wait for the same server
		}
		out = append(out, Result{t.kind, t.name, s.opt.Now().Sub(began), err})
		s.opt.Logger.Info("report sent by hand", "report", name, "period", p, "kind", t.kind, "to", t.name, "err", err)
	}
	return p, out, nil
}

// find copies the targets of a report. Each has a key of its own, so that a mail has another Message-ID and a request
// another Idempotency-Key than the scheduled one: who asks for a report again wants it again.
func (s *Sender) find(name string) (r *Report, targets []target) {
	s.mu.Lock()
	defer s.mu.Unlock()
	once := "/" + rand.Text()
	for i := range s.settings.Reports {
		if s.settings.Reports[i].Name == name {
			r = &s.settings.Reports[i]
		}
	}
	for _, t := range s.targets {
		if t.report == r {
			targets = append(targets, target{
				report: r, kind: t.kind, name: t.name, id: t.id, key: t.key + once, address: t.address, server: t.server,
				webhook: t.webhook, timeout: t.timeout,
			})
		}
	}
	return r, targets
}
