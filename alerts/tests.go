package alerts

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sloengine/sloengine/internal/order"
	"github.com/sloengine/sloengine/rules"
	"github.com/sloengine/sloengine/rules/series"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/yamlgen"
)

// File is one generated file.
type File struct {
	Name string
	YAML []byte
}

// testPerMinute is how many events a minute the tests feed to each SLO.
const testPerMinute = 60_000

// Tests makes promtool unit tests for the alerts of every SLO on its burn rate, on missing data and on its forecast:
// for each service a file that loads the rule files themselves. All SLOs of a service go through the same incident in
// one test, so that promtool, which evaluates every rule at every step, evaluates them once. An SLO with groups has two
// of them in each test, and so two alerts. The findings name the SLOs that no test could feed, such as those on free
// queries. So do the first lines of the files.
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
		if len(subjects) > 0 {
			files, err := g.testFiles(service, calendar(in, service), subjects, skipped)
			if err != nil {
				return nil, nil, fmt.Errorf("rule tests of service %s: %w", service, err)
			}
			out = append(out, files...)
		}
		findings = append(findings, g.findings...)
	}
	return out, findings, nil
}

// RuleFiles are the names of the rule files of a service, without .yaml.
func RuleFiles(service string, o rules.Options) []string {
	if o.Profile == rules.Minimal {
		return []string{service}
	}
	return []string{service + ".recording", service + ".alerts"}
}

// testFiles are the test of a service and, where something in it is over a calendar window, a copy of its rules without
// these windows: promtool reads at most 10,000 samples at once, fewer than a calendar month takes.
func (g *generator) testFiles(service string, calendar bool, subjects []subject, skipped string) ([]File, error) {
	recording, err := rules.Recording(g.in, g.o.Options)
	if err != nil {
		return nil, err
	}
	o := g.o
	o.NoEngine = true
	firing := Rules(g.in, o)
	merged := rules.Merge(recording, firing)
	sets := [][]rules.Group{recording, firing}
	if g.o.Profile == rules.Minimal {
		sets = [][]rules.Group{merged}
	}
	folder := cmp.Or(g.o.TestRules, "../rules")
	if calendar {
		folder = "rules"
	}
	var out []File
	var order, files []*yamlgen.Node // promtool evaluates groups in no order of its own
	for _, group := range merged {
		order = append(order, yamlgen.Quoted(group.Name))
	}
	for i, name := range RuleFiles(service, g.o.Options) {
		files = append(files, yamlgen.Quoted(folder+"/"+name+".yaml"))
		if calendar {
			out = append(out, File{Name: "rules/" + name + ".yaml", YAML: rules.File("", g.withoutCalendar(sets[i]))})
		}
	}
	w := &testWriter{scrape: g.o.Scrape}
	g.outage(w, subjects)
	if g.o.Names == rules.Own { // an alert of Sloth's is of several tiers, and there is none on missing data
		g.thresholds(w, subjects)
		g.fewEvents(w, subjects)
		g.missing(w, subjects)
	}
	g.budgets(w, subjects)
	g.soon(w, subjects)
	var doc yamlgen.Map
	doc.Set("rule_files", yamlgen.List(files...))
	doc.Plain("evaluation_interval", slo.FormatDuration(g.o.Eval))
	doc.List("group_eval_order", order)
	doc.List("tests", w.tests)
	return append(out, File{Name: service + "_test.yaml", YAML: yamlgen.Document(skipped, doc.Node())}), nil
}

// calendar reports whether something of a service is over calendar windows.
func calendar(in rules.Spec, service string) bool {
	return slices.ContainsFunc(in.SLOs, func(s *slo.SLO) bool {
		return s.ID.Service() == service && s.Window.Calendar != ""
	}) || slices.ContainsFunc(in.Agreements, func(a *sla.Agreement) bool {
		return a.Service == service && a.Window.Calendar != ""
	})
}

// withoutCalendar leaves out what is recorded over calendar windows. What reads it gives nothing.
func (g *generator) withoutCalendar(groups []rules.Group) []rules.Group {
	over := func(r rules.Rule) bool {
		return slices.ContainsFunc(g.in.SLOs, func(s *slo.SLO) bool {
			return s.Window.Calendar != "" && strings.HasSuffix(r.Record, string(s.Window.Calendar))
		})
	}
	out := slices.Clone(groups)
	for i := range out {
		out[i].Rules = slices.DeleteFunc(slices.Clone(out[i].Rules), over)
	}
	return out
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
			skip(s, "generate the tests of one of them alone",
				fmt.Sprintf("it counts series of %s too, and one test cannot feed both", other))
			continue
		}
		tiers, _ := Tiers(s)
		subjects = append(subjects, subject{s, tiers, f})
	}
	return subjects, skipped
}

func name(s subject) string { return `slo_id=` + quote(string(s.ID)) }

func fired(s subject, t Tier, at time.Duration, want bool) assertion {
	alerts := 0
	if want {
		alerts = s.feed.groups
	}
	return assertion{
		at, firing("alertname="+quote(burnName(s.SLO, t)), name(s), series.LabelTier+"="+quote(t.Name)), alerts}
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
	order.By(all, func(a, b *assertion) int { return int(a.at - b.at) })
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
