package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"
)

// stopStack is what has to be undone, in the order in which it was done. It may be asked more
// than once; every step runs once, the last one first.
type stopStack struct {
	mu    sync.Mutex
	steps []step
}

type step struct {
	name string
	stop func(ctx context.Context) error
}

func (s *stopStack) add(name string, stop func(ctx context.Context) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.steps = append(s.steps, step{name, stop})
}

func (s *stopStack) addCloser(name string, c io.Closer) {
	s.add(name, func(context.Context) error { return c.Close() })
}

// stop undoes all steps, also after an error, and joins their errors.
func (s *stopStack) stop(ctx context.Context) error { return s.stopTo(ctx, 0) }

// stopTo undoes the steps but the first n.
func (s *stopStack) stopTo(ctx context.Context, n int) (err error) {
	for {
		s.mu.Lock()
		last := len(s.steps) - 1
		if last < n {
			s.mu.Unlock()
			return err
		}
		step := s.steps[last]
		s.steps = s.steps[:last]
		s.mu.Unlock()
		if serr := step.stop(ctx); serr != nil {
			err = errors.Join(err, serr)
		}
	}
}

// runGroup owns the goroutines of the process and what they use. They end in the reverse order
// in which they were started, each when the next one has ended.
type runGroup struct {
	stopStack
	ended chan string // the name of the first that ended, whether it was to or not
	last  int         // how many steps there are below and with the part of startLast
}

func newRunGroup() *runGroup { return &runGroup{ended: make(chan string, 1)} }

// stop gives the part of startLast half of the time, however many others hang. Each of those may take half of what is
// left of the other half.
func (g *runGroup) stop(ctx context.Context) error {
	early, release := half(ctx)
	defer release()
	return errors.Join(g.stopTo(early, g.last), g.stopStack.stop(ctx))
}

// start runs a part until the group stops, whatever becomes of ctx.
func (g *runGroup) start(ctx context.Context, name string, run func(ctx context.Context) error) {
	g.run(ctx, name, run, half)
}

// startLast runs a part that may use up all the time for a shutdown: after it only closers are left.
func (g *runGroup) startLast(ctx context.Context, name string, run func(ctx context.Context) error) {
	g.run(ctx, name, run, context.WithCancel)
	g.last = len(g.steps)
}

func (g *runGroup) run(ctx context.Context, name string, run func(context.Context) error,
	share func(context.Context) (context.Context, context.CancelFunc)) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err = run(ctx); ctx.Err() != nil && errors.Is(err, ctx.Err()) {
			err = nil
		}
		select {
		case g.ended <- name:
		default: // one is enough
		}
	}()
	g.add(name, func(stop context.Context) error {
		stop, release := share(stop)
		defer release()
		cancel()
		select {
		case <-done:
			return err
		case <-stop.Done():
			return fmt.Errorf(
				"stop %s: timed out (raise shutdown.timeout; the next start continues from the state on disk)", name)
		}
	})
}

// serve goes on until ctx ends or a part does, unless the start failed with err, and then stops everything within a
// time.
func (g *runGroup) serve(ctx context.Context, err error, within time.Duration, log *slog.Logger) error {
	if err == nil {
		select {
		case <-ctx.Done():
			log.Info("stopping")
		case name := <-g.ended:
			log.Error("component ended, stopping", "component", name)
		}
	}
	stop, done := context.WithTimeout(context.WithoutCancel(ctx), within)
	defer done()
	err = errors.Join(err, g.stop(stop))
	log.Info("stopped", "err", err)
	return err
}

// half of the time that is left for a shutdown leaves some for the steps that follow.
func half(ctx context.Context) (context.Context, context.CancelFunc) {
	end, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, time.Until(end)/2)
}

// after runs something once ready is closed.
func after(ready <-chan struct{}, run func(ctx context.Context) error) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		select {
		case <-ready:
			return run(ctx)
		case <-ctx.Done(): // also if the engine fails to start, which stops everything
			return nil
		}
	}
}
