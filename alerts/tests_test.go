package alerts

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/rules"
)

func TestRuleTestsPass(t *testing.T) {
	specs(t, func(t *testing.T, name string, m made) {
		files, err := Tests(m.in, Options{Options: tables})
		require.NoError(t, err)
		began := time.Now()
		out := promtool(t, ruleTests(t, files, "")...)
		require.Contains(t, out, "SUCCESS")
		t.Logf("promtool test rules of the %s spec: %d SLOs, %s", name, len(m.in.SLOs), time.Since(began).Round(100*time.Millisecond))
	})
}

func TestRuleTestsAreGolden(t *testing.T) {
	specs(t, func(t *testing.T, name string, m made) {
		files, err := Tests(m.in, Options{Options: tables})
		require.NoError(t, err)
		for _, f := range files {
			if filepath.Dir(f.Name) == "." { // the rules have golden files already
				golden(t, name+"."+f.Name, f.YAML)
			}
		}
	})
}

// The tests must notice rules that are wrong: those of the pace that is about them
// fail. TestRuleTestsPass has the same SLO with right rules.
func TestRuleTestsNoticeWrongRules(t *testing.T) {
	in := rules.Spec{SLOs: synthetic(t).SLOs[1:2]}
	files, err := Tests(in, Options{Options: tables})
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
