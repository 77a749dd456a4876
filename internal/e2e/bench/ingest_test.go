// Package bench measures the program as a process of its own and makes the load in the process of the test, so that the
// CPU time that a benchmark reports is the engine's alone.
package bench

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/internal/e2e/e2etest"
	"github.com/sloengine/sloengine/internal/testkit"
)

// benchBody makes one NDJSON body of n events of about 255 bytes. prefix and
// number are written over for every request, so that making load costs little.
func benchBody(n int) []byte {
	products := []string{"MEDCARE", "SOMLT", "TRVL10"}
	var b bytes.Buffer
	for i := range n {
		outcome, errType := "success", ""
		if i%50 == 0 {
			outcome, errType = "failure", `,"error_type":"MDM_ERROR"`
		}
		fmt.Fprintf(&b,
			`{"id":"bench-000000000000-%06d","time":"%s","service":"insurance-unpaid","type":"application","outcome":%q,`+
				`"severity":"critical","duration_ms":%d,"attributes":{"product":%q,"channel":"front",`+
				`"stage":"CREATE_APPLICATION"%s}}`+"\n",
			i, time.Now().UTC().Format("2006-01-02T15:04:05.000Z"), outcome, 400+i, products[i%3], errType)
	}
	return b.Bytes()
}

// number writes a request's number into the ids of a body.
func number(body []byte, seq uint64) {
	digits := fmt.Appendf(nil, "%012d", seq)
	for at := 0; ; {
		i := bytes.Index(body[at:], []byte(`"id":"bench-`))
		if i < 0 {
			return
		}
		at += i + len(`"id":"bench-`)
		copy(body[at:], digits)
	}
}

// rawClient speaks just enough HTTP/1.1 to cost next to nothing: on two cores
// net/http's client would take more time than the engine.
type rawClient struct {
	conn    net.Conn
	in      *bufio.Reader
	request []byte // head and body, sent again and again
	body    []byte // the part of request whose ids are renumbered
}

func dialRaw(t testing.TB, base string, body []byte) *rawClient {
	t.Helper()
	host := strings.TrimPrefix(base, "http://")
	conn, err := net.Dial("tcp", host)
	require.NoError(t, err)
	head := fmt.Sprintf(
		"POST /api/v1/events HTTP/1.1\r\nHost: %s\r\nContent-Type: application/x-ndjson\r\nContent-Length: %d\r\n\r\n",
		host, len(body))
	request := append([]byte(head), body...)
	return &rawClient{conn: conn, in: bufio.NewReader(conn), request: request, body: request[len(head):]}
}

// post sends the body with other ids and reads the answer to its end.
func (c *rawClient) post(seq uint64) (status int, err error) {
	number(c.body, seq)
	if _, err := c.conn.Write(c.request); err != nil {
		return 0, err
	}
	length := -1
	for first := true; ; first = false {
		line, err := c.in.ReadSlice('\n')
		if err != nil {
			return 0, err
		}
		switch {
		case first && len(line) > 12:
			status, _ = strconv.Atoi(string(line[9:12])) // anything else is not 202
		case len(line) <= 2:
			_, err = c.in.Discard(max(0, length))
			return status, err
		case bytes.HasPrefix(line, []byte("Content-Length: ")):
			length, _ = strconv.Atoi(string(bytes.TrimSpace(line[16:])))
		}
	}
}

// benchEngine retains no log unless the settings are about the log: what it is compared with retains none.
func benchEngine(b *testing.B, dir, settings string) *e2etest.Process {
	b.Helper()
	if !strings.Contains(settings, "log: {segment") {
		settings += "log: {retain: 0}\n"
	}
	spec, err := filepath.Abs("../../../testdata/specs/insurance.yaml")
	require.NoError(b, err)
	return e2etest.Serve(b, dir, spec, "disk: {low_water: 64MiB}\n"+settings)
}

// benchIngest posts b.N requests of n events from a number of clients.
func benchIngest(b *testing.B, n, clients int, settings string) {
	profile := os.Getenv("SLOENGINE_BENCH_PROFILE") // a file, for the CPU profile of the engine
	if profile != "" {
		settings += "web: {pprof: true}\n"
	}
	p := benchEngine(b, b.TempDir(), settings)
	var profiled sync.WaitGroup
	if profile != "" && b.N > 100 { // not in the short runs that find out how long to go on
		profiled.Go(func() {
			require.NoError(b, os.WriteFile(profile, e2etest.Get(b, p.Base+"/debug/pprof/profile?seconds=2"), 0o600))
		})
	}
	var seq atomic.Uint64
	var failed atomic.Int64
	var wg sync.WaitGroup
	b.ResetTimer()
	before, begin := e2etest.CPUSeconds(b, p.Cmd.Process.Pid), time.Now()
	for range clients {
		wg.Go(func() {
			c := dialRaw(b, p.Base, benchBody(n))
			defer c.conn.Close()
			for k := seq.Add(1); k <= uint64(b.N); k = seq.Add(1) {
				if status, err := c.post(k); err != nil || status != http.StatusAccepted {
					b.Logf("request %d: status %d, %v", k, status, err)
					failed.Add(1)
					return
				}
			}
		})
	}
	wg.Wait()
	wall, cpu := time.Since(begin).Seconds(), e2etest.CPUSeconds(b, p.Cmd.Process.Pid)-before
	b.StopTimer()
	require.Zero(b, failed.Load(), p.Log.String())
	events := float64(b.N) * float64(n)
	b.ReportMetric(events/cpu, "events/cpu-s")
	b.ReportMetric(events/wall, "events/s")
	b.ReportMetric(cpu/events*1e6, "cpu-us/event")
	profiled.Wait()
	p.Kill()
}

func BenchmarkIngest1000(b *testing.B)   { benchIngest(b, 1000, 4, "") }
func BenchmarkIngest100(b *testing.B)    { benchIngest(b, 100, 8, "") }
func BenchmarkIngestSingle(b *testing.B) { benchIngest(b, 1, 64, "") }

// limitedSettings are limits in three layers that are never exceeded.
const limitedSettings = `limits:
  global: {limit: 1000000000, window: 1s}
  default: {limit: 1000000000}
  contexts: [{name: product, from: ["attribute:product"], limit: 1000000000, window: 1s}]
`

// BenchmarkIngestLimited1000 is BenchmarkIngest1000 with limits in three layers.
func BenchmarkIngestLimited1000(b *testing.B) { benchIngest(b, 1000, 4, limitedSettings) }

// BenchmarkIngestGuarded1000 is BenchmarkIngest1000 with all that is around the engine:
// limits in three layers, personal data taken out, dead letters, and two sinks that get
// every event, one of them over HTTP in this process. The CPU time is the engine's, and
// holds all of the delivery.
func BenchmarkIngestGuarded1000(b *testing.B) {
	var delivered atomic.Int64
	sink := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		delivered.Add(n)
	}))
	defer sink.Close()
	benchIngest(b, 1000, 4, limitedSettings+fmt.Sprintf(`redact: [{attributes: [email], action: remove}]
sinks:
  - {name: hook, http: {url: %q, format: ndjson}}
  - {name: archive, file: {dir: %q}}
`, sink.URL, b.TempDir()))
	b.ReportMetric(float64(delivered.Load())/1e6, "MB-delivered")
}

// BenchmarkIngestRetained1000 is BenchmarkIngest1000 without and with a history in turn. The CPU time is that of the
// whole process until all full segments are compressed.
func BenchmarkIngestRetained1000(b *testing.B) { benchRetained(b, 1000, 4) }
func BenchmarkIngestRetained100(b *testing.B)  { benchRetained(b, 100, 8) }

// benchRetained ingests two million events twice in each round, whatever b.N: run it with -benchtime 3x.
func benchRetained(b *testing.B, n, clients int) {
	const events, segment = 2_000_000, 8 << 20
	settings := fmt.Sprintf("log: {segment: %d, retain: %%s}\ncheckpoint: {interval: 2s}\n", segment)
	var used, p99 [2]float64
	var size, raw float64
	for b.Loop() {
		for i, retain := range []string{"0", "35d"} {
			dir := b.TempDir()
			p := benchEngine(b, dir, fmt.Sprintf(settings, retain))
			times := make([][]float64, clients)
			var seq atomic.Uint64
			var wg sync.WaitGroup
			before := e2etest.CPUSeconds(b, p.Cmd.Process.Pid)
			for k := range clients {
				wg.Go(func() {
					c := dialRaw(b, p.Base, benchBody(n))
					defer c.conn.Close()
					for at := seq.Add(1); at <= events/uint64(n); at = seq.Add(1) {
						began := time.Now()
						if status, err := c.post(at); err != nil || status != http.StatusAccepted {
							b.Errorf("request %d: status %d, %v", at, status, err)
							return
						}
						times[k] = append(times[k], time.Since(began).Seconds())
					}
				})
			}
			wg.Wait()
			testkit.Eventually(b, "no full segment is left in the log", func() bool {
				segments, err := filepath.Glob(filepath.Join(dir, "data/wal/*.wal"))
				require.NoError(b, err)
				return len(segments) == 1
			})
			used[i] += e2etest.CPUSeconds(b, p.Cmd.Process.Pid) - before
			all := slices.Concat(times...)
			slices.Sort(all)
			p99[i] += all[len(all)*99/100]
			if i == 1 {
				now := e2etest.Scrape(b, p)
				size += e2etest.Sum(now["sloengine_history_bytes"])
				raw += e2etest.Sum(now["sloengine_history_read_bytes_total"])
			}
			p.Kill()
		}
	}
	total := float64(events * b.N)
	b.ReportMetric(used[0]/total*1e6, "off-cpu-us/event")
	b.ReportMetric(used[1]/total*1e6, "on-cpu-us/event")
	b.ReportMetric(used[1]/used[0], "on/off-cpu")
	b.ReportMetric(p99[1]/p99[0], "on/off-p99")
	b.ReportMetric(raw/size, "compression")
	b.ReportMetric(size/total, "bytes/event")
}

// BenchmarkRestart measures a start with ten million events after the last
// checkpoint, until the engine is ready. b.N is always 1 in effect: run it with
// -benchtime 1x.
func BenchmarkRestart(b *testing.B) {
	const requests, perRequest = 1000, 10_000
	dir := b.TempDir()
	spec, err := filepath.Abs("../../../testdata/specs/insurance.yaml")
	require.NoError(b, err)
	settings := "checkpoint: {interval: 1d, log: 64GiB}\n"
	p := e2etest.Serve(b, dir, spec, settings)
	var wg sync.WaitGroup
	var seq atomic.Uint64
	for range 2 {
		wg.Go(func() {
			body := benchBody(perRequest)
			for k := seq.Add(1); k <= requests; k = seq.Add(1) {
				number(body, k)
				res, err := http.Post(p.Base+"/api/v1/events", "application/x-ndjson", bytes.NewReader(body))
				if err != nil || res.StatusCode != http.StatusAccepted {
					b.Errorf("request %d: %v", k, err)
					return
				}
				res.Body.Close()
			}
		})
	}
	wg.Wait()
	p.Kill()
	b.ResetTimer()
	for b.Loop() {
		begin := time.Now()
		p = e2etest.Serve(b, dir, spec, settings)
		b.ReportMetric(time.Since(begin).Seconds(), "s/restart")
		b.ReportMetric(e2etest.CPUSeconds(b, p.Cmd.Process.Pid), "cpu-s/restart")
		p.Kill()
	}
}
