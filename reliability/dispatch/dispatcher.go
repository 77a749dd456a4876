package dispatch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sloengine/sloengine/reliability/fsys"
)

// ErrNoSink is wrapped if there is no sink of that name.
var ErrNoSink = errors.New("no such sink")

// Dispatcher owns the lanes of all sinks. All methods may be called concurrently.
type Dispatcher struct {
	o       Options
	cursors cursors

	// changing is held while sinks come and go, mu for the fields below.
	changing sync.Mutex
	mu       sync.Mutex
	lanes    map[string]*lane
	ctx      context.Context // of Run, nil before
	ended    bool
	running  sync.WaitGroup
}

// New checks the options and makes the folder of cursors. It starts nothing.
func New(o Options) (*Dispatcher, error) {
	o.applyDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	if err := fsys.MkdirAllSynced(o.FS, o.Dir, SiteDir); err != nil {
		return nil, fmt.Errorf("dispatch: %w", err)
	}
	return &Dispatcher{o: o, cursors: cursors{o.FS, o.Dir}, lanes: map[string]*lane{}}, nil
}

// Add takes up a sink where its cursor on disk is, or gives it one. From then on
// Lowest holds the log for it. Sinks added before Run begin with Run, later ones at
// once.
func (d *Dispatcher) Add(o SinkOptions) error {
	d.changing.Lock()
	defer d.changing.Unlock()
	return d.add(o)
}

func (d *Dispatcher) add(o SinkOptions) error {
	l, err := newLane(d, o)
	if err != nil {
		return err
	}
	d.mu.Lock()
	_, taken := d.lanes[o.Name]
	ended := d.ended
	d.mu.Unlock()
	switch {
	case ended:
		return fmt.Errorf("add sink %q: the dispatcher has ended", o.Name)
	case taken:
		return fmt.Errorf("add sink %q: there is one of that name", o.Name)
	}
	if err := l.locate(); err != nil {
		return fmt.Errorf("add sink %q: %w", o.Name, err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lanes[o.Name] = l
	d.measure()
	d.start(l)
	return nil
}

// start begins a lane if Run runs. d.mu is held.
func (d *Dispatcher) start(l *lane) {
	if d.ctx == nil || d.ended {
		return
	}
	ctx, cancel := context.WithCancel(d.ctx)
	l.cancel = cancel
	d.running.Go(func() {
		defer close(l.gone)
		defer cancel()
		l.run(ctx)
	})
}

// Remove drains a sink and lets go of its cursor, so that it holds the log no longer.
// A sink of the same name that is added later starts anew. If ctx ends first, the
// sink is still there, but gets nothing any more until it is removed or replaced.
func (d *Dispatcher) Remove(ctx context.Context, name string) error {
	d.changing.Lock()
	defer d.changing.Unlock()
	if err := d.stop(ctx, name); err != nil {
		return err
	}
	if err := d.cursors.remove(name); err != nil {
		return fmt.Errorf("remove sink %q: %w", name, err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.lanes, name)
	d.o.Metrics.forget(name)
	d.measure()
	return nil
}

// Replace drains a sink and goes on with other options, or another Sink, at the same
// place of the log. A name that is not there is added.
func (d *Dispatcher) Replace(ctx context.Context, o SinkOptions) error {
	d.changing.Lock()
	defer d.changing.Unlock()
	if _, err := newLane(d, o); err != nil { // while the old one still works
		return err
	}
	err := d.stop(ctx, o.Name)
	if errors.Is(err, ErrNoSink) {
		return d.add(o)
	}
	if err != nil {
		return err
	}
	d.mu.Lock()
	old := d.lanes[o.Name]
	delete(d.lanes, o.Name)
	d.mu.Unlock()
	if err := d.add(o); err != nil {
		d.mu.Lock()
		d.lanes[o.Name] = old // stopped, but still holding the log
		d.mu.Unlock()
		return err
	}
	return nil
}

// stop ends a sink's lane.
func (d *Dispatcher) stop(ctx context.Context, name string) error {
	d.mu.Lock()
	l := d.lanes[name]
	var cancel context.CancelFunc
	if l != nil {
		cancel = l.cancel
	}
	d.mu.Unlock()
	switch {
	case l == nil:
		return fmt.Errorf("sink %q: %w", name, ErrNoSink)
	case cancel == nil: // it never ran
		l.closeSink()
		return nil
	}
	cancel()
	select {
	case <-l.gone:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("stop sink %q: %w", name, context.Cause(ctx))
	}
}

// Run dispatches until ctx ends. Then calls under way may finish within DrainTimeout,
// and the cursors are saved. Nothing undelivered is lost: it stays in the log.
//
// Cursors on disk that belong to no sink are removed at the start: sinks that are to go
// on where they were must be added before.
func (d *Dispatcher) Run(ctx context.Context) error {
	d.changing.Lock()
	err := d.begin(ctx)
	d.changing.Unlock()
	if err != nil {
		return err
	}
	<-ctx.Done()
	d.mu.Lock()
	d.ended = true
	d.mu.Unlock()
	d.running.Wait()
	return nil
}

// Close lets go of the sinks that Run did not get to run. It is called when Run has ended, or
// will not be called.
func (d *Dispatcher) Close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ended = true
	for _, l := range d.lanes {
		if l.cancel == nil {
			l.closeSink()
		}
	}
}

func (d *Dispatcher) begin(ctx context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ctx != nil {
		return errors.New("dispatch: Run was called twice")
	}
	keep := func(sink string) bool { return d.lanes[sink] != nil }
	if err := d.cursors.removeOthers(keep); err != nil {
		return fmt.Errorf("dispatch: %w", err)
	}
	d.ctx = ctx
	for _, l := range d.lanes {
		d.start(l)
	}
	return nil
}

// Lowest is the oldest record that some sink may still need after a crash: the log
// must be kept from it on. ok is false if there is no sink.
func (d *Dispatcher) Lowest() (seq uint64, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.lowest()
}

func (d *Dispatcher) lowest() (seq uint64, ok bool) {
	for _, l := range d.lanes {
		if s := l.saved().Seq; !ok || s < seq {
			seq, ok = s, true
		}
	}
	return seq, ok
}

// measure publishes what belongs to no single sink. d.mu is held.
func (d *Dispatcher) measure() {
	d.o.Metrics.sinks.Set(float64(len(d.lanes)))
	if seq, ok := d.lowest(); ok {
		d.o.Metrics.lowest.Set(float64(seq))
	}
}

// Deliver sends items to one sink once, past its lane: for a replay of dead letters. It
// goes through the sink's rate limit, breaker, bulkhead and time-out, is not retried,
// and what fails is the caller's to keep. What did not fail is durable.
func (d *Dispatcher) Deliver(ctx context.Context, sink string, items []Item) Result {
	d.mu.Lock()
	l := d.lanes[sink]
	d.mu.Unlock()
	if l == nil {
		return Result{Err: fmt.Errorf("sink %q: %w", sink, ErrNoSink)}
	}
	if len(items) == 0 {
		return Result{}
	}
	if err := l.outbound(ctx, len(items)); err != nil {
		return Result{Err: err}
	}
	since := l.failedFlushes()
	result := l.call(ctx, ctx, items, time.Time{}) // a dead letter is old, and somebody wants it all the same
	if result.Err != nil {
		return result
	}
	// The caller forgets the items now, and no cursor would bring them back.
	if err := l.flush(context.WithoutCancel(ctx), since); err != nil {
		return Result{Err: err}
	}
	return result
}

// Status tells the present state of all sinks, by name.
func (d *Dispatcher) Status() []Status {
	d.mu.Lock()
	lanes := make([]*lane, 0, len(d.lanes))
	for _, l := range d.lanes {
		lanes = append(lanes, l)
	}
	d.mu.Unlock()
	slices.SortFunc(lanes, func(a, b *lane) int { return strings.Compare(a.o.Name, b.o.Name) })
	all := make([]Status, len(lanes))
	for i, l := range lanes {
		all[i] = l.status()
	}
	return all
}

func (l *lane) closeSink() {
	if c, ok := l.o.Sink.(io.Closer); ok {
		if err := c.Close(); err != nil {
			l.log.Warn("close sink", "error", err)
		}
	}
}
