package connlimit

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
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
	if err := c.read.begin(c.TCPConn.SetReadDeadline); err != nil {
		return 0, err
	}
	n, err := c.TCPConn.Read(p)
	c.read.end()
	return n, err
}

// Write is part of net.Conn.
func (c *conn) Write(p []byte) (int, error) {
	if err := c.write.begin(c.TCPConn.SetWriteDeadline); err != nil {
		return 0, err
	}
	n, err := c.TCPConn.Write(p)
	c.write.end()
	return n, err
}

// ReadFrom is part of io.ReaderFrom, by which files are sent.
func (c *conn) ReadFrom(r io.Reader) (int64, error) {
	if err := c.write.begin(c.TCPConn.SetWriteDeadline); err != nil {
		return 0, err
	}
	n, err := c.TCPConn.ReadFrom(r)
	c.write.end()
	return n, err
}

// SetReadDeadline is part of net.Conn.
func (c *conn) SetReadDeadline(t time.Time) error {
	return c.read.change(c.l.started, t, c.TCPConn.SetReadDeadline)
}

// SetWriteDeadline is part of net.Conn.
func (c *conn) SetWriteDeadline(t time.Time) error {
	return c.write.change(c.l.started, t, c.TCPConn.SetWriteDeadline)
}

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

// deadline is that of reads or of writes.
//
// A server sets up to eight of them in each request, most of which pass unused, such as the one for a request that is
// there already. So a deadline is rounded up to a multiple of deadlineStep, and handed to the system only while
// something is read or written, and if it differs from the one before.
type deadline struct {
	mu         sync.Mutex
	want, have time.Time
	running    bool
}

const deadlineStep = 250 * time.Millisecond

// change sets the deadline, from which steps are counted.
func (d *deadline) change(from, t time.Time, set func(time.Time) error) error {
	if after := t.Sub(from); !t.IsZero() && after > 0 {
		t = from.Add((after + deadlineStep - 1).Truncate(deadlineStep))
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.want = t
	if !d.running {
		return nil
	}
	return d.apply(set)
}

// apply hands the deadline to the system. d.mu is held.
func (d *deadline) apply(set func(time.Time) error) error {
	if d.want.Equal(d.have) {
		return nil
	}
	d.have = d.want
	return set(d.want)
}

// begin is called before a read or a write, and end after it.
func (d *deadline) begin(set func(time.Time) error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.apply(set); err != nil {
		return err
	}
	d.running = true
	return nil
}

func (d *deadline) end() {
	d.mu.Lock()
	d.running = false
	d.mu.Unlock()
}
