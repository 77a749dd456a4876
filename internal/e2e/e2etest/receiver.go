package e2etest

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/internal/testkit"
)

// Receiver is a sink over HTTP that can be down, slow or refuse, and remembers every
// event it took.
type Receiver struct {
	Address string
	Mode    atomic.Int32
	slow    time.Duration

	Mu      sync.Mutex
	server  *http.Server
	Got     map[string]int
	arrived []time.Time // of each event, in order
	refused int         // events that came while it took none
}

// What a receiver does with a request.
const (
	Takes   = iota
	Refuses // 503
	Hangs
	Rejects // 422: never to be sent again
)

// NewReceiver listens until the test ends.
func NewReceiver(t testing.TB) *Receiver {
	t.Helper()
	r := &Receiver{Got: map[string]int{}}
	r.Up(t)
	t.Cleanup(r.Down)
	return r
}

// Up listens, at the same address as before.
func (r *Receiver) Up(t testing.TB) {
	t.Helper()
	address := r.Address
	if address == "" {
		address = "127.0.0.1:0"
	}
	var l net.Listener
	require.Eventually(t, func() (ok bool) {
		var err error
		l, err = net.Listen("tcp", address)
		return err == nil
	}, testkit.Patience, 10*time.Millisecond)
	r.Address = l.Addr().String()
	server := &http.Server{Handler: r}
	r.Mu.Lock()
	r.server = server
	r.Mu.Unlock()
	go func() { _ = server.Serve(l) }()
}

// Down closes the port and all connections: a process that died.
func (r *Receiver) Down() {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	_ = r.server.Close()
}

func (r *Receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if req.Method == http.MethodGet {
		if r.Mode.Load() != Takes {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		return
	}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return
	}
	var events []struct{ ID string }
	if err := json.Unmarshal(body, &events); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	switch mode := r.Mode.Load(); mode {
	case Hangs:
		select {
		case <-req.Context().Done():
		case <-time.After(time.Minute):
		}
		return
	case Refuses, Rejects:
		r.Mu.Lock()
		r.refused += len(events)
		r.Mu.Unlock()
		w.WriteHeader(map[int32]int{Refuses: http.StatusServiceUnavailable, Rejects: http.StatusUnprocessableEntity}[mode])
		return
	}
	testkit.Pause(r.slow)
	r.Mu.Lock()
	defer r.Mu.Unlock()
	now := time.Now()
	for _, e := range events {
		r.Got[e.ID]++
		r.arrived = append(r.arrived, now)
	}
}

// Has is how many different events arrived.
func (r *Receiver) Has() int {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	return len(r.Got)
}

// Peak is the most events that arrived within any three seconds, per second. Over one second it would count
// what a busy machine makes late together with what follows.
func (r *Receiver) Peak() (most int) {
	const seconds = 3
	r.Mu.Lock()
	defer r.Mu.Unlock()
	from := 0
	for i, at := range r.arrived {
		for at.Sub(r.arrived[from]) >= seconds*time.Second {
			from++
		}
		most = max(most, i-from+1)
	}
	return most / seconds
}
