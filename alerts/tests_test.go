package alerts

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/rules"
)

func TestRuleTestsPass(t *testing.T) {
	specs(t, func(t *testing.T, name string, m made) {
		dir := t.TempDir()
		files, err := Tests(m.in, Options{Options: tables})
		require.NoError(t, err)
		args := []string{"test", "rules"}
		require.NoError(t, os.Mkdir(filepath.Join(dir, "rules"), 0o755))
		for _, f := range files {
			path := filepath.Join(dir, f.Name)
			require.NoError(t, os.WriteFile(path, f.YAML, 0o644))
			if filepath.Dir(f.Name) == "." {
				args = append(args, path)
			}
		}
		began := time.Now()
		out := promtool(t, args...)
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

// The tests must notice rules that are wrong.
func TestRuleTestsNoticeWrongRules(t *testing.T) {
	in := rules.Spec{SLOs: synthetic(t).SLOs[1:2]}
	const all = ""
	for _, c := range []struct{ name, file, old, new string }{
		{"nothing", all, "", ""},
		{"a threshold off by a twentieth", all, "0.0144 / slo:observed", "0.01512 / slo:observed"},
		{"a window too long", all, "slo:sli_error:ratio_rate1h{", "slo:sli_error:ratio_rate2h{"},
		{"a short window too long", all, "slo:sli_error:ratio_rate5m{", "slo:sli_error:ratio_rate30m{"},
		{"without a long window", all, "slo:sli_error:ratio_rate3d{", "slo:sli_error:ratio_rate6h{"},
		{"a tenth of what was observed", "minutes", "vector(0)) / 60, 1)", "vector(0)) / 600, 1)"},
		{"a no-data alert that waits", "hours", "for: 10m", "for: 1h"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			require.NoError(t, os.Mkdir(filepath.Join(dir, "rules"), 0o755))
			files, err := Tests(in, Options{Options: tables, NoEngine: true})
			require.NoError(t, err)
			args, changed := []string{"test", "rules"}, c.old == ""
			for _, f := range files {
				path, text := filepath.Join(dir, f.Name), string(f.YAML)
				if filepath.Dir(f.Name) == "." {
					args = append(args, path)
				} else if c.old != "" && strings.Contains(f.Name, c.file) {
					changed = changed || strings.Contains(text, c.old)
					text = strings.ReplaceAll(text, c.old, c.new)
				}
				require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
			}
			require.True(t, changed, "the rules have no %s", c.old)
			if c.old == "" {
				require.Contains(t, promtool(t, args...), "SUCCESS")
				return
			}
			require.Contains(t, promtoolFails(t, args...), "FAILED")
		})
	}
}
