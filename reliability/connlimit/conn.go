package connlimit

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// conn is a connection that counts. It also spares a server two costs of each request on a connection that stays open,
// which together are a tenth of that of a small one: see deadlines and Read.
type conn struct {
	*net.TCPConn
	l     *Limit
	place int // in Limit.conns, -1 once it is out; guarded by Limit.mu

	trusted, idle atomic.Bool
	since         atomic.Int64 // of the last change of state, nanoseconds since Limit.started: the clock may be set

	steadfast   atomic.Bool // the request goes on if its client leaves
	read, write deadline
}

type connKey struct{}

func ofContext(ctx context.Context) *conn { c, _ := ctx.Value(connKey{}).(*conn); return c }

// Trust notes that a request of the connection showed credentials that were right. The
// context is that of the request.
func Trust(ctx context.Context) {
	if c := ofContext(ctx); c != nil && !c.trusted.Load() {
		c.trusted.Store(true)
	}
}

// Steadfast says that a request is served to its end even if its client leaves, so that its context need not end then.
// A handler that ends soon calls it before it reads the body.
func Steadfast(r *http.Request) {
	if c := ofContext(r.Context()); c != nil && r.ProtoMajor == 1 {
		c.steadfast.Store(true)
	}
}

// Read reads what has arrived.
//
// While a handler runs, the server of HTTP/1 reads one byte in another goroutine to learn that the client left. That
// costs a system call, two switches of goroutines and two deadlines in each request. It may be answered with nothing:
// then the byte is read with the next request.
func (c *conn) Read(p []byte) (int, error) {
	if len(p) == 1 && c.steadfast.Load() {
		return 0, nil
	}
	if err := c.read.begin(c); err != nil {
		return 0, err
	}
	n, err := c.TCPConn.Read(p)
	c.read.end()
	return n, err
}

// SetReadDeadline is part of net.Conn.
func (c *conn) SetReadDeadline(t time.Time) error { return c.read.change(c, t) }

// SetWriteDeadline is part of net.Conn. A write has begun, or begins soon.
func (c *conn) SetWriteDeadline(t time.Time) error { return c.write.change(c, t) }

// SetDeadline is part of net.Conn.
func (c *conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// Close frees the place, too.
func (c *conn) Close() error {
	c.l.mu.Lock()
	c.l.remove(c)
	c.l.mu.Unlock()
	return c.TCPConn.Close()
}

func (c *conn) changed(state http.ConnState) {
	c.idle.Store(state == http.StateIdle)
	if state == http.StateIdle {
		c.steadfast.Store(false)
	}
	if !c.trusted.Load() || state == http.StateIdle {
		c.since.Store(int64(time.Since(c.l.started)))
	}
}

func ownConn(c net.Conn) *conn {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	own, _ := c.(*conn)
	return own
}

// A server sets up to six deadlines in each request, most of which pass unused: the one for a request that is there
// already, the one for the time without a request. So a deadline is rounded up to a multiple of deadlineStep, and is
// handed to the system only if it differs from the last one, and for reads only when there is one.
type deadline struct {
	mu         sync.Mutex
	want, have int64 // nanoseconds since Limit.started; never: none, passed: long ago
	running    bool  // a read
}

const (
	deadlineStep = 250 * time.Millisecond

	never  = 0
	passed = -1
)

// change sets a deadline, at once if it is for a read that runs.
func (d *deadline) change(c *conn, t time.Time) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch after := t.Sub(c.l.started); {
	case t.IsZero():
		d.want = never
	case after <= 0:
		d.want = passed
	default:
		d.want = int64((after + deadlineStep - 1).Truncate(deadlineStep))
	}
	if d != &c.write && !d.running {
		return nil
	}
	return d.apply(c)
}

// apply hands the deadline to the system. d.mu is held.
func (d *deadline) apply(c *conn) error {
	if d.want == d.have {
		return nil
	}
	var t time.Time
	switch d.want {
	case never:
	case passed:
		t = c.l.started.Add(-time.Hour)
	default:
		t = c.l.started.Add(time.Duration(d.want))
	}
	d.have = d.want
	if d == &c.write {
		return c.TCPConn.SetWriteDeadline(t)
	}
	return c.TCPConn.SetReadDeadline(t)
}

// begin is called before a read, and end after it.
func (d *deadline) begin(c *conn) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.running = true
	return d.apply(c)
}

func (d *deadline) end() {
	d.mu.Lock()
	d.running = false
	d.mu.Unlock()
}
