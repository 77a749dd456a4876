package demo

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/sloengine/sloengine/ingest/event"
)

// Types of the events of a journey.
const (
	typeStarted  = "application.started"
	typeStage    = "application.stage"
	typeIssued   = "application.issued"   // a policy was issued
	typeDeclined = "application.declined" // the client does not want it
	typeFailed   = "application.failed"
)

// milestones are the stages that a journey reports, with the share of its time after which it enters them.
var milestones = []struct {
	stage string
	after float64
}{{"CHECK_INSURANCE", 0}, {"GET_CLIENT_INFO", 0.05}, {"GENERATE_POLICY", 0.3}, {"AGREEMENTS_GENERATION", 0.75}}

// conversion is the share of applications that become policies, by channel.
func (p product) conversion(channel string) float64 {
	if channel == "front" {
		return p.issued
	}
	return p.issued * 0.9
}

// LongestJourney is how far back journeys are planned when they are resumed: hardly one takes longer, unless it is
// lost.
const LongestJourney = time.Hour

// lostShare is the share of journeys that never end: their message is never answered.
const lostShare = 0.003

// Journeys are applications on their way: they start, move from stage to stage, and end, or get stuck. Each has a key
// of its own. They are the same for the same model, so those of an earlier process can be resumed.
type Journeys struct {
	m       *Model
	planned time.Time // journeys that start before are in the agenda
	agenda  agenda
}

// Resume makes the journeys as of now. It returns events of the past that were not sent: what happened since sent to
// those that had started, and the way so far of those that are still on it. Without a time in sent nothing was sent:
// then start and end of those that are over are among them, so that what is counted is not only what took long.
func (m *Model) Resume(sent, now time.Time) (*Journeys, []event.Event) {
	j := &Journeys{m: m, planned: now.Add(-LongestJourney).Truncate(time.Second)}
	if !sent.IsZero() && sent.Add(-LongestJourney).Before(j.planned) {
		j.planned = sent.Add(-LongestJourney).Truncate(time.Second)
	}
	var missed []event.Event
	for ; j.planned.Before(now); j.planned = j.planned.Add(time.Second) {
		for _, way := range m.starting(j.planned) {
			known := !sent.IsZero() && way[0].Time.Before(sent)
			over := !way[len(way)-1].Time.After(now) && way[len(way)-1].HasDuration
			for i := range way {
				switch e := &way[i]; {
				case e.Time.After(now):
					heap.Push(&j.agenda, *e)
				case known && !e.Time.Before(sent), !known && !over, sent.IsZero() && e.Type != typeStage:
					missed = append(missed, *e)
				}
			}
		}
	}
	return j, missed
}

// Until returns what happens up to a time and was not returned yet, in order.
func (j *Journeys) Until(now time.Time) (out []event.Event) {
	for ; !j.planned.After(now); j.planned = j.planned.Add(time.Second) {
		for _, way := range j.m.starting(j.planned) {
			for _, e := range way {
				heap.Push(&j.agenda, e)
			}
		}
	}
	for len(j.agenda) > 0 && !j.agenda[0].Time.After(now) {
		out = append(out, heap.Pop(&j.agenda).(event.Event))
	}
	return out
}

// Skip forgets the journeys that would start before a time and are not planned yet.
func (j *Journeys) Skip(until time.Time) {
	if until.After(j.planned) {
		j.planned = until.Truncate(time.Second)
	}
}

// starting are the journeys that start in a second, each as its events in order.
func (m *Model) starting(second time.Time) (out [][]event.Event) {
	r := m.rng(forJourneys, second)
	for _, p := range products {
		for range poisson(r, p.perMin*m.load(second)/60) {
			key := fmt.Sprintf("A-%x-%d", second.Unix(), len(out))
			out = append(out, m.journey(r, p, second.Add(time.Duration(r.Int64N(int64(time.Second)))), key))
		}
	}
	return out
}

// journey plans the way of one application. While mdm is down, many wait for it in the stage that asks it: they go on
// once it answers, fail, or are lost.
func (m *Model) journey(r *rand.Rand, p product, start time.Time, key string) (way []event.Event) {
	ch := channels[0].name
	if r.Float64() >= channels[0].share {
		ch = channels[1].name
	}
	at := start
	add := func(typ, stage string) *event.Event {
		e := event.Event{ID: fmt.Sprintf("demo-%s-%d", key, len(way)), Time: at, Service: Service, Type: typ}
		e.Set("product", p.name)
		e.Set("channel", ch)
		e.Set("application", key)
		if stage != "" {
			e.Set("stage", stage)
		}
		way = append(way, e)
		return &way[len(way)-1]
	}
	end := func(typ string) *event.Event {
		e := add(typ, "")
		e.Duration, e.HasDuration = at.Sub(start), true
		return e
	}
	_, signSlow := m.incident("digital-sign", start)
	takes := lognormal(r, p.median, p.sigma, 1+0.35*(signSlow-1))
	lost := -1 // stage in which it stops for good
	if r.Float64() < lostShare {
		lost = 1 + r.IntN(len(milestones)-1)
	}
	var waited time.Duration
	for i, s := range milestones {
		at = start.Add(waited + time.Duration(s.after*float64(takes)))
		if i == 0 {
			add(typeStarted, s.stage)
		} else {
			add(typeStage, s.stage)
		}
		if i == lost {
			return way
		}
		if s.stage != "GET_CLIENT_INFO" {
			continue
		}
		down, until := m.outage("mdm", at)
		if r.Float64() >= down*p.mdmShare {
			continue
		}
		switch x := r.Float64(); {
		case x < 0.35: // a refused call
			at = at.Add(30 * time.Second)
			fail(end(typeFailed), "critical", "MDM_ERROR")
			return way
		case x < 0.5:
			return way
		}
		waited += until.Sub(at) + lognormal(r, time.Minute, 0.8, 1)
	}
	at = start.Add(waited + takes)
	switch x := r.Float64(); {
	case x < p.critical:
		fail(end(typeFailed), "critical", "APPLICATION_ERROR")
	case x < p.critical+p.conversion(ch):
		end(typeIssued)
	default:
		end(typeDeclined)
	}
	return way
}

// agenda is a heap of events, the earliest first.
type agenda []event.Event

func (a agenda) Len() int           { return len(a) }
func (a agenda) Less(i, k int) bool { return a[i].Time.Before(a[k].Time) }
func (a agenda) Swap(i, k int)      { a[i], a[k] = a[k], a[i] }
func (a *agenda) Push(x any)        { *a = append(*a, x.(event.Event)) }
func (a *agenda) Pop() any {
	last := len(*a) - 1
	e := (*a)[last]
	*a = (*a)[:last]
	return e
}
