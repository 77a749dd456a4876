package nettest

import (
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/internal/testkit"
)

// Proxy stands between a client and a server. It can cut all connections, refuse new ones, hold back data, and delay
// it. It is safe for concurrent use.
type Proxy struct {
	Address string // where the client connects to

	target   string
	listener net.Listener
	mu       sync.Mutex
	conns    map[net.Conn]bool
	cut      bool
	stalled  bool
	delay    time.Duration // of every piece that is read
	flows    sync.Cond     // on mu, signalled when stalled ends
}

// NewProxy starts a proxy on a free port that ends with the test.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	x := StartProxy(t, "127.0.0.1:0", target)
	t.Cleanup(x.Close)
	return x
}

// StartProxy starts a proxy on an address. The caller closes it.
func StartProxy(t testing.TB, address, target string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", address)
	require.NoError(t, err)
	x := &Proxy{Address: l.Addr().String(), target: target, listener: l, conns: map[net.Conn]bool{}}
	x.flows.L = &x.mu
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go x.serve(c)
		}
	}()
	return x
}

// Close ends the proxy and its connections.
func (x *Proxy) Close() {
	_ = x.listener.Close()
	x.Cut()
	x.mu.Lock()
	defer x.mu.Unlock()
	x.stalled = false
	x.flows.Broadcast()
}

func (x *Proxy) serve(c net.Conn) {
	if x.refuses() {
		_ = c.Close()
		return
	}
	d, err := net.Dial("tcp", x.target)
	if err != nil {
		_ = c.Close()
		return
	}
	x.mu.Lock()
	if x.cut { // meanwhile
		x.mu.Unlock()
		_, _ = c.Close(), d.Close()
		return
	}
	x.conns[c], x.conns[d] = true, true
	x.mu.Unlock()
	go x.pipe(d, c)
	x.pipe(c, d)
}

func (x *Proxy) refuses() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.cut
}

func (x *Proxy) pipe(to, from net.Conn) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		x.mu.Lock()
		for x.stalled {
			x.flows.Wait()
		}
		delay := x.delay
		x.mu.Unlock()
		if delay > 0 {
			testkit.Pause(delay)
		}
		if n > 0 {
			if _, werr := to.Write(buf[:n]); werr != nil {
				break
			}
		}
		if err != nil {
			break
		}
	}
	_ = to.Close()
	_ = from.Close()
	x.mu.Lock()
	delete(x.conns, to)
	delete(x.conns, from)
	x.mu.Unlock()
}

// Cut closes all connections and new ones at once: the server was killed, or the cable.
func (x *Proxy) Cut() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.cut = true
	for c := range x.conns {
		_ = c.Close()
	}
}

// Stall lets nothing through, and breaks no connection: the server was paused, or packets are lost.
func (x *Proxy) Stall() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.stalled = true
}

// Delay delays every piece of data, in both directions.
func (x *Proxy) Delay(d time.Duration) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.delay = d
}

// Restore ends all faults.
func (x *Proxy) Restore() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.cut, x.stalled, x.delay = false, false, 0
	x.flows.Broadcast()
}
