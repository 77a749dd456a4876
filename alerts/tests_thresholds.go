package alerts

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sloengine/sloengine/rules"
	"github.com/sloengine/sloengine/rules/series"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
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

// covered is rules.Options.Covered at an evaluation of a series that began with the test.
func (f forecast) covered(k int, w time.Duration) float64 {
	every := f.every
	if w > 2*time.Hour {
		every = 5 * time.Minute
	}
	return min(1, float64(k)*float64(every)/float64(w))
}

// over is by how much a tier is above its threshold, as a factor: of its long window and of its short one, the smaller.
func (f forecast) over(k int, t Tier) float64 {
	return min(f.share(k, t.Long)*f.covered(k, t.Long), f.share(k, t.Short)) / t.Threshold
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
			share := 1.02 * s.tiers[i].Threshold / g.forecast([]phase{{lasts, 1}}).covered(k, s.tiers[i].Long)
			if share > 1 {
				continue
			}
			w.input(s, phase{lasts, exact(share)})
			f := g.forecast([]phase{{lasts, share}})
			for _, t := range s.tiers {
				if over := f.over(k, t); over < 0.99 || over > 1.01 && t.For < lasts/2 {
					asserts = append(asserts, fired(s, t, lasts, over > 1))
				}
			}
		}
		if len(asserts) > 0 {
			w.asserts(asserts)
		}
	}
}

// withoutCalendar is the rule file of a service without what reads calendar windows.
func (g *generator) withoutCalendar() ([]byte, error) {
	recording, err := rules.Recording(g.in, g.o.Options)
	if err != nil {
		return nil, err
	}
	groups := recording
	for _, s := range g.in.SLOs {
		groups = rules.Merge(groups, g.minimalGroups(s))
		if s.Window.Calendar == "" {
			continue
		}
		name, unit := rules.LongGroup(s), ":"+string(s.Window.Calendar)
		for i := range groups {
			if groups[i].Name == name {
				groups[i].Rules = slices.DeleteFunc(slices.Clone(groups[i].Rules), func(r rules.Rule) bool {
					return strings.HasSuffix(r.Record, unit) || r.Record == series.PeriodBudgetRemaining || r.Alert == NameBudgetExhausted
				})
			}
		}
	}
	return rules.File("", groups), nil
}

// calendar reports whether something of a service is over calendar windows.
func calendar(in rules.Spec, service string) bool {
	return slices.ContainsFunc(in.SLOs, func(s *slo.SLO) bool { return s.ID.Service() == service && s.Window.Calendar != "" }) ||
		slices.ContainsFunc(in.Agreements, func(a *sla.Agreement) bool { return a.Service == service && a.Window.Calendar != "" })
}
