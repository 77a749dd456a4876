package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	"github.com/sloengine/sloengine/cmd/sloengine/cli"
	"github.com/sloengine/sloengine/reliability/nettest"
)

// TestStack runs `make stack` with processes until the alert is in Alertmanager.
func TestStack(t *testing.T) {
	t.Parallel()
	if os.Getenv("SLOENGINE_QUICK") != "" {
		t.Skip("make quick starts no servers")
	}
	for _, need := range []string{"bash", "curl", "prometheus", "prometheus-alertmanager"} {
		if _, err := exec.LookPath(need); err != nil {
			t.Skip(need + " is not installed")
		}
	}
	sloengine, err := exec.LookPath("sloengine") // this program, by TestMain
	require.NoError(t, err)
	cmd := exec.Command("../../scripts/stack")
	cmd.Env = append(os.Environ(), "SLOENGINE="+sloengine, "STACK_DIR="+t.TempDir(), "STACK_PROCESSES=1", "STACK_ONCE=1",
		"ENGINE_PORT="+nettest.FreePort(t), "PROMETHEUS_PORT="+nettest.FreePort(t), "ALERTMANAGER_PORT="+nettest.FreePort(t))
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Regexp(t,
		`after \d+ s Alertmanager has ErrorBudgetBurnPage: "summary":"shop/checkout burns its error budget fast"`,
		string(out))
}

// TestCompose compares deploy/compose.yaml with the program and with the files that it mounts.
func TestCompose(t *testing.T) {
	var c struct {
		Services map[string]struct {
			Image   string
			Command []string
			Ports   []string
			Volumes []yaml.Node
			Depends map[string]struct{ Condition string } `yaml:"depends_on"`
		}
		Volumes map[string]any
	}
	require.NoError(t, yaml.Unmarshal([]byte(deployFile(t, "compose.yaml")), &c))
	require.Len(t, c.Services, 5)
	mounted := 0
	for name, s := range c.Services {
		for _, v := range s.Volumes {
			source := v.Value
			if v.Kind == yaml.MappingNode {
				var m struct{ Source string }
				require.NoError(t, v.Decode(&m))
				source = m.Source
			}
			source, _, _ = strings.Cut(source, ":")
			if strings.HasPrefix(source, ".") {
				require.FileExists(t, filepath.Join(deployDir, source), name)
				mounted++
			} else {
				require.Contains(t, c.Volumes, source, name)
			}
		}
		for _, p := range s.Ports {
			require.True(t, strings.HasPrefix(p, "127.0.0.1:"), p)
		}
		for other := range s.Depends {
			require.Contains(t, c.Services, other)
		}
	}
	require.Equal(t, 3, mounted)
	parseServe(t, c.Services["engine"].Command)

	// What generate writes is what the others are given.
	args := c.Services["generate"].Command
	out := t.TempDir()
	for i, a := range args {
		args[i] = strings.NewReplacer("/spec.yaml", filepath.Join(deployDir, "stack/spec.yaml"), "/out", out).Replace(a)
	}
	root := newRoot(cli.Streams{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard})
	root.SetArgs(args)
	require.NoError(t, root.Execute())
	for name, want := range map[string]string{"prometheus": "prometheus.yaml", "alertmanager": "alertmanager.yaml"} {
		require.FileExists(t, filepath.Join(out, want))
		require.Contains(t, c.Services[name].Command, "--config.file=/generated/"+want)
	}
	require.FileExists(t, filepath.Join(out, "dashboards", "sloengine-overview.json"))
	require.Contains(t, readText(t, filepath.Join(out, "prometheus.yaml")), "engine:8080")
}
