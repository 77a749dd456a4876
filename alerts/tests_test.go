package alerts

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/rules"
	"github.com/sloengine/sloengine/rules/series"
	"github.com/sloengine/sloengine/slo"
)

// promtool runs the tests of the SLOs of both specs, without those of which it runs
// every rule for another SLO already.
func TestRuleTestsPass(t *testing.T) {
	slos := slices.Concat(synthetic(t).SLOs, insurance(t).SLOs, exampleSpec(t, "fulfilment").SLOs, exampleSpec(t, "conversion").Expressible().SLOs)
	for _, p := range paces {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			in := rules.Spec{SLOs: withRulesOfTheirOwn(t, slos, p)}
			files, _, err := Tests(in, Options{Options: tables})
			require.NoError(t, err)
			for _, f := range files {
				require.NotContains(t, string(f.YAML), "is not tested")
			}
			require.Contains(t, promtool(t, ruleTests(t, files, p.name)...), "SUCCESS")
			t.Logf("%d of %d SLOs", len(in.SLOs), len(slos))
		})
	}
}

// figures are the numbers in an alert, which follow from the objective, and the times in a table of maintenance, which are
// decades after the simulated time of the tests.
var figures = regexp.MustCompile(`\b\d+(\.\d+)?(e-?\d+)?\b`)

// withRulesOfTheirOwn leaves out an SLO if an SLO before it has its objective, and each of its rules that are tested at a
// pace is that of an SLO before it, but for the names of the SLO, its service and its groups, and for figures. promtool
// takes a millisecond of CPU for each rule at each step, so each further SLO takes seconds.
func withRulesOfTheirOwn(t *testing.T, slos []*slo.SLO, p pace) []*slo.SLO {
	t.Helper()
	seen := map[string]bool{}
	return slices.DeleteFunc(slices.Clone(slos), func(s *slo.SLO) bool {
		groups, err := newGenerator(rules.Spec{SLOs: []*slo.SLO{s}}, Options{Options: tables}).tested(p)
		require.NoError(t, err)
		names := []string{string(s.ID), "ID", quote(s.ID.Service()), "SERVICE", quote(s.ID.Name()), "NAME"}
		for i, l := range rules.GroupLabels(s) {
			for _, edge := range []string{" ", ",", ")", "=", "!"} {
				for _, begin := range []string{" ", ",", "(", "{"} {
					names = append(names, begin+l+edge, fmt.Sprint(begin, "GROUP", i, edge))
				}
			}
		}
		without := strings.NewReplacer(names...)
		known := seen[s.Objective.String()]
		seen[s.Objective.String()] = true
		for _, g := range groups {
			for _, r := range g.Rules {
				text := without.Replace(fmt.Sprint(r.Record, r.Alert, " ", r.Labels[series.LabelTier], " ", r.For, r.KeepFiringFor, " ", r.Expr))
				if r.Alert != "" || strings.HasPrefix(r.Record, "slo:correction_") {
					text = figures.ReplaceAllString(text, "N")
				}
				known = known && seen[text]
				seen[text] = true
			}
		}
		return known
	})
}

func TestRuleTestsAreGolden(t *testing.T) {
	specs(t, func(t *testing.T, name string, m made) {
		files, _, err := Tests(m.in, Options{Options: tables})
		require.NoError(t, err)
		for _, f := range files {
			if filepath.Dir(f.Name) == "." { // the rules have golden files already
				golden(t, name+"."+f.Name, f.YAML)
			}
		}
	}, "fulfilment")
}

// The tests must notice rules that are wrong: those of the pace that is about them
// fail. TestRuleTestsPass has the same SLO with right rules.
func TestRuleTestsNoticeWrongRules(t *testing.T) {
	in := rules.Spec{SLOs: synthetic(t).SLOs[1:2]}
	files, _, err := Tests(in, Options{Options: tables})
	require.NoError(t, err)
	for _, c := range []struct{ name, pace, old, new string }{
		{"a threshold off by a twentieth", "hours", "0.0144 / slo:observed", "0.01512 / slo:observed"},
		{"a window too long", "minutes", "slo:sli_error:ratio_rate1h{", "slo:sli_error:ratio_rate2h{"},
		{"a short window too long", "minutes", "slo:sli_error:ratio_rate5m{", "slo:sli_error:ratio_rate30m{"},
		{"without a long window", "days", "slo:sli_error:ratio_rate3d{", "slo:sli_error:ratio_rate6h{"},
		{"a tenth of what was observed", "minutes", "vector(0)) / 60, 1)", "vector(0)) / 600, 1)"},
		{"a no-data alert that waits", "hours", "for: 10m", "for: 1h"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			changed := slices.Clone(files)
			for i, f := range changed {
				text := strings.ReplaceAll(string(f.YAML), c.old, c.new)
				if filepath.Dir(f.Name) == "rules" && strings.Contains(f.Name, c.pace) {
					require.NotEqual(t, string(f.YAML), text, "the rules have no %s", c.old)
					changed[i].YAML = []byte(text)
				}
			}
			require.Contains(t, promtoolFails(t, ruleTests(t, changed, c.pace)...), "FAILED")
		})
	}
}

// forecasting are an SLO that alerts on its forecast by the defaults, and one with groups, times and labels of its own. They
// have no other alerts, whose rules take promtool seconds.
func forecasting(t *testing.T) rules.Spec {
	plain := simple(t, "shop/soon", "99.9")
	plain.Alerting.Soon = slo.SoonAlert{Within: 24 * time.Hour, Probability: 0.8}
	own := grouped(simple(t, "shop/sooner", "99"), "region", "http.code")
	own.Alerting.Soon = slo.SoonAlert{Within: 36 * time.Hour, Probability: 0.755, AlertSettings: slo.AlertSettings{For: 17 * time.Minute, Labels: map[string]string{"queue": "a"}}}
	for _, s := range []*slo.SLO{plain, own} {
		s.Alerting.Page.Disabled, s.Alerting.Ticket.Disabled, s.Alerting.NoData.Disabled = true, true, true
	}
	return rules.Spec{SLOs: []*slo.SLO{plain, own}}
}

// TestRuleTestsOfForecasts: the tests of the alert on a forecast pass, and notice rules that are wrong.
func TestRuleTestsOfForecasts(t *testing.T) {
	files, _, err := Tests(forecasting(t), Options{Options: tables})
	require.NoError(t, err)
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
			changed := slices.Clone(files)
			for i, f := range changed {
				if c.old != "" && f.Name == "rules/shop_hours.yaml" {
					changed[i].YAML = []byte(strings.ReplaceAll(string(f.YAML), c.old, c.new))
					require.NotEqual(t, string(f.YAML), string(changed[i].YAML), "the rules have no %s", c.old)
				}
			}
			args := ruleTests(t, changed, "hours")
			if c.old == "" {
				require.Contains(t, promtool(t, args...), "SUCCESS")
				return
			}
			require.Contains(t, promtoolFails(t, args...), "FAILED")
		})
	}
}

// ruleTests writes files of Tests and gives the arguments with which promtool runs
// those of a pace, or all ("").
func ruleTests(t *testing.T, files []File, pace string) []string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "rules"), 0o755))
	args := []string{"test", "rules"}
	for _, f := range files {
		path := filepath.Join(dir, f.Name)
		require.NoError(t, os.WriteFile(path, f.YAML, 0o644))
		if filepath.Dir(f.Name) == "." && strings.Contains(f.Name, pace) {
			args = append(args, path)
		}
	}
	return args
}
