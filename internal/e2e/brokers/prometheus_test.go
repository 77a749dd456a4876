package brokers

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/internal/e2e/e2etest"
	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/reliability/nettest"
)

// requests is a service whose counters a Prometheus scrapes.
type requests struct {
	mu     sync.Mutex
	counts map[string]int // by labels
}

func (r *requests) add(labels string, n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counts[labels] += n
}

func (r *requests) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for labels, n := range r.counts {
		fmt.Fprintf(w, "http_requests_total{%s} %d\n", labels, n)
	}
}

func needPrometheus(t *testing.T) {
	for _, program := range []string{"prometheus", "promtool"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip(program + " is not installed")
		}
	}
}

// startPrometheus runs Debian's Prometheus on the data in a folder. It scrapes a target every second. more
// are further settings: global ones, sections, and flags.
func startPrometheus(t *testing.T, dir, target string, more ...string) string {
	address := nettest.FreeAddress(t)
	runPrometheus(t, dir, address, target, more...)
	return address
}

// runPrometheus is startPrometheus at an address, where it may have run before.
func runPrometheus(t *testing.T, dir, address, target string, more ...string) (kill func()) {
	flags := more[min(2, len(more)):]
	more = append(more[:len(more)-len(flags):len(more)-len(flags)], "", "")
	config := e2etest.WriteFile(t, dir, "prometheus.yml", fmt.Sprintf("global: {scrape_interval: 1s%s}\nscrape_configs: "+
		"[{job_name: web, static_configs: [{targets: [%q]}]}]\n%s", more[0], strings.TrimPrefix(target, "http://"), more[1]))
	cmd := exec.Command("prometheus", append(flags, "--config.file", config, "--storage.tsdb.path",
		filepath.Join(dir, "tsdb"), "--storage.tsdb.retention.time", "90d", "--web.listen-address", address)...)
	log, err := os.Create(filepath.Join(dir, "prometheus.log"))
	require.NoError(t, err)
	cmd.Stdout, cmd.Stderr = log, log
	require.NoError(t, cmd.Start())
	kill = sync.OnceFunc(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		log.Close()
	})
	t.Cleanup(kill)
	testkit.Eventually(t, "Prometheus is ready", func() bool {
		res, err := http.Get("http://" + address + "/-/ready")
		if err != nil {
			return false
		}
		res.Body.Close()
		return res.StatusCode == http.StatusOK
	})
	return kill
}

// behindPassword is the address of a proxy in front of a Prometheus.
func behindPassword(t *testing.T, address string) string {
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: address})
	server := httptest.NewServer(http.StripPrefix("/prometheus",
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if user, password, _ := r.BasicAuth(); user != "reader" || password != "secret" {
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			proxy.ServeHTTP(w, r)
		})))
	t.Cleanup(server.Close)
	return server.URL + "/prometheus"
}

// madeHistory writes blocks with days of samples of two processes, with an outage, restarts of one and a gap of the
// other, and returns what happened.
func madeHistory(t *testing.T, dir string, days int) (good, bad int) {
	end := time.Now().Truncate(time.Minute).Add(-10 * time.Minute)
	start := end.AddDate(0, 0, -days)
	var text strings.Builder
	text.WriteString("# TYPE http_requests counter\n")
	outages := []time.Time{start.AddDate(0, 0, days/2)}
	nights := days > 3 // have less traffic, and one outage is at a peak and one at night
	if nights {
		outages = []time.Time{start.AddDate(0, 0, days/2).Truncate(24 * time.Hour).Add(18 * time.Hour),
			start.AddDate(0, 0, days/3).Truncate(24 * time.Hour).Add(3 * time.Hour)}
	}
	for _, instance := range []string{"a", "b"} {
		lines := map[string]*strings.Builder{"200": {}, "500": {}}
		sums := map[string]int{}
		for i, at := 0, start; at.Before(end); i, at = i+1, at.Add(time.Minute) {
			if instance == "b" && i%1000 == 999 {
				clear(sums) // it begins again
			}
			n, failed := 20+i%7, 0
			if nights && at.UTC().Hour() < 6 {
				n = 2 + i%3
			}
			if i%50 == 0 {
				failed = 1
			}
			for _, outage := range outages {
				if !at.Before(outage) && at.Before(outage.Add(time.Hour)) {
					failed = n / 2
				}
			}
			if i > 0 {
				sums["200"] += n - failed
				sums["500"] += failed
				good, bad = good+n-failed, bad+failed
			}
			if instance == "a" && i > 700 && i < 800 {
				continue // nobody scraped it
			}
			for code, out := range lines {
				fmt.Fprintf(out, "http_requests_total{job=\"web\",instance=%q,route=\"/cart\",type=\"web\",code=%q} %d %d\n",
					instance, code, sums[code], at.Unix())
			}
		}
		text.WriteString(lines["200"].String() + lines["500"].String())
	}
	text.WriteString("# EOF\n")
	file := e2etest.WriteFile(t, dir, "history.txt", text.String())
	out, err := exec.Command("promtool", "tsdb", "create-blocks-from", "openmetrics", file, filepath.Join(dir, "tsdb")).
		CombinedOutput()
	require.NoError(t, err, "%s", out)
	return good, bad
}

const counterSpec = `version: sloengine/v1
service: shop
slos:
  - name: availability
    objective: 99
    window: 30d
    group_by: [route]
    indicator:
      prometheus: {total: 'http_requests_total{job="web"}', bad: 'http_requests_total{job="web",code=~"5.."}'}
  - name: strict
    objective: 99.9
    window: 30d
    group_by: [type, severity]
    indicator:
      prometheus: {total: 'http_requests_total{job="web"}', bad: 'http_requests_total{job="web",code=~"5.."}'}
  - name: scraped
    objective: 99
    window: 30d
    indicator:
      prometheus: {query: 'max(http_requests_total{job="web",code="200"} > bool 0)', op: gte, value: 1}
  - name: share
    objective: 99
    window: 30d
    group_by: [route]
    indicator:
      prometheus:
        error_ratio_query: >-
          sum by (route) (rate(http_requests_total{job="web",code=~"5.."}[$window]))
          / sum by (route) (rate(http_requests_total{job="web"}[$window])) < 2
  - name: minutes
    objective: 99
    window: 30d
    budgeting: {timeslices: {slice: 5m, target: 90}}
    indicator:
      prometheus: {total: 'http_requests_total{job="web"}', bad: 'http_requests_total{job="web",code=~"5.."}'}
`

// TestPrometheus: SLOs on the counters of a real Prometheus have what happened in the days before and since, whatever
// is killed meanwhile.
func TestPrometheus(t *testing.T) {
	t.Parallel()
	needPrometheus(t)
	dir := t.TempDir()
	good, bad := madeHistory(t, dir, 2)
	web := &requests{counts: map[string]int{`route="/cart",type="web",code="200"`: 1_000_000,
		`route="/cart",type="web",code="500"`: 1000}}
	target := httptest.NewServer(web)
	defer target.Close()
	address := behindPassword(t, startPrometheus(t, dir, target.URL))
	spec := e2etest.WriteFile(t, dir, "spec.yaml", counterSpec)
	e2etest.WriteFile(t, dir, "password", "secret")
	settings := fmt.Sprintf(`evaluator: {interval: 500ms}
sources:
  - name: other
    prometheus: {url: "%[1]s", services: [bank]}
  - name: metrics
    prometheus:
      url: "%[1]s"
      basic_auth: {username: reader, password_file: password}
      interval: 1s
      scrape_interval: 1m
      history: 30d
      alerts: live
`, address)
	var p *e2etest.Process
	start := func() {
		var ok bool
		p, ok = e2etest.ServeIn(t, dir, spec, settings)
		require.True(t, ok, p.Log)
	}
	counts := func(slo string) (g, b int, coverage float64) {
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
		for _, x := range list.Items {
			if x.SLO == slo && (len(x.Group) == 0 || x.Group["route"] == "/cart" ||
				x.Group["type"] == "web" && x.Group["severity"] == "") {
				g, b, coverage = x.Budget.Counts.Good, x.Budget.Counts.Bad, x.Coverage
			}
		}
		return g, b, coverage
	}
	testkit.Eventually(t, "Prometheus has a sample of what is already counted", func() bool {
		req, err := http.NewRequest(http.MethodGet, address+"/api/v1/query?query=http_requests_total%3E999999", nil)
		require.NoError(t, err)
		req.SetBasicAuth("reader", "secret")
		_, answer := e2etest.Exchange(t, req)
		return strings.Contains(answer, `"1000000"`)
	})
	start()
	for i := range 4 {
		testkit.Pause(time.Duration(300+200*i) * time.Millisecond)
		p.Kill()
		start()
	}
	testkit.Eventually(t, "the history is counted",
		func() bool { g, b, _ := counts("availability"); return g >= good && b >= bad })
	g, b, coverage := counts("availability")
	require.Equal(t, []int{good, bad}, []int{g, b})
	require.InDelta(t, 2./30, coverage, 0.01)
	testkit.Eventually(t, "so is that of queries", func() bool {
		g, _, c := counts("share")
		return g > 0 && c > 2./30-0.0005
	})
	hour := time.Hour.Seconds() / 10 // in slices, every one of which was read
	g, _, coverage = counts("scraped")
	require.InDelta(t, 2./30, coverage, 0.01)
	require.InDelta(t, 48*hour, g, 0.02*48*hour)
	failing := (hour/2 + 47*hour/50/23) * 10_000
	testkit.Eventually(t, "and their last slices", func() bool {
		g, b, _ = counts("share")
		return math.Abs(float64(b)-failing) <= 0.1*failing
	})
	require.InDelta(t, 48*hour*10_000, g+b, 0.02*48*hour*10_000)
	g, b, _ = counts("minutes")
	require.InDelta(t, 12, b, 1, "an hour of failures")
	require.InDelta(t, 47*12, g, 2)

	for i := range 4 {
		web.add(`route="/cart",type="web",code="200"`, 100)
		web.add(`route="/cart",type="web",code="500"`, 50)
		good, bad = good+100, bad+50
		if i%2 == 1 {
			p.Kill()
		}
		testkit.Pause(1500 * time.Millisecond)
		if i%2 == 1 {
			start()
		}
	}
	t.Cleanup(func() { t.Logf("counted %d good and %d bad of %d and %d", g, b, good, bad) })
	testkit.Eventually(t, "so is what happens now",
		func() bool { g, b, _ = counts("availability"); return g == good && b == bad })
	testkit.Eventually(t, "the engine alerts", func() bool {
		return strings.Contains(string(e2etest.Get(t, p.Base+"/api/v1/alerts")), `"shop/availability"`)
	})
	testkit.Eventually(t, "labels that are fields of events count, too", func() bool {
		g, b, _ = counts("strict")
		return g == good && b == bad
	})
	testkit.Pause(3 * time.Second)
	for _, slo := range []string{"availability", "strict"} {
		g, b, _ = counts(slo)
		require.Equal(t, []int{good, bad}, []int{g, b}, slo)
	}
	p.Stop(t)
}

// TestFromPrometheus: SLOs are proposed for what a real Prometheus has, which it would meet, and the engine counts them
// with the settings that stand above them.
func TestFromPrometheus(t *testing.T) {
	t.Parallel()
	needPrometheus(t)
	dir := t.TempDir()
	good, bad := madeHistory(t, dir, 2)
	var scrapes atomic.Int64
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for _, bucket := range [][2]string{{"0.1", "50"}, {"0.5", "97"}, {"+Inf", "100"}} {
			n, _ := strconv.Atoi(bucket[1])
			fmt.Fprintf(w, "http_request_duration_seconds_bucket{le=%q} %d\n", bucket[0], int64(n)*scrapes.Load())
		}
		fmt.Fprintf(w, "http_request_duration_seconds_count %d\n", 100*scrapes.Add(1)-100)
	}))
	defer target.Close()
	address := behindPassword(t, startPrometheus(t, dir, target.URL))
	testkit.Eventually(t, "the histogram is scraped", func() bool { return scrapes.Load() > 3 })
	_, errOut, code := e2etest.Command(t, "init", "--from-prometheus", address)
	require.NotZero(t, code)
	require.Contains(t, errOut, "401 Unauthorized")
	out, errOut, code := e2etest.Command(t, "init", "--from-prometheus",
		strings.Replace(address, "//", "//reader:secret@", 1))
	require.Zero(t, code, errOut)
	require.NotContains(t, out, "secret")
	require.Contains(t, out, `total: 'http_requests_total{job="web"}'`)
	require.Contains(t, out, `bad: 'http_requests_total{job="web",code=~"5.."}'`)
	require.Contains(t, out, `good: 'http_request_duration_seconds_bucket{job="web",le="0.5"}'`)
	require.Contains(t, out, "95 # 97% took at most 0.5 s in 7d\n")
	proposed := regexp.MustCompile(`objective: ([0-9.]+) # ([0-9.]+)% of \d+ requests failed in 7d`).FindStringSubmatch(
		out)
	require.NotNil(t, proposed, out)
	share, err := strconv.ParseFloat(proposed[2], 64)
	require.NoError(t, err)
	require.InEpsilon(t, 100*float64(bad)/float64(good+bad), share, 0.05)
	require.Equal(t, "95", proposed[1], "%v%%", share)

	spec := e2etest.WriteFile(t, dir, "spec.yaml", out)
	_, errOut, code = e2etest.Command(t, "check", "-f", spec, "--fail-on", "warning")
	require.Zero(t, code, errOut)
	var settings strings.Builder
	for line := range strings.Lines(out[:strings.Index(out, "version:")]) {
		if text, found := strings.CutPrefix(line, "# "); found && (settings.Len() > 0 || text == "sources:\n") {
			settings.WriteString(text)
		}
	}
	e2etest.WriteFile(t, dir, "prometheus.password", "secret")
	p, ok := e2etest.ServeIn(t, dir, spec, settings.String())
	require.True(t, ok, "%s\n%s", settings.String(), p.Log)
	testkit.Eventually(t, "the engine counts them", func() bool {
		return strings.Contains(string(e2etest.Get(t, p.Base+"/api/v1/slos")), fmt.Sprintf(`"counts":{"good":%d,`+
			`"bad":%d`, good, bad))
	})
	// Its Prometheus has no rules, and their page says so.
	var slos struct{ Items []struct{ ID string } }
	require.NoError(t, json.Unmarshal(e2etest.Get(t, p.Base+"/api/v1/slos"), &slos))
	require.NotEmpty(t, slos.Items)
	require.Contains(t, string(e2etest.Get(t, p.Base+"/slo?id="+url.QueryEscape(slos.Items[0].ID))),
		"The engine sends these alerts (no rules for it are in "+address)
	// A view of engines that read the same counters has them once.
	twin := t.TempDir()
	e2etest.WriteFile(t, twin, "prometheus.password", "secret")
	second, ok := e2etest.ServeIn(t, twin, spec, settings.String())
	require.True(t, ok, second.Log)
	v, ok := e2etest.Start(t, nil, "view", "-f", spec, "--engines", p.Base+","+second.Base,
		"--web.listen-address", "127.0.0.1:0", "-c", filepath.Join(twin, "engine.yaml"))
	require.True(t, ok, v.Log)
	testkit.Eventually(t, "the view has them once", func() bool {
		return strings.Contains(string(e2etest.Get(t, v.Base+"/api/v1/slos")), fmt.Sprintf(`"counts":{"good":%d,`+
			`"bad":%d`, good, bad))
	})
	second.Stop(t)
	testkit.Eventually(t, "one engine will do", func() bool {
		return strings.Contains(string(e2etest.Get(t, v.Base+"/api/v1/engine")), `"state":"missing"`)
	})
	require.Contains(t, string(e2etest.Get(t, v.Base+"/api/v1/slos")),
		fmt.Sprintf(`"counts":{"good":%d,"bad":%d`, good, bad))
	v.Stop(t)
	p.Stop(t)
}
