package forecast

import (
	"math"
	"testing"
	"time"
)

// weekly is a past of whole weeks, each of which brings a factor more than the one before. The last has 3600 events in
// most hours and 36,000 on Wednesday from 14:00 to 15:00.
func weekly(weeks int, factor float64) []Hour {
	out := make([]Hour, weeks*hoursPerWeek)
	for i := range out {
		v := 3600 * math.Pow(factor, float64(i/hoursPerWeek-weeks+1))
		if i%hoursPerWeek == 2*24+14 {
			v *= 10
		}
		out[i] = Hour{Valid: v, Observed: 1}
	}
	return out
}

func TestCapacity(t *testing.T) {
	for _, c := range []struct {
		name    string
		weeks   int
		factor  float64
		limit   float64 // events per second; the last peak has 10
		reached Reach
		weeksTo float64
	}{
		{"grows by a tenth a week", 5, 1.1, 10 * 1.1 * 1.1 * 1.1, ReachedWithin, 3},
		{"grows faster", 5, 1.3, 13, ReachedWithin, 1},
		{"grows too slowly", 5, 1.001, 20, ReachedBeyond, 0},
		{"steady", 5, 1, 20, ReachedBeyond, 0},
		{"falls", 5, 0.9, 20, ReachedBeyond, 0},
		{"is there", 5, 1, 10, ReachedAlready, 0},
		{"was there before it fell", 5, 0.9, 12, ReachedBeyond, 0},
		{"two weeks", 2, 1.1, 100, ReachUnknown, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			var p Past
			all := weekly(c.weeks, c.factor)
			p.Load(start, all)
			got := p.Capacity(at(float64(len(all))), c.limit)
			if !got.HasPeak || got.Peak.Weekday() != time.Wednesday || got.Peak.Hour() != 14 {
				t.Errorf("peak at %v, want Wednesday 14:00", got.Peak)
			}
			if got.Reached != c.reached {
				t.Fatalf("reached: %q, want %q (%+v)", got.Reached, c.reached, got)
			}
			if c.reached == ReachedWithin {
				if w := got.Low.Hours() / hoursPerWeek; math.Abs(w-c.weeksTo) > 0.01 {
					t.Errorf("reached in %.2f weeks, want %g", w, c.weeksTo)
				}
				if math.Abs(got.Growth-(c.factor-1)) > 1e-9 {
					t.Errorf("growth %v, want %v", got.Growth, c.factor-1)
				}
			}
		})
	}
}

// TestCapacityOfAnOddWeek has one week of five with half the traffic, which makes a range and no fall.
func TestCapacityOfAnOddWeek(t *testing.T) {
	all := weekly(5, 1.1)
	for i := range hoursPerWeek {
		all[2*hoursPerWeek+i].Valid /= 2
	}
	var p Past
	p.Load(start, all)
	got := p.Capacity(at(float64(len(all))), 15)
	if got.Reached != ReachedWithin || got.Growth < 0.05 || got.Growth > 0.2 {
		t.Errorf("got %+v, want a growth of about a tenth", got)
	}
	if got.Low >= got.High {
		t.Errorf("reached from %s to %s: the odd week must make a range", got.Low, got.High)
	}
}

// TestCapacityLeavesOutUnobservedHours has a peak of which little was observed, and a week that the engine was down.
func TestCapacityLeavesOutUnobservedHours(t *testing.T) {
	all := weekly(5, 1)
	for i := range all {
		if i%hoursPerWeek == 2*24+14 {
			all[i].Observed = 0.1
		}
		if i/hoursPerWeek == 3 {
			all[i] = Hour{}
		}
	}
	var p Past
	p.Load(start, all)
	got := p.Capacity(at(float64(len(all))), 2)
	if got.Rate != 1 {
		t.Errorf("rate %v, want 1: the hour with more was hardly observed", got.Rate)
	}
	if got.Reached != ReachUnknown {
		t.Errorf("reached: %q: three weeks in a row were never observed", got.Reached)
	}
}

// TestWeek: the usual week begins on Monday, whenever the past does. One odd hour, or one that was not observed, does
// not show.
func TestWeek(t *testing.T) {
	all := weekly(5, 1)
	odd := 3*hoursPerWeek + 2*24 + 14
	all[odd].Valid, all[odd-hoursPerWeek].Observed = 0, 0.1
	for _, cut := range []int{0, 5, 100} {
		var p Past
		p.Load(start.Add(time.Duration(cut)*time.Hour), all[cut:])
		for _, hours := range []int{len(all) - cut, len(all) - cut - 30} {
			w := p.Week(start.Add(time.Duration(cut+hours)*time.Hour + time.Minute))
			for i, n := range w {
				want := 3600.0
				if i == 2*24+14 {
					want = 36_000
				}
				if n != want {
					t.Errorf("from hour %d, %d hours: hour %d of the week has %g events, want %g", cut, hours, i, n, want)
				}
			}
		}
	}
	var p Past
	p.Load(start, all[:23])
	if p.Week(start.Add(23*time.Hour)) != nil {
		t.Error("less than a day tells no week")
	}
	p.Load(start, all[:24])
	if w := p.Week(start.Add(24 * time.Hour)); w == nil || w[100] != 3600 {
		t.Error("a day stands for all")
	}
}
