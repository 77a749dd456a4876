package backtest

import (
	"time"

	"github.com/sloengine/sloengine/alerts/state"
	"github.com/sloengine/sloengine/sla"
)

// pastKept is how far back the alert states of an engine are known at least. It saves them every minute, and when an
// alert changes.
const pastKept = 5 * time.Minute

// past are the alert states of some minutes: an engine that was killed starts with those that it saved last.
type past struct {
	saved   [2]snapshot   // the older one first
	reports []*sla.Report // behind the older one
}

type snapshot struct {
	at   int64 // 0: there is none
	data []byte
}

// note is called after each step.
func (p *past) note(m *state.Machine, r *sla.Report) {
	now := r.Time.UnixNano()
	p.reports = append(p.reports, r)
	if s := &p.saved[1]; s.at != 0 && now >= s.at && now-s.at < int64(pastKept) {
		return
	}
	p.saved[0], p.saved[1] = p.saved[1], snapshot{now, m.Snapshot()}
	n := 0
	for _, x := range p.reports {
		if x.Time.UnixNano() > p.saved[0].at {
			p.reports[n] = x
			n++
		}
	}
	clear(p.reports[n:])
	p.reports = p.reports[:n]
}

// restore makes the alert states of a process that starts with those of a tick, or of the last one before it; 0: with
// none.
func (l *lane) restore(r *replay, at int64) error {
	m, err := r.states()
	if err != nil {
		return err
	}
	p := l.past
	l.past = past{}
	for i := len(p.saved) - 1; i >= 0; i-- {
		s := p.saved[i]
		if s.at == 0 || s.at > at {
			continue
		}
		if err := m.Restore(s.data); err != nil {
			return err
		}
		for _, x := range p.reports {
			if now := x.Time.UnixNano(); now > s.at && now <= at {
				m.Step(x)
				s.at = now
			}
		}
		s.data = m.Snapshot()
		if m, err = r.states(); err != nil {
			return err
		}
		if err := m.Restore(s.data); err != nil {
			return err
		}
		l.past.saved[1] = s
		break
	}
	l.machine = m
	still := map[string]bool{}
	for _, a := range m.View().Active {
		still[a.Fingerprint] = a.State == state.Firing
	}
	for fingerprint, i := range l.firing {
		if !still[fingerprint] { // it fired in ticks that the new process does not know of
			end := r.end
			l.alerts[i].End = &end
			delete(l.firing, fingerprint)
		}
	}
	return nil
}
