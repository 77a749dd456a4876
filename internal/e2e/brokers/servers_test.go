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
	"github.com/sloengine/sloengine/reliability/nettest"
)

const regionSpec = `version: sloengine/v1
service: shop
slos:
  - name: availability
    objective: 99
    window: 1h
    group_by: [region, route]
    indicator:
      prometheus: {total: 'http_requests_total{job="web"}', bad: 'http_requests_total{job="web",code=~"5.."}'}
  - name: eu
    objective: 99
    window: 1h
    indicator:
      prometheus: {total: 'http_requests_total{region="eu"}', bad: 'http_requests_total{region="eu",code=~"5.."}'}
  - name: all
    objective: 99
    window: 1h
    indicator:
      prometheus: {total: 'http_requests_total{job="web"}', bad: 'http_requests_total{job="web",code=~"5.."}'}
`

// TestServers: two real servers have the same series, each of its region. One of them is killed for a while, and so is
// the engine. Each region has what happened in it, and only the dead one is not observed meanwhile.
func TestServers(t *testing.T) {
	t.Parallel()
	needPrometheus(t)
	regions := []string{"eu", "us"}
	webs, kills := map[string]*requests{}, map[string]func(){}
	run, address := map[string]func(){}, map[string]string{}
	truth := map[string][2]int{}
	for _, region := range regions {
		webs[region] = &requests{counts: map[string]int{`route="/cart",code="200"`: 1_000_000,
			`route="/cart",code="500"`: 1000}}
		target := httptest.NewServer(webs[region])
		defer target.Close()
		dir := t.TempDir()
		address[region] = nettest.FreeAddress(t)
		run[region] = func() {
			kills[region] = runPrometheus(t, dir, address[region], target.URL, ", external_labels: {region: "+region+"}")
		}
		run[region]()
	}
	dir := t.TempDir()
	spec := e2etest.WriteFile(t, dir, "spec.yaml", regionSpec)
	settings := fmt.Sprintf(`evaluator: {interval: 500ms}
sources:
  - name: metrics
    prometheus: {url: ["http://%s", "http://%s"], interval: 500ms, scrape_interval: 2s, alerts: live}
`, address["eu"], address["us"])
	var p *e2etest.Process
	start := func() {
		var ok bool
		p, ok = e2etest.ServeIn(t, dir, spec, settings)
		require.True(t, ok && p.WaitReady(t), p.Log)
	}
	start()
	type known struct {
		counts   [2]int
		coverage float64
	}
	read := func() map[string]known {
		var list struct {
			Items []struct {
				SLO    string            `json:"slo"`
				Group  map[string]string `json:"group"`
				Budget struct {
					Counts struct{ Good, Bad int } `json:"counts"`
				} `json:"budget"`
				Coverage float64 `json:"coverage"`
			} `json:"items"`
		}
		require.NoError(t, json.Unmarshal(e2etest.Get(t, p.Base+"/api/v1/slos"), &list))
		out := map[string]known{}
		for _, x := range list.Items {
			out[x.SLO+" "+x.Group["region"]] = known{[2]int{x.Budget.Counts.Good, x.Budget.Counts.Bad}, x.Coverage}
		}
		return out
	}
	add := func() {
		for i, region := range regions {
			webs[region].add(`route="/cart",code="200"`, 90+i)
			webs[region].add(`route="/cart",code="500"`, 10)
			n := truth[region]
			truth[region] = [2]int{n[0] + 90 + i, n[1] + 10}
		}
	}
	counted := func(of ...string) bool {
		now := read()
		for _, region := range of {
			if now["availability "+region].counts != truth[region] {
				return false
			}
		}
		return true
	}
	testkit.Eventually(t, "both are read", func() bool {
		return e2etest.Counter(t, p, "sloengine_source_messages_total") > 30
	})
	add()
	testkit.Eventually(t, "both regions are counted", func() bool { return counted(regions...) })

	kills["us"]()
	began := time.Now()
	for i := range 5 {
		add()
		testkit.Pause(2 * time.Second)
		if i%2 == 1 {
			p.Kill()
			start()
		}
	}
	testkit.Eventually(t, "the other region is unharmed", func() bool { return counted("eu") })
	testkit.Eventually(t, "it is said which one is down", func() bool {
		var engine struct {
			Sources []struct{ Troubles []struct{ Kind, Name string } }
		}
		require.NoError(t, json.Unmarshal(e2etest.Get(t, p.Base+"/api/v1/engine"), &engine))
		for _, x := range engine.Sources[0].Troubles {
			require.NotEqual(t, "http://"+address["eu"], x.Name)
			if x.Kind == "connection" && x.Name == "http://"+address["us"] {
				return true
			}
		}
		return false
	})
	run["us"]()
	down := time.Since(began).Seconds() / time.Hour.Seconds()
	add()
	testkit.Eventually(t, "both regions are counted again", func() bool { return counted(regions...) })
	testkit.Pause(2 * time.Second)
	now := read()
	t.Logf("truth %v, counted %v", truth, now)
	require.True(t, counted(regions...))
	require.Equal(t, truth["eu"], now["eu "].counts, "selected by an external label")
	require.Equal(t, [2]int{truth["eu"][0] + truth["us"][0], truth["eu"][1] + truth["us"][1]}, now["all "].counts)
	eu := now["availability eu"].coverage
	require.InDelta(t, eu-down, now["availability us"].coverage, down/2, "of %v", down)
	require.InDelta(t, eu-down, now["all "].coverage, down/2, "of %v", down)
	require.InDelta(t, eu, now["eu "].coverage, down/4)

	p.Stop(t)
	renamed := strings.ReplaceAll(regionSpec, "name: availability\n", "name: requests\n    was: availability\n")
	spec = e2etest.WriteFile(t, dir, "spec.yaml", renamed)
	start()
	add()
	testkit.Eventually(t, "a renamed SLO goes on", func() bool {
		now = read()
		return now["requests eu"].counts == truth["eu"] && now["requests us"].counts == truth["us"]
	})
	p.Stop(t)
}

// TestImportFromServers: the past of two real servers and what happens meanwhile are counted once for each region,
// whichever begins first and whatever is killed.
func TestImportFromServers(t *testing.T) {
	t.Parallel()
	needPrometheus(t)
	for name, liveFirst := range map[string]bool{"import, then the present": false, "the present, then import": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			const okay, failed = `route="/cart",type="web",code="200"`, `route="/cart",type="web",code="500"`
			regions := [2]string{"eu", "us"}
			var webs [2]*requests
			var urls [2]string
			var truth [2][2]int
			for i, region := range regions {
				its := t.TempDir()
				truth[i][0], truth[i][1] = madeHistory(t, its, 1+i)
				webs[i] = &requests{counts: map[string]int{okay: 1_000_000, failed: 1000}}
				target := httptest.NewServer(webs[i])
				t.Cleanup(target.Close)
				urls[i] = "http://" + startPrometheus(t, its, target.URL, ", external_labels: {region: "+region+"}")
				testkit.Eventually(t, "what is already counted has a sample", func() bool {
					answer := e2etest.Get(t, urls[i]+"/api/v1/query?query=http_requests_total%3E999999")
					return strings.Contains(string(answer), `"1000000"`)
				})
			}
			spec := e2etest.WriteFile(t, dir, "spec.yaml", strings.ReplaceAll(regionSpec, "window: 1h", "window: 30d"))
			settings := fmt.Sprintf("sources:\n  - name: metrics\n    prometheus: {url: [%q, %q], interval: 500ms}\n",
				urls[0], urls[1])
			config := e2etest.WriteFile(t, dir, "import.yaml", settings)
			counts := func(p *e2etest.Process) (out [2][2]int) {
				var list struct {
					Items []struct {
						SLO    string
						Group  map[string]string
						Budget struct{ Counts struct{ Good, Bad int } }
					}
				}
				require.NoError(t, json.Unmarshal(e2etest.Get(t, p.Base+"/api/v1/slos"), &list))
				for _, x := range list.Items {
					for i, region := range regions {
						if x.SLO == "availability" && x.Group["region"] == region {
							out[i] = [2]int{x.Budget.Counts.Good, x.Budget.Counts.Bad}
						}
					}
				}
				return out
			}
			live := func(kills int) {
				for range kills {
					p := e2etest.Serve(t, dir, spec, settings)
					for i := range regions {
						webs[i].add(okay, 100+i)
						webs[i].add(failed, 7+i)
						truth[i][0], truth[i][1] = truth[i][0]+100+i, truth[i][1]+7+i
					}
					testkit.Pause(1500 * time.Millisecond)
					p.Kill()
				}
			}
			if liveFirst {
				p := e2etest.Serve(t, dir, spec, settings)
				testkit.Eventually(t, "counting has begun", func() bool {
					return e2etest.Counter(t, p, "sloengine_source_messages_total") > 3
				})
				p.Stop(t)
				live(2)
			}
			args := []string{"import", "prometheus", "-c", config, "-f", spec, "--data-dir", filepath.Join(dir, "data"),
				"--from", "5d"}
			killed := 0
			for i := range 5 {
				cmd := exec.Command(e2etest.Program(), args...)
				require.NoError(t, cmd.Start())
				testkit.Pause(time.Duration(150+130*i) * time.Millisecond)
				_ = cmd.Process.Kill()
				if cmd.Wait() != nil {
					killed++
				}
			}
			require.Positive(t, killed)
			for range 2 {
				out, errOut, code := e2etest.Command(t, args...)
				require.Zero(t, code, "%s%s", out, errOut)
			}
			live(2)
			p := e2etest.Serve(t, dir, spec, settings)
			var got [2][2]int
			t.Cleanup(func() { t.Logf("counted %v of %v", got, truth) })
			testkit.Eventually(t, "everything is counted", func() bool {
				got = counts(p)
				return got == truth
			})
			testkit.Pause(2 * time.Second)
			require.Equal(t, truth, counts(p))
			p.Stop(t)
		})
	}
}
