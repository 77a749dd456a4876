package relay

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/sloengine/sloengine/reliability/health"
)

// part is something that the relay needs, and why it does not work.
type part struct {
	name   string
	m      *Metrics
	known  atomic.Bool // whether it works is known
	health health.Log
}

// PartStatus is the state of a part.
type PartStatus struct {
	OK     bool
	Reason string    // in words of this program; "" while it works
	Since  time.Time // when it began to fail; zero while it works
}

func (p *part) init(name string, r *Relay) {
	p.name, p.m = name, r.m
	p.health = health.Log{
		Tracker: health.Tracker{Now: r.o.Now, Cause: briefly, Interval: time.Minute},
		Logger:  r.o.Log, Broken: name + " failing", Works: name + " works again",
	}
}

// is notes whether the part works. The first failure and the recovery are logged, once, and so is another cause.
func (p *part) is(err error) {
	p.health.Note(err)
	p.known.Store(true)
	p.m.ready(p.name, err == nil)
}

// status returns the state. It is unknown at first, which is not ready.
func (p *part) status() PartStatus {
	if !p.known.Load() {
		return PartStatus{Reason: "not checked yet"}
	}
	f := p.health.Failure()
	if f.Count == 0 {
		return PartStatus{OK: true}
	}
	return PartStatus{Reason: f.Err.Error(), Since: f.Since}
}

// briefly returns the text by which causes are compared: the full text can hold ports and times.
func briefly(err error) string {
	var b interface{ Brief() string }
	if errors.As(err, &b) {
		return b.Brief()
	}
	return err.Error()
}
