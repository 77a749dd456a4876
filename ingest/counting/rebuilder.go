package counting

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sloengine/sloengine/ingest/engine"
	"github.com/sloengine/sloengine/ingest/record"
	"github.com/sloengine/sloengine/reliability/health"
	"github.com/sloengine/sloengine/reliability/metric"
	"github.com/sloengine/sloengine/reliability/retained"
	"github.com/sloengine/sloengine/reliability/retry"
	"github.com/sloengine/sloengine/reliability/wal"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/fold"
)

// RebuildOptions say how definitions get their past.
type RebuildOptions struct {
	Off   bool              // only what earlier ones left is tidied up
	CPU   float64           // share of a core, in (0,1]
	Every time.Duration     // how often it is looked for what waits; 0: a second
	Retry time.Duration     // after a failure; 0: a minute
	Step  func(step string) // called after each step; nil: not called

	Specs   *Specs       // have the definitions that are held; nil: none are
	Metrics *metrics.Set // nil: one of its own
}

// The steps of a rebuild after which tests stop.
const (
	StepRebuildCounted = "rebuild.counted" // nothing is written
	StepRebuildWritten = "rebuild.written" // the file is durable, the log does not name it
	StepRebuildTaken   = "rebuild.taken"   // the counts took over
	StepRebuildRemoved = "rebuild.removed" // files that checkpoints hold are gone
)

// Rebuilder counts definitions from the retained log, one after the other, beside the engine.
type Rebuilder struct {
	*Rebuilds
	o       RebuildOptions
	counts  *Counts
	health  health.Log // of rebuilds
	tidying health.Log

	// Activate puts the definitions that the files have of held SLOs in force, with a record, if still says so. Set it
	// before Run.
	Activate func(ctx context.Context, ids []slo.ID, b record.Rebuilt, still func() bool) error

	mu       sync.Mutex
	now      RebuildProgress           // of the job; no SLOs: there is none
	failures map[string]rebuildFailure // by service, of those that wait; "" is that nothing can be chosen

	perEvent time.Duration // what an event of the history took at the last rebuild; 0: there was none

	checkpoint uint64 // position of the newest one at the last look

	done, failed, records *metrics.Counter
}

// rebuildFailure is that of the last attempt.
type rebuildFailure struct {
	retryAt time.Time
	err     string
}

// RebuildProgress is how far SLOs are with their counts from the retained log.
type RebuildProgress struct {
	SLOs    []string  `json:"slos"` // that are being rebuilt
	Started time.Time `json:"started,omitzero"`
	From    time.Time `json:"from,omitzero"` // receive time of the oldest record
	At      time.Time `json:"at,omitzero"`   // of the last record that was counted
	Share   float64   `json:"share"`         // of the records that were counted, in [0,1]

	Waiting []string `json:"waiting"` // all that have no rebuilt counts yet
	Held    []string `json:"held"`    // those of them whose earlier definition is in force until then
	Failing string   `json:"failing,omitempty"`
}

// NewRebuilder makes one that does nothing until it runs.
func NewRebuilder(r *Rebuilds, o RebuildOptions, counts *Counts) *Rebuilder {
	if o.Step == nil {
		o.Step = func(string) {}
	}
	o.Every, o.Retry = cmp.Or(o.Every, rebuildEvery), cmp.Or(o.Retry, rebuildRetry)
	o.Metrics = cmp.Or(o.Metrics, metrics.NewSet())
	out := &Rebuilder{Rebuilds: r, o: o, counts: counts, failures: map[string]rebuildFailure{},
		health: health.Log{Logger: counts.log, Broken: "rebuilding counts from the retained log failed, retrying",
			Works: "no rebuild of counts from the retained log fails any more"},
		tidying: health.Log{Logger: counts.log, Broken: "removing files of rebuilt counts failed, retrying",
			Works: "files of rebuilt counts are removed again"}}
	out.done, out.failed = metric.Rebuilds.Counter(o.Metrics, "done"), metric.Rebuilds.Counter(o.Metrics, "failed")
	out.records = metric.RebuildRecords.Counter(o.Metrics)
	out.measure(o.Metrics)
	return out
}

// measure defines the gauges.
func (r *Rebuilder) measure(set *metrics.Set) {
	metric.RebuildSLOs.Read(set, func() float64 {
		p := r.Progress()
		if p == nil {
			return 0
		}
		return float64(len(p.Waiting) - len(p.SLOs))
	}, "waiting")
	metric.RebuildSLOs.Read(set, func() float64 {
		r.mu.Lock()
		defer r.mu.Unlock()
		return float64(len(r.now.SLOs))
	}, "running")
}

// Progress is that of the SLOs that are to be rebuilt; nil: there are none.
func (r *Rebuilder) Progress() *RebuildProgress {
	r.mu.Lock()
	p := r.now
	for _, service := range slices.Sorted(maps.Keys(r.failures)) {
		p.Failing = cmp.Or(p.Failing, r.failures[service].err)
	}
	r.mu.Unlock()
	var ids []string
	for _, w := range r.waiting() {
		ids = append(ids, w.Indicator)
	}
	p.Held = []string{}
	if s := r.inForce(); s != nil {
		p.Held = texts(s.Held)
	}
	p.Waiting = sloIDs(slices.Concat(ids, p.Held))
	if len(p.Waiting) == 0 {
		return nil
	}
	p.SLOs = append([]string{}, p.SLOs...)
	return &p
}

// inForce is the spec in force; nil: unknown.
func (r *Rebuilder) inForce() *Spec {
	if r.o.Specs == nil {
		return nil
	}
	return r.o.Specs.InForce()
}

// waiting are the definitions that wait and have a past.
func (r *Rebuilder) waiting() []WaitingSLO {
	if r.o.Off || r.counts.engine.History().Bounds().Age == 0 {
		return nil
	}
	oldest := r.counts.engine.Log().FirstSeq()
	if st := r.counts.engine.History().Stats(); st.Files > 0 {
		oldest = st.First
	}
	r.Rebuilds.mu.Lock()
	defer r.Rebuilds.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(r.state.Waiting), func(w WaitingSLO) bool { return w.Seq <= oldest })
}

const (
	rebuildEvery = time.Second
	rebuildRetry = time.Minute
	rebuildSlice = 5 * time.Millisecond // of work between rests
)

// ErrNotWanted means that the definitions that are being rebuilt are not wanted any more.
var ErrNotWanted = errors.New("the definition changed, or the rebuild was canceled")

// Run rebuilds what waits, until ctx ends.
func (r *Rebuilder) Run(ctx context.Context) error {
	r.tidying.Note(r.remove(0))
	tick := time.NewTicker(r.o.Every)
	defer tick.Stop()
	for ctx.Err() == nil {
		r.once(ctx)
		if err := r.tidy(); ctx.Err() == nil {
			r.tidying.Note(err)
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
	return nil
}

// Failing says since when counts cannot be rebuilt, or their files not be removed, and what follows; the zero time if
// all works.
func (r *Rebuilder) Failing() (since time.Time, reason string) {
	if f := r.health.Failure(); f.Count > 0 {
		return f.Since, "SLOs cannot be counted from the retained log, earlier definitions stay in force; " +
			"it is tried again each minute"
	}
	if f := r.tidying.Failure(); f.Count > 0 {
		return f.Since, "files of rebuilt counts cannot be removed and take up space"
	}
	return time.Time{}, ""
}

// Takes estimates how long a rebuild of the SLOs of one service takes, from the last one if the history was long enough
// to tell; 0 if there will be none.
func (r *Rebuilder) Takes() time.Duration {
	if r.o.Off || r.counts.engine.History().Bounds().Age == 0 {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	one := cmp.Or(r.perEvent, time.Duration(float64(perEventOfCore)/r.o.CPU))
	return one * time.Duration(r.counts.engine.History().Stats().Events)
}

// perEventOfCore is what an event of a history takes of a core, see BenchmarkRebuild. A rebuild of minTimed events is
// long enough to be measured.
const (
	perEventOfCore = time.Microsecond
	minTimed       = 100_000
)

// tidy deletes files once two checkpoints hold their counts: a start may have to take the older one.
func (r *Rebuilder) tidy() error {
	at := r.counts.engine.Health().Checkpoint.Position
	if at == r.checkpoint && !r.tidying.Failing() {
		return nil
	}
	if older := r.checkpoint; older > 0 {
		err := r.remove(older + 1)
		r.o.Step(StepRebuildRemoved)
		if err != nil {
			return err
		}
	}
	r.checkpoint = at
	return nil
}

// once rebuilds the SLOs of one service, if some wait.
func (r *Rebuilder) once(ctx context.Context) {
	j, err := r.choose(ctx)
	if ctx.Err() != nil {
		return
	}
	if err != nil || j == nil {
		r.noteResult("", err)
		return
	}
	r.noteResult("", nil)
	began := time.Now()
	r.mu.Lock()
	r.now = RebuildProgress{SLOs: sloIDs(slices.Concat(j.ids, texts(j.held))), Started: began.UTC()}
	r.mu.Unlock()
	err = r.run(ctx, j)
	r.mu.Lock()
	r.now = RebuildProgress{}
	r.mu.Unlock()
	switch slos := sloIDs(j.ids); {
	case ctx.Err() != nil && err != nil:
	case errors.Is(err, ErrNotWanted):
		r.counts.log.Info("rebuild canceled", "cause", err.Error(), "slos", nameList(slos))
	case err != nil:
		r.noteResult(j.service, err)
		r.failed.Add(len(slos))
	default:
		r.noteResult(j.service, nil)
		r.done.Add(len(slos))
		r.counts.log.Info("SLOs have the counts of the retained log", "slos", nameList(slos), "seconds",
			time.Since(began).Seconds())
	}
}

// noteResult notes how an attempt went. What does not wait any more does not fail.
func (r *Rebuilder) noteResult(service string, err error) {
	waits := map[string]bool{"": true}
	if p := r.Progress(); p != nil {
		for _, id := range p.Waiting {
			waits[slo.ID(id).Service()] = true
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.failures, service)
	if err != nil {
		r.failures[service] = rebuildFailure{time.Now().Add(r.o.Retry), err.Error()}
	}
	maps.DeleteFunc(r.failures, func(service string, _ rebuildFailure) bool { return !waits[service] })
	if err != nil || len(r.failures) == 0 {
		r.health.Note(err)
	}
}

func (r *Rebuilder) run(ctx context.Context, j *job) error {
	if len(j.ids) == 0 { // their counts are parked, and need no past
		return r.Activate(ctx, j.held, record.Rebuilt{Kind: record.RebuiltCanceled, Indicators: texts(j.held)},
			func() bool { return r.same(j, nil) })
	}
	lone, err := fold.NewLone(j.cfg, j.ids)
	if err != nil {
		return err
	}
	return r.rebuild(ctx, j, lone)
}

// rebuild reads the log from its oldest record to its end, and lets the counts take over.
func (r *Rebuilder) rebuild(ctx context.Context, j *job, lone *fold.Lone) (err error) {
	l := newLoneFold(lone, 0)
	reader, err := r.source.NewReader(retained.Query{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, reader.Close()) }()
	began, events := time.Now(), r.counts.engine.History().Stats().Events
	first, err := r.read(ctx, l, reader, j)
	if err != nil {
		return err
	}
	if events >= minTimed {
		r.mu.Lock()
		r.perEvent = time.Since(began) / time.Duration(events)
		r.mu.Unlock()
	}
	r.o.Step(StepRebuildCounted)
	// From here on the log stays, and a last look at it keeps the work at the takeover small.
	r.keep(l.next)
	defer r.keep(0)
	if _, err := r.read(ctx, l, reader, j); err != nil {
		return err
	}
	b, err := r.write(l, first)
	if err != nil {
		return err
	}
	b.Indicators = j.ids
	r.o.Step(StepRebuildWritten)
	r.Rebuilds.mu.Lock()
	r.files[b.File], r.ready = true, &readyCounts{b.File, l}
	r.Rebuilds.mu.Unlock()
	err = r.takeOverBy(ctx, &b, j)
	r.Rebuilds.mu.Lock()
	r.ready = nil
	if errors.Is(err, engine.ErrStopping) || ctx.Err() != nil {
		delete(r.files, b.File) // the record may be in the log: the next start knows, and must have the file
	}
	r.Rebuilds.mu.Unlock()
	if err != nil {
		return err
	}
	r.o.Step(StepRebuildTaken)
	return nil
}

// takeOverBy writes the record of the takeover, unless another configuration is in force or wanted by now. While the
// engine cannot write, it tries again: the work is done.
func (r *Rebuilder) takeOverBy(ctx context.Context, b *record.Rebuilt, j *job) error {
	for {
		err := r.takeOverOnce(ctx, b, j)
		var busy *engine.UnavailableError
		if !errors.As(err, &busy) && !errors.Is(err, engine.ErrConfigChanged) {
			return err
		}
		if !retry.Sleep(ctx, r.o.Every) {
			return context.Cause(ctx)
		}
	}
}

func (r *Rebuilder) takeOverOnce(ctx context.Context, b *record.Rebuilt, j *job) error {
	if j.wanted != nil {
		return r.Activate(ctx, j.held, *b, func() bool { return r.same(j, nil) })
	}
	eng := r.counts.engine
	var basis uint64
	same := false
	if err := eng.Do(ctx, func() { basis, same = eng.Position(), r.same(j, r.counts.fold.Config()) }); err != nil {
		return err
	}
	if !same {
		return ErrNotWanted
	}
	return eng.TakeOver(ctx, *b, nil, basis)
}

func (r *Rebuilder) keep(from uint64) {
	r.Rebuilds.mu.Lock()
	defer r.Rebuilds.mu.Unlock()
	r.from = from
}

// read counts records up to the end of the log, and returns the first of them.
func (r *Rebuilder) read(ctx context.Context, l *loneFold, reader *retained.Reader, j *job) (first uint64,
	err error) {
	progress := RebuildProgress{SLOs: sloIDs(j.ids), Started: time.Now().UTC()}
	var rec wal.Record
	var noted time.Time
	for began := time.Now(); ; {
		ok, err := reader.Next(&rec)
		if err != nil {
			return 0, fmt.Errorf("read the log: %w", err)
		}
		if !ok {
			return first, nil
		}
		if first == 0 {
			first = rec.Seq
			progress.From = time.Unix(0, rec.Time).UTC()
		}
		if l.next == 0 {
			if err := l.lone.Configure(r.servicesAt(rec.Seq), rec.Time); err != nil {
				return 0, fmt.Errorf("services at record %d: %w", rec.Seq, err)
			}
		}
		l.apply(&rec)
		r.records.Inc()
		worked := time.Since(began)
		if worked < rebuildSlice {
			continue
		}
		if time.Since(noted) > rebuildEvery {
			noted = time.Now()
			if err := r.note(ctx, &progress, &rec, first, j); err != nil {
				return 0, err
			}
		}
		if !retry.Sleep(ctx, r.o.rest(worked)) {
			return 0, context.Cause(ctx)
		}
		began = time.Now()
	}
}

// rest is the time to wait after some work.
func (o *RebuildOptions) rest(worked time.Duration) time.Duration {
	return time.Duration(float64(worked) * (1 - o.CPU) / o.CPU)
}

// note publishes the progress, and fails if the definitions are no longer in force.
func (r *Rebuilder) note(ctx context.Context, p *RebuildProgress, rec *wal.Record, first uint64, j *job) error {
	same := true
	err := r.counts.engine.Do(ctx, func() { same = r.same(j, r.counts.fold.Config()) })
	if err != nil {
		return err
	}
	if !same {
		return ErrNotWanted
	}
	now := *p
	now.At = time.Unix(0, rec.Time).UTC()
	now.Share = float64(rec.Seq-first) / float64(max(1, r.counts.engine.Position()-first))
	now.Share = min(now.Share, 1)
	r.mu.Lock()
	r.now = now
	r.mu.Unlock()
	return nil
}
