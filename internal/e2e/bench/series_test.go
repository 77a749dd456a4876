package bench

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/snappy"
	"github.com/prometheus/prometheus/prompb"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/internal/e2e/e2etest"
	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/reliability/nettest"
)

// codesSpec is a file of Sloth with so many SLOs on http_requests_total, each of a job.
func codesSpec(b *testing.B, slos int) string {
	var s strings.Builder
	s.WriteString("version: prometheus/v1\nservice: shop\nslos:\n")
	for i := range slos {
		fmt.Fprintf(&s, `  - name: slo-%d
    objective: 99.9
    sli:
      events:
        error_query: sum(rate(http_requests_total{job="shop-%[1]d",code=~"5.."}[{{.window}}]))
        total_query: sum(rate(http_requests_total{job="shop-%[1]d"}[{{.window}}]))
    alerting: {name: Shop%[1]dBurns, page_alert: {labels: {severity: page}}, ticket_alert: {labels: {severity: ticket}}}
`, i)
	}
	file := filepath.Join(b.TempDir(), "sloth.yaml")
	require.NoError(b, os.WriteFile(file, []byte(s.String()), 0o600))
	return file
}

var codes = [...]string{"200", "404", "500", "503"}

// codeCounters exports so many jobs of 25 pods with 4 codes each, all of which count: /JOBS.
func codeCounters(w http.ResponseWriter, r *http.Request) {
	jobs, _ := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/"))
	now := time.Now().UnixMilli() / 100
	out := []byte("# TYPE http_requests_total counter\n")
	for i := range jobs {
		for j := range 100 {
			out = fmt.Appendf(out, "http_requests_total{job=\"shop-%d\",pod=\"%d\",code=\"%s\"} %d\n", i, j/4, codes[j%4],
				now/int64(1+9*(j%4)))
		}
	}
	_, _ = w.Write(out)
}

// BenchmarkThousandSLOs is what 1,000 SLOs on 100 series each cost: in a real Prometheus with the rules of Sloth, and
// in the engine, which reads that Prometheus or receives from it, with what that adds in it. All run at the same time,
// and a Prometheus without anything tells what scraping costs. They have no history, but for one more with the rules
// of 20 SLOs and the days that these read, which is fifty times that for 1,000.
func BenchmarkThousandSLOs(b *testing.B) {
	const slos, old = 1000, 20
	sloth := os.Getenv("SLOTH")
	if _, err := exec.LookPath("prometheus"); err != nil || sloth == "" {
		b.Skip("prometheus is not installed, or SLOTH is not the path of Sloth")
	}
	web := httptest.NewServer(http.HandlerFunc(codeCounters))
	defer web.Close()
	spec := codesSpec(b, slos)
	start := func(dir, more string) *ruleServer {
		return startRuleServer(b, "prometheus", dir, fmt.Sprintf("%s/%d", web.URL, slos), more)
	}
	const settings = "sources:\n  - name: metrics\n    prometheus: {scrape_interval: 15s, alerts: live, %s}\n"
	scraped := start(b.TempDir(), "")
	dir := b.TempDir()
	out, err := exec.Command(sloth, "generate", "-i", spec, "-o", filepath.Join(dir, "rules.yaml")).CombinedOutput()
	require.NoError(b, err, "%s", out)
	ruled := start(dir, "")
	dir = b.TempDir()
	out, err = exec.Command(sloth, "generate", "-i", slothSpec(b, old), "-o",
		filepath.Join(dir, "rules.yaml")).CombinedOutput()
	require.NoError(b, err, "%s", out)
	writeHistory(b, dir, old, 50)
	few := httptest.NewServer(http.HandlerFunc(counters))
	defer few.Close()
	aged := startRuleServer(b, "prometheus", dir, fmt.Sprintf("%s/%d/50", few.URL, old), "")
	plain := startRuleServer(b, "prometheus", b.TempDir(), fmt.Sprintf("%s/%d/50", few.URL, old), "")
	read := start(b.TempDir(), "")
	reader := e2etest.Serve(b, b.TempDir(), spec, fmt.Sprintf(settings, "url: \""+read.url+"\""))
	receiver := e2etest.Serve(b, b.TempDir(), spec, fmt.Sprintf(settings, "receive: true"))
	relabel, err := exec.Command(e2etest.Program(), "generate", "relabel", "-f", spec).Output()
	require.NoError(b, err)
	written := start(b.TempDir(), "remote_write:\n  - url: "+receiver.Base+"/api/v1/write\n    "+
		strings.ReplaceAll(strings.TrimSpace(string(relabel)), "\n", "\n    ")+"\n")
	usage := func() (out [8]float64) {
		for i, p := range [...]*exec.Cmd{scraped.cmd, ruled.cmd, read.cmd, reader.Cmd, written.cmd, receiver.Cmd, aged.cmd,
			plain.cmd} {
			out[i] = e2etest.CPUSeconds(b, p.Process.Pid)
		}
		return out
	}
	for b.Loop() { // once
		testkit.Pause(2 * time.Minute) // all series are known, and every group has been evaluated
		before, began := usage(), time.Now()
		testkit.Pause(5 * time.Minute)
		minutes := time.Since(began).Minutes()
		u := usage()
		for i := range u {
			u[i] = (u[i] - before[i]) / minutes
		}
		scraping, rules := u[0], (u[6]-u[7])*slos/old
		b.ReportMetric(scraping, "s/min:scraping")
		b.ReportMetric(rules, "s/min:sloth")
		b.ReportMetric(u[1]-scraping, "s/min:sloth-empty")
		b.ReportMetric(u[2]-scraping, "s/min:read-prometheus")
		b.ReportMetric(u[3], "s/min:read-engine")
		b.ReportMetric(u[4]-scraping, "s/min:received-prometheus")
		b.ReportMetric(u[5], "s/min:received-engine")
		b.ReportMetric((u[2]-scraping+u[3])/rules, "of-sloth:read")
		b.ReportMetric((u[4]-scraping+u[5])/rules, "of-sloth:received")
	}
	for name, p := range map[string]*e2etest.Process{"read": reader, "received": receiver} {
		events := e2etest.Counter(b, p, "sloengine_source_events_total")
		require.Positive(b, events, "%s: %s", name, p.Log)
	}
}

// BenchmarkReceive is how many samples a CPU-second of the engine takes by remote write, all of which count, and those
// of the receiver of a Prometheus and, if VICTORIAMETRICS is the path of its binary, of VictoriaMetrics, which store
// the same requests, in turns.
func BenchmarkReceive(b *testing.B) {
	const jobs, perRequest, rounds = 200, 2000, 10
	spec := codesSpec(b, jobs)
	engine := e2etest.Serve(b, b.TempDir(), spec,
		"sources:\n  - name: metrics\n    prometheus: {receive: true, scrape_interval: 15s, alerts: live}\n")
	type server struct {
		name, url string
		pid       int
		before    float64
	}
	all := []*server{{name: "engine", url: engine.Base, pid: engine.Cmd.Process.Pid}}
	if _, err := exec.LookPath("prometheus"); err == nil {
		p := startRuleServer(b, "prometheus", b.TempDir(), "http://127.0.0.1:1/", "", "--web.enable-remote-write-receiver")
		all = append(all, &server{name: "prometheus", url: p.url, pid: p.cmd.Process.Pid})
	}
	if program := os.Getenv("VICTORIAMETRICS"); program != "" {
		address := nettest.FreeAddress(b)
		cmd := exec.Command(program, "-storageDataPath", b.TempDir(), "-httpListenAddr", address, "-loggerLevel", "ERROR")
		require.NoError(b, cmd.Start())
		b.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
		waitHealthy(b, "http://"+address+"/health")
		all = append(all, &server{name: "victoriametrics", url: "http://" + address, pid: cmd.Process.Pid})
	}
	for _, s := range all {
		s.before = e2etest.CPUSeconds(b, s.pid)
	}
	at, samples := time.Now().Add(-50*time.Minute), 0.0
	for b.Loop() {
		var bodies [][]byte
		for range rounds {
			bodies = append(bodies, scrape(b, jobs, perRequest, at)...)
			at = at.Add(15 * time.Second)
		}
		samples += rounds * jobs * 100
		for _, s := range all {
			for _, body := range bodies {
				post, err := http.NewRequest(http.MethodPost, s.url+"/api/v1/write", bytes.NewReader(body))
				require.NoError(b, err)
				post.Header.Set("Content-Type", "application/x-protobuf")
				post.Header.Set("Content-Encoding", "snappy")
				res, err := http.DefaultClient.Do(post)
				require.NoError(b, err)
				res.Body.Close()
				require.Equal(b, http.StatusNoContent, res.StatusCode, s.name)
			}
		}
	}
	for _, s := range all {
		b.ReportMetric(samples/(e2etest.CPUSeconds(b, s.pid)-s.before), "samples/CPU-s:"+s.name)
	}
}

// scrape is the requests with which a Prometheus sends a scrape.
func scrape(b *testing.B, jobs, perRequest int, at time.Time) (bodies [][]byte) {
	var req prompb.WriteRequest
	for i := range jobs {
		for j := range 100 {
			req.Timeseries = append(req.Timeseries, prompb.TimeSeries{Labels: []prompb.Label{
				{Name: "__name__", Value: "http_requests_total"}, {Name: "code", Value: codes[j%4]},
				{Name: "instance", Value: "10.0.0.1:8080"}, {Name: "job", Value: fmt.Sprintf("shop-%d", i)},
				{Name: "pod", Value: strconv.Itoa(j / 4)}},
				Samples: []prompb.Sample{{Timestamp: at.UnixMilli(), Value: float64(at.Unix() * 10 / int64(1+9*(j%4)))}}})
			if len(req.Timeseries) == perRequest {
				body, err := req.Marshal()
				require.NoError(b, err)
				bodies = append(bodies, snappy.Encode(nil, body))
				req.Reset()
			}
		}
	}
	return bodies
}
