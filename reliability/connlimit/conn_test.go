package connlimit

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/stretchr/testify/require"
)

// pair is a counted connection and its client.
func pair(t *testing.T) (*conn, net.Conn) {
	t.Helper()
	l, err := New(Options{Max: 4, Metrics: metrics.NewSet()})
	require.NoError(t, err)
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { inner.Close() })
	client, err := net.Dial("tcp", inner.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { client.Close() })
	c, err := l.Listener(inner).Accept()
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return c.(*conn), client
}

func TestDeadlinesHold(t *testing.T) {
	c, client := pair(t)
	buf := make([]byte, 8)
	expired := func(when string) {
		t.Helper()
		_, err := c.Read(buf)
		require.ErrorIs(t, err, os.ErrDeadlineExceeded, when)
	}
	start := time.Now()
	require.NoError(t, c.SetReadDeadline(start.Add(100*time.Millisecond)))
	expired("in time")
	require.GreaterOrEqual(t, time.Since(start), 100*time.Millisecond, "never early")
	expired("it stays")
	require.NoError(t, c.SetReadDeadline(time.Unix(1, 0)))
	expired("long ago")

	require.NoError(t, c.SetReadDeadline(time.Time{}))
	_, err := client.Write([]byte("a"))
	require.NoError(t, err)
	n, err := c.Read(buf)
	require.NoError(t, err)
	require.Equal(t, 1, n)

	// A deadline ends a read that runs, which is how net/http ends its own.
	failed := make(chan error)
	go func() { _, err := c.Read(buf); failed <- err }()
	require.Eventually(t, func() bool {
		c.read.mu.Lock()
		defer c.read.mu.Unlock()
		return c.read.running
	}, testkit.Patience, time.Millisecond)
	require.NoError(t, c.SetReadDeadline(time.Unix(1, 0)))
	require.ErrorIs(t, <-failed, os.ErrDeadlineExceeded)

	require.NoError(t, c.SetDeadline(time.Now().Add(-time.Second)))
	_, err = c.Write(buf)
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	require.NoError(t, c.SetWriteDeadline(time.Time{}))
	_, err = c.Write(buf)
	require.NoError(t, err)
}

func TestDeadlinesOfOneStepAreSetOnce(t *testing.T) {
	c, _ := pair(t)
	from := c.l.started.Add(time.Hour)
	var set []time.Duration
	begin := func() {
		require.NoError(t, c.write.begin(func(t time.Time) error { set = append(set, t.Sub(from)); return nil }))
		c.write.end()
	}
	for after := time.Duration(1); after <= deadlineStep; after += deadlineStep / 10 {
		require.NoError(t, c.SetWriteDeadline(time.Time{})) // as a server does after each request
		require.NoError(t, c.SetWriteDeadline(from.Add(after)))
		begin()
	}
	require.NoError(t, c.SetWriteDeadline(from.Add(deadlineStep+1)))
	begin()
	require.Equal(t, []time.Duration{deadlineStep, 2 * deadlineStep}, set)
}

// TestSteadfast: a request that is steadfast goes on when its client leaves, and another one on the same connection
// ends. No byte of the next request is lost in either case.
func TestSteadfast(t *testing.T) {
	ended, release := make(chan string, 8), make(chan struct{})
	web := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/steadfast" {
			Steadfast(r)
		}
		body, err := io.ReadAll(r.Body)
		if err != nil || string(body) != "body" {
			ended <- fmt.Sprint("body ", string(body), err)
		}
		switch r.Header.Get("Wait") {
		case "end":
			<-r.Context().Done()
			ended <- r.URL.Path
		case "release":
			<-release
			ended <- fmt.Sprint(r.URL.Path, " ", context.Cause(r.Context()))
		}
	}))
	l, err := New(Options{Max: 4, Metrics: metrics.NewSet()})
	require.NoError(t, err)
	l.Serve(web.Config)
	web.Listener = l.Listener(web.Listener)
	web.Start()
	t.Cleanup(web.Close)

	dial := func() net.Conn {
		c, err := net.Dial("tcp", web.Listener.Addr().String())
		require.NoError(t, err)
		t.Cleanup(func() { c.Close() })
		return c
	}
	request := func(path, wait string) string {
		return "POST /" + path + " HTTP/1.1\r\nHost: x\r\nWait: " + wait + "\r\nContent-Length: 4\r\n\r\nbody"
	}
	send := func(c net.Conn, text string) {
		_, err := io.WriteString(c, text)
		require.NoError(t, err)
	}

	c := dial()
	// Three at once, the next while one is answered, then one whose client leaves.
	send(c, strings.Repeat(request("steadfast", ""), 2)+request("other", ""))
	answers := bufio.NewReader(c)
	answered := func() {
		t.Helper()
		res, err := http.ReadResponse(answers, nil)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, res.StatusCode)
		res.Body.Close()
	}
	for range 3 {
		answered()
	}
	send(c, request("steadfast", "release"))
	send(c, request("other", ""))
	release <- struct{}{}
	require.Equal(t, "/steadfast <nil>", <-ended)
	answered()
	answered()
	send(c, request("other", "end"))
	require.NoError(t, c.Close())
	require.Equal(t, "/other", <-ended)

	c = dial()
	send(c, request("steadfast", "release"))
	require.NoError(t, c.Close())
	release <- struct{}{}
	require.Equal(t, "/steadfast <nil>", <-ended)
}
