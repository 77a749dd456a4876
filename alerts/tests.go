package alerts

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/sloengine/sloengine/rules"
	"github.com/sloengine/sloengine/rules/series"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/yamlgen"
)

// File is one generated file.
type File struct {
	Name string
	YAML []byte
}

// Traffic of the rule tests: so many events a minute, scraped once a minute.
// Rates over five minutes of such counters are exact, and so are the predictions.
const (
	testPerMinute = 60_000
	testScrape    = time.Minute
)

// pace is one of the files of a service: how often rules are evaluated there, and
// for tiers with which long windows the incident is. Days pass by the hour,
// since promtool takes many milliseconds for each step.
type pace struct {
	name    string
	eval    time.Duration
	above   time.Duration // its tiers have long windows above this,
	longest time.Duration // up to this
	outage  bool          // everything fails; else just enough to fire within a quarter of the long window
	also    bool          // quiet hours and missing counters are tested here
}

var paces = []pace{
	{"minutes", time.Minute, 0, 2 * time.Hour, true, false},
	{"hours", 5 * time.Minute, 0, 6 * time.Hour, false, true},
	{"days", time.Hour, 6 * time.Hour, 366 * 24 * time.Hour, false, false},
}

// mine says whether the incident of the pace is about the tier.
func (p pace) mine(t Tier) bool { return t.Long > p.above && t.Long <= p.longest }

// Tests makes promtool unit tests for the burn-rate and no-data alerts of every
// SLO: for each service a file in which minutes count, one for hours and one for
// days. All SLOs of a service go through the same incident in one test, so that
// promtool, which evaluates every rule at every step, evaluates them once.
//
// Each SLO is checked for: the evaluation at which each tier fires in an incident
// and not before, a full outage for the fast tiers; that it resets in time; that
// it does not fire just below its threshold, and does just above; that quiet
// hours give no alert; that missing counters give the no-data alert; and that a
// forecast of an empty budget gives its alert until the budget is empty. An SLO
// with groups has two of them in each test, and so two alerts. The findings name
// the SLOs that no test could feed, such as those on free queries. So do the
// first lines of the files.
//
// With the names of Sloth and in the profile rules.Minimal there is one file for a service, which loads the rule files
// themselves: see sharedTest. Elsewhere the tests load a file of their own below rules/, which comes with them: of the
// service's rules as Rules and rules.Recording make them those that the tested
// alerts read. promtool's tests may not read more than 10,000 samples at once,
// which scores and budgets over masked or calendar months exceed.
// promtool evaluates all groups at the pace of the test, and these rules count what
// was observed by that.
func Tests(in rules.Spec, o Options) ([]File, []Finding, error) {
	var services []string
	of := map[string][]*slo.SLO{}
	for _, s := range in.Expressible().SLOs {
		service := s.ID.Service()
		if of[service] == nil {
			services = append(services, service)
		}
		of[service] = append(of[service], s)
	}
	var out []File
	var findings []Finding
	for _, service := range services {
		g := newGenerator(rules.Spec{SLOs: of[service]}, o)
		subjects, skipped := g.subjects()
		if len(subjects) > 0 && (g.o.Minimal() || g.o.Names == rules.Sloth) {
			files, err := g.sharedTest(service, calendar(in, service), subjects, skipped)
			if err != nil {
				return nil, nil, fmt.Errorf("rule tests of service %s: %w", service, err)
			}
			out = append(out, files...)
			subjects = nil
		}
		for _, p := range paces {
			if len(subjects) == 0 {
				break
			}
			groups, err := g.tested(p)
			if err != nil {
				return nil, nil, fmt.Errorf("rule tests of service %s: %w", service, err)
			}
			name := "rules/" + service + "_" + p.name + ".yaml"
			// promtool evaluates groups in no order of its own.
			var order []string
			for _, group := range groups {
				order = append(order, group.Name)
			}
			if data := g.testFile(subjects, skipped, name, order, p); data != nil {
				out = append(out, File{Name: name, YAML: rules.File("", groups)}, File{Name: service + "_" + p.name + "_test.yaml", YAML: data})
			}
		}
		findings = append(findings, g.findings...)
	}
	return out, findings, nil
}

// tested are the alerts that are tested at a pace and the groups that record what
// they read, in the order in which they must be evaluated.
func (g *generator) tested(p pace) ([]rules.Group, error) {
	groups, err := rules.Recording(g.in, g.o.EvaluatedEvery(p.eval))
	if err != nil {
		return nil, err
	}
	for _, s := range g.in.SLOs {
		group := g.sloGroup(s)
		group.Interval = g.o.Eval
		tiers, _ := Tiers(s)
		group.Rules = slices.DeleteFunc(group.Rules, func(r rules.Rule) bool {
			if r.Alert == NameNoData || r.Alert == NameExhaustedSoon {
				return !p.also
			}
			return !slices.ContainsFunc(tiers, func(t Tier) bool { return t.Name == r.Labels[series.LabelTier] && p.mine(t) })
		})
		groups = append(groups, group)
	}
	needed := map[string]bool{}
	read := func(expr string) error {
		e, err := parser.NewParser(parser.Options{}).ParseExpr(expr)
		if err != nil {
			return fmt.Errorf("parse %s: %w", expr, err)
		}
		parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
			if v, ok := n.(*parser.VectorSelector); ok {
				needed[v.Name] = true
			}
			return nil
		})
		return nil
	}
	// Rules read what is recorded before them, so one pass from the end finds all;
	// within a window the two rates may come in either order.
	for range 2 {
		for i := len(groups) - 1; i >= 0; i-- {
			for j := len(groups[i].Rules) - 1; j >= 0; j-- {
				if r := groups[i].Rules[j]; r.Alert != "" || needed[r.Record] {
					if err := read(r.Expr); err != nil {
						return nil, err
					}
				}
			}
		}
	}
	for i := range groups {
		kept := slices.Clone(groups[i].Rules)
		groups[i].Rules = slices.DeleteFunc(kept, func(r rules.Rule) bool { return r.Alert == "" && !needed[r.Record] })
	}
	return slices.DeleteFunc(groups, func(group rules.Group) bool { return len(group.Rules) == 0 }), nil
}

// subject is an SLO under test.
type subject struct {
	*slo.SLO
	tiers []Tier
	feed  feed
}

// subjects are the SLOs that a test can feed. The others are in findings, and in the lines of text.
func (g *generator) subjects() (subjects []subject, skipped string) {
	skip := func(s *slo.SLO, hint, why string) {
		skipped += string(s.ID) + " is not tested: " + why + ".\n"
		g.find(s.ID, FindingInfo, "no rule tests are generated: "+why, hint)
	}
	for _, s := range g.in.SLOs {
		f, err := newFeed(s)
		if err != nil {
			skip(s, "test its alerts with series of your own", err.Error())
			continue
		}
		if other, shared := sharesCounters(s, f, subjects); shared {
			skip(s, "generate the tests of one of them alone", fmt.Sprintf("it counts series of %s too, and one test cannot feed both", other))
			continue
		}
		tiers, _ := Tiers(s)
		subjects = append(subjects, subject{s, tiers, f})
	}
	return subjects, skipped
}

// testFile is nil if there is nothing to test at a pace.
func (g *generator) testFile(subjects []subject, skipped, ruleFile string, order []string, p pace) []byte {
	w := &testWriter{scrape: testScrape}
	incident(w, p, subjects)
	if !p.outage { // the other paces have all tiers
		edges(w, p, subjects)
	}
	if p.also {
		quiet(w, p, subjects)
		g.missing(w, p, subjects)
		g.soon(w, p, subjects)
	}
	if len(w.tests) == 0 {
		return nil
	}
	var groups []*yamlgen.Node
	for _, name := range order {
		groups = append(groups, yamlgen.Quoted(name))
	}
	var doc yamlgen.Map
	doc.Set("rule_files", yamlgen.List(yamlgen.Quoted(ruleFile)))
	doc.Plain("evaluation_interval", slo.FormatDuration(p.eval))
	doc.List("group_eval_order", groups)
	doc.List("tests", w.tests)
	return yamlgen.Document(skipped, doc.Node())
}

// incident predicts for every tier of a pace when it fires, and when it is over.
func incident(w *testWriter, p pace, subjects []subject) {
	share := func(s subject) float64 {
		top := 0.0
		for _, t := range s.tiers {
			if p.mine(t) {
				top = max(top, t.Threshold)
			}
		}
		if p.outage {
			return 1
		}
		return min(1, exact(4*top))
	}
	var before, length time.Duration
	for _, s := range subjects {
		for _, t := range s.tiers {
			if p.mine(t) {
				before = max(before, t.Long)
				length = max(length, up(time.Duration(t.Threshold/share(s)*float64(t.Long))+t.For, p.eval)+10*p.eval)
			}
		}
	}
	if before == 0 {
		return
	}
	start := up(before, p.eval) + p.eval
	over := start + length
	var asserts []assertion
	end := over
	for _, s := range subjects {
		for _, t := range s.tiers {
			if !p.mine(t) {
				continue
			}
			fires, resets := predict(t, share(s), start, over, p.eval)
			asserts = append(asserts,
				fired(s, t, fires-2*p.eval, false), fired(s, t, fires+p.eval, true),
				fired(s, t, over, true), fired(s, t, resets+2*p.eval, false))
			end = max(end, resets+2*p.eval)
		}
	}
	title := "an incident, told to " + slo.FormatDuration(p.eval)
	if p.outage {
		title = "a full outage, told to " + slo.FormatDuration(p.eval)
	}
	w.test(title)
	for _, s := range subjects {
		if slices.ContainsFunc(s.tiers, p.mine) {
			w.input(s, phase{start, 0}, phase{length, share(s)}, phase{end - over + p.eval, 0})
		}
	}
	w.asserts(asserts)
}

// edges holds the share of bad events just below, and just above, the threshold
// of one tier of each SLO after the other.
func edges(w *testWriter, p pace, subjects []subject) {
	for i := 0; ; i++ {
		for _, side := range []struct {
			name  string
			times float64
			fires bool
		}{{"below", 0.98, false}, {"above", 1.02, true}} {
			var asserts []assertion
			var begun bool
			for _, s := range subjects {
				tiers := slices.DeleteFunc(slices.Clone(s.tiers), func(t Tier) bool { return !p.mine(t) })
				if i >= len(tiers) {
					continue
				}
				t := tiers[i]
				share := side.times * t.Threshold
				if share > 1 {
					continue
				}
				if !begun {
					w.test(fmt.Sprintf("the share of bad events is just %s the threshold of an alert of each SLO (%d)", side.name, i+1))
					begun = true
				}
				lasts := up(t.Long+t.For, p.eval) + 2*p.eval // all of the long window is observed
				w.input(s, phase{lasts, share})
				asserts = append(asserts, fired(s, t, lasts, side.fires))
			}
			if len(asserts) == 0 {
				if side.fires {
					continue
				}
				return
			}
			w.asserts(asserts)
		}
	}
}

// quiet stops all traffic for hours after a burn that was just below everything.
func quiet(w *testWriter, p pace, subjects []subject) {
	var asserts []assertion
	w.test("quiet hours")
	for _, s := range subjects {
		share := 1.0
		for _, t := range s.tiers {
			share = min(share, t.Threshold)
		}
		w.input(s, phase{time.Hour, 0.9 * share}, phase{6 * time.Hour, silence})
		for _, at := range []time.Duration{time.Hour, 90 * time.Minute, 3 * time.Hour, 7 * time.Hour} {
			asserts = append(asserts, assertion{at, "ALERTS{" + name(s) + `,alertstate="firing"}`, 0})
		}
	}
	w.asserts(asserts)
}

// missing lets the counters vanish.
func (g *generator) missing(w *testWriter, p pace, subjects []subject) {
	var asserts []assertion
	w.test("counters vanish")
	for _, s := range subjects {
		w.input(s, phase{time.Hour, 0}, phase{time.Hour, gone})
		if s.Alerting.NoData.Disabled {
			continue
		}
		wait := s.Alerting.NoData.For
		set(&wait, g.o.NoDataAfter)
		expr := `ALERTS{alertname="` + NameNoData + `",` + name(s) + `,alertstate="firing"}`
		asserts = append(asserts,
			assertion{time.Hour, expr, 0},
			// Rates live on for a window, and samples are looked back for five minutes.
			assertion{up(time.Hour+10*time.Minute+wait, p.eval) + 2*p.eval, expr, 1})
	}
	w.asserts(asserts)
}

func name(s subject) string { return `slo_id=` + quote(string(s.ID)) }

func fired(s subject, t Tier, at time.Duration, want bool) assertion {
	alert := NameBurnTicket
	if t.Page {
		alert = NameBurnPage
	}
	if s.Alerting.Name != "" {
		alert = s.Alerting.Name
	}
	alerts := 0
	if want {
		alerts = s.feed.groups
	}
	return assertion{at, `ALERTS{alertname=` + quote(alert) + `,` + name(s) + `,` + series.LabelTier + `=` + quote(t.Name) + `,alertstate="firing"}`, alerts}
}

// predict gives the evaluation at which a tier first fires in an incident from
// start to over with a share of bad events, and the one at which it ceases to.
func predict(t Tier, share float64, start, over, eval time.Duration) (fires, resets time.Duration) {
	var met Met
	bad := func(at, w time.Duration) float64 {
		return share * float64(max(0, min(at, over)-max(at-w, start))) / float64(w)
	}
	burns := func(at time.Duration) bool {
		reading := func(w time.Duration) Reading {
			return Reading{Ratio: bad(at, w), Observed: 1, Events: testPerMinute * w.Minutes(), HasData: true}
		}
		return t.Burns(reading, 0, false, time.Unix(0, 1).Add(at), &met)
	}
	since := start
	for since += eval; !burns(since); since += eval {
		if since > over {
			return over, over
		}
	}
	fires = since + up(t.For, eval)
	for resets = fires; burns(resets); resets += eval {
	}
	return fires, resets
}

// up rounds up to whole steps.
func up(d, step time.Duration) time.Duration { return (d + step - 1) / step * step }

// assertion is how many series a query must give at a time.
type assertion struct {
	at   time.Duration
	expr string
	want int
}

// testWriter collects the tests of a file. The last one begun takes inputs until its assertions are given.
type testWriter struct {
	tests  []*yamlgen.Node
	name   string
	inputs []*yamlgen.Node
	scrape time.Duration
}

func (w *testWriter) test(name string) { w.name, w.inputs = name, nil }

func (w *testWriter) input(s subject, phases ...phase) {
	for _, in := range s.feed.series {
		w.series(in.metric, in.values(phases, w.scrape))
	}
}

func (w *testWriter) series(metric, values string) {
	var m yamlgen.Map
	m.Set("series", yamlgen.SingleQuoted(metric))
	m.Set("values", yamlgen.SingleQuoted(values))
	w.inputs = append(w.inputs, m.Node())
}

func (w *testWriter) asserts(all []assertion) {
	slices.SortStableFunc(all, func(a, b assertion) int { return int(a.at - b.at) })
	var checks []*yamlgen.Node
	for _, a := range all {
		var m, sample yamlgen.Map
		sample.Text("labels", "{}")
		sample.Plain("value", strconv.Itoa(a.want))
		m.Set("expr", yamlgen.SingleQuoted("count("+a.expr+") or vector(0)"))
		m.Plain("eval_time", slo.FormatDuration(a.at))
		m.Set("exp_samples", yamlgen.Line(yamlgen.List(sample.Line())))
		checks = append(checks, m.Node())
	}
	var m yamlgen.Map
	m.Set("name", yamlgen.Quoted(w.name))
	m.Plain("interval", slo.FormatDuration(w.scrape))
	m.List("input_series", w.inputs)
	m.List("promql_expr_test", checks)
	w.tests = append(w.tests, m.Node())
}
