package alerts

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/internal/testkit/slotest"
	"github.com/sloengine/sloengine/rules"
	"github.com/sloengine/sloengine/rules/series"
	"github.com/sloengine/sloengine/slo"
)

// ruleTests writes rules and tests of a service as generate does, with a text replaced in the rules, and gives the
// arguments for promtool.
func ruleTests(t *testing.T, in rules.Spec, o Options, old, new string) []string {
	t.Helper()
	o.NoEngine = true
	dir := t.TempDir()
	for _, folder := range []string{"rules", "tests", "tests/rules"} {
		require.NoError(t, os.Mkdir(filepath.Join(dir, folder), 0o755))
	}
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
		return path
	}
	m := generate(t, in, o)
	sets, all := [][]rules.Group{m.recording, m.alerts}, ""
	if o.Profile == rules.Minimal {
		sets = [][]rules.Group{rules.Merge(m.recording, m.alerts)}
	}
	for i, name := range RuleFiles(in.SLOs[0].ID.Service(), o.Options) {
		text := string(rules.File("", sets[i]))
		write("rules/"+name+".yaml", strings.ReplaceAll(text, old, new))
		all += text
	}
	require.Contains(t, all, old, "nothing to replace in the rules")
	tests, _, err := Tests(in, o)
	require.NoError(t, err)
	args := []string{"test", "rules"}
	for _, f := range tests {
		if path := write("tests/"+f.Name, string(f.YAML)); filepath.Dir(f.Name) == "." {
			args = append(args, path)
		}
	}
	require.Len(t, args, 3)
	return args
}

// TestRuleTestsPass in each profile, with the names of Sloth, and with rules evaluated at the default pace and at half
// of it, where promtool needs half the CPU. The profile full has one SLO of each kind only, since promtool needs up to
// ten seconds for each.
func TestRuleTestsPass(t *testing.T) {
	defaults := []string{"minimal minimal", "minimal sloth", "openslo-journey minimal", "insurance-unpaid/latency minimal",
		"shop/throughput full", "insurance-sales/apdex full"}
	pass := func(name string, in rules.Spec, o rules.Options) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o.From, o.Until = tables.From, tables.Until
			if !slices.Contains(defaults, name) {
				o.Eval = time.Minute
			}
			require.Contains(t, promtool(t, ruleTests(t, in, Options{Options: o}, "", "")...), "SUCCESS")
		})
	}
	const both = 4 // the others have the same rules with the names of Sloth
	for i, name := range []string{"minimal", "sloth-api", "fulfilment", "conversion",
		"openslo-journey", "outbox", "sloengine", "insurance-sales", "capacity", "sloth-kubernetes"} {
		pass(name+" minimal", exampleSpec(t, name), rules.Options{Profile: rules.Minimal})
		if i < both {
			pass(name+" sloth", exampleSpec(t, name), rules.Options{Names: rules.Sloth})
		}
	}
	low := exampleSpec(t, "minimal")
	low.SLOs[0].Alerting.Left = []slo.LeftAlert{{Share: 0.5}, {Share: 0.2, Page: true}}
	pass("budget left minimal", low, rules.Options{Profile: rules.Minimal})
	pass("budget left sloth", low, rules.Options{Names: rules.Sloth})
	only := func(in rules.Spec, ids ...slo.ID) []*slo.SLO {
		return slices.DeleteFunc(in.Expressible().SLOs, func(s *slo.SLO) bool { return !slices.Contains(ids, s.ID) })
	}
	// maintenance, a month
	for _, s := range append(only(insurance(t), "insurance-unpaid/latency"), only(synthetic(t), "shop/month")...) {
		pass(string(s.ID)+" minimal", rules.Spec{SLOs: []*slo.SLO{s}}, rules.Options{Profile: rules.Minimal})
	}
	for _, s := range append(
		only(synthetic(t), "legacy/api", "shop/errors", "shop/latency", "shop/month", "shop/own", "shop/throughput"),
		only(exampleSpec(t, "conversion"), "insurance-sales/apdex", "insurance-sales/conversion")...) {
		pass(string(s.ID)+" full", rules.Spec{SLOs: []*slo.SLO{s}}, rules.Options{})
	}
}

func TestRuleTestsAreGolden(t *testing.T) {
	specs(t, func(t *testing.T, name string, m made) {
		files, _, err := Tests(m.in, Options{Options: tables})
		require.NoError(t, err)
		for _, f := range files {
			if filepath.Dir(f.Name) == "." { // the rules have golden files already
				testkit.Golden(t, filepath.Join("testdata", name+"."+f.Name), f.YAML)
			}
		}
	}, "fulfilment")
}

// TestRuleTestsNoticeWrongRules: the tests fail where an alert is wrong. TestRuleTestsPass has the same SLO with right
// rules.
func TestRuleTestsNoticeWrongRules(t *testing.T) {
	for _, c := range []struct {
		name     string
		profile  rules.Profile
		old, new string
	}{
		{"a short window too long", rules.Minimal, `slo:sli_error:held5m{slo_id="shop/checkout"} >`,
			`slo:sli_error:held30m{slo_id="shop/checkout"} >`},
		{"a threshold that is too high", rules.Minimal, "> 0.0144", "> 0.144"},
		{"a no-data alert that waits", rules.Minimal, "for: 10m", "for: 1h"},
		{"a threshold off by a twentieth", rules.Full, "0.0144 / slo:observed", "0.01512 / slo:observed"},
		{"a tenth of what was observed", rules.Full, "vector(0)) / 120, 1)", "vector(0)) / 1200, 1)"},
		{"a budget that must be spent a hundred times over", rules.Minimal, "<= 1 - 360 /", "<= 1 - 36000 /"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			o := minimalOptions()
			o.Profile = c.profile
			in := exampleSpec(t, "minimal")
			in.SLOs[0].Alerting.Left = []slo.LeftAlert{{Share: 0.5}}
			require.Contains(t, promtoolFails(t, ruleTests(t, in, o, c.old, c.new)...), "FAILED")
		})
	}
}

// TestRuleTestsOfHostileNames: groups and labels of a spec that are called like labels of others, and values that look
// like templates, are kept separate, and are on the alerts that promtool sees.
func TestRuleTestsOfHostileNames(t *testing.T) {
	t.Parallel()
	byTier := grouped(simple(t, "shop/by-tier", "99.9"), "tier", "part")
	byTier.Labels = map[string]string{"tier": "gold", "team": `{{ "web" }}`}
	whole := simple(t, "shop/whole", "99")
	whole.Indicator.Valid = slo.Selector{slotest.Matcher(t, "type", slo.OpEqual, "order")}
	whole.Labels = map[string]string{"tier": "gold", "long": "yes", "alert": "no", "record": "x"}
	in := rules.Spec{SLOs: []*slo.SLO{byTier, whole}}
	o := Options{Options: rules.Options{Profile: rules.Minimal, From: tables.From, Until: tables.Until, Eval: time.Minute}}
	m := generate(t, in, o)
	for _, g := range rules.Merge(m.recording, m.alerts) {
		for _, r := range g.Rules {
			if id := r.Labels[series.LabelSLOID]; r.Alert != "" && id != "" {
				require.Equal(t, id == "shop/whole", r.Labels["tier"] == "gold", "it would replace that of the group")
			}
		}
	}
	args := ruleTests(t, in, o, "", "")
	tests, err := os.ReadFile(args[len(args)-1])
	require.NoError(t, err)
	require.Contains(t, string(tests), `tier="one"`)
	require.Contains(t, string(tests), `tier="two"`)
	require.Contains(t, promtool(t, args...), "SUCCESS")
}

// forecasting are an SLO that alerts on its forecast by the defaults, and one with groups, times and labels of its own.
// They have no other alerts, whose rules take promtool seconds.
func forecasting(t *testing.T) rules.Spec {
	plain := simple(t, "shop/soon", "99.9")
	plain.Alerting.Soon = slo.SoonAlert{Within: 24 * time.Hour, Probability: 0.8}
	own := grouped(simple(t, "shop/sooner", "99"), "region", "http.code")
	own.Alerting.Soon = slo.SoonAlert{Within: 36 * time.Hour, Probability: 0.755,
		AlertSettings: slo.AlertSettings{For: 17 * time.Minute, Labels: map[string]string{"queue": "a"}}}
	for _, s := range []*slo.SLO{plain, own} {
		s.Alerting.Page.Disabled, s.Alerting.Ticket.Disabled, s.Alerting.NoData.Disabled = true, true, true
	}
	return rules.Spec{SLOs: []*slo.SLO{plain, own}}
}

// TestRuleTestsOfForecasts: the tests of the alert on a forecast pass, and notice rules that are wrong.
func TestRuleTestsOfForecasts(t *testing.T) {
	for _, c := range []struct{ name, old, new string }{
		{"right", "", ""},
		{"a lower threshold", ">= 0.755", ">= 0.73"},
		{"a higher threshold", ">= 0.8", ">= 0.81"},
		{"another time ahead", `slo_ahead="1d12h"`, `slo_ahead="1d"`},
		{"it waits longer", "for: 17m", "for: 27m"},
		{"it waits less", "for: 17m", "for: 7m"},
		{"it ends at once", "keep_firing_for: 15m", "keep_firing_for: 1s"},
		{"it goes on with an empty budget", `slo_quantile="0.95"`, `slo_quantile="0.9"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			args := ruleTests(t, forecasting(t), minimalOptions(), c.old, c.new)
			if c.old == "" {
				require.Contains(t, promtool(t, args...), "SUCCESS")
				return
			}
			require.Contains(t, promtoolFails(t, args...), "FAILED")
		})
	}
}
