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

// This file adds, replaces and removes sinks while others deliver, and holds the two contexts of a shutdown
// together. The lane of a sink is in lane.go and the files that it names.

// ErrNoSink is wrapped by errors about a sink name that no lane has.
var ErrNoSink = errors.New("no such sink")

// Dispatcher owns the lanes of all sinks. All methods may be called concurrently.
//
// A lane in the map retains the log from its saved cursor on, whether it runs or not. That is why a lane that was
// stopped stays in the map until its cursor is removed or another lane has taken it over.
type Dispatcher struct {
	o       Options
	cursors cursors

	// changing is held by Add, Remove, Replace and the start of Run from their first check to their last write, so
	// that they run one after the other. Replacing a sink holds it for as long as the old lane drains. It is never
	// taken with mu held.
	changing sync.Mutex

	// mu guards the fields below. It is held for map operations only, so that Lowest and Status stay quick while a
	// sink drains. A lane's mu may be taken with it held, never the other way round.
	mu    sync.Mutex
	lanes map[string]*lane // by sink name; a lane that was stopped stays until it is replaced or removed
	ctx   context.Context  // of Run; nil before Run
	ended bool             // Run's context has ended, or Close was called: no lane starts any more

	running sync.WaitGroup // lanes that run
}

// New validates the options and creates the cursors' folder. It starts no goroutine.
//
// The error is one of the options or of the disk, and leaves at most an empty folder.
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

// Add starts a sink at its cursor on disk, or creates one at SinkOptions.Start. From then on Lowest retains the log
// for it. Sinks added before Run start with Run, later ones immediately. The errors are those of the options, of the
// cursor, and of a name that is taken.
func (d *Dispatcher) Add(o SinkOptions) error {
	d.changing.Lock()
	defer d.changing.Unlock()
	return d.add(o, nil)
}

// add makes a lane and puts it into the place of old, a lane of the same name that was stopped; nil if there is none.
// After an error old stays where it is. changing is held.
func (d *Dispatcher) add(o SinkOptions, old *lane) error {
	l, err := newLane(d, o)
	if err != nil {
		return err
	}
	// Checked under mu, then used without it: changing is held, so no other call can take the name meanwhile.
	d.mu.Lock()
	taken := d.lanes[o.Name] != old
	ended := d.ended
	d.mu.Unlock()
	switch {
	case ended:
		return fmt.Errorf("add sink %q: the dispatcher has stopped", o.Name)
	case taken:
		return fmt.Errorf("add sink %q: the name is taken", o.Name)
	}
	if err := l.locate(); err != nil {
		return fmt.Errorf("add sink %q: %w", o.Name, err)
	}
	// The cursor is durable by now. In the map first, then started: Lowest must retain the log before the lane reads it.
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lanes[o.Name] = l
	d.measure()
	d.start(l)
	return nil
}

// start runs a lane in a goroutine if Run was called and has not ended. d.mu is held: it guards cancel, which stop
// reads.
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

// Remove drains a sink and removes its cursor, so that it no longer retains the log. A sink of the same name that is
// added later starts afresh. If ctx ends before the sink has drained, it stays registered and retains the log, but gets
// nothing until it is removed or replaced.
//
// The order is stop, cursor, map. If the cursor were removed first, the lane could save it again, and a later
// sink of the same name would begin in the middle of the log. If the map came first, a failure would leave a
// cursor that only the next Run could remove.
func (d *Dispatcher) Remove(ctx context.Context, name string) error {
	d.changing.Lock()
	defer d.changing.Unlock()
	if err := d.stop(ctx, name); err != nil {
		return err
	}
	// The lane has gone, so nothing can write the cursor again. It goes before the lane leaves the map: after an error the
	// name is still known, and Remove can be called again.
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

// Replace drains a sink and continues at the same place of the log with other options, or another Sink. An unknown
// name is added. After an error the old lane stays registered, stopped, so that the log is retained for it.
//
// The old lane stays in the map until the new one takes its place, in one step: without a lane, Lowest would not
// count the sink for a moment, and the log could be truncated above its cursor.
func (d *Dispatcher) Replace(ctx context.Context, o SinkOptions) error {
	d.changing.Lock()
	defer d.changing.Unlock()
	if _, err := newLane(d, o); err != nil { // invalid options must not stop the lane that works
		return err
	}
	err := d.stop(ctx, o.Name)
	if errors.Is(err, ErrNoSink) {
		return d.add(o, nil)
	}
	if err != nil {
		return err
	}
	d.mu.Lock()
	old := d.lanes[o.Name]
	d.mu.Unlock()
	return d.add(o, old)
}

// stop cancels a sink's lane and waits until it has drained. d.changing is held, so that no other goroutine stops it or
// puts another lane in its place.
//
// An error of ctx leaves the lane canceled: it still drains, and a later call waits for it again.
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

// Run delivers until ctx ends. Then calls in flight may finish within DrainTimeout, and the cursors are saved. Nothing
// undelivered is lost: it stays in the log. Run may be called once.
//
// Cursors on disk that belong to no sink are removed at the start. Add the sinks that are to continue where they were
// before you call Run.
//
// It returns when every lane has ended and its sink is closed. After that no goroutine of the package is left,
// except those of calls whose sink ignores its context.
func (d *Dispatcher) Run(ctx context.Context) error {
	d.changing.Lock()
	err := d.begin(ctx)
	d.changing.Unlock()
	if err != nil {
		return err
	}
	<-ctx.Done()
	// ended before Wait: an Add that comes now must not start a lane that nothing waits for.
	d.mu.Lock()
	d.ended = true
	d.mu.Unlock()
	d.running.Wait()
	return nil
}

// Close closes the sinks whose lanes never ran. Call it when Run has ended, or instead of Run.
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

// begin starts the lanes that were added before Run. changing is held.
func (d *Dispatcher) begin(ctx context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ctx != nil {
		return errors.New("dispatch: Run was called twice")
	}
	// Disk I/O under mu is an exception: it happens once, before any lane runs. changing keeps Add from creating a cursor
	// that this would remove.
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

// Lowest is the oldest record that some sink may still need after a crash. The log must be retained from it on. ok is
// false if there is no sink. It goes by the cursors on disk, not by those in memory: a crash goes back to the former.
func (d *Dispatcher) Lowest() (seq uint64, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.lowest()
}

// lowest is Lowest with mu held.
func (d *Dispatcher) lowest() (seq uint64, ok bool) {
	for _, l := range d.lanes {
		if s := l.saved().Seq; !ok || s < seq {
			seq, ok = s, true
		}
	}
	return seq, ok
}

// measure publishes the gauges that belong to no single sink. d.mu is held.
func (d *Dispatcher) measure() {
	d.o.Metrics.sinks.Set(float64(len(d.lanes)))
	if seq, ok := d.lowest(); ok {
		d.o.Metrics.lowest.Set(float64(seq))
	}
}

// Deliver sends items to one sink once, past its lane: a replay of dead letters. It goes through the sink's rate limit,
// breaker, bulkhead and timeout, and is not retried. The caller stays responsible for the items that failed. The others
// are durable at the sink when Deliver returns. Items that are too old are sent too, since an operator requested
// them.
//
// The lane may deliver at the same time, so the sink gets up to its concurrency in calls from both. It works
// before Run, too. An error of the flush leaves the items at the sink or not: the caller keeps them and sends
// them again.
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
	items = slices.Clone(items)
	for i := range items {
		items[i].Replayed = true
	}
	since := l.failedFlushes()
	result := l.call(ctx, ctx, items, time.Time{})
	if result.Err != nil {
		return result
	}
	// The caller forgets the items now, and no cursor would bring them back after a crash.
	if err := l.flush(context.WithoutCancel(ctx), since); err != nil {
		return Result{Err: err}
	}
	return result
}

// Status returns the present state of all sinks, by ascending name.
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

// closeSink closes a sink that can be closed. The lane's goroutine calls it at its end, or stop and Close for a
// lane that never ran.
func (l *lane) closeSink() {
	if c, ok := l.o.Sink.(io.Closer); ok {
		if err := c.Close(); err != nil {
			l.log.Warn("close sink", "error", err)
		}
	}
}
