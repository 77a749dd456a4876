package forecast

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/sloengine/sloengine/slo"
)

// service is a simulated service: its hours, of which a forecast sees those before now, and what its budget truly was.
type service struct {
	question Question
	start    time.Time
	hours    []Hour
	sums     []Hour    // of the hours before each
	now      int       // hours before the question
	after    []float64 // what remained some hours after the question, from 0 on
}

const (
	simulatedPast  = 70 * hoursPerDay
	simulatedAhead = hoursPerWeek
)

// simulate makes a service by chance: its size, its day and its week, a base of bad events that drifts, in one of four
// a release after which it is another, and incidents that begin at random and are mostly short and seldom long. The
// distributions are none that the forecast assumes: it draws from the past and knows no parameter.
func simulate(seed uint64) *service { return simulateLevel(seed, false) }

// simulateLevel lets the level of failures change two to four days before the question, and stay.
func simulateLevel(seed uint64, changed bool) *service {
	r := rand.New(rand.NewPCG(seed, 14))
	uniform := func(lo, hi float64) float64 { return lo + (hi-lo)*r.Float64() }
	logUniform := func(lo, hi float64) float64 { return math.Exp(uniform(math.Log(lo), math.Log(hi))) }

	s := &service{start: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(r.IntN(90*24)) * time.Hour),
		now: simulatedPast}
	s.question.Seed = seed
	s.question.Budget = []float64{0.01, 0.01, 0.005, 0.001, 0.001, 0.0005}[r.IntN(6)]
	s.question.Window = []slo.Window{
		{Rolling: 7 * day}, {Rolling: 28 * day}, {Rolling: 30 * day}, {Rolling: 30 * day},
		{Calendar: slo.Month, Location: time.UTC},
	}[r.IntN(5)]

	perHour := logUniform(100, 30_000)
	amplitude, peak, weekend := uniform(0.2, 0.95), uniform(0, 24), uniform(0.3, 1)
	base := s.question.Budget * logUniform(0.02, 0.6)
	perWeek := logUniform(0.2, 6)
	noise := uniform(0.2, 0.6)
	release, after := -1, 1.0
	if r.IntN(4) == 0 {
		release, after = r.IntN(simulatedPast+simulatedAhead), logUniform(0.4, 2.5)
	}
	if changed {
		release, after = simulatedPast-48-r.IntN(49), logUniform(2.5, 12)
		if r.IntN(4) == 0 {
			after = 1 / after
		}
	}
	drift, daily := 0.0, 0.0
	ends, severity := 0.0, 0.0
	for i := range simulatedPast + simulatedAhead {
		at := s.start.Add(time.Duration(i) * time.Hour)
		if i%24 == 0 {
			daily = 0.08 * r.NormFloat64()
		}
		mean := perHour * (1 +
			amplitude*math.Cos(2*math.Pi*(float64(at.Hour())-peak)/24)) * math.Exp(daily+0.08*r.NormFloat64())
		if d := at.Weekday(); d == time.Saturday || d == time.Sunday {
			mean *= weekend
		}
		valid := poisson(r, mean)

		drift += -drift/100 + 0.04*r.NormFloat64()
		ratio := base * math.Exp(drift+noise*r.NormFloat64())
		if i >= release && release >= 0 {
			ratio *= after
		}
		if r.Float64() < perWeek/hoursPerWeek {
			length := min(72, 1.2*math.Exp(1.1*r.NormFloat64()))
			ends, severity = float64(i)+r.Float64()+length, min(1, s.question.Budget*logUniform(3, 1000))
		}
		if part := min(1, max(0, ends-float64(i))); part > 0 {
			ratio += part * severity * math.Exp(0.3*r.NormFloat64())
		}
		bad := min(valid, poisson(r, valid*min(1, ratio)))
		s.hours = append(s.hours, Hour{Valid: valid, Bad: bad, Observed: 1})
	}
	s.question.Now = s.start.Add(time.Duration(s.now) * time.Hour)
	s.sums = append(s.sums, Hour{})
	for i, h := range s.hours {
		s.sums = append(s.sums, Hour{Valid: s.sums[i].Valid + h.Valid, Bad: s.sums[i].Bad + h.Bad})
	}
	for ahead := range hoursPerWeek + 1 {
		s.after = append(s.after, s.remaining(s.now+ahead))
	}
	return s
}

// poisson draws a count; a large one by the normal distribution.
func poisson(r *rand.Rand, mean float64) float64 {
	if mean > 60 {
		return max(0, math.Round(mean+math.Sqrt(mean)*r.NormFloat64()))
	}
	limit, n, product := math.Exp(-mean), 0.0, r.Float64()
	for product > limit {
		n++
		product *= r.Float64()
	}
	return n
}

// remaining is the budget that remained after a number of hours, 1 if nothing was counted.
func (s *service) remaining(hours int) float64 {
	if i := hours - s.now; i >= 0 && i < len(s.after) {
		return s.after[i]
	}
	at := s.start.Add(time.Duration(hours)*time.Hour - 1) // at the end of a calendar window it is that window's
	from := max(0, int(math.Round(s.question.Window.Start(at).Sub(s.start).Hours())))
	valid := s.sums[hours].Valid - s.sums[from].Valid
	bad := s.sums[hours].Bad - s.sums[from].Bad
	return 1 - ratioOf(bad, valid)/s.question.Budget
}
