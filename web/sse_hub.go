package web

import (
	"errors"
	"sync"
)

const (
	streamBuffer = 8 // messages that may wait for one tab; a slower one is dropped and connects again
)

var (
	errStreamsFull = errors.New("too many pages are open, so this one refreshes by polling")
	errStreamsOff  = errors.New("live updates are not available, so this page refreshes by polling")
)

// hub fans messages out to every open stream. It never waits for one of them.
type hub struct {
	limit int

	mu      sync.Mutex
	running bool
	subs    map[*subscriber]struct{}
	last    string
}

// subscriber is one open stream. The channel is closed when the hub lets go of it.
type subscriber struct {
	messages chan string
	slow     bool // why; set before the channel is closed
}

func newHub(limit int) *hub { return &hub{limit: limit, subs: map[*subscriber]struct{}{}} }

func (h *hub) start() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.running = true
}

// stop ends every stream and refuses new ones.
func (h *hub) stop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.running = false
	for s := range h.subs {
		delete(h.subs, s)
		close(s.messages)
	}
}

func (h *hub) join() (*subscriber, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case !h.running:
		return nil, errStreamsOff
	case len(h.subs) >= h.limit:
		return nil, errStreamsFull
	}
	s := &subscriber{messages: make(chan string, streamBuffer)}
	h.subs[s] = struct{}{}
	return s, nil
}

// leave may be called after the hub has let go.
func (h *hub) leave(s *subscriber) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.subs, s)
}

func (h *hub) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.subs)
}

// publish hands a message to every stream, unless it is the last one again.
func (h *hub) publish(text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if text == h.last {
		return
	}
	h.last = text
	for s := range h.subs {
		select {
		case s.messages <- text:
		default:
			s.slow = true
			delete(h.subs, s)
			close(s.messages)
		}
	}
}
