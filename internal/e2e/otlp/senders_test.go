// Package otlp has the end-to-end tests of OpenTelemetry: applications with the SDKs of Python and Node and with Java's
// agent, and a Collector, send spans to the program.
package otlp

import (
	"bufio"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/reliability/nettest"
)

// fetched finds the folder that scripts/test-otlp made of the files.
func fetched(t testing.TB, name string, files ...string) string {
	t.Helper()
	sum := sha256.New()
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		sum.Write(data)
	}
	cache := cmp.Or(os.Getenv("XDG_CACHE_HOME"), filepath.Join(os.Getenv("HOME"), ".cache"))
	home := filepath.Join(cache, "sloengine-test", fmt.Sprintf("otlp-%s-%x", name, sum.Sum(nil)[:6]))
	if _, err := os.Stat(filepath.Join(home, "done")); err != nil {
		t.Skipf("no %s: scripts/test-otlp makes %s", name, home)
	}
	return home
}

// The protocols of OTLP, as exporters name them.
const (
	protobuf = "http/protobuf"
	jsonHTTP = "http/json"
	grpc     = "grpc"
)

// shop is an application that counts its own requests.
type shop struct {
	service string
	cmd     *exec.Cmd
	base    string
	out     *bufio.Scanner
	log     testkit.Buffer
	counts  map[request]int // once it has stopped
}

// startShop starts the web shop of a language, whose SDK sends to an endpoint. The variables of the environment are for
// the SDK.
func startShop(t testing.TB, language, protocol, endpoint string, env ...string) *shop {
	t.Helper()
	var cmd *exec.Cmd
	switch language {
	case "python":
		home := fetched(t, "python", "python/requirements.txt")
		if protocol == jsonHTTP { // the SDK knows it by this name only
			env = append(env, "OTEL_TRACES_EXPORTER=otlp_json_http")
		}
		cmd = exec.Command(home+"/bin/opentelemetry-instrument", home+"/bin/python", "python/app.py")
	case "node":
		home := fetched(t, "node", "node/package.json", "node/package-lock.json")
		cmd = exec.Command("node", "node/app.js")
		env = append(env, "NODE_PATH="+home+"/node_modules")
	case "java":
		cmd = java(t, "Shop")
	}
	return start(t, language+"-shop", cmd, protocol, endpoint, env...)
}

// java is a Java application with the agent.
func java(t testing.TB, args ...string) *exec.Cmd {
	t.Helper()
	home := fetched(t, "java", "java/pom.xml", "java/agent.sha256", "java/Shop.java", "java/Worker.java",
		"../../../ingest/source/kafka/kafkatest/pom.xml")
	return exec.Command("java", append([]string{"-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
		"-javaagent:" + home + "/agent.jar", "-cp", home + "/classes:" + home + "/lib/*"}, args...)...)
}

// start starts an application whose SDK sends to an endpoint.
func start(t testing.TB, service string, cmd *exec.Cmd, protocol, endpoint string, env ...string) *shop {
	t.Helper()
	s := &shop{service: service, cmd: cmd}
	s.cmd.Env = append(append(os.Environ(), "OTEL_SERVICE_NAME="+s.service, "OTEL_EXPORTER_OTLP_ENDPOINT="+endpoint,
		"OTEL_EXPORTER_OTLP_PROTOCOL="+protocol, "OTEL_TRACES_EXPORTER=otlp", "OTEL_METRICS_EXPORTER=none",
		"OTEL_LOGS_EXPORTER=none", "OTEL_BSP_SCHEDULE_DELAY=200", "OTEL_BSP_MAX_QUEUE_SIZE=50000"), env...)
	s.cmd.Stderr = &s.log
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := s.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, s.cmd.Start())
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill() // it may have ended already
		_ = s.cmd.Wait()
		logOf(t, s.service, &s.log)
	})
	s.out = bufio.NewScanner(out)
	s.out.Buffer(nil, 1<<20)
	var hello struct{ Port int }
	s.read(t, &hello)
	s.base = fmt.Sprintf("http://127.0.0.1:%d", hello.Port)
	return s
}

// read decodes the next line that the shop prints.
func (s *shop) read(t testing.TB, into any) {
	t.Helper()
	require.True(t, s.out.Scan(), &s.log)
	require.NoError(t, json.Unmarshal(s.out.Bytes(), into), s.out.Text())
}

// request is what a shop counts.
type request struct {
	minute                int64
	method, route, status string
}

func (r request) failed() bool { return r.status >= "500" }

// stop ends the shop once its SDK has sent all spans, and returns what it has counted.
func (s *shop) stop(t testing.TB) map[request]int {
	t.Helper()
	if s.counts != nil {
		return s.counts
	}
	require.NoError(t, s.cmd.Process.Signal(syscall.SIGTERM))
	var end struct{ Counts map[string]int }
	s.read(t, &end)
	for s.out.Scan() { // until it has ended
	}
	require.NoError(t, s.cmd.Wait(), &s.log)
	s.counts = map[request]int{}
	for key, n := range end.Counts {
		part := strings.Split(key, " ")
		minute, err := strconv.ParseInt(part[0], 10, 64)
		require.NoError(t, err)
		s.counts[request{minute, part[1], part[2], part[3]}] += n
	}
	return s.counts
}

// pages are what visitors of a shop request.
var pages = []struct {
	method, path string
	status       int
}{
	{http.MethodGet, "/items", http.StatusOK},
	{http.MethodGet, "/items/7", http.StatusOK},
	{http.MethodGet, "/items/77", http.StatusNotFound},
	{http.MethodGet, "/broken", http.StatusServiceUnavailable},
	{http.MethodPost, "/orders", http.StatusCreated},
	{http.MethodPost, "/orders?fail=1", http.StatusInternalServerError},
	{http.MethodGet, "/nowhere", http.StatusNotFound},
}

// visits are the requests of visitors.
type visits struct {
	stop   func()
	mu     sync.Mutex
	traces map[string]bool // that visitors began, by id
}

// visit requests pages of the shops until stop. Every other visitor's request belongs to a trace of its own. None is
// under way when a minute begins, so the minute in which a shop counts a request is the one in which its span ends.
func visit(t *testing.T, pause time.Duration, shops ...*shop) *visits {
	v := &visits{traces: map[string]bool{}}
	ended := make(chan struct{})
	var wg sync.WaitGroup
	for _, s := range shops {
		for visitor := range 4 {
			wg.Go(func() {
				client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{}}
				defer client.CloseIdleConnections()
				for {
					select {
					case <-ended:
						return
					case <-time.After(pause):
					}
					if next := time.Until(time.Now().Truncate(time.Minute).Add(time.Minute)); next < 2*time.Second {
						testkit.Pause(next + 50*time.Millisecond)
					}
					if err := v.request(client, s, visitor%2 == 0); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
	}
	v.stop = sync.OnceFunc(func() { close(ended); wg.Wait() })
	t.Cleanup(v.stop)
	return v
}

func (v *visits) request(client *http.Client, s *shop, traced bool) error {
	page := pages[rand.IntN(len(pages))]
	req, err := http.NewRequest(page.method, s.base+page.path, nil)
	if err != nil {
		return err
	}
	if traced {
		id := fmt.Sprintf("%016x%016x", rand.Uint64(), rand.Uint64())
		req.Header.Set("Traceparent", fmt.Sprintf("00-%s-%016x-01", id, rand.Uint64()|1))
		v.mu.Lock()
		v.traces[id] = true
		v.mu.Unlock()
	}
	res, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("%s: %w", s.service, err)
	}
	defer res.Body.Close()
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		return err
	}
	if res.StatusCode != page.status {
		return fmt.Errorf("%s %s of %s answers %d", page.method, page.path, s.service, res.StatusCode)
	}
	return nil
}

// collector is one that can be killed and started again at the same addresses.
type collector struct {
	program, config string
	http, grpc      string // addresses
	cmd             *exec.Cmd
	ended           chan struct{}
	log             testkit.Buffer
}

func collectorProgram(t testing.TB) string {
	t.Helper()
	home := fetched(t, "collector", "collector/go.mod", "collector/go.sum", "collector/main.go")
	return filepath.Join(home, "collector")
}

// startCollector starts a Collector that receives OTLP. The settings add exporters and pipelines.
func startCollector(t testing.TB, settings string) *collector {
	t.Helper()
	c := &collector{program: collectorProgram(t), http: nettest.FreeAddress(t), grpc: nettest.FreeAddress(t)}
	dir := t.TempDir()
	c.config = filepath.Join(dir, "collector.yaml")
	require.NoError(t, os.WriteFile(c.config, fmt.Appendf(nil, `
extensions: {file_storage: {directory: %s}}
receivers: {otlp: {protocols: {http: {endpoint: %s}, grpc: {endpoint: %s}}}}
%s`, dir, c.http, c.grpc, settings), 0o600))
	c.start(t)
	t.Cleanup(func() { c.kill(); logOf(t, "Collector", &c.log) })
	return c
}

func (c *collector) start(t testing.TB) {
	t.Helper()
	c.cmd = exec.Command(c.program, "--config", c.config)
	c.cmd.Stderr = &c.log
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(t, c.cmd.Start())
	c.ended = make(chan struct{})
	go func() {
		defer close(c.ended)
		_ = c.cmd.Wait() // the log says how it ended
	}()
	for _, address := range []string{c.http, c.grpc} {
		testkit.Eventually(t, "the Collector listens", func() bool {
			select {
			case <-c.ended:
				require.Fail(t, "the Collector has ended", &c.log)
			default:
			}
			conn, err := net.Dial("tcp", address)
			if err == nil {
				conn.Close()
			}
			return err == nil
		})
	}
}

func (c *collector) kill() {
	_ = c.cmd.Process.Kill() // it may have ended already
	<-c.ended
}

// endpoint is where a sender with the protocol sends.
func (c *collector) endpoint(protocol string) string {
	if protocol == grpc {
		return "http://" + c.grpc
	}
	return "http://" + c.http
}

// logOf shows the end of what a sender wrote if the test has failed.
func logOf(t testing.TB, name string, log *testkit.Buffer) {
	if text := log.String(); t.Failed() {
		t.Logf("%s:\n%s", name, text[max(0, len(text)-5000):])
	}
}

// add adds up counts by a key that a function makes of each request.
func add[K comparable](counts map[request]int, key func(request) K) map[K]int {
	out := map[K]int{}
	for r := range maps.Keys(counts) {
		out[key(r)] += counts[r]
	}
	return out
}
