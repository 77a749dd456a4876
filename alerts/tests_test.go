package alerts

import (
	"os"
	"path/filepath"
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
	for _, c := range []struct {
		name  string
		wreck func(r *rules.Rule)
	}{
		{"a threshold off by a twentieth", func(r *rules.Rule) { replace(r, "> 0.0144", "> 0.01512") }},
		{"a window too long", func(r *rules.Rule) { replace(r, "ratio_rate1h", "ratio_rate2h") }},
		{"a short window too long", func(r *rules.Rule) { replace(r, "ratio_rate5m", "ratio_rate30m") }},
		{"without a long window", func(r *rules.Rule) { replace(r, "ratio_rate3d", "ratio_rate6h") }},
		{"a no-data alert that waits", func(r *rules.Rule) {
			if r.Alert == NameNoData {
				r.For = time.Hour
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := generate(t, in, Options{Options: tables, NoEngine: true})
			for i := range m.alerts[0].Rules {
				c.wreck(&m.alerts[0].Rules[i])
			}
			dir := t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(dir, "rules.yaml"), m.file(""), 0o644))
			files, err := Tests(in, Options{Options: tables, NoEngine: true, RuleFiles: []string{"rules.yaml"}})
			require.NoError(t, err)
			args := []string{"test", "rules"}
			for _, f := range files {
				path := filepath.Join(dir, f.Name)
				require.NoError(t, os.WriteFile(path, f.YAML, 0o644))
				args = append(args, path)
			}
			require.Contains(t, promtoolFails(t, args...), "FAILED")
		})
	}
}
