package relay

import (
	"errors"
	"sync"
	"time"
)

// part is something that the relay needs, and why it does not work.
type part struct {
	name string
	r    *Relay

	mu       sync.Mutex
	known    bool // whether it works is known
	failing  error
	since    time.Time // of the state
	failures int
	told     string    // brief of the failure that was logged, so its end will be; "" if none was
	toldAt   time.Time // when a failure was last logged
}

// PartStatus is the state of a part.
type PartStatus struct {
	OK     bool
	Reason string // in words of this program; "" while it works
	Since  time.Time
}

// logAgainAfter keeps a part that fails and recovers in quick succession from filling the log.
const logAgainAfter = time.Minute

// is notes whether the part works. The first failure and the recovery are logged, once, and so is another cause.
func (p *part) is(err error) {
	now := p.r.o.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil {
		if p.known && p.failing == nil {
			return
		}
		if p.told != "" {
			p.r.o.Log.Info(p.name+" works again", "after", now.Sub(p.since).Round(time.Millisecond).String(), "failures", p.failures, "cause", p.failing.Error())
		}
		p.known, p.failing, p.since, p.failures, p.told = true, nil, now, 0, ""
		p.r.m.ready(p.name, true)
		return
	}
	if p.failing == nil {
		p.since = now
	}
	p.known, p.failing = true, err
	p.failures++
	if brief := briefly(err); p.told != brief && (p.toldAt.IsZero() || now.Sub(p.toldAt).Abs() >= logAgainAfter) {
		p.told, p.toldAt = brief, now
		p.r.o.Log.Error(p.name+" failing", "cause", err.Error(), "since", p.since.UTC().Format(time.RFC3339))
	}
	p.r.m.ready(p.name, false)
}

// status tells the state. Nothing is known at first, which is not ready.
func (p *part) status() PartStatus {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.known {
		return PartStatus{Reason: "not checked yet"}
	}
	s := PartStatus{OK: p.failing == nil, Since: p.since}
	if p.failing != nil {
		s.Reason = p.failing.Error()
	}
	return s
}

// briefly is what makes a cause the same as another: its text can hold ports and times.
func briefly(err error) string {
	var b interface{ Brief() string }
	if errors.As(err, &b) {
		return b.Brief()
	}
	return err.Error()
}
