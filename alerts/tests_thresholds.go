package alerts

import (
	"fmt"
	"slices"
	"time"
)

// forecast is what rules compute of traffic whose share of bad events changes, one value for each evaluation.
type forecast struct {
	every             time.Duration
	bad, bad5, valid5 []float64 // sums from the begin
}

func (g *generator) forecast(phases []phase) forecast {
	f := forecast{every: g.o.Eval, bad: []float64{0}, bad5: []float64{0}, valid5: []float64{0}}
	per5 := int(shortWindow / f.every)
	for _, p := range phases {
		for range int(p.length / f.every) {
			f.bad = append(f.bad, f.bad[len(f.bad)-1]+p.share)
			k := len(f.bad) - 1
			from := max(0, k-per5)
			f.bad5 = append(f.bad5, f.bad5[k-1]+f.bad[k]-f.bad[from])
			f.valid5 = append(f.valid5, f.valid5[k-1]+float64(k-from))
		}
	}
	return f
}

// share is the share of bad events in the window before an evaluation.
func (f forecast) share(k int, w time.Duration) float64 {
	from := max(0, k-int(w/f.every))
	if w > 6*time.Hour {
		return (f.bad5[k] - f.bad5[from]) / (f.valid5[k] - f.valid5[from])
	}
	return (f.bad[k] - f.bad[from]) / float64(k-from)
}

// covered is the share of a window that rules take for observed at an evaluation of a series that began with the test.
func (g *generator) covered(f forecast, k int, w time.Duration) float64 {
	seen := float64(k) * float64(f.every)
	switch {
	case g.o.Minimal() && w > 2*time.Hour: // they count events of five minutes
		seen = float64(k) * float64(shortWindow)
	case !g.o.Minimal() && w > 6*time.Hour: // they add up what was observed of five minutes
		seen = f.valid5[k] / float64(shortWindow/f.every) * float64(g.o.LongEval)
	}
	return min(1, seen/float64(w))
}

// over is by how much a tier is above its threshold, as a factor: of its long window and of its short one, the smaller.
func (g *generator) over(f forecast, k int, t Tier) float64 {
	return min(f.share(k, t.Long)*g.covered(f, k, t.Long), f.share(k, t.Short)) / t.Threshold
}

// thresholds holds the share of bad events just above the threshold of one tier after the other: tiers with a lower one
// fire, those with a higher one do not.
func (g *generator) thresholds(w *testWriter, subjects []subject) {
	const lasts = time.Hour
	for i := 0; slices.ContainsFunc(subjects, func(s subject) bool { return i < len(s.tiers) }); i++ {
		var asserts []assertion
		w.test(fmt.Sprintf("an hour just above the threshold of one alert (%d)", i+1))
		for _, s := range subjects {
			if i >= len(s.tiers) {
				continue
			}
			k := int(lasts / g.o.Eval)
			share := 1.02 * s.tiers[i].Threshold / g.covered(g.forecast([]phase{{lasts, 1}}), k, s.tiers[i].Long)
			if share > 1 {
				continue
			}
			w.input(s, phase{lasts, exact(share)})
			f := g.forecast([]phase{{lasts, share}})
			for _, t := range s.tiers {
				if over := g.over(f, k, t); over < 0.99 || over > 1.01 && t.For < lasts/2 {
					asserts = append(asserts, fired(s, t, lasts, over > 1))
				}
			}
		}
		if len(asserts) > 0 {
			w.asserts(asserts)
		}
	}
}
