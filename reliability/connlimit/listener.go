package connlimit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"golang.org/x/sys/unix"

	"github.com/sloengine/sloengine/reliability/metric"
)

// Options of a Listener. All but Max and Descriptors are required.
type Options struct {
	// Max is the most connections that are open at the same time.
	Max int
	// Descriptors is how many the process may have open; 0 asks the system.
	Descriptors int
	Metrics     *metrics.Set
	Logger      *slog.Logger
}

// maxReserve is the most descriptors that are kept from connections, and reserveShare the
// share of a smaller number.
const (
	maxReserve   = 256
	reserveShare = 8
)

// writeBuffer is the most unread data of a client that the system buffers, in bytes per connection.
const writeBuffer = 256 << 10

// Limit bounds the connections of a server.
type Limit struct {
	o        Options
	limit    int // of connections
	topMost  int // descriptor that a connection may have
	accepted *metrics.Counter
	refused  *metrics.Counter
	evicted  *metrics.Counter

	started time.Time // reference of conn.since

	mu        sync.Mutex
	conns     []*conn
	room      int       // most connections for now: limit, or less while files need more
	lowered   time.Time // when room last changed
	refusedAt time.Time // when a connection was last refused
	full      bool      // reported in the log
}

// New asks the system for its limit, and adds the metrics.
func New(o Options) (*Limit, error) {
	if o.Max < 1 {
		return nil, fmt.Errorf("connections: invalid limit %d (at least 1)", o.Max)
	}
	if o.Descriptors == 0 {
		var r unix.Rlimit
		if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &r); err != nil {
			return nil, fmt.Errorf("connections: read the limit of open files: %w", err)
		}
		o.Descriptors = int(min(r.Cur, 1<<30))
	}
	reserve := min(maxReserve, o.Descriptors/reserveShare)
	l := &Limit{o: o, started: time.Now(), topMost: o.Descriptors - reserve - 1}
	l.limit = max(1, min(o.Max, l.topMost))
	l.room = l.limit
	l.accepted = metric.HTTPConnectionsTotal.Counter(o.Metrics, "accepted")
	l.evicted = metric.HTTPConnectionsTotal.Counter(o.Metrics, "evicted")
	l.refused = metric.HTTPConnectionsTotal.Counter(o.Metrics, "refused")
	metric.HTTPConnections.Read(o.Metrics, func() float64 { return float64(l.Status().Open) })
	metric.HTTPConnectionsLimit.Read(o.Metrics, func() float64 { return float64(l.limit) })
	return l, nil
}

// Status is how much of the limit is in use.
type Status struct {
	Open      int       `json:"open"`
	Limit     int       `json:"limit"`
	RefusedAt time.Time `json:"refused_at,omitzero"` // when a connection was last refused for lack of room; zero: never
}

// Status returns the present status.
func (l *Limit) Status() Status {
	l.mu.Lock()
	defer l.mu.Unlock()
	return Status{Open: len(l.conns), Limit: l.limit, RefusedAt: l.refusedAt}
}

// Serve sets the hooks of a server that is to serve a listener of this limit.
func (l *Limit) Serve(s *http.Server) {
	s.ConnState = func(c net.Conn, state http.ConnState) {
		if own := ownConn(c); own != nil {
			own.changed(state)
		}
	}
	s.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		if own := ownConn(c); own != nil {
			return context.WithValue(ctx, connKey{}, own)
		}
		return ctx
	}
}

// Listener returns a listener that takes connections from a TCP listener.
func (l *Limit) Listener(inner net.Listener) net.Listener { return &listener{inner, l} }

type listener struct {
	net.Listener
	l *Limit
}

// Accept returns the next connection for which there is room.
func (li *listener) Accept() (net.Conn, error) {
	for {
		c, err := li.Listener.Accept()
		if err != nil {
			return nil, err
		}
		tcp, ok := c.(*net.TCPConn)
		if !ok {
			return nil, errors.Join(fmt.Errorf("connections: %T is not a TCP connection", c), c.Close())
		}
		if own := li.l.take(tcp); own != nil {
			return own, nil
		}
	}
}

// take admits a connection, if need be in place of another one. It returns nil after it
// closed the connection.
func (l *Limit) take(tcp *net.TCPConn) *conn {
	_ = tcp.SetWriteBuffer(writeBuffer) // without it the system chooses
	fd := descriptor(tcp)
	now := time.Now()
	l.mu.Lock()
	var victims []*conn
	need := l.need(fd, now)
	full := need > 0
	for ; need > 0; need-- {
		victim := l.victim()
		if victim == nil {
			break
		}
		l.remove(victim)
		victims = append(victims, victim)
	}
	if full && len(victims) == 0 {
		l.tell(now, true)
		l.mu.Unlock()
		l.refused.Inc()
		_ = tcp.Close()
		return nil
	}
	own := &conn{TCPConn: tcp, l: l, place: len(l.conns)}
	own.since.Store(int64(now.Sub(l.started)))
	l.conns = append(l.conns, own)
	l.tell(now, full)
	l.mu.Unlock()
	for _, v := range victims {
		l.evicted.Inc()
		_ = v.TCPConn.Close()
	}
	l.accepted.Inc()
	return own
}

// need is how many connections have to go for a new one with that descriptor. The lowest
// free descriptor is given out first, so one in the reserve shows that all others are in use: then
// there may be no more connections than now, less those missing in the reserve, until there is a
// sign of more room. The caller holds the lock.
func (l *Limit) need(fd int, now time.Time) int {
	if missing := fd - l.topMost; missing > 0 {
		l.room, l.lowered = max(1, len(l.conns)+1-missing), now
		return missing
	}
	if l.room < l.limit && now.Sub(l.lowered) > time.Second {
		l.room, l.lowered = l.room+1, now // files were closed, perhaps
	}
	return max(0, len(l.conns)+1-l.room)
}

// tell records that the limit was reached, and logs the first time of many. The caller holds the
// lock.
func (l *Limit) tell(now time.Time, full bool) {
	switch {
	case full:
		l.refusedAt = now
		if !l.full {
			l.full = true
			l.o.Logger.Warn("connection limit reached, connections without credentials are closed first", "open",
				len(l.conns), "limit", l.limit)
		}
	case l.full && now.Sub(l.refusedAt) > recovered && len(l.conns) < l.limit-l.limit/10:
		l.full = false
		l.o.Logger.Info("connections below limit again", "open", len(l.conns), "limit", l.limit)
	}
}

// recovered is how long no connection was refused before that is logged.
const recovered = 10 * time.Second

// victim is the connection that is given up for a new one: of those without credentials
// the one that changed its state longest ago, else of the idle ones; nil if there is none.
func (l *Limit) victim() (out *conn) {
	best := int64(0)
	outTrusted := true
	for _, c := range l.conns {
		trusted := c.trusted.Load()
		if trusted && (!c.idle.Load() || !outTrusted) {
			continue
		}
		if at := c.since.Load(); out == nil || outTrusted && !trusted || at < best {
			out, best, outTrusted = c, at, trusted
		}
	}
	return out
}

// remove takes a connection out of the list. The caller holds the lock.
func (l *Limit) remove(c *conn) {
	if c.place < 0 {
		return
	}
	last := len(l.conns) - 1
	l.conns[c.place] = l.conns[last]
	l.conns[c.place].place = c.place
	l.conns[last] = nil
	l.conns = l.conns[:last]
	c.place = -1
}

// descriptor is the number of a connection's descriptor, -1 if it has none any more.
func descriptor(c *net.TCPConn) int {
	fd := -1
	if raw, err := c.SyscallConn(); err == nil {
		_ = raw.Control(func(n uintptr) { fd = int(n) }) // then it is closed already
	}
	return fd
}
