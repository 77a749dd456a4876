package demo

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/sloengine/sloengine/ingest/event"
)

// Crawler is the client that views more pages than it should.
const Crawler = "crawler-7"

// Types of events that rate limits make bearable.
const (
	typeView = "page.view"
	typePing = "page.ping" // of a form that is open
)

// Views makes the page views of [from, to): those of people, and those of a crawler that comes for twenty seconds every
// three minutes, for the first time when the warehouse fails. Between them are the pings of open forms, two a second,
// and nine for the first ten of those seconds. run names the process, as in Live.
func (m *Model) Views(from, to time.Time, run string) []event.Event {
	r := rand.New(rand.NewPCG(m.seed^forViews<<48, uint64(from.UnixNano())))
	var out []event.Event
	view := func(typ, client string) {
		e := event.Event{
			ID: fmt.Sprintf("%s-v%x", run, r.Uint64()), Time: from.Add(time.Duration(r.Int64N(int64(to.Sub(from))))),
			Service: Service, Type: typ,
			Duration: lognormal(r, 120*time.Millisecond, 0.6, 1), HasDuration: true,
		}
		if client != "" {
			e.Set("client", client)
		}
		out = append(out, e)
	}
	for range poisson(r, 4*max(0.5, m.load(from))*to.Sub(from).Seconds()) {
		view(typeView, fmt.Sprintf("client-%d", r.IntN(40)))
	}
	pings, crawl := 2.0, m.sinceQuiet(from)
	crawling := crawl >= 0 && crawl%(3*time.Minute) < 20*time.Second
	if crawling && crawl%(3*time.Minute) < 10*time.Second {
		pings = 9
	}
	for range poisson(r, pings*to.Sub(from).Seconds()) {
		view(typePing, "")
	}
	if crawling {
		for range poisson(r, 9*to.Sub(from).Seconds()) {
			view(typeView, Crawler)
		}
	}
	return out
}

// sinceQuiet is the time since the dependencies of the engine began to fail, too: negative during the incident of the
// story, so that nothing competes with it.
func (m *Model) sinceQuiet(t time.Time) time.Duration { return t.Sub(m.story) - 12*time.Minute }

// WarehouseDown reports whether the system that events are delivered to refuses them: for two minutes every three
// hours, for the first time twelve minutes after the story began.
func (m *Model) WarehouseDown(t time.Time) bool {
	since := m.sinceQuiet(t)
	return since >= 0 && since%(3*time.Hour) < 2*time.Minute
}
