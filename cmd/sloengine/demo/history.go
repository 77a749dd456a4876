package demo

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/sloengine/sloengine/ingest/event"
)

// Purposes of random numbers, so that each has its own sequence.
const (
	forApplications = iota + 1
	forSteps
	forLive
	forJourneys
	forViews
	forSales
)

// stepEvery is how finely the history of stages, tasks and integrations is
// merged; applications are merged by the minute, for throughput is judged by it.
const stepEvery = 5 * time.Minute

// History makes the events of the whole minutes in [from, to), oldest first.
// Equal events of a minute are merged into one with a count and its durations,
// as a sender with much traffic does. The ids are the same at every call. It
// stops at emit's first error and returns it.
func (m *Model) History(from, to time.Time, emit func(*event.Event) error) error {
	var e event.Event
	for t := from.Truncate(time.Minute); t.Before(to); t = t.Add(time.Minute) {
		if t.Before(from) {
			continue
		}
		if err := m.applications(t, &e, emit); err != nil {
			return err
		}
		if t.Truncate(stepEvery).Equal(t) {
			if err := m.steps(t, &e, emit); err != nil {
				return err
			}
		}
		if next := t.Add(time.Minute); next.Truncate(salesEvery).Equal(next) &&
			(m.SalesUntil.IsZero() || !next.After(m.SalesUntil)) {
			if err := m.sales(next, &e, emit); err != nil {
				return err
			}
		}
	}
	return nil
}

// salesEvery is how finely the history of applications that start and of policies that are issued is merged.
const salesEvery = 30 * time.Minute

// sales makes the applications that started, and the policies that were issued, in the time of salesEvery before until.
func (m *Model) sales(until time.Time, e *event.Event, emit func(*event.Event) error) error {
	r := m.rng(forSales, until)
	down, _ := m.incident("mdm", until.Add(-salesEvery/2))
	for _, p := range products {
		for _, ch := range channels {
			started := poisson(r, p.perMin*m.load(until)*ch.share*salesEvery.Minutes())
			issued := share(r, started, p.conversion(ch.name)*(1-down*p.mdmShare))
			for _, part := range []struct {
				typ string
				n   int
			}{{typeStarted, started}, {typeIssued, issued}} {
				if part.n == 0 {
					continue
				}
				m.begin(e, until.Add(-time.Minute), part.typ, part.n)
				e.ID = fmt.Sprintf("demo-%s-%s-%s-%d", part.typ, p.name, ch.name, until.Unix()/60)
				e.Set("product", p.name)
				e.Set("channel", ch.name)
				if err := emit(e); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// applications makes one minute of finished applications.
func (m *Model) applications(t time.Time, e *event.Event, emit func(*event.Event) error) error {
	r := m.rng(forApplications, t)
	mdmDown, _ := m.incident("mdm", t)
	_, signSlow := m.incident("digital-sign", t)
	for _, p := range products {
		for _, ch := range channels {
			n := poisson(r, p.perMin*m.load(t)*ch.share)
			outage := share(r, n, mdmDown*p.mdmShare)
			broken := share(r, n-outage, p.critical)
			refused := share(r, n-outage-broken, p.business)
			for _, part := range []struct {
				n               int
				severity, error string
				median          time.Duration
			}{
				{n - outage - broken - refused, "", "", p.median},
				{outage, "critical", "MDM_ERROR", 30 * time.Second},
				{broken, "critical", "APPLICATION_ERROR", p.median},
				{refused, "business", "BUSINESS_RULE", p.median / 3},
			} {
				if part.n == 0 {
					continue
				}
				m.begin(e, t, "application", part.n)
				e.ID = fmt.Sprintf("demo-%s-%s-%s-%d", p.name, ch.name, part.error, t.Unix()/60)
				e.Set("product", p.name)
				e.Set("channel", ch.name)
				fail(e, part.severity, part.error)
				slower := 1 + 0.35*(signSlow-1)
				if part.error != "" {
					slower = 1
				}
				durations(r, e, part.n, part.median, p.sigma, slower)
				if err := emit(e); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// steps makes the stages, tasks and integration calls of stepEvery.
func (m *Model) steps(t time.Time, e *event.Event, emit func(*event.Event) error) error {
	r := m.rng(forSteps, t)
	total := 0.0
	for _, p := range products {
		total += p.perMin
	}
	mean := total * m.load(t) * stepEvery.Minutes()
	for _, kind := range kinds {
		for _, s := range kind.steps {
			failure, slower := m.incident(kind.dependsOn(s.name), t)
			n := poisson(r, mean)
			bad := share(r, n, s.failure+failure)
			for _, part := range []struct {
				n        int
				severity string
				error    string
			}{{n - bad, "", ""}, {bad, "critical", s.errType}} {
				if part.n == 0 {
					continue
				}
				m.begin(e, t, kind.typ, part.n)
				e.ID = fmt.Sprintf("demo-%s-%s-%s-%d", kind.typ, s.name, part.error, t.Unix()/60)
				e.Set(kind.label, s.name)
				fail(e, part.severity, part.error)
				durations(r, e, part.n, s.median, s.sigma, slower)
				if err := emit(e); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// kinds are the event types below an application.
var kinds = []struct {
	typ, label string
	steps      []step
	dependsOn  func(name string) string // the integration behind a step
}{
	{"stage", "stage", stages, integrationOf},
	{"task", "task", tasks, integrationOf},
	{"integration", "integration", integrations, func(name string) string { return name }},
}

func integrationOf(step string) string {
	switch step {
	case "GET_CLIENT_INFO", "getClientInfo":
		return "mdm"
	case "signOperation", "AGREEMENTS_GENERATION":
		return "digital-sign"
	}
	return ""
}

func (m *Model) begin(e *event.Event, t time.Time, typ string, n int) {
	e.Reset()
	e.Time, e.Service, e.Type = t, Service, typ
	e.Count = uint32(n)
}

func fail(e *event.Event, severity, errType string) {
	if errType == "" {
		return
	}
	e.Outcome, e.Severity = event.Failure, severity
	e.Set("error_type", errType)
}

// durations draws n durations and merges those that agree in two digits.
func durations(r *rand.Rand, e *event.Event, n int, median time.Duration, sigma, slower float64) {
	if n == 1 {
		e.Duration, e.HasDuration = lognormal(r, median, sigma, slower), true
		return
	}
	all := make([]time.Duration, n)
	for i := range all {
		all[i] = twoDigits(lognormal(r, median, sigma, slower))
	}
	slices.Sort(all)
	for _, d := range all {
		if k := len(e.Durations); k > 0 && e.Durations[k-1].Duration == d {
			e.Durations[k-1].Count++
			continue
		}
		e.Durations = append(e.Durations, event.DurationCount{Duration: d, Count: 1})
	}
}

// twoDigits keeps the two leading digits of a duration in milliseconds.
func twoDigits(d time.Duration) time.Duration {
	ms := d.Milliseconds()
	if ms < 100 {
		return time.Duration(ms) * time.Millisecond
	}
	unit := int64(math.Pow10(len(strconv.FormatInt(ms, 10)) - 2))
	return time.Duration(ms/unit*unit) * time.Millisecond
}
