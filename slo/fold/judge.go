package fold

import (
	"errors"
	"fmt"
	"slices"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/slo"
)

// This file says of single events how they count: to a witness while they are counted, and to others without counting.

// Witness is told of the events that count as bad, so that it can remember examples of them. What it remembers is no
// part of the state. The fold's goroutine calls it.
type Witness interface {
	// Wants reports whether the events of an indicator matter. The answer must be the same each time.
	Wants(indicator string) bool
	// Bad tells of an event of such an indicator, once for each. It must be fast. Of those with the same labels that are
	// received at the same time, no more are told once maxExamples were remembered.
	Bad(e Evidence) (remembered bool)
}

// maxExamples bounds what a flood of bad events costs.
const maxExamples = 32

// Evidence is an event that counts as bad: one that an indicator of events selects as bad, one that is slower than
// the last edge of a latency, or one that fails work. Ratios have none, since their events are not judged one by one.
type Evidence struct {
	Indicator string      // its ID
	Group     slo.Group   // never changes
	Event     *event.View // valid during the call only

	// The labels of the service's counters, which may be slo.OtherGroup. They never change.
	Service, Type, Outcome, Severity string
	Dimensions                       []string
}

// badPlan is a group that counts the events of a plan as bad if they last longer.
type badPlan struct {
	g     *group
	above int64 // nanoseconds; anyDuration: all of them are bad

	rec      int64 // record time of the last one that was told
	examples int   // that were remembered then
}

// anyDuration is below the duration of every event, and of those without one.
const anyDuration = event.NoDuration - 1

// watch notes a group that counts events of the plan as bad, all of them or those that are slow.
func (p *plan) watch(g *group, bad bool) {
	above, some := g.ind.badAbove(bad)
	if !some {
		return
	}
	p.bad = append(p.bad, badPlan{g: g, above: above})
	p.suspect = min(p.suspect, above)
}

// badAbove is the duration above which a valid event is bad. some is false if none is. bad is whether Bad matches it.
func (ind *indicator) badAbove(bad bool) (above int64, some bool) {
	if ind.spec.Kind == Latency {
		return ind.edges[len(ind.edges)-1], true
	}
	return anyDuration, bad && len(ind.spec.Bad) > 0 // no selector matches all, and of a volume no event is bad
}

// testify tells of an event that lasts longer than p.suspect.
func (f *Fold) testify(p *plan, v *event.View) {
	for i := range p.bad {
		x := &p.bad[i]
		if x.rec != f.rec {
			x.rec, x.examples = f.rec, 0
		}
		if v.Duration > x.above && x.examples < maxExamples && f.tell(p, x.g, v) {
			x.examples++
		}
	}
}

// tell tells of an event that is bad for a group. The witness gets a copy of the view, so that those of callers need
// not be on the heap.
func (f *Fold) tell(p *plan, g *group, v *event.View) (remembered bool) {
	t := p.traffic
	f.told = *v
	return f.witness.Bad(Evidence{Indicator: g.ind.spec.ID, Group: g.values, Event: &f.told, Service: t.service,
		Type: t.typ, Outcome: t.outcome, Severity: t.severity, Dimensions: t.dims})
}

// ErrNotJudged is wrapped by the error of an indicator whose events are not good or bad one by one.
var ErrNotJudged = errors.New("events are not judged one by one")

// Judge tells what an indicator counts single events as. It keeps no counts. It is for one goroutine.
type Judge struct {
	ind   *indicator
	svc   *service
	known map[string]verdict // by service.project
	key   []byte
}

// verdict is what events with the same labels count as.
type verdict struct {
	valid bool
	some  bool  // those that last longer than above are bad
	above int64 // nanoseconds
	group slo.Group
}

// maxJudged bounds what a Judge remembers. Beyond it, all is forgotten.
const maxJudged = 100_000

// NewJudge makes the Judge of an indicator. An indicator whose events are not judged one by one has none, and the error
// says why.
func (c *Config) NewJudge(id string) (*Judge, error) {
	i := slices.IndexFunc(c.Indicators, func(x Indicator) bool { return x.ID == id })
	if i < 0 {
		return nil, fmt.Errorf("no indicator %s", id)
	}
	spec := &c.Indicators[i]
	switch {
	case spec.Kind == Ratio:
		return nil, fmt.Errorf("%w: a ratio compares two counts, and no event is bad", ErrNotJudged)
	case spec.Kind == Completion:
		return nil, fmt.Errorf("%w: work that does not finish in time has no event", ErrNotJudged)
	case spec.Kind == Events && len(spec.Bad) == 0:
		return nil, fmt.Errorf("%w: it counts events, of which none is bad", ErrNotJudged)
	}
	ind, err := compileIndicator(spec)
	if err != nil {
		return nil, err
	}
	svc := &Service{Name: spec.Service}
	for i := range c.Services {
		if s := &c.Services[i]; s.Name == spec.Service {
			svc.Types = s.Types
		}
	}
	return &Judge{ind: ind, svc: newService(svc, []*indicator{ind}), known: map[string]verdict{}}, nil
}

// Names are the attributes and fields by which the indicator tells good from bad.
func (j *Judge) Names() (names []string) {
	for _, m := range j.ind.spec.Bad {
		names = append(names, m.Name)
	}
	return names
}

// Service is the only one whose events are judged.
func (j *Judge) Service() string { return j.svc.spec.Name }

// Of is how much an event counts as good and as bad. Both are 0 for one that is not valid. The group is valid until the
// next call, and must not be changed.
func (j *Judge) Of(v *event.View) (good, bad uint64, g slo.Group) {
	if string(v.Service) != j.svc.spec.Name {
		return 0, 0, nil
	}
	j.key = j.svc.project(j.key[:0], v)
	x, ok := j.known[string(j.key)]
	if !ok {
		x = j.judge(v)
		if len(j.known) == maxJudged {
			clear(j.known)
		}
		j.known[string(j.key)] = x
	}
	if !x.valid {
		return 0, 0, nil
	}
	weight := uint64(v.Weight)
	switch {
	case j.ind.spec.Kind == Latency && v.DurationCount() > 0:
		for d, n := range v.Durations {
			if d > x.above {
				bad += weighed(uint64(n), weight)
			} else {
				good += weighed(uint64(n), weight)
			}
		}
	case j.ind.spec.Kind == Latency && v.Duration < 0:
		return 0, 0, nil
	case x.some && v.Duration > x.above:
		bad = weighed(uint64(v.Count), weight)
	default:
		good = weighed(uint64(v.Count), weight)
	}
	return good, bad, x.group
}

func (j *Judge) judge(v *event.View) (x verdict) {
	if !j.svc.knows(string(v.Type)) {
		return x
	}
	get := j.svc.labels(v)
	if x.valid = j.ind.valid.Matches(get); !x.valid {
		return x
	}
	x.above, x.some = j.ind.badAbove(j.ind.bad.Matches(get))
	for _, name := range j.ind.spec.GroupBy {
		x.group = append(x.group, get(name))
	}
	return x
}

// NewRefuser tells which events of a service a fold with this config refuses. rec is the receive time of their record,
// in Unix nanoseconds.
func (c *Config) NewRefuser(name string) func(rec int64, v *event.View) bool {
	i := slices.IndexFunc(c.Services, func(s Service) bool { return s.Name == name })
	if i < 0 {
		return func(int64, *event.View) bool { return true }
	}
	svc := newService(&c.Services[i], nil)
	return func(rec int64, v *event.View) bool {
		return string(v.Service) != name || !plausible(v.Time, rec) ||
			!svc.knows(string(v.Type)) && !svc.spec.AdmitUnknown
	}
}

// Whole knows the events that rate limits must not sample or merge, by service: each starts or ends some work, and no
// other event can stand for it.
type Whole map[string][]slo.Selector

// Whole gives the events that start or end work. It fails where SetConfig fails.
func (c *Config) Whole() (Whole, error) {
	out := Whole{}
	for i := range c.Indicators {
		ind := &c.Indicators[i]
		if ind.Work == nil {
			continue
		}
		for _, ms := range [][]Matcher{ind.Work.Started, ind.Work.Finished, ind.Work.Failed} {
			if len(ms) == 0 {
				continue
			}
			sel, err := matchers(ms)
			if err != nil {
				return nil, err
			}
			out[ind.Service] = append(out[ind.Service], sel)
		}
	}
	return out, nil
}

// Has reports whether an event is one of them.
func (w Whole) Has(v *event.View) bool {
	all := w[string(v.Service)]
	if len(all) == 0 {
		return false
	}
	get := func(name string) string {
		switch name {
		case labelService:
			return string(v.Service)
		case labelType:
			return string(v.Type)
		case labelOutcome:
			return v.Outcome.String()
		case labelSeverity:
			return string(v.Severity)
		}
		value, _ := v.Attr(name)
		return string(value)
	}
	for _, sel := range all {
		if sel.Matches(get) {
			return true
		}
	}
	return false
}
