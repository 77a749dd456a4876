package forecast

import (
	"flag"
	"math"
	"slices"
	"testing"
)

var services = flag.Int("forecast.services", 200, "number of simulated services of TestForecastCoverage")

// ranges are the ways to give a range that the test compares. The naive ones are described at their functions.
var ranges = []struct {
	name string
	give func(s *service, f *Forecast, farthest int) (low, high float64)
}{
	{"forecast", func(_ *service, f *Forecast, h int) (float64, float64) { return f.Points[h].Low, f.Points[h].High }},
	{"remaining/burn, 1h to 3d", spread(remainingOverBurn)},
	{"window/burn, 1h to 3d", spread(windowOverBurn)},
	{"remaining/burn, past errors", calibrated(remainingOverBurn)},
	{"window/burn, past errors", calibrated(windowOverBurn)},
}

// TestForecastCoverage holds the forecast to its word on simulated services, each of which is asked once. With
// -forecast.services=1000 -v it prints the whole table.
func TestForecastCoverage(t *testing.T) {
	type line struct{ held, below, above, score float64 }
	table := make([][]line, len(ranges))
	for i := range table {
		table[i] = make([]line, len(LeadTimes))
	}
	var past Past
	asked := 0.0
	for seed := range uint64(*services) {
		s := simulate(seed + 1)
		past.Load(s.start, s.hours[:s.now])
		f := past.At(s.question)
		if f.TooLittle != "" {
			continue
		}
		asked++
		for i, r := range ranges {
			for h, ahead := range LeadTimes {
				truth := s.remaining(s.now + int(ahead.Hours()))
				low, high := r.give(s, &f, h)
				l := &table[i][h]
				switch {
				case truth < low-1e-9:
					l.below++
				case truth > high+1e-9:
					l.above++
				default:
					l.held++
				}
				l.score += intervalScore(low, high, truth)
			}
		}
	}
	if asked < 0.9*float64(*services) {
		t.Errorf("only %v of %d services had a forecast", asked, *services)
	}
	for h, ahead := range LeadTimes {
		for i, r := range ranges {
			l := table[i][h]
			t.Logf("%4gh  %-28s held %5.1f %%  below %4.1f %%  above %4.1f %%  interval score %8.3f",
				ahead.Hours(), r.name, 100*l.held/asked, 100*l.below/asked, 100*l.above/asked, l.score/asked)
			if i == 0 && l.held < 0.85*asked {
				t.Errorf("%s ahead: %.1f %% of the ranges held the truth, want at least 85 %%", ahead, 100*l.held/asked)
			}
			if i > 0 && l.score <= table[0][h].score {
				t.Errorf("%s ahead: %s has an interval score of %.3f, the forecast %.3f", ahead, r.name, l.score/asked,
					table[0][h].score/asked)
			}
		}
	}
}

// TestForecastAfterAChangeOfLevel holds the forecast to its word where the level of failures changed two to four days
// ago.
func TestForecastAfterAChangeOfLevel(t *testing.T) {
	var past Past
	asked, told := 0.0, 0.0
	held := make([]float64, len(LeadTimes))
	for seed := range uint64(*services) {
		s := simulateLevel(seed+1, true)
		past.Load(s.start, s.hours[:s.now])
		f := past.At(s.question)
		if f.TooLittle != "" {
			continue
		}
		asked++
		if f.Level != nil {
			told++
		}
		for h, ahead := range LeadTimes {
			if truth := s.remaining(s.now + int(ahead.Hours())); f.Points[h].Low-1e-9 <= truth &&
				truth <= f.Points[h].High+1e-9 {
				held[h]++
			}
		}
	}
	t.Logf("told in %.1f %%", 100*told/asked)
	for h, ahead := range LeadTimes {
		t.Logf("%s ahead: %.1f %% held", ahead, 100*held[h]/asked)
		if held[h] < 0.85*asked {
			t.Errorf("%s ahead: %.1f %% of the ranges held the truth, want at least 85 %%", ahead, 100*held[h]/asked)
		}
	}
}

// intervalScore is Winkler's score of a range (Gneiting and Raftery, 2007, equation 43): its width, and twenty times by
// how much it missed. Less is better.
func intervalScore(low, high, truth float64) float64 {
	return high - low + 2/(1-Probability)*max(0, low-truth, truth-high)
}

// naive is a formula for what remains after a share of the window, by the budget that remains and a burn rate.
type naive func(remaining, burn, share float64) float64

// remainingOverBurn is the straight line that is empty after remaining x window / burn.
func remainingOverBurn(remaining, burn, share float64) float64 { return remaining - burn*share }

// windowOverBurn is the straight line from what remains now that is empty after window / burn.
func windowOverBurn(remaining, burn, share float64) float64 {
	return remaining - max(0, remaining)*burn*share
}

// at gives the least and the greatest that a formula says with the burn rates of one hour, six hours and three days.
func (n naive) at(s *service, now, ahead int) (low, high float64) {
	low, high = math.Inf(1), math.Inf(-1)
	for _, hours := range paceHours {
		var sum Hour
		for _, h := range s.hours[now-int(hours) : now] {
			sum.Valid, sum.Bad = sum.Valid+h.Valid, sum.Bad+h.Bad
		}
		y := n(s.remaining(now), ratioOf(sum.Bad, sum.Valid)/s.question.Budget,
			float64(ahead)/s.question.Window.Nominal().Hours())
		low, high = min(low, y), max(high, y)
	}
	return low, high
}

// spread is the range between the three burn rates.
func spread(n naive) func(*service, *Forecast, int) (float64, float64) {
	return func(s *service, _ *Forecast, h int) (float64, float64) {
		return n.at(s, s.now, int(LeadTimes[h].Hours()))
	}
}

// calibrated is the middle of the three burn rates, with the errors that the same formula made on this service in the
// four weeks before: 5 % of them were less than the low end, and 5 % more than the high one. It is the best that can be
// made of a formula without another idea.
func calibrated(n naive) func(*service, *Forecast, int) (float64, float64) {
	return func(s *service, _ *Forecast, h int) (float64, float64) {
		ahead := int(LeadTimes[h].Hours())
		var errors []float64
		for then := s.now - ahead; then > s.now-ahead-4*hoursPerWeek && then >= 31*hoursPerDay; then -= 12 {
			low, high := n.at(s, then, ahead)
			errors = append(errors, s.remaining(then+ahead)-(low+high)/2)
		}
		low, high := n.at(s, s.now, ahead)
		return (low+high)/2 + quantile(errors, 0.05), (low+high)/2 + quantile(errors, 0.95)
	}
}

// TestExhaustionProbability groups simulated services by the probability that they are told, and compares it with how
// often their budget was empty.
func TestExhaustionProbability(t *testing.T) {
	type bin struct{ told, was, n float64 }
	bins := make([]bin, 5)
	var past Past
	for seed := range uint64(*services) {
		s := simulate(seed + 1)
		past.Load(s.start, s.hours[:s.now])
		f := past.At(s.question)
		if f.TooLittle != "" || f.Exhaustion.Already {
			continue
		}
		for h, ahead := range LeadTimes {
			p := f.Points[h].Exhausted
			b := &bins[min(int(p*float64(len(bins))), len(bins)-1)]
			b.n, b.told = b.n+1, b.told+p
			if slices.ContainsFunc(s.after[:int(ahead.Hours())+1], func(r float64) bool { return r <= 0 }) {
				b.was++
			}
		}
	}
	for i, b := range bins {
		t.Logf("told %2d to %3d %%: %4v times, told %5.1f %%, was %5.1f %%", 100*i/len(bins), 100*(i+1)/len(bins), b.n,
			100*b.told/b.n, 100*b.was/b.n)
		if far := math.Abs(b.told - b.was); far > 0.15*b.n+3*math.Sqrt(b.n)/2 {
			t.Errorf("told %.1f %% on average, was %.1f %% of %v", 100*b.told/b.n, 100*b.was/b.n, b.n)
		}
	}
}
