package bench

import (
	"context"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/internal/e2e/e2etest"
	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/reliability/nettest"
)

// generators are the programs whose rules are measured: this one with each profile, and Sloth if SLOTH names its
// binary.
func generators() map[string]func(spec, dir string) *exec.Cmd {
	own := func(profile string) func(spec, dir string) *exec.Cmd {
		return func(spec, dir string) *exec.Cmd {
			return exec.Command(e2etest.Program(), "generate", "rules", "--profile", profile, "-f", spec, "--out", dir)
		}
	}
	all := map[string]func(spec, dir string) *exec.Cmd{"minimal": own("minimal"), "full": own("full")}
	if sloth := os.Getenv("SLOTH"); sloth != "" {
		all["sloth"] = func(spec, dir string) *exec.Cmd {
			return exec.Command(sloth, "generate", "-i", spec, "-o", filepath.Join(dir, "rules.yaml"))
		}
	}
	return all
}

// ruleFiles are the files below a folder that a generator wrote.
func ruleFiles(t testing.TB, dir string) (files []string) {
	for _, pattern := range []string{"*.yaml", "*/*.yaml"} {
		found, err := filepath.Glob(filepath.Join(dir, pattern))
		require.NoError(t, err)
		files = append(files, found...)
	}
	require.NotEmpty(t, files)
	return files
}

// slothSpec is a file of Sloth, which all generators read, with so many SLOs.
func slothSpec(t testing.TB, slos int) string {
	var s strings.Builder
	s.WriteString("version: prometheus/v1\nservice: shop\nlabels: {owner: team-a, tier: \"2\"}\nslos:\n")
	for i := range slos {
		fmt.Fprintf(&s, `  - name: slo-%d
    objective: 99.9
    sli:
      events:
        error_query: sum(rate(http_errors_total{job="shop-%[1]d"}[{{.window}}]))
        total_query: sum(rate(http_requests_total{job="shop-%[1]d"}[{{.window}}]))
    alerting: {name: Shop%[1]dBurns, page_alert: {labels: {severity: page}}, ticket_alert: {labels: {severity: ticket}}}
`, i)
	}
	file := filepath.Join(t.TempDir(), "sloth.yaml")
	require.NoError(t, os.WriteFile(file, []byte(s.String()), 0o600))
	return file
}

// BenchmarkGenerate is the cost of the rules of 1,000 SLOs.
func BenchmarkGenerate(b *testing.B) {
	spec := slothSpec(b, 1000)
	for name, generate := range generators() {
		b.Run(name, func(b *testing.B) {
			cpu, peak, written := math.Inf(1), 0.0, 0.0
			for b.Loop() {
				dir := b.TempDir()
				cmd := generate(spec, dir)
				require.NoError(b, cmd.Start())
				last, ended := 0.0, make(chan error)
				go func() { ended <- cmd.Wait() }()
				for running := true; running; {
					select {
					case err := <-ended:
						require.NoError(b, err)
						running = false
					case <-time.After(time.Millisecond):
						if now := peakMemory(cmd.Process.Pid); now > 0 {
							last = now // the first may be that of this process, before the program is loaded
						}
					}
				}
				peak = max(peak, last)
				cpu = min(cpu, (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds())
				written = 0
				for _, file := range ruleFiles(b, dir) {
					info, err := os.Stat(file)
					require.NoError(b, err)
					written += float64(info.Size()) / 1e6
				}
			}
			b.ReportMetric(cpu, "CPU-s")
			b.ReportMetric(peak, "MB-peak")
			b.ReportMetric(written, "MB-written")
		})
	}
}

var highWater = regexp.MustCompile(`VmHWM:\s+(\d+) kB`)

// peakMemory is the most memory that a process had, in MB: 0 once it has ended. The figure that wait4 returns starts
// with the memory of the parent.
func peakMemory(pid int) float64 {
	data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	m := highWater.FindSubmatch(data)
	if m == nil {
		return 0
	}
	kb, _ := strconv.ParseFloat(string(m[1]), 64)
	return kb * 1024 / 1e6
}

const (
	ruleScrape = 15 * time.Second
	ruleEval   = 30 * time.Second
)

// BenchmarkRulesInPrometheus is what rules cost a real Prometheus ($PROMETHEUS, or the one installed), at 3 and at 100
// series each of requests and of errors per SLO. Each Prometheus has the history that its rules read. All run at the
// same time for six minutes, and one without rules tells what scraping costs.
func BenchmarkRulesInPrometheus(b *testing.B) {
	program := os.Getenv("PROMETHEUS")
	if program == "" {
		program = "prometheus"
	}
	if _, err := exec.LookPath(program); err != nil {
		b.Skip(program + " is not installed")
	}
	web := httptest.NewServer(http.HandlerFunc(counters))
	defer web.Close()
	generate := generators()
	generate["none"] = nil
	type running struct {
		name       string
		slos       int
		prometheus *ruleServer
	}
	var all []running
	var mu sync.Mutex
	var wait sync.WaitGroup
	for raw, slos := range map[int]int{3: 100, 100: 10} {
		spec := slothSpec(b, slos)
		for name, command := range generate {
			dir := b.TempDir()
			if command != nil {
				out, err := command(spec, dir).CombinedOutput()
				require.NoError(b, err, "%s", out)
				writeHistory(b, dir, slos, raw)
			}
			wait.Go(func() {
				p := startRuleServer(b, program, dir, fmt.Sprintf("%s/%d/%d", web.URL, slos, raw), "")
				mu.Lock()
				defer mu.Unlock()
				all = append(all, running{fmt.Sprintf("%s-%d", name, raw), slos, p})
			})
		}
	}
	wait.Wait()
	for b.Loop() { // once
		testkit.Pause(time.Minute) // blocks are loaded, and every group has been evaluated
		before := map[string]usage{}
		for _, r := range all {
			before[r.name] = r.prometheus.usage(b)
		}
		testkit.Pause(5 * time.Minute)
		idle := map[string]usage{}
		spent := map[string]usage{}
		for _, r := range all {
			now, was := r.prometheus.usage(b), before[r.name]
			u := usage{
				cpu: (now.cpu - was.cpu) * 1000 / 5 / float64(r.slos), samples: (now.samples - was.samples) / 300 / float64(r.slos)}
			spent[r.name] = u
			if series, ok := strings.CutPrefix(r.name, "none-"); ok {
				idle[series] = u
			}
		}
		for name, u := range spent {
			variant, series, _ := strings.Cut(name, "-")
			if variant != "none" {
				b.ReportMetric(u.cpu-idle[series].cpu, "ms/SLO-minute:"+name)
				if u.samples > 0 {
					b.ReportMetric(u.samples, "samples/s:"+name)
				}
			}
		}
	}
}

// counters exports http_requests_total and http_errors_total: /SLOS/SERIES.
func counters(w http.ResponseWriter, r *http.Request) {
	var slos, raw int
	_, _ = fmt.Sscanf(r.URL.Path, "/%d/%d", &slos, &raw)
	now := float64(time.Now().UnixMilli()) / 1000
	for metric, perSecond := range map[string]float64{"http_requests_total": 10, "http_errors_total": 0.005} {
		fmt.Fprintf(w, "# TYPE %s counter\n", metric)
		for i := range slos {
			for j := range raw {
				fmt.Fprintf(w, "%s{job=\"shop-%d\",pod=\"%d\"} %g\n", metric, i, j, now*perSecond)
			}
		}
	}
}

// writeHistory writes a block with as much of each series as the rules of a folder read: of counters at every scrape,
// of recorded ones at every evaluation of their group.
func writeHistory(b *testing.B, dir string, slos, raw int) {
	type recorded struct {
		labels labels.Labels
		every  time.Duration
	}
	back := map[string]time.Duration{}
	var rows []recorded
	p := parser.NewParser(parser.Options{})
	for _, file := range ruleFiles(b, dir) {
		doc, errs := rulefmt.ParseFile(file, false, model.UTF8Validation, p, promslog.NewNopLogger())
		require.Empty(b, errs)
		for _, g := range doc.Groups {
			every := time.Duration(g.Interval)
			if every == 0 {
				every = ruleEval
			}
			for _, r := range g.Rules {
				expr, err := p.ParseExpr(r.Expr)
				require.NoError(b, err)
				parser.Inspect(expr, func(n parser.Node, path []parser.Node) error {
					if v, ok := n.(*parser.VectorSelector); ok {
						reach := v.OriginalOffset + 5*time.Minute
						for _, outer := range path {
							switch outer := outer.(type) {
							case *parser.MatrixSelector:
								reach += outer.Range
							case *parser.SubqueryExpr:
								reach += outer.Range + outer.OriginalOffset
							}
						}
						back[v.Name] = max(back[v.Name], reach)
					}
					return nil
				})
				if r.Record != "" {
					l := maps.Clone(r.Labels)
					if l == nil {
						l = map[string]string{}
					}
					l[model.MetricNameLabel] = r.Record
					rows = append(rows, recorded{labels.FromMap(l), every})
				}
			}
		}
	}
	const whole = 120 * 24 * time.Hour
	block, err := tsdb.NewBlockWriter(promslog.NewNopLogger(), filepath.Join(dir, "data"), whole.Milliseconds())
	require.NoError(b, err)
	now := time.Now()
	series := func(l labels.Labels, every time.Duration, value func(at time.Time) float64) {
		app := block.Appender(context.Background())
		var ref storage.SeriesRef
		for at := now.Add(-back[l.Get(model.MetricNameLabel)]).Truncate(every); at.Before(now); at = at.Add(every) {
			ref, err = app.Append(ref, l, at.UnixMilli(), value(at))
			require.NoError(b, err)
		}
		require.NoError(b, app.Commit())
	}
	for _, r := range rows {
		series(r.labels, r.every, func(time.Time) float64 { return 0.0005 })
	}
	for metric, perSecond := range map[string]float64{"http_requests_total": 10, "http_errors_total": 0.005} {
		for i := range slos {
			for j := range raw {
				l := labels.FromStrings(model.MetricNameLabel, metric, "job", fmt.Sprintf("shop-%d", i), "pod",
					strconv.Itoa(j), "instance", "x")
				series(l, ruleScrape, func(at time.Time) float64 { return float64(at.Unix()) * perSecond })
			}
		}
	}
	_, err = block.Flush(context.Background())
	require.NoError(b, err)
	require.NoError(b, block.Close())
}

// ruleServer is a Prometheus that evaluates rules.
type ruleServer struct {
	cmd *exec.Cmd
	url string
}

// usage is the CPU in seconds of a Prometheus and the samples that its queries have read.
type usage struct{ cpu, samples float64 }

// startRuleServer runs a Prometheus on the rules in a folder, with more sections of its configuration, and flags.
func startRuleServer(b *testing.B, program, dir, target, more string, flags ...string) *ruleServer {
	host, path, _ := strings.Cut(strings.TrimPrefix(target, "http://"), "/")
	config := fmt.Sprintf(`global: {scrape_interval: %s, evaluation_interval: %s}
rule_files: [%s/*.yaml, %[3]s/rules/*.yaml]
scrape_configs:
  - {job_name: shop, honor_labels: true, metrics_path: /%s, static_configs: [{targets: ["%s"], labels: {instance: x}}]}
%s`, ruleScrape, ruleEval, dir, path, host, more)
	file := filepath.Join(dir, "prometheus.yml")
	require.NoError(b, os.WriteFile(file, []byte(config), 0o600))
	address := "127.0.0.1:" + nettest.FreePort(b)
	p := &ruleServer{exec.Command(program, append(flags, "--config.file="+file, "--storage.tsdb.path="+
		filepath.Join(dir, "data"), "--storage.tsdb.retention.time=90d", "--web.listen-address="+address,
		"--log.level=warn")...), "http://" + address}
	p.cmd.Stderr = os.Stderr
	require.NoError(b, p.cmd.Start())
	b.Cleanup(func() { _ = p.cmd.Process.Kill(); _ = p.cmd.Wait() })
	waitHealthy(b, p.url+"/-/ready")
	return p
}

func waitHealthy(b *testing.B, url string) {
	require.Eventually(b, func() bool {
		res, err := http.Get(url)
		if err == nil {
			_ = res.Body.Close()
		}
		return err == nil && res.StatusCode == http.StatusOK
	}, testkit.Patience, 100*time.Millisecond)
}

var samplesRead = regexp.MustCompile(`(?m)^prometheus_engine_query_samples_total (\S+)$`)

func (p *ruleServer) usage(b *testing.B) usage {
	cpu := e2etest.CPUSeconds(b, p.cmd.Process.Pid)
	res, err := http.Get(p.url + "/metrics")
	require.NoError(b, err)
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	require.NoError(b, err)
	m := samplesRead.FindSubmatch(data)
	if m == nil {
		return usage{cpu: cpu} // Prometheus 2.42 does not count them
	}
	samples, err := strconv.ParseFloat(string(m[1]), 64)
	require.NoError(b, err)
	return usage{cpu, samples}
}
