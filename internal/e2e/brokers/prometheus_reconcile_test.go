package brokers

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/internal/e2e/e2etest"
	"github.com/sloengine/sloengine/internal/testkit"
)

// reconciled is what the command reconcile prints.
type reconciled struct {
	Engine, Increase, Difference, Unexplained struct{ Valid, Bad float64 }
	Causes                                    []struct {
		Cause, Why string
		Valid, Bad float64
	}
	Explained bool
	Notes     []string
}

// TestReconcile: what the engine counts from a real Prometheus and what its increase() says differ by causes that add
// up.
func TestReconcile(t *testing.T) {
	t.Parallel()
	needPrometheus(t)
	dir := t.TempDir()
	good, bad := madeHistory(t, dir, 2)
	target := httptest.NewServer(&requests{counts: map[string]int{}})
	defer target.Close()
	address := behindPassword(t, startPrometheus(t, dir, target.URL, "", ""))
	e2etest.WriteFile(t, dir, "password", "secret")
	spec := e2etest.WriteFile(t, dir, "spec.yaml", counterSpec)
	p, ok := e2etest.ServeIn(t, dir, spec, fmt.Sprintf(`sources:
  - name: metrics
    prometheus:
      url: %q
      basic_auth: {username: reader, password_file: password}
      interval: 1s
      history: 30d
`, address))
	require.True(t, ok, p.Log)
	want := fmt.Sprintf(`"counts":{"good":%d,"bad":%d`, good, bad)
	testkit.Eventually(t, "the history is counted", func() bool {
		return strings.Contains(string(e2etest.Get(t, p.Base+"/api/v1/slos")), want)
	})
	withPassword := strings.Replace(address, "//", "//reader:secret@", 1)
	for _, window := range [][2]string{{"40h", "30m"}, {"30h", "20h"}, {"72h", "10h"}, {"2h", "65m"}} {
		args := []string{"reconcile", "--url", p.Base, "--slo", "shop/availability", "--prometheus", withPassword,
			"--from", window[0], "--to", window[1]}
		out, errOut, code := e2etest.Command(t, args...)
		require.Zero(t, code, "%s%s", out, errOut)
		require.NotContains(t, out, "secret")
		t.Log(out)
		out, errOut, code = e2etest.Command(t, append(args, "-o", "json")...)
		require.Zero(t, code, errOut)
		var r reconciled
		require.NoError(t, json.Unmarshal([]byte(out), &r))
		require.Positive(t, r.Engine.Bad)
		require.Zero(t, r.Unexplained, out)
		sum := 0.0
		for _, c := range r.Causes {
			require.NotEqual(t, "server", c.Cause, "the arithmetic is that of this Prometheus")
			sum += c.Valid
		}
		require.InDelta(t, r.Difference.Valid, sum, 1e-3)
	}
	_, errOut, code := e2etest.Command(t, "reconcile", "--url", p.Base, "--slo", "shop/availability")
	require.NotZero(t, code)
	require.Contains(t, errOut, "401")
	_, errOut, code = e2etest.Command(t, "reconcile", "--url", p.Base, "--slo", "shop/missing", "--prometheus",
		withPassword)
	require.NotZero(t, code)
	require.Contains(t, errOut, "no source of the engine counts shop/missing")
	p.Stop(t)
}

const importSpec = `version: sloengine/v1
service: shop
slos:
  - name: availability
    objective: 99
    window: 30d
    indicator:
      prometheus: {total: 'http_requests_total{job="web"}', bad: 'http_requests_total{job="web",code=~"5.."}'}
`

// TestImport: the past of a real Prometheus is counted into the data directory of a stopped engine, once, however often
// the command is killed and run, and a running engine goes on from there.
func TestImport(t *testing.T) {
	t.Parallel()
	needPrometheus(t)
	dir := t.TempDir()
	good, bad := madeHistory(t, dir, 2)
	target := httptest.NewServer(&requests{counts: map[string]int{`route="/cart",type="web",code="200"`: 1_000_000}})
	defer target.Close()
	address := behindPassword(t, startPrometheus(t, dir, target.URL))
	e2etest.WriteFile(t, dir, "password", "secret")
	spec := e2etest.WriteFile(t, dir, "spec.yaml", importSpec)
	settings := fmt.Sprintf(`sources:
  - name: metrics
    prometheus:
      url: %q
      basic_auth: {username: reader, password_file: password}
      interval: 1s
`, address)
	config := e2etest.WriteFile(t, dir, "engine.yaml", settings)
	args := []string{"import", "prometheus", "-f", spec, "-c", config, "--data-dir", filepath.Join(dir, "data"), "--from",
		"30d"}
	killed := 0
	for i := range 20 {
		cmd := exec.Command(e2etest.Program(), args...)
		require.NoError(t, cmd.Start())
		testkit.Pause(time.Duration(100+37*(i*7%20)) * time.Millisecond)
		_ = cmd.Process.Kill()
		if cmd.Wait() != nil {
			killed++
		}
	}
	require.Positive(t, killed)
	var first struct {
		Items []struct {
			SLOs  []string
			Until time.Time
			Cut   int
		}
	}
	for range 2 {
		out, errOut, code := e2etest.Command(t, append(args, "-o", "json")...)
		require.Zero(t, code, errOut)
		require.NoError(t, json.Unmarshal([]byte(out), &first))
		require.Equal(t, []string{"shop/availability"}, first.Items[0].SLOs)
		require.Zero(t, first.Items[0].Cut)
	}
	p, ok := e2etest.ServeIn(t, dir, spec, settings)
	require.True(t, ok, p.Log)
	want := fmt.Sprintf(`"counts":{"good":%d,"bad":%d`, good, bad)
	testkit.Eventually(t, "the past is counted once", func() bool {
		return strings.Contains(string(e2etest.Get(t, p.Base+"/api/v1/slos")), want)
	})
	_, errOut, code := e2etest.Command(t, args...)
	require.Equal(t, 1, code)
	require.Contains(t, errOut, "a running engine reads the past itself")
	p.Stop(t)
}
