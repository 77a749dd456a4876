package ingest

import (
	"net/http"
	"sync"
	"time"
)

// drain knows the requests whose bodies are on their way, so that a shutdown need not wait for
// clients that send slowly or nothing more.
type drain struct {
	begun chan struct{} // closed by begin

	mu      sync.Mutex
	until   time.Time // for all bodies; zero before begin
	reading map[*http.ResponseController]struct{}
}

func newDrain() *drain {
	return &drain{begun: make(chan struct{}), reading: map[*http.ResponseController]struct{}{}}
}

// enter bounds the time for a body. Not every http.ResponseWriter can do this; the one of a
// real server can.
func (d *drain) enter(c *http.ResponseController, until time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.until.IsZero() && d.until.Before(until) {
		until = d.until
	}
	d.reading[c] = struct{}{}
	_ = c.SetReadDeadline(until)
}

// leave lifts the bound once the body is there: left over, it would cancel a request that
// waits for the disk. Of a body that is not whole the server reads on after the answer, and
// needs the bound.
func (d *drain) leave(c *http.ResponseController, whole bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.reading, c)
	if whole {
		_ = c.SetReadDeadline(time.Time{})
	}
}

func (d *drain) begin(until time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.until.IsZero() {
		return
	}
	d.until = until
	close(d.begun)
	for c := range d.reading {
		_ = c.SetReadDeadline(until)
	}
}

func (d *drain) draining() bool {
	select {
	case <-d.begun:
		return true
	default:
		return false
	}
}

// Drain makes the requests in flight end soon: the rest of their bodies must arrive within the
// grace, and no limit delays them any longer. Later requests are served in the same way.
func (h *Handler) Drain(grace time.Duration) { h.drain.begin(time.Now().Add(grace)) }
