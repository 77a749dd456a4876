package demo

import (
	"math"
	"math/rand/v2"
	"time"
)

// Service is the service that all events belong to.
const Service = "insurance-unpaid"

// product is one insurance product and how it fares.
type product struct {
	name     string
	perMin   float64 // applications per minute at a weekday's peak
	median   time.Duration
	sigma    float64 // of the log-normal processing time
	critical float64 // share of applications that fail technically on a normal day
	business float64 // share that fail for business reasons
	mdmShare float64 // how much of the process leans on mdm
	issued   float64 // share that becomes a policy, over the channel front
}

var products = []product{
	{name: "MEDCARE", perMin: 66, median: 4 * time.Minute, sigma: 0.55, critical: 0.00035, business: 0.0050,
		mdmShare: 0.62, issued: 0.72},
	{name: "SOMLT", perMin: 58, median: 3 * time.Minute, sigma: 0.50, critical: 0.00030, business: 0.0035,
		mdmShare: 0.22, issued: 0.70},
	{name: "TRVL10", perMin: 56, median: 2 * time.Minute, sigma: 0.45, critical: 0.00025, business: 0.0030,
		mdmShare: 0.05, issued: 0.78},
}

// step is a stage, task or integration call that applications pass through.
type step struct {
	name    string
	median  time.Duration
	sigma   float64
	failure float64 // share that fails on a normal day
	errType string
}

var stages = []step{
	{"INIT", 40 * time.Millisecond, 0.4, 0, ""},
	{"CHECK_INSURANCE", 300 * time.Millisecond, 0.5, 0.0001, "APPLICATION_ERROR"},
	{"CHECK_COMPLEX_INSURANCE", 450 * time.Millisecond, 0.5, 0.0001, "APPLICATION_ERROR"},
	{"GET_INSURANCE_PROGRAM", 500 * time.Millisecond, 0.5, 0.0002, "CATALOGUE_ERROR"},
	{"GET_CLIENT_INFO", 900 * time.Millisecond, 0.6, 0.0002, "MDM_ERROR"},
	{"CREATE_APPLICATION", 8 * time.Second, 0.6, 0.0002, "APPLICATION_ERROR"},
	{"INSURED_OBJECT_CONFIRM", 2 * time.Second, 0.5, 0.0001, "APPLICATION_ERROR"},
	{"GET_TEMPLATES_PROGRAM", 700 * time.Millisecond, 0.5, 0.0001, "CATALOGUE_ERROR"},
	{"GENERATE_POLICY", 40 * time.Second, 0.6, 0.0002, "APPLICATION_ERROR"},
	{"AGREEMENTS_GENERATION", 6 * time.Second, 0.5, 0.0001, "APPLICATION_ERROR"},
	{"CART_RESPONSE_PROCESSING", 3 * time.Second, 0.5, 0.0001, "APPLICATION_ERROR"},
	{"APPLICATION_CONFIRMED", time.Second, 0.5, 0.0001, "APPLICATION_ERROR"},
	{"INSURED_OBJECT_SAVING", 600 * time.Millisecond, 0.5, 0.0001, "APPLICATION_ERROR"},
	{"FINALIZATION_SUCCESSFULLY", 120 * time.Millisecond, 0.4, 0, ""},
}

var tasks = []step{
	{"getClientInfo", 1200 * time.Millisecond, 0.7, 0.0002, "MDM_ERROR"},
	{"createApplication", 9 * time.Second, 0.6, 0.0002, "APPLICATION_ERROR"},
	{"generatePolicy", 45 * time.Second, 0.6, 0.0002, "APPLICATION_ERROR"},
	{"signOperation", 14 * time.Second, 0.7, 0.0003, "DIGITAL_SIGN_ERROR"},
}

var integrations = []step{
	{"mdm", 450 * time.Millisecond, 0.7, 0.0006, "MDM_ERROR"},
	{"catalogue", 180 * time.Millisecond, 0.7, 0.0003, "CATALOGUE_ERROR"},
	{"insurance-application", 1400 * time.Millisecond, 0.6, 0.0004, "APPLICATION_ERROR"},
	{"digital-sign", 2500 * time.Millisecond, 0.6, 0.0005, "DIGITAL_SIGN_ERROR"},
}

var channels = []struct {
	name  string
	share float64
}{{"front", 0.7}, {"back", 0.3}}

// StartsIn is the time from the start of a demo to the incident that happens while it runs.
const StartsIn = 2 * time.Minute

// Incident is a scripted time of trouble.
type Incident struct {
	Name     string
	From, To time.Time

	integration string  // the one that fails or is slow
	failure     float64 // share of its calls that fail
	slower      float64 // factor on its durations and on what waits for it
}

// Model makes the traffic. Make one with New.
type Model struct {
	story     time.Time
	seed      uint64
	zone      *time.Location
	Incidents []Incident

	// SalesUntil ends the history of applications that start and of policies that are issued: after it, journeys have
	// them.
	SalesUntil time.Time
}

// New places two incidents before now: an outage of mdm nine days ago that lasted 25 minutes, and three hours of a slow
// digital-sign two days ago. A third one happens while the demo runs, so that it can be seen how it is detected: mdm
// fails for six minutes, unless FailAt moves it from StartsIn after now.
func New(now time.Time, seed uint64) *Model {
	zone, err := time.LoadLocation("Europe/Moscow")
	if err != nil {
		zone = time.FixedZone("MSK", 3*60*60)
	}
	outage := weekdayAt(now.AddDate(0, 0, -9), 11, 20, zone)
	slow := weekdayAt(now.AddDate(0, 0, -2), 14, 0, zone)
	return &Model{story: now, seed: seed, zone: zone, Incidents: []Incident{
		{Name: "mdm does not answer", From: outage, To: outage.Add(25 * time.Minute), integration: "mdm",
			failure: 0.9, slower: 1.5},
		{Name: "mdm fails again", From: now.Add(StartsIn), To: now.Add(StartsIn + 6*time.Minute), integration: "mdm",
			failure: 0.9, slower: 1.5},
		{Name: "digital-sign is slow", From: slow, To: slow.Add(3 * time.Hour), integration: "digital-sign",
			failure: 0.02, slower: 6},
	}}
}

// Outage is the incident that happens while the demo runs.
func (m *Model) Outage() *Incident { return &m.Incidents[1] }

// Failure is the share of calls that fail in it, beyond those of a normal day.
func (i *Incident) Failure() float64 { return i.failure }

// FailAt moves it. Nothing may read the model meanwhile.
func (m *Model) FailAt(from time.Time) {
	o := m.Outage()
	o.From, o.To = from, from.Add(o.To.Sub(o.From))
}

// weekdayAt is the given wall-clock time on t's day, or the last weekday before it.
func weekdayAt(t time.Time, hour, minute int, zone *time.Location) time.Time {
	t = t.In(zone)
	for t.Weekday() == time.Saturday || t.Weekday() == time.Sunday {
		t = t.AddDate(0, 0, -1)
	}
	return time.Date(t.Year(), t.Month(), t.Day(), hour, minute, 0, 0, zone)
}

// load is the traffic at t as a share of a weekday's peak.
func (m *Model) load(t time.Time) float64 {
	t = t.In(m.zone)
	h := float64(t.Hour()) + float64(t.Minute())/60
	weekend := t.Weekday() == time.Saturday || t.Weekday() == time.Sunday
	var l float64
	switch {
	case h >= 9 && h < 18:
		l = 0.94 + 0.06*math.Sin((h-9)/9*math.Pi)
	case h >= 7 && h < 9:
		l = 0.25 + 0.69*(h-7)/2
	case h >= 18 && h < 23:
		l = 0.94 - 0.80*(h-18)/5
	default:
		l = 0.08
	}
	if weekend {
		l *= 0.35
	}
	return l
}

// incident is what goes on at t for an integration: extra failures and slowness.
func (m *Model) incident(integration string, t time.Time) (failure, slower float64) {
	slower = 1
	for _, in := range m.Incidents {
		if in.integration == integration && !t.Before(in.From) && t.Before(in.To) {
			failure, slower = max(failure, in.failure), max(slower, in.slower)
		}
	}
	return failure, slower
}

// outage is the share of calls of an integration that fail at t beyond those of a normal day, and until when.
func (m *Model) outage(integration string, t time.Time) (failure float64, until time.Time) {
	for _, in := range m.Incidents {
		if in.integration == integration && !t.Before(in.From) && t.Before(in.To) && in.failure > failure {
			failure, until = in.failure, in.To
		}
	}
	return failure, until
}

// rng is a generator of its own for each purpose and time, so that events do not
// depend on what was asked for before.
func (m *Model) rng(purpose uint64, t time.Time) *rand.Rand {
	return rand.New(rand.NewPCG(m.seed^purpose<<48, uint64(t.Unix())))
}

func poisson(r *rand.Rand, mean float64) int {
	if mean <= 0 {
		return 0
	}
	if mean > 50 {
		return max(0, int(math.Round(mean+math.Sqrt(mean)*r.NormFloat64())))
	}
	limit, n, p := math.Exp(-mean), 0, r.Float64()
	for p > limit {
		n++
		p *= r.Float64()
	}
	return n
}

// share draws how many of n events are hit with probability p.
func share(r *rand.Rand, n int, p float64) int {
	hit := 0
	for range n {
		if r.Float64() < p {
			hit++
		}
	}
	return hit
}

// lognormal draws a duration with the given median, in whole milliseconds.
func lognormal(r *rand.Rand, median time.Duration, sigma, slower float64) time.Duration {
	d := time.Duration(float64(median) * slower * math.Exp(sigma*r.NormFloat64()))
	return max(time.Millisecond, d.Round(time.Millisecond))
}
