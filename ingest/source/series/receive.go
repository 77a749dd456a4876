package series

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sloengine/sloengine/ingest/counter"
	"github.com/sloengine/sloengine/ingest/engine"
	"github.com/sloengine/sloengine/ingest/source"
	"github.com/sloengine/sloengine/reliability/metric"
	"github.com/sloengine/sloengine/reliability/remote"
)

// leftOut is why a sample adds nothing.
type leftOut int

// The reasons, the better ones first: of a series that counts in several places, the best one is that of its sample.
const (
	leftNothing   leftOut = iota // it adds something
	leftBaseline                 // the first one of a series that may have been there before
	leftKnown                    // one of that time or a later one was there
	leftDecreased                // a counter fell whose start is the same
	leftOld                      // it is older than the allowed lateness
	leftStale                    // the end of a series, or no number of a counter
	leftReplica                  // of a replica that is not elected
	leftHistogram                // a native histogram of an SLO that wants a number, or the other way round
	leftUnneeded                 // no SLO has its series
	leftForbidden                // the token may not write its services
	leftFull                     // there is no room for another series; refused
	leftInvalid                  // in the future, or of an invalid series; refused
	leftReasons
)

var leftNames = [leftReasons]string{"", "baseline", "known", "decreased", "too_old", "stale", "replica", "histogram",
	"unneeded", "forbidden", "full", "invalid"}

const (
	// maxTogether is how many samples are stored together at most, where requests wait for the log.
	maxTogether = 200_000
	// silence is how long nothing comes until that is a failure.
	silence = 5 * time.Minute
)

// Receiver counts the samples that are written to it.
type Receiver struct {
	o    Options
	wire sync.Pool
	left [leftReasons]*metrics.Counter

	refreshing sync.Mutex // guards loaded
	loaded     time.Time
	routes     atomic.Pointer[routes]
	received   atomic.Int64 // Unix nanoseconds, when a request came last

	queue   sync.Mutex // guards waiting
	waiting []*write

	book

	storing chan struct{} // the rest is of its holder
	closed  bool
	tally
	elections *elections
	pending   map[cell]*pending
	failed    bool                  // pending is not what the log has
	behind    map[seriesKey]int     // places in gaps
	units     map[string]*unitState // by stream
	wrong     map[string]time.Time  // when something was wrong last, by what
}

// unitState is how far a unit is, in Unix nanoseconds.
type unitState struct {
	plan    *plan
	until   int64 // the end of what was observed
	newest  int64 // sample of the total
	samples int   // of the last batch
	came    time.Time
}

// seriesKey is a series of a unit.
type seriesKey struct {
	plan   *plan
	series uint64
	target counter.Key
}

// write is a request.
type write struct {
	routes  *routes
	items   []item
	allow   func(service []byte) bool
	allowed map[*plan]bool
	left    [leftReasons]int
	refused string // why samples are refused, of the first of them
	samples int
	size    int
	err     error
	done    chan struct{}

	natives, refusedNatives int // of the samples
}

// item is a sample of a series that counts somewhere.
type item struct {
	in *write
	of *origin
	at point
}

// Written says what became of a request.
type Written struct {
	Samples, Histograms, Exemplars int    // that were taken, or left out on purpose
	Refused                        int    // samples that can never be taken
	Reason                         string // of the first of them
}

// ErrNotReceiving means that no source receives.
var ErrNotReceiving = errors.New("no source receives samples")

// errOtherRoutes means that the spec changed while a request was decoded.
var errOtherRoutes = errors.New("the spec changed")

// NewReceiver makes a Receiver.
func NewReceiver(o Options) *Receiver {
	r := &Receiver{o: o, tally: newTally(o.Counters, o.Scrape), storing: make(chan struct{}, 1),
		pending: map[cell]*pending{}, behind: map[seriesKey]int{}, units: map[string]*unitState{},
		wrong: map[string]time.Time{}}
	r.warmup = 2 * o.Scrape
	r.wire.New = func() any { return &wire{} }
	r.routes.Store(newRoutes(nil, nil))
	r.received.Store(o.Intake.Now().UnixNano())
	o.Metrics.Add(o.Intake.Name(), func(g *metric.Group) {
		for i, reason := range leftNames[1:] {
			r.left[i+1] = g.Counter(metric.SourceLeftOut, o.Intake.Name(), reason)
		}
	})
	return r
}

// Run stores what waits, and says what is missing, until ctx ends.
func (r *Receiver) Run(ctx context.Context) error {
	tick := time.NewTicker(pairing / 3)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			r.storing <- struct{}{}
			r.closed = true
			r.finish(engine.ErrStopping, r.take()...)
			<-r.storing
			return nil
		case <-tick.C:
		}
		if err := r.refresh(ctx); err != nil {
			continue // the engine says it
		}
		select {
		case r.storing <- struct{}{}:
			_ = r.store(nil) // it says what is wrong
			r.missing(r.o.Intake.Now())
			<-r.storing
		case <-ctx.Done():
		}
	}
}

// refresh compares the routes with the spec, once a second.
func (r *Receiver) refresh(ctx context.Context) error {
	r.refreshing.Lock()
	defer r.refreshing.Unlock()
	now := r.o.Intake.Now()
	if now.Sub(r.loaded) < time.Second && !now.Before(r.loaded) {
		return nil
	}
	units := r.o.Units()
	if !r.loaded.IsZero() && reflect.DeepEqual(units, r.routes.Load().units) {
		r.loaded = now
		return nil
	}
	select {
	case r.storing <- struct{}{}:
		defer func() { <-r.storing }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := r.load(ctx, units, now); err != nil {
		return err
	}
	r.loaded = now
	return nil
}

// load makes the routes to units.
func (r *Receiver) load(ctx context.Context, units []Unit, now time.Time) error {
	if err := r.o.Engine.CatchUp(ctx); err != nil {
		return err
	}
	if r.elections == nil {
		r.elections = newElections(r.o.Intake.Name(), r.o.Counters, now, r.o.Logger)
	}
	next := map[string]*unitState{}
	var plans []*plan
	for _, u := range units {
		p, err := newReceivedPlan(u)
		if err != nil {
			r.o.Intake.Fails(source.TroubleTopic, u.Total, "a selector cannot be received", err.Error())
			continue
		}
		if err := r.takeOver(ctx, p); err != nil {
			return err
		}
		state := r.units[u.Stream]
		if state == nil {
			until, err := r.o.Until(ctx, u.Stream)
			if err != nil {
				return err
			}
			state = &unitState{came: now}
			if !until.IsZero() {
				state.until = until.UnixNano()
			}
		}
		state.plan = p
		next[u.Stream] = state
		plans = append(plans, p)
	}
	for stream, old := range r.units {
		if next[stream] == nil {
			r.o.Intake.Works(source.TroubleTopic, old.plan.pair())
			r.forget(stream)
		}
	}
	r.units = next
	r.list(units)
	r.loadPending(now)
	r.routes.Store(newRoutes(units, plans))
	return nil
}

// Write counts the samples of a request, which was unpacked. allow says which services its sender may write; nil: all.
// An error other than a *WireError is temporary, and nothing was stored.
func (r *Receiver) Write(ctx context.Context, body []byte, v2 bool, allow func(service []byte) bool) (Written, error) {
	for {
		if err := r.refresh(ctx); err != nil {
			return Written{}, err
		}
		r.received.Store(r.o.Intake.Now().UnixNano())
		w := &write{routes: r.routes.Load(), allow: allow, allowed: map[*plan]bool{}, size: len(body),
			done: make(chan struct{})}
		out, err := r.decode(w, body, v2)
		if err == nil {
			err = r.submit(w)
		}
		if errors.Is(err, errOtherRoutes) {
			continue
		}
		if err != nil {
			return Written{}, err
		}
		out.Refused = w.left[leftFull] + w.left[leftInvalid]
		out.Histograms = w.natives - w.refusedNatives
		out.Samples = w.samples - out.Refused - out.Histograms
		out.Reason = w.refused
		for why, n := range w.left {
			if why > 0 {
				r.left[why].Add(n)
			}
		}
		return out, nil
	}
}

// decode finds the samples that count somewhere.
func (r *Receiver) decode(w *write, body []byte, v2 bool) (out Written, err error) {
	in := r.wire.Get().(*wire)
	defer r.wire.Put(in)
	err = in.decode(body, v2, func(one *wireSeries) {
		n := len(one.samples) + len(one.natives)
		w.samples += n
		w.natives += len(one.natives)
		out.Exemplars += one.exemplars
		if one.bad != "" {
			w.samples += max(1-n, 0) // one without a sample is refused as one
			w.refuse(leftInvalid, max(n, 1), fmt.Sprintf("series %s: %s", one.display(), one.bad))
			w.refusedNatives += len(one.natives)
			return
		}
		of := w.routes.origin(one, &in.hash, r.o.HA)
		if of == nil {
			w.left[leftUnneeded] += n
			return
		}
		for _, at := range one.samples {
			w.items = append(w.items, item{w, of, at})
		}
		for _, place := range one.natives {
			if !of.native {
				w.left[leftHistogram]++
				continue
			}
			switch at, err := in.histogram(place); {
			case errors.Is(err, errStale):
				w.left[leftStale]++
			case err != nil:
				w.refuse(leftInvalid, 1, fmt.Sprintf("native histogram %s: %v", one.display(), err))
				w.refusedNatives++
			default:
				w.items = append(w.items, item{w, of, at})
			}
		}
	})
	return out, err
}

func (w *write) refuse(why leftOut, n int, reason string) {
	if w.left[why] += n; w.refused == "" {
		w.refused = remote.Text(reason)
	}
}

func (x *item) refuse(why leftOut, reason string) {
	if x.in.refuse(why, 1, reason); x.at.native != nil {
		x.in.refusedNatives++
	}
}

// submit stores a request, together with others that wait.
func (r *Receiver) submit(w *write) error {
	if len(w.items) == 0 {
		r.o.Intake.Took(w.samples, w.size, 0, 0, 0)
		return nil
	}
	r.queue.Lock()
	r.waiting = append(r.waiting, w)
	r.queue.Unlock()
	select {
	case <-w.done:
		return w.err
	case r.storing <- struct{}{}:
	}
	defer func() { <-r.storing }()
	for {
		select {
		case <-w.done:
			return w.err
		default:
			all := r.take()
			r.finish(r.store(all), all...)
		}
	}
}

// take returns requests that wait.
func (r *Receiver) take() (out []*write) {
	r.queue.Lock()
	defer r.queue.Unlock()
	n, size := 0, 0
	for n < len(r.waiting) && (n == 0 || size+len(r.waiting[n].items) <= maxTogether) {
		size += len(r.waiting[n].items)
		n++
	}
	out = slices.Clone(r.waiting[:n])
	r.waiting = slices.Delete(r.waiting, 0, n)
	return out
}

func (r *Receiver) finish(err error, all ...*write) {
	for _, w := range all {
		if w.err == nil {
			w.err = err
		}
		close(w.done)
	}
}

// complain notes that the engine takes nothing.
func (r *Receiver) complain(kind source.Kind, name string, err error) {
	brief := "the engine does not take samples"
	if busy := (*engine.UnavailableError)(nil); errors.As(err, &busy) {
		brief = busy.Code
	}
	r.o.Intake.Fails(kind, name, brief, err.Error())
}

// wrongWith notes what is wrong with samples. It ends when it has not happened for long.
func (r *Receiver) wrongWith(what, brief, reason string, now time.Time) {
	if _, had := r.wrong[what]; !had {
		r.o.Intake.Fails(source.TroubleTopic, what, brief, reason)
	}
	r.wrong[what] = now
}

// missing notes what did not come.
func (r *Receiver) missing(now time.Time) {
	for what, at := range r.wrong {
		if now.Sub(at) >= silence {
			r.o.Intake.Works(source.TroubleTopic, what)
			delete(r.wrong, what)
		}
	}
	if at := time.Unix(0, r.received.Load()); now.Sub(at) >= silence {
		r.o.Intake.Fails(source.TroubleConnection, "", "nothing is received",
			"no Prometheus has written anything for "+now.Sub(at).Round(time.Second).String())
		return
	}
	r.o.Intake.Works(source.TroubleConnection, "")
	for _, u := range r.units {
		if now.Sub(u.came) >= max(silence, 3*r.scrape) {
			r.o.Intake.Fails(source.TroubleTopic, u.plan.pair(), "no series has a sample", "no series of "+u.plan.total.ask+
				" has been received: its SLOs are not observed")
		} else {
			r.o.Intake.Works(source.TroubleTopic, u.plan.pair())
		}
	}
}
