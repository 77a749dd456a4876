package connlimit

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/stretchr/testify/require"
)

// server answers every request, trusts those with the header Good, and holds the
// requests to /wait until the test ends.
type server struct {
	t    testing.TB
	l    *Limit
	addr string
	log  *bytes.Buffer
}

func serve(t testing.TB, o Options) *server {
	s := &server{t: t, log: &bytes.Buffer{}}
	o.Metrics, o.Logger = metrics.NewSet(), slog.New(slog.NewTextHandler(s.log, nil))
	var err error
	s.l, err = New(o)
	require.NoError(t, err)
	end := make(chan struct{})
	web := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Good") != "" {
			Trust(r.Context())
		}
		if r.URL.Path == "/wait" {
			<-end
		}
	}))
	s.l.Serve(web.Config)
	web.Listener = s.l.Listener(web.Listener)
	web.Start()
	t.Cleanup(web.Close)
	t.Cleanup(func() { close(end) })
	s.addr = web.Listener.Addr().String()
	return s
}

type client struct {
	net.Conn
	t testing.TB
	r *bufio.Reader
}

// dial connects, and returns once the server has taken the connection or closed it.
func (s *server) dial() *client {
	before := s.l.accepted.Get() + s.l.refused.Get()
	c, err := net.Dial("tcp", s.addr)
	require.NoError(s.t, err)
	s.t.Cleanup(func() { _ = c.Close() })
	require.Eventually(s.t, func() bool {
		return s.l.accepted.Get()+s.l.refused.Get() > before
	}, testkit.Patience, time.Millisecond)
	return &client{c, s.t, bufio.NewReader(c)}
}

func (c *client) send(path, header string) {
	_, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: a\r\n%s\r\n", path, header)
	require.NoError(c.t, err)
}

// ask sends a request and reports whether there was an answer.
func (c *client) ask(header string) bool {
	c.send("/", header)
	_ = c.SetReadDeadline(time.Now().Add(time.Minute))
	res, err := http.ReadResponse(c.r, nil)
	if err != nil {
		return false
	}
	_, _ = io.Copy(io.Discard, res.Body)
	return res.StatusCode == http.StatusOK
}

func (c *client) closed() bool {
	_ = c.SetReadDeadline(time.Now().Add(time.Minute))
	_, err := c.r.ReadByte()
	timeout, ok := err.(net.Error)
	return err != nil && (!ok || !timeout.Timeout())
}

const good = "Good: yes\r\n"

func TestConnectionsWithoutCredentialsGoFirst(t *testing.T) {
	s := serve(t, Options{Max: 3})
	trusted := s.dial()
	require.True(t, trusted.ask(good))
	silent, other := s.dial(), s.dial()
	require.True(t, other.ask(""))

	fourth := s.dial()
	require.True(t, silent.closed(), "it said nothing for the longest time")
	require.True(t, fourth.ask(good))
	fifth := s.dial()
	require.True(t, other.closed())
	require.True(t, trusted.ask(good))
	require.True(t, fourth.ask(good))
	require.True(t, fifth.ask(good))
	require.EqualValues(t, 2, s.l.evicted.Get())
	require.Contains(t, s.log.String(), "connection limit reached")
	require.Equal(t, 3, s.l.Status().Open)
	require.False(t, s.l.Status().RefusedAt.IsZero())
}

// Where all showed credentials, an idle connection goes, and never one at work.
func TestIdleConnectionsGoNext(t *testing.T) {
	s := serve(t, Options{Max: 2})
	busy, idle := s.dial(), s.dial()
	busy.send("/wait", good)
	require.True(t, idle.ask(good))
	require.Eventually(t, func() bool {
		s.l.mu.Lock()
		defer s.l.mu.Unlock()
		x, y := s.l.conns[0], s.l.conns[1]
		return x.trusted.Load() && y.trusted.Load() && (x.idle.Load() || y.idle.Load())
	}, testkit.Patience, time.Millisecond)
	waiting := s.dial()
	require.True(t, idle.closed())
	waiting.send("/wait", good)
	require.Eventually(t, func() bool {
		s.l.mu.Lock()
		defer s.l.mu.Unlock()
		for _, c := range s.l.conns {
			if !c.trusted.Load() {
				return false
			}
		}
		return true
	}, testkit.Patience, time.Millisecond)
	require.True(t, s.dial().closed(), "all are at work")
	require.EqualValues(t, 1, s.l.refused.Get())
	_ = busy.Close()
	_ = waiting.Close()
}

// A closed connection makes room.
func TestRoomComesBack(t *testing.T) {
	s := serve(t, Options{Max: 1})
	for range 5 {
		c := s.dial()
		require.True(t, c.ask(good))
		_ = c.Close()
		require.Eventually(t, func() bool { return s.l.Status().Open == 0 }, testkit.Patience, time.Millisecond)
	}
	require.Zero(t, s.l.evicted.Get()+s.l.refused.Get())
}

// Connections do not use the reserve of descriptors, whichever part of the program holds the
// others.
func TestReserve(t *testing.T) {
	own := openDescriptors(t)
	s := serve(t, Options{Max: 1000, Descriptors: own + 40})
	for range 60 {
		s.dial()
	}
	// The clients are in this process, too: they take the rest.
	require.Less(t, s.l.Status().Open, 20)
	require.Positive(t, s.l.evicted.Get())
	require.True(t, s.dial().ask(good))
}

// openDescriptors is about how many descriptors the test has open.
func openDescriptors(t testing.TB) int {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	f, err := l.(*net.TCPListener).File()
	require.NoError(t, err)
	defer f.Close()
	return int(f.Fd())
}

func TestLimits(t *testing.T) {
	for _, c := range []struct{ max, descriptors, limit int }{
		{4096, 1 << 20, 4096}, {4096, 1024, 895}, {4096, 40, 34}, {10, 1024, 10}, {10, 1, 1},
	} {
		l, err := New(Options{Max: c.max, Descriptors: c.descriptors, Metrics: metrics.NewSet()})
		require.NoError(t, err)
		require.Equal(t, c.limit, l.Status().Limit, c)
	}
	_, err := New(Options{Metrics: metrics.NewSet()})
	require.ErrorContains(t, err, "invalid limit 0")
	l, err := New(Options{Max: 1 << 30, Metrics: metrics.NewSet()})
	require.NoError(t, err)
	require.Positive(t, l.Status().Limit)
}
