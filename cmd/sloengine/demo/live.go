package demo

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/sloengine/sloengine/ingest/event"
)

// Live makes the events of applications that finish in [from, to): each with its
// stages, tasks and integration calls, every one an event of its own. run names
// the process, so that the ids of two runs differ.
func (m *Model) Live(from, to time.Time, run string) []event.Event {
	r := rand.New(rand.NewPCG(m.seed^forLive<<48, uint64(from.UnixNano())))
	var out []event.Event
	for _, p := range products {
		n := poisson(r, p.perMin*m.load(from)*to.Sub(from).Minutes())
		for range n {
			at := from.Add(time.Duration(r.Int64N(int64(to.Sub(from)))))
			out = m.application(out, r, p, at, fmt.Sprintf("%s-%x", run, r.Uint64()))
		}
	}
	return out
}

// application appends one application and what it passed through.
func (m *Model) application(out []event.Event, r *rand.Rand, p product, at time.Time, id string) []event.Event {
	mdmDown, _ := m.incident("mdm", at)
	_, signSlow := m.incident("digital-sign", at)

	e := event.Event{ID: id, Time: at, Service: Service, Type: "application", HasDuration: true}
	ch := channels[0].name
	if r.Float64() >= channels[0].share {
		ch = channels[1].name
	}
	e.Set("product", p.name)
	e.Set("channel", ch)
	median, slower := p.median, 1+0.35*(signSlow-1)
	switch x := r.Float64(); {
	case x < mdmDown*p.mdmShare:
		fail(&e, "critical", "MDM_ERROR")
		median, slower = 30*time.Second, 1
	case x < mdmDown*p.mdmShare+p.critical:
		fail(&e, "critical", "APPLICATION_ERROR")
	case x < mdmDown*p.mdmShare+p.critical+p.business:
		fail(&e, "business", "BUSINESS_RULE")
		median = p.median / 3
	}
	e.Duration = lognormal(r, median, p.sigma, slower)
	out = append(out, e)

	for _, kind := range kinds {
		for _, s := range kind.steps {
			failure, slower := m.incident(kind.dependsOn(s.name), at)
			c := event.Event{
				ID: fmt.Sprintf("%s-%s-%s", id, kind.typ, s.name), Time: at, Service: Service, Type: kind.typ,
				Duration: lognormal(r, s.median, s.sigma, slower), HasDuration: true,
			}
			c.Set(kind.label, s.name)
			c.Set("product", p.name)
			if r.Float64() < s.failure+failure {
				fail(&c, "critical", s.errType)
			}
			out = append(out, c)
		}
	}
	return out
}
