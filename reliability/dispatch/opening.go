package dispatch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/sloengine/sloengine/reliability/retry"
)

// opening is a sink that is opened when it is first needed, again and again until that works. A sink that cannot be
// opened fails with the class blocked: its events wait, and nothing else does.
//
// The lane asks it once at its start, so that a sink that cannot be opened shows in the status before there is an
// event for it. The slow part happens under mu, so status and metrics must not ask it.
type opening struct {
	open func() (Sink, error)

	mu     sync.Mutex // guards the fields below, and is held while open runs: one attempt at a time
	sink   Sink       // nil until it is open
	closed bool
}

// ready returns the sink, opening it if it is not open. The error has the class blocked: the items are retried
// until the sink can be opened.
func (o *opening) ready() (Sink, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.sink != nil {
		return o.sink, nil
	}
	if o.closed {
		return nil, errors.New("sink is closed")
	}
	// Under mu: several workers arrive here at once, and a sink that locks a file must be opened by one of them.
	s, err := o.open()
	if err != nil {
		return nil, retry.WithClass(fmt.Errorf("open: %w", err), retry.ClassBlocked)
	}
	o.sink = s
	return s, nil
}

// Send opens the sink if it is not open.
func (o *opening) Send(ctx context.Context, batch []Item) Result {
	s, err := o.ready()
	if err != nil {
		return Result{Err: err}
	}
	return s.Send(ctx, batch)
}

// Flush opens the sink if it is not open, so that a nil error means that it can be written to.
func (o *opening) Flush(ctx context.Context) error {
	s, err := o.ready()
	if err != nil {
		return err
	}
	if f, ok := s.(Flusher); ok {
		return f.Flush(ctx)
	}
	return nil
}

// Held is that of the sink.
func (o *opening) Held() (at Cursor, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if c, is := o.sink.(Collector); is {
		return c.Held()
	}
	return at, false
}

// Drop is that of the sink.
func (o *opening) Drop() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if c, is := o.sink.(Collector); is {
		c.Drop()
	}
}

// Close closes the sink, which is not opened again.
func (o *opening) Close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true // a replay that comes later must not open it again
	if c, ok := o.sink.(io.Closer); ok {
		return c.Close()
	}
	return nil
}
