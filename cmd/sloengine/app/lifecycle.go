package app

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// teardown is what has to be undone, in the order in which it was done. It may be asked more
// than once; every step runs once, the last one first.
type teardown struct {
	mu    sync.Mutex
	steps []step
}

type step struct {
	name string
	stop func(ctx context.Context) error
}

func (t *teardown) add(name string, stop func(ctx context.Context) error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.steps = append(t.steps, step{name, stop})
}

// run undoes all steps, also after an error, and joins their errors.
func (t *teardown) run(ctx context.Context) (err error) {
	for {
		t.mu.Lock()
		last := len(t.steps) - 1
		if last < 0 {
			t.mu.Unlock()
			return err
		}
		s := t.steps[last]
		t.steps = t.steps[:last]
		t.mu.Unlock()
		if serr := s.stop(ctx); serr != nil {
			err = errors.Join(err, serr)
		}
	}
}

// runGroup owns the goroutines of the process. They end in the reverse order in which they
// were started, each when the next one has ended.
type runGroup struct {
	teardown
	ended chan string // the name of the first that ended, whether it was to or not
}

func newRunGroup() *runGroup { return &runGroup{ended: make(chan string, 1)} }

// part is something that runs as long as the process does.
type part struct {
	name string
	run  func(ctx context.Context) error // returns when its context ends
	// drain ends it gently, and is called before the context ends. It returns when there is
	// nothing more to wait for, or when the time for it is over. May be nil.
	drain func(ctx context.Context)
	last  bool // it may use up the time for a shutdown
}

// start runs p until the group is torn down, whatever becomes of ctx.
func (g *runGroup) start(ctx context.Context, p part) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		err = p.run(ctx)
		select {
		case g.ended <- p.name:
		default: // one is enough
		}
	}()
	g.add(p.name, func(stop context.Context) error {
		if !p.last {
			var release context.CancelFunc
			stop, release = share(stop)
			defer release()
		}
		if p.drain != nil {
			p.drain(stop)
		}
		cancel()
		select {
		case <-done:
			return err
		case <-stop.Done():
			return fmt.Errorf("stop %s: not done in time (raise shutdown.timeout); the next start goes on from what is on disk", p.name)
		}
	})
}

// share is half of the time that is left for a shutdown, so that there is some for the steps
// that follow.
func share(ctx context.Context) (context.Context, context.CancelFunc) {
	end, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, time.Until(end)/2)
}
