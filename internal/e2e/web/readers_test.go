package web

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/internal/e2e/e2etest"
	"github.com/sloengine/sloengine/internal/testkit"
)

const readerSpec = `version: sloengine/v1
service: shop
slos:
  - name: availability
    objective: 99
    group_by: [product]
    labels: {public: "true", public_groups: "true"}
    indicator: {events: {valid: '{type="order"}', bad: '{outcome="failure"}'}}
`

// residentMiB is the memory of a process.
func residentMiB(t testing.TB, p *e2etest.Process) int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Cmd.Process.Pid))
	require.NoError(t, err)
	m := regexp.MustCompile(`VmRSS:\s+(\d+) kB`).FindSubmatch(text)
	require.NotNil(t, m)
	kb, err := strconv.Atoi(string(m[1]))
	require.NoError(t, err)
	return kb >> 10
}

const (
	readersAtOnce = 600
	readersMayAdd = 384 // MiB: 140 to 260 were measured, by how late the garbage collector runs
)

// Readers who ask and take nothing cost a bounded amount of memory, whatever they ask for,
// and whether they ask for the same or each for something else.
func TestReadersCannotExhaustMemory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := e2etest.Serve(t, dir, e2etest.WriteFile(t, dir, "slo.yaml", readerSpec), "")
	var body bytes.Buffer
	for i := range 1000 {
		fmt.Fprintf(&body,
			`{"id":"%d","service":"shop","type":"order","attributes":{"product":"a-product-with-a-long-name-%04d"}}`+"\n", i, i)
	}
	res, err := http.Post(p.Base+"/api/v1/events", "application/x-ndjson", &body)
	require.NoError(t, err)
	res.Body.Close()
	require.Equal(t, http.StatusAccepted, res.StatusCode)
	require.Eventually(t, func() bool {
		return strings.Contains(string(e2etest.Get(t, p.Base+"/api/v1/slos?limit=1")), `"total":1000`)
	}, testkit.Patience, 100*time.Millisecond, "no report with all groups")

	const group = "group.product=a-product-with-a-long-name-0001"
	idle := residentMiB(t, p)
	for _, target := range []string{
		"/api/v1/slos?limit=1000", "/api/v1/slas?x=1", "/api/v1/alerts?limit=1000", "/api/v1/engine?x=1",
		"/api/v1/dlq?limit=1000",
		"/api/v1/slos/shop/availability/history?" + group, "/api/v1/report?period=2026-11&format=csv",
		"/?x=1", "/slo?id=shop/availability&" + group, "/slas?x=1", "/engine?x=1", "/report?x=1",
		"/metrics?x=1", "/public?x=1", "/public.json?x=1", "/badge/shop/availability.svg?x=1", "/events/stream?x=1",
	} {
		for _, own := range []string{"", "&own=%d"} {
			peak := readersPeak(t, p, target+own, own != "")
			t.Logf("%-60s %d MiB above idle", target+own, peak-idle)
			require.LessOrEqual(t, peak-idle, readersMayAdd*e2etest.MemoryFactor, target+own)
		}
	}
	// Who reads gets an answer again.
	require.Eventually(t, func() bool {
		res, err := http.Get(p.Base + "/api/v1/slos?limit=1000")
		if err != nil {
			return false
		}
		defer res.Body.Close()
		_, err = io.Copy(io.Discard, res.Body)
		return err == nil && res.StatusCode == http.StatusOK
	}, testkit.Patience, 100*time.Millisecond)
	p.Stop(t)
}

// readersPeak is the most memory that the engine takes while the readers are there.
func readersPeak(t *testing.T, p *e2etest.Process, target string, own bool) (peak int) {
	u, err := url.Parse(p.Base)
	require.NoError(t, err)
	var conns []net.Conn
	defer func() {
		for _, c := range conns {
			_ = c.Close()
		}
	}()
	for i := range readersAtOnce {
		c, err := net.DialTimeout("tcp", u.Host, 10*time.Second)
		require.NoError(t, err)
		conns = append(conns, c)
		require.NoError(t, c.(*net.TCPConn).SetReadBuffer(4<<10))
		ask := target
		if own {
			ask = fmt.Sprintf(target, i)
		}
		_, err = fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", ask, u.Host)
		require.NoError(t, err)
	}
	// Until it stays as it is, for a second.
	for still, left := 0, 100; still < 10 && left > 0; left-- {
		testkit.Pause(100 * time.Millisecond)
		if now := residentMiB(t, p); now > peak {
			peak, still = now, 0
		} else {
			still++
		}
	}
	return peak
}
