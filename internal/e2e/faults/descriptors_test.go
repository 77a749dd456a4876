package faults

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/sloengine/sloengine/internal/e2e/e2etest"
	"github.com/sloengine/sloengine/internal/testkit"
)

const descriptorSpec = `version: sloengine/v1
service: shop
slos:
  - {name: availability, objective: 99, indicator: {events: {valid: '{type="order"}', bad: '{outcome="failure"}'}}}
`

// serveWithDescriptors starts an engine that may open only so many files, whose log needs a
// new segment about every other post.
func serveWithDescriptors(t *testing.T, descriptors int, auth bool) *e2etest.Process {
	dir := t.TempDir()
	settings := "log: {segment: 1MiB}\ncheckpoint: {interval: 1s}\n"
	if auth {
		settings += "auth: {tokens_file: tokens.yaml}\n"
		secret := filepath.Join(dir, "token")
		require.NoError(t, os.WriteFile(secret, []byte(descriptorToken), 0o600))
		e2etest.WriteFile(
			t, dir, "tokens.yaml", "- {name: shop, token_file: "+secret+", services: ['*'], allow: [send, read]}\n")
	}
	args := []string{"serve", "-f", e2etest.WriteFile(t, dir, "slo.yaml", descriptorSpec), "--data-dir",
		filepath.Join(dir, "data"),
		"--web.listen-address", "127.0.0.1:0", "-c", e2etest.WriteFile(t, dir, "engine.yaml", settings)}
	sh := []string{"-c", fmt.Sprintf(`ulimit -n %d; exec "$0" "$@"`, descriptors), e2etest.Program()}
	p, ok := e2etest.StartCommand(t, exec.Command("sh", append(sh, args...)...))
	require.True(t, ok, p.Log)
	require.True(t, p.WaitReady(t))
	return p
}

const descriptorToken = "a-token-of-thirty-two-characters"

// poster posts with a connection of its own, and again after one that failed.
func poster(t *testing.T) *http.Client {
	c := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 1}}
	t.Cleanup(c.CloseIdleConnections)
	return c
}

// post sends about 600 kB of events and returns the status, 0 if there was no answer.
func postLarge(t *testing.T, c *http.Client, p *e2etest.Process, round int) (int, http.Header) {
	var body strings.Builder
	filler := strings.Repeat("x", 900)
	for i := range 600 {
		fmt.Fprintf(&body, `{"id":"%d-%d","service":"shop","type":"order","attributes":{"filler":"%s"}}`+"\n",
			round, i, filler)
	}
	req, err := http.NewRequest(http.MethodPost, p.Base+"/api/v1/events", strings.NewReader(body.String()))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/x-ndjson")
	req.Header.Set("Authorization", "Bearer "+descriptorToken)
	res, err := c.Do(req)
	if err != nil {
		return 0, nil
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, res.Body)
	return res.StatusCode, res.Header
}

// flood opens silent connections. They end with the test, or by the function returned.
func flood(t *testing.T, p *e2etest.Process, n int) (stop func()) {
	u, err := url.Parse(p.Base)
	require.NoError(t, err)
	conns := make([]net.Conn, 0, n)
	for range n {
		c, err := net.DialTimeout("tcp", u.Host, 5*time.Second)
		if err == nil {
			conns = append(conns, c)
		}
	}
	stop = func() {
		for _, c := range conns {
			_ = c.Close()
		}
		conns = nil
	}
	t.Cleanup(stop)
	require.Greater(t, len(conns), n/2)
	return stop
}

// However many clients connect, the log gets its files, and who has a token gets through.
func TestConnectionsLeaveTheLogItsDescriptors(t *testing.T) {
	t.Parallel()
	p := serveWithDescriptors(t, 1024, true)
	c := poster(t)
	for round := range 3 {
		status, _ := postLarge(t, c, p, round)
		require.Equal(t, http.StatusAccepted, status)
	}
	flood(t, p, 5000)
	for round := range 10 {
		status, _ := postLarge(t, c, p, 10+round)
		require.Equal(t, http.StatusAccepted, status, "a connection that showed its token stays")
		fresh := poster(t)
		status, _ = postLarge(t, fresh, p, 100+round)
		require.Equal(t, http.StatusAccepted, status, "a new connection finds room")
		fresh.CloseIdleConnections()
	}
	req, err := http.NewRequest(http.MethodGet, p.Base+"/metrics", nil)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+descriptorToken)
	res, err := c.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.Contains(t, string(text), "\nsloengine_wal_poisoned 0\n")
	require.NotContains(t, string(text), `sloengine_http_connections_total{result="evicted"} 0`)
	require.Equal(t, 1, strings.Count(p.Log.String(), "connection limit reached"), p.Log)
	req.URL.Path = "/-/ready"
	ready, err := c.Do(req)
	require.NoError(t, err)
	defer ready.Body.Close()
	text, err = io.ReadAll(ready.Body)
	require.NoError(t, err)
	require.Contains(t, string(text), `"part":"connections"`)
	p.Stop(t)
}

// With hardly any descriptors the process lives: it takes events or says when to come
// back, and all is well once there are descriptors again.
func TestFewDescriptors(t *testing.T) {
	t.Parallel()
	p := serveWithDescriptors(t, 40, true)
	stop := flood(t, p, 200)
	c := poster(t)
	for round := range 20 {
		switch status, header := postLarge(t, c, p, round); status {
		case 0, http.StatusAccepted:
		case http.StatusServiceUnavailable:
			require.NotEmpty(t, header.Get("Retry-After"))
		default:
			t.Fatalf("status %d\n%s", status, p.Log)
		}
	}
	select {
	case <-p.Done:
		t.Fatalf("the process ended:\n%s", p.Log)
	default:
	}
	stop()
	for round := range 5 {
		require.Eventually(t, func() bool {
			status, _ := postLarge(t, c, p, 100+round)
			return status == http.StatusAccepted
		}, testkit.Patience, 100*time.Millisecond, p.Log)
	}
	require.NotContains(t, p.Log.String(), "poisoned")
	p.Stop(t)
}

// What takes the descriptors may also be the process itself, or the limit may fall while it
// runs: then a post that needs a new segment is refused for now, told once, and stored
// when there is one again.
func TestNoDescriptorForASegment(t *testing.T) {
	t.Parallel()
	p := serveWithDescriptors(t, 256, false)
	c := poster(t)
	status, _ := postLarge(t, c, p, 0)
	require.Equal(t, http.StatusAccepted, status)
	lower := func(n uint64) {
		require.NoError(t, setDescriptors(p.Cmd.Process.Pid, n))
	}
	lower(3)
	refused := 0
	for round := range 6 {
		status, header := postLarge(t, c, p, 1+round)
		if status == http.StatusServiceUnavailable {
			refused++
			require.NotEmpty(t, header.Get("Retry-After"))
			continue
		}
		require.Equal(t, http.StatusAccepted, status)
	}
	require.GreaterOrEqual(t, refused, 4)
	lower(256)
	for round := range 4 {
		status, _ := postLarge(t, c, p, 100+round)
		require.Equal(t, http.StatusAccepted, status, p.Log)
	}
	log := p.Log.String()
	require.Equal(t, 1, strings.Count(log, "part=log err="), log)
	require.Contains(t, log, `"part of the engine works again" part=log`)
	require.NotContains(t, log, "poisoned")
	metrics := string(e2etest.Get(t, p.Base+"/metrics"))
	require.Regexp(t, `sloengine_ingest_unavailable_total\{reason="no_descriptors"\} [1-9]`, metrics)
	require.Regexp(t, `sloengine_wal_append_errors_total\{reason="no_descriptors"\} [1-9]`, metrics)
	require.Contains(t, metrics, `sloengine_ingest_trouble{part="log"} 0`)
	p.Stop(t)
}

// setDescriptors changes the soft limit of a running process.
func setDescriptors(pid int, n uint64) error {
	var now unix.Rlimit
	if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &now); err != nil {
		return err
	}
	return unix.Prlimit(pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: n, Max: now.Max}, nil)
}
