package alerts

import (
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/sloengine/sloengine/rules"
	"github.com/sloengine/sloengine/rules/series"
	"github.com/sloengine/sloengine/slo"
)

const (
	// soonFor is how long a forecast must say so. It is made again every minute.
	soonFor = 5 * time.Minute

	// soonKeeps bridges the redrawing of a forecast at the full hour, and the time until the alert on an empty budget
	// fires.
	soonKeeps = 15 * time.Minute
)

// alertsSoon reports whether an SLO has the alert on its forecast, which counters of Prometheus have not.
func alertsSoon(s *slo.SLO) bool {
	return s.Alerting.Soon.Within > 0 && s.Indicator.Kind != slo.KindPrometheus
}

func (g *generator) exhaustedSoon(s *slo.SLO) defined {
	soon := &s.Alerting.Soon
	labels := g.sloLabels(s, SeverityTicket, ImpactMedium, promise(s))
	within := slo.FormatDuration(soon.Within)
	wait := soon.For
	set(&wait, soonFor)
	return g.define(Live{Kind: LiveSoon, SLO: s, Window: soon.Within, Above: soon.Probability}, rules.Rule{
		Alert: NameExhaustedSoon, For: wait, KeepFiringFor: soonKeeps, Labels: merge(labels, soon.Labels),
		Annotations: merge(g.annotations(NameExhaustedSoon, g.sloNote(s,
			g.subject(s)+" will probably have no error budget left within "+within,
			fmt.Sprintf(
				"The forecast says with a probability of {{ $value | humanizePercentage }} that the error budget over %s is "+
					"exhausted within %s. The alert starts at %s.",
				s.Window, within, percent(soon.Probability)))), maps.Clone(soon.Annotations)),
	})
}

// emptySoon reads the forecast that the engine exports, because no query over recorded rates knows what leaves the
// window and what usually comes. Of several engines, each of which forecasts from its own events, the highest
// probability counts.
func (g *generator) emptySoon(l *Live) string {
	groups := g.q.groups(l.SLO)
	sel := func(metric string, more ...string) string {
		matchers := []string{series.LabelSLOID + "=" + quote(string(l.SLO.ID))}
		if len(groups) > 0 {
			matchers = append(matchers, groups[0]+"!="+quote(slo.OtherGroup))
		}
		return "max by (" + strings.Join(groups, ", ") + ") (" + metric + "{" +
			strings.Join(append(matchers, more...), ",") + "})"
	}
	within := slo.FormatDuration(l.Window)
	return sel(series.ForecastExhausted.Name, series.LabelAhead+"="+quote(within)) + " >= " + number(l.Above) +
		// it is empty now
		"\nunless " + onLabels(groups) + " " + sel(series.ForecastExhaustion.Name, series.LabelQuantile+`="0.95"`) + " == 0"
}

// AnnotationForecast says when a budget of which little is left will be empty.
const AnnotationForecast = "forecast"

// emptyWhen asks the Prometheus for the forecast of the engine. The engine puts its own in place of this text.
func (g *generator) emptyWhen(s *slo.SLO) string {
	matchers, values := []string{series.LabelSLOID + `=\"` + string(s.ID) + `\"`}, ""
	for _, label := range g.q.groups(s) {
		matchers, values = append(matchers, label+"=%q"), values+" $labels."+label
	}
	return `{{ with printf "min(` + series.ForecastExhaustion.Name + "{" + strings.Join(matchers, ",") + "," +
		series.LabelQuantile + `=\"0.5\"})"` + values + " | query }}exhausted within {{ . | first | value | " +
		"humanizeDuration }} with a probability of 50 %{{ else }}not exhausted within a week, or there is no forecast{{ " +
		"end }}"
}

// soon tests the alert on the forecast: the probability is just below the threshold for an hour and then at it, and
// some evaluations later the budget is empty.
func (g *generator) soon(w *testWriter, subjects []subject) {
	var asserts []assertion
	for _, s := range subjects {
		if !alertsSoon(s.SLO) {
			continue
		}
		if len(asserts) == 0 {
			w.test("a forecast says that the budget will be exhausted soon")
		}
		rule := g.exhaustedSoon(s.SLO).rule
		fires := time.Hour + up(rule.For, g.o.Eval)
		empty := fires + 4*g.o.Eval
		over := up(empty+rule.KeepFiringFor, g.o.Eval) + g.o.Eval
		feed := func(metric, label, value, values string) {
			for _, group := range engineGroups(s.SLO) {
				w.series(metricText(metric, with(group, label, value)), values)
			}
		}
		limit := s.Alerting.Soon.Probability
		feed(series.ForecastExhausted.Name, series.LabelAhead, slo.FormatDuration(s.Alerting.Soon.Within),
			gauge(0.98*limit, time.Hour, w.scrape)+" "+gauge(limit, over-time.Hour, w.scrape))
		feed(series.ForecastExhaustion.Name, series.LabelQuantile, "0.95",
			gauge(3600, empty, w.scrape)+" "+gauge(0, over-empty, w.scrape))
		expr := `ALERTS{alertname="` + NameExhaustedSoon + `",` + name(s) + `,alertstate="firing"}`
		asserts = append(asserts,
			assertion{fires - g.o.Eval, expr, 0}, assertion{fires, expr, s.feed.groups},
			assertion{up(empty+rule.KeepFiringFor, g.o.Eval) - g.o.Eval, expr, s.feed.groups}, assertion{over, expr, 0})
	}
	if len(asserts) > 0 {
		w.asserts(asserts)
	}
}

// gauge is a gauge that stays where it is, in promtool's notation.
func gauge(x float64, length, scrape time.Duration) string {
	return fmt.Sprintf("%s+0x%d", number(exact(x)), int(length/scrape)-1)
}
