package web

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/internal/e2e/e2etest"
	"github.com/sloengine/sloengine/internal/testkit"
)

// openRequest sends the headers of a request and a part of its body.
func openRequest(t *testing.T, p *e2etest.Process, length int, part string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(p.Base, "http://"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(30*time.Second)))
	_, err = fmt.Fprintf(conn,
		"POST /api/v1/events HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		length, part)
	require.NoError(t, err)
	return conn
}

func readAnswer(t *testing.T, conn net.Conn) (status int, body string) {
	t.Helper()
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return res.StatusCode, string(data)
}

// waitReading waits until the engine reads so many bodies.
func waitReading(t *testing.T, p *e2etest.Process, n int) {
	t.Helper()
	require.Eventually(t, func() bool {
		return seriesValue(t, p.Base, "sloengine_ingest_in_flight_requests") == n
	}, testkit.Patience, 10*time.Millisecond)
}

const oneEvent = `{"id":"%s","service":"crash","type":"t","attributes":{"uid":"%s"}}`

// stuckSink is a server that takes requests and answers none. called is closed at the first.
func stuckSink(t *testing.T) (url string, called chan struct{}) {
	t.Helper()
	called = make(chan struct{})
	release := make(chan struct{})
	first := make(chan struct{}, 1)
	first <- struct{}{}
	server := &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		select {
		case <-first:
			close(called)
		default:
		}
		<-release
	})}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { close(release); _ = server.Close() })
	return "http://" + listener.Addr().String(), called
}

// serveStuck starts an engine whose sink has taken an event and answers never.
func serveStuck(t *testing.T, settings, id string) (dir, spec string, p *e2etest.Process) {
	t.Helper()
	sink, called := stuckSink(t)
	dir = t.TempDir()
	spec = e2etest.WriteFile(t, dir, "spec.yaml", e2etest.CrashSpec)
	p = e2etest.Serve(t, dir, spec, e2etest.CrashSettings+settings+
		fmt.Sprintf("timeout: 60s\nsinks: [{name: stuck, http: {url: %q}, batch: {wait: 1ms}}]\n", sink))
	postOne(t, p, id)
	<-called
	return dir, spec, p
}

// post sends one event and expects it to be stored.
func postOne(t *testing.T, p *e2etest.Process, id string) {
	t.Helper()
	res, err := http.Post(p.Base+"/api/v1/events", "application/json", strings.NewReader(fmt.Sprintf(oneEvent, id, id)))
	require.NoError(t, err)
	res.Body.Close()
	require.Equal(t, http.StatusAccepted, res.StatusCode)
}

func waitCounted(t *testing.T, p *e2etest.Process, want int) {
	t.Helper()
	require.Eventually(t, func() bool {
		return e2etest.Counted(t, p, "each") == want
	}, testkit.Patience, 50*time.Millisecond)
}

// From the signal on nothing new is taken, also while a sink is slow to stop; a request that
// is there is finished.
func TestShutdownDrainsRequestsBeforeSinks(t *testing.T) {
	t.Parallel()
	dir, spec, p := serveStuck(t, "", "first")

	body := fmt.Sprintf(oneEvent, "last", "last")
	conn := openRequest(t, p, len(body), body[:20])
	waitReading(t, p, 1)
	require.NoError(t, p.Cmd.Process.Signal(syscall.SIGTERM))
	require.Eventually(t, func() bool {
		return strings.Contains(p.Log.String(), "msg=stopping")
	}, testkit.Patience, time.Millisecond)
	_, err := io.WriteString(conn, body[20:])
	require.NoError(t, err)
	status, answer := readAnswer(t, conn)
	require.Equal(t, http.StatusAccepted, status, answer)

	looks, taken := 0, 0
	client := &http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	for ended := false; !ended; {
		select {
		case <-p.Done:
			ended = true
		case <-time.After(20 * time.Millisecond):
			looks++
			if res, err := client.Get(p.Base + "/-/ready"); err == nil {
				res.Body.Close()
				if res.StatusCode == http.StatusOK {
					taken++
				}
			}
		}
	}
	require.Zero(t, taken, "ready while the engine stops")
	require.Greater(t, looks, 20, "the sink held the shutdown up")
	require.Equal(t, 0, p.Cmd.ProcessState.ExitCode(), p.Log.String())

	again := e2etest.Serve(t, dir, spec, e2etest.CrashSettings)
	waitCounted(t, again, 2)
}

// A client that has announced more than it sends must not hold a shutdown up.
func TestUnfinishedBodyDoesNotHoldUpShutdown(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := e2etest.Serve(t, dir, e2etest.WriteFile(t, dir, "spec.yaml", e2etest.CrashSpec), e2etest.CrashSettings)
	conn := openRequest(t, p, 1000, "[")
	waitReading(t, p, 1)
	begin := time.Now()
	p.Stop(t)
	took := time.Since(begin)
	t.Logf("stopped after %s", took)
	require.Less(t, took, 10*time.Second)
	status, body := readAnswer(t, conn)
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Contains(t, body, `"code":"stopping"`)
}

// The time for a shutdown holds for all of it, and what was acknowledged is there afterwards.
func TestShutdownTimeout(t *testing.T) {
	t.Parallel()
	dir, spec, p := serveStuck(t, "shutdown: {timeout: 2s}\n", "a")
	begin := time.Now()
	require.NoError(t, p.Cmd.Process.Signal(syscall.SIGTERM))
	<-p.Done
	took := time.Since(begin)
	t.Logf("stopped after %s", took)
	require.Less(t, took, 4500*time.Millisecond, "a sink may take 5s to stop")
	require.Equal(t, 1, p.Cmd.ProcessState.ExitCode())
	require.Contains(t, p.Log.String(), "stop sinks: timed out")
	again := e2etest.Serve(t, dir, spec, e2etest.CrashSettings)
	waitCounted(t, again, 1)
}
