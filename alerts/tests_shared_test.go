package alerts

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/rules"
	"github.com/sloengine/sloengine/slo"
)

// sharedTest writes rules and tests as generate does, and gives the arguments for promtool.
func sharedTest(t *testing.T, in rules.Spec, o Options, change func(string) string) []string {
	t.Helper()
	o.NoEngine = true
	dir := t.TempDir()
	m := generate(t, in, o)
	files, _, err := Tests(in, o)
	require.NoError(t, err)
	require.Len(t, files, 1)
	service := strings.TrimSuffix(files[0].Name, "_test.yaml")
	require.NoError(t, os.Mkdir(filepath.Join(dir, "rules"), 0o755))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "tests"), 0o755))
	write := func(name string, groups []rules.Group) {
		path := filepath.Join(dir, "rules", name+".yaml")
		require.NoError(t, os.WriteFile(path, []byte(change(string(rules.File("", groups)))), 0o644))
	}
	if names := RuleFiles(service, o.Options); len(names) == 1 {
		write(names[0], rules.Merge(m.recording, m.alerts))
	} else {
		write(names[0], m.recording)
		write(names[1], m.alerts)
	}
	path := filepath.Join(dir, "tests", files[0].Name)
	require.NoError(t, os.WriteFile(path, files[0].YAML, 0o644))
	return []string{"test", "rules", path}
}

// TestSharedRuleTests load the rule files themselves, and pass.
func TestSharedRuleTests(t *testing.T) {
	const both = 4 // the others have the same rules with the names of Sloth
	for i, name := range []string{"minimal", "sloth-api", "fulfilment", "conversion",
		"openslo-journey", "outbox", "sloengine", "insurance-sales"} {
		for _, o := range []rules.Options{{Profile: rules.Minimal}, {Names: rules.Sloth}} {
			if i >= both && o.Names == rules.Sloth {
				continue
			}
			t.Run(name+" "+string(o.Profile+rules.Profile(o.Names)), func(t *testing.T) {
				t.Parallel()
				o.From, o.Until = tables.From, tables.Until
				args := sharedTest(t, exampleSpec(t, name), Options{Options: o}, func(text string) string { return text })
				require.Contains(t, promtool(t, args...), "SUCCESS")
			})
		}
	}
}

// TestSharedRuleTestsNoticeWrongRules: the tests fail where an alert is wrong.
func TestSharedRuleTestsNoticeWrongRules(t *testing.T) {
	o := Options{Options: rules.Options{Profile: rules.Minimal, From: tables.From, Until: tables.Until}}
	for name, c := range map[string][2]string{
		"a short window too long":      {"slo:sli_error:held5m{slo_id=\"shop/checkout\"} >", "slo:sli_error:held30m{slo_id=\"shop/checkout\"} >"},
		"a threshold that is too high": {"> 0.0144", "> 0.144"},
		"a no-data alert that waits":   {"for: 10m", "for: 1h"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := sharedTest(t, exampleSpec(t, "minimal"), o, func(text string) string {
				changed := strings.ReplaceAll(text, c[0], c[1])
				require.NotEqual(t, text, changed, "the rules have no %s", c[0])
				return changed
			})
			require.Contains(t, promtoolFails(t, args...), "FAILED")
		})
	}
}

// TestSharedRuleTestsOfHostileNames: groups and labels of a spec that are called like labels of others, and values that look
// like templates, are told apart, and are on the alerts that promtool sees.
func TestSharedRuleTestsOfHostileNames(t *testing.T) {
	t.Parallel()
	byTier := grouped(simple(t, "shop/by-tier", "99.9"), "tier", "part")
	byTier.Labels = map[string]string{"tier": "gold", "team": `{{ "web" }}`}
	whole := simple(t, "shop/whole", "99")
	whole.Indicator.Valid = slo.Selector{matcher(t, "type", "order")}
	whole.Labels = map[string]string{"tier": "gold", "long": "yes", "alert": "no", "record": "x"}
	in := rules.Spec{SLOs: []*slo.SLO{byTier, whole}}
	o := Options{Options: rules.Options{Profile: rules.Minimal, From: tables.From, Until: tables.Until}}
	args := sharedTest(t, in, o, func(text string) string {
		of, rest, ok := strings.Cut(text, "- name: sloengine-slo/shop/whole/short")
		require.True(t, ok)
		require.NotContains(t, of, `tier: "gold"`, "it would replace that of the group")
		require.Contains(t, rest, `tier: "gold"`)
		return text
	})
	tests, err := os.ReadFile(args[len(args)-1])
	require.NoError(t, err)
	require.Contains(t, string(tests), `tier="one"`)
	require.Contains(t, string(tests), `tier="two"`)
	require.Contains(t, promtool(t, args...), "SUCCESS")
}
