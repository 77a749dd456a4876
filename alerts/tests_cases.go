package alerts

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sloengine/sloengine/rules"
	"github.com/sloengine/sloengine/rules/series"
	"github.com/sloengine/sloengine/slo"
)

// All rules run at the pace of the short windows in a test, so it is over in two hours, and says nothing of what only
// longer ones show.
const (
	testHealthy = time.Hour // before an outage
	testOutage  = time.Hour // of alerts that begin later, no test says when
)

// watch is an alert under test, which fires if one of its tiers does.
type watch struct {
	matchers string
	page     bool
	tiers    []Tier
}

func (g *generator) watches(s subject) (out []watch) {
	for _, t := range s.tiers {
		alert := burnName(s.SLO, t)
		matchers := []string{"alertname=" + quote(alert), name(s), series.LabelTier + "=" + quote(t.Name)}
		if g.o.Names == rules.Sloth {
			matchers = slothMatchers(g.o.Identity(s.SLO)[0].Value, alert, t.Severity)
		}
		w := watch{strings.Join(matchers, ","), t.Page, []Tier{t}}
		if i := slices.IndexFunc(out, func(have watch) bool { return have.matchers == w.matchers }); i >= 0 {
			out[i].tiers = append(out[i].tiers, t)
			continue
		}
		out = append(out, w)
	}
	return out
}

// outage makes everything fail for a while: each alert fires, and pages are over soon after it.
func (g *generator) outage(w *testWriter, subjects []subject) {
	start, length := testHealthy, 10*g.o.Eval
	for _, s := range subjects {
		for _, a := range g.watches(s) {
			if fires, _ := a.predict(start, start+testOutage, g.o.Eval); fires < start+testOutage {
				length = max(length, fires-start+4*g.o.Eval)
			}
		}
	}
	length = up(length, time.Minute)
	over := start + length
	end := over
	var asserts []assertion
	for _, s := range subjects {
		id := g.o.Identity(s.SLO)[0]
		asserts = append(asserts, assertion{start, "ALERTS{" + id.Name + "=" + quote(id.Value) + `,alertstate="firing"}`, 0})
		for _, a := range g.watches(s) {
			fires, resets := a.predict(start, over, g.o.Eval)
			if fires >= over {
				continue
			}
			expr := "ALERTS{" + a.matchers + `,alertstate="firing"}`
			asserts = append(asserts, assertion{over, expr, s.feed.groups})
			if long := a.tiers[0].Long; len(a.tiers) == 1 && long <= testHealthy {
				asserts = append(asserts, assertion{fires + 2*g.o.Eval, expr, s.feed.groups})
				if before := fires - 2*g.o.Eval; before > start {
					asserts = append(asserts, assertion{before, expr, 0})
				}
			}
			if a.page {
				asserts = append(asserts, assertion{resets + 2*g.o.Eval, expr, 0})
				end = max(end, resets+2*g.o.Eval)
			}
		}
	}
	w.test("a full outage of " + slo.FormatDuration(length))
	for _, s := range subjects {
		w.input(s, phase{start, 0}, phase{length, 1}, phase{up(end-over+g.o.Eval, time.Minute), 0})
	}
	w.asserts(asserts)
}

// predict gives when an alert fires at the latest in a full outage, and when it is over at the latest.
func (a watch) predict(start, over, eval time.Duration) (fires, resets time.Duration) {
	fires = over
	for _, t := range a.tiers {
		f, r := predict(t, 1, start, over, eval)
		if f < over {
			fires, resets = min(fires, f), max(resets, r)
		}
	}
	return fires, resets
}

// fewEvents lets one of ten events of an hour fail, which may be chance.
func (g *generator) fewEvents(w *testWriter, subjects []subject) {
	const events, length = 10, time.Hour
	var asserts []assertion
	w.test("one of ten events of an hour fails: no paging alert")
	for _, s := range subjects {
		if !rules.CountsEvents(s.SLO) || s.Indicator.Kind == slo.KindRatio {
			continue
		}
		for _, in := range s.feed.series {
			var parts []string
			for i := range events {
				value := 0
				if in.good {
					value += i
				}
				if in.bad && i >= events/2 {
					value++
				}
				if in.one {
					value = 1
				}
				parts = append(parts, fmt.Sprintf("%d+0x%d", value, int(length/events/w.scrape)-1))
			}
			w.series(in.metric, strings.Join(parts, " "))
		}
		for _, a := range g.watches(s) {
			// longer windows count the events of 5m, which are too many at this pace
			if a.page && a.tiers[0].Long <= 2*time.Hour {
				expr := "ALERTS{" + a.matchers + `,alertstate="firing"}`
				asserts = append(asserts, assertion{length/2 + 3*time.Minute, expr, 0}, assertion{length - time.Minute, expr, 0})
			}
		}
	}
	if len(asserts) > 0 {
		w.asserts(asserts)
	}
}

// budgets spends budgets in an outage: the alerts on what is left of them fire where it is long enough by far, and
// after it, too.
func (g *generator) budgets(w *testWriter, subjects []subject) {
	const length, after = 2 * time.Hour, 25 * time.Minute
	var asserts []assertion
	w.test("an outage of 2h spends the budget")
	for _, s := range subjects {
		low := g.budgetLow(s.SLO)
		if len(low) == 0 || s.Window.Calendar != "" || !rules.CountsEvents(s.SLO) {
			continue
		}
		fed := false
		for _, a := range low {
			enough := 2 * (1 - a.Below) * s.Objective.Budget() * float64(s.Window.Rolling)
			if float64(length) < enough {
				continue
			}
			fed = true
			expr := "ALERTS{alertname=" + quote(NameBudgetLow) + "," + name(s) + "," + series.LabelTier + "=" +
				quote(a.Tier.Name) + `,alertstate="firing"}`
			asserts = append(asserts, assertion{testHealthy, expr, 0},
				assertion{testHealthy + length + after, expr, s.feed.groups})
		}
		if fed {
			w.input(s, phase{testHealthy, 0}, phase{length, 1}, phase{after + 5*time.Minute, 0})
		}
	}
	if len(asserts) > 0 {
		w.asserts(asserts)
	}
}

// missing lets the counters vanish.
func (g *generator) missing(w *testWriter, subjects []subject) {
	var asserts []assertion
	w.test("counters vanish")
	for _, s := range subjects {
		w.input(s, phase{time.Hour, 0}, phase{time.Hour, gone})
		if s.Alerting.NoData.Disabled {
			continue
		}
		wait := g.noData(s.SLO).rule.For
		expr := `ALERTS{alertname="` + NameNoData + `",` + name(s) + `,alertstate="firing"}`
		asserts = append(asserts,
			assertion{time.Hour, expr, 0},
			// Rates live on for a window, and samples are looked back for five minutes.
			assertion{up(time.Hour+10*time.Minute+wait, g.o.Eval) + 2*g.o.Eval, expr, 1})
	}
	w.asserts(asserts)
}
