package counting

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/sloengine/sloengine/ingest/engine"
	"github.com/sloengine/sloengine/ingest/record"
	"github.com/sloengine/sloengine/reliability/health"
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
	Step  func(step string) // called after each step; nil: not called
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
	o      RebuildOptions
	counts *Counts
	health health.Log

	mu      sync.Mutex
	now     *RebuildProgress
	retryAt map[string]time.Time // by service

	checkpoint uint64 // position of the newest one at the last look
}

// RebuildProgress is that of the SLOs that are being rebuilt.
type RebuildProgress struct {
	SLOs    []string  `json:"slos"`
	Started time.Time `json:"started"`
	From    time.Time `json:"from"`  // receive time of the oldest record
	At      time.Time `json:"at"`    // of the last record that was counted
	Share   float64   `json:"share"` // of the records that were counted, in [0,1]
}

// NewRebuilder makes one that does nothing until it runs.
func NewRebuilder(r *Rebuilds, o RebuildOptions, counts *Counts) *Rebuilder {
	if o.Step == nil {
		o.Step = func(string) {}
	}
	o.Every = cmp.Or(o.Every, rebuildEvery)
	return &Rebuilder{Rebuilds: r, o: o, counts: counts, retryAt: map[string]time.Time{},
		health: health.Log{Logger: counts.log, Broken: "rebuilding counts from the retained log failed, retrying",
			Works: "rebuilding counts from the retained log succeeds again"}}
}

// Progress is that of the rebuild at work; nil: there is none.
func (r *Rebuilder) Progress() *RebuildProgress {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.now
}

const (
	rebuildEvery = time.Second
	rebuildRetry = time.Minute
	rebuildSlice = 5 * time.Millisecond // of work between rests
)

// errOtherConfig means that the definitions that are being rebuilt are not in force any more.
var errOtherConfig = errors.New("the definition changed")

// Run rebuilds what waits, until ctx ends.
func (r *Rebuilder) Run(ctx context.Context) error {
	if err := r.remove(0); err != nil {
		r.health.Note(err)
	}
	tick := time.NewTicker(r.o.Every)
	defer tick.Stop()
	for ctx.Err() == nil {
		if err := r.once(ctx); err != nil && ctx.Err() == nil && !errors.Is(err, errOtherConfig) {
			r.health.Note(err)
		}
		if err := r.tidy(); err != nil {
			r.health.Note(err)
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
	return nil
}

// tidy deletes files once two checkpoints hold their counts: a start may have to take the older one.
func (r *Rebuilder) tidy() error {
	at := r.counts.engine.Health().Checkpoint.Position
	if at == r.checkpoint {
		return nil
	}
	older := r.checkpoint
	r.checkpoint = at
	if older == 0 {
		return nil
	}
	err := r.remove(older + 1)
	r.o.Step(StepRebuildRemoved)
	return err
}

// once rebuilds the SLOs of one service, if some wait.
func (r *Rebuilder) once(ctx context.Context) error {
	if r.o.Off || r.counts.engine.History().Bounds().Age == 0 {
		return nil
	}
	cfg, ids, err := r.choose(ctx)
	if err != nil || len(ids) == 0 {
		return err
	}
	lone, err := fold.NewLone(cfg, ids)
	if err != nil {
		return err
	}
	began := time.Now()
	err = r.rebuild(ctx, cfg, lone, ids)
	r.mu.Lock()
	r.now = nil
	if err != nil && !errors.Is(err, errOtherConfig) {
		r.retryAt[lone.Service()] = time.Now().Add(rebuildRetry)
	}
	r.mu.Unlock()
	switch {
	case err == nil:
		r.health.Note(nil)
		r.counts.log.Info("SLOs have the counts of the retained log", "slos", nameList(sloIDs(ids)), "seconds",
			time.Since(began).Seconds())
	case errors.Is(err, errOtherConfig):
		r.counts.log.Info("rebuild canceled, the definition changed", "slos", nameList(sloIDs(ids)))
	}
	return err
}

// choose picks the indicators of one service that wait and have a past.
func (r *Rebuilder) choose(ctx context.Context) (cfg *fold.Config, ids []string, err error) {
	r.Rebuilds.mu.Lock()
	waiting := slices.Clone(r.state.Waiting)
	r.Rebuilds.mu.Unlock()
	if len(waiting) == 0 {
		return nil, nil, nil
	}
	oldest := r.counts.engine.Log().FirstSeq()
	if st := r.counts.engine.History().Stats(); st.Files > 0 {
		oldest = st.First
	}
	if err := r.counts.engine.Do(ctx, func() { cfg = r.counts.fold.Config() }); err != nil {
		return nil, nil, err
	}
	service := ""
	for _, w := range waiting {
		of := slo.ID(w.Indicator).Service()
		r.mu.Lock()
		wait := time.Now().Before(r.retryAt[of])
		r.mu.Unlock()
		if w.Seq <= oldest || wait || service != "" && of != service {
			continue
		}
		service = of
		ids = append(ids, w.Indicator)
	}
	return cfg, ids, nil
}

// rebuild reads the log from its oldest record to its end, and lets the counts take over.
func (r *Rebuilder) rebuild(ctx context.Context, cfg *fold.Config, lone *fold.Lone, ids []string) (err error) {
	l := newLoneFold(lone, 0)
	reader, err := r.source.NewReader(retained.Query{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, reader.Close()) }()
	first, err := r.read(ctx, l, reader, cfg, ids)
	if err != nil {
		return err
	}
	r.o.Step(StepRebuildCounted)
	// From here on the log stays, and a last look at it keeps the work at the takeover small.
	r.keep(l.next)
	defer r.keep(0)
	if _, err := r.read(ctx, l, reader, cfg, ids); err != nil {
		return err
	}
	b, err := r.write(l, first)
	if err != nil {
		return err
	}
	b.Indicators = ids
	r.o.Step(StepRebuildWritten)
	r.Rebuilds.mu.Lock()
	r.files[b.File], r.ready = true, &readyCounts{b.File, l}
	r.Rebuilds.mu.Unlock()
	err = r.takeOverBy(ctx, &b, cfg)
	r.Rebuilds.mu.Lock()
	r.ready = nil
	r.Rebuilds.mu.Unlock()
	if err != nil {
		return err
	}
	r.o.Step(StepRebuildTaken)
	return nil
}

// takeOverBy writes the record of the takeover, unless another configuration is in force by now. While the engine
// cannot write, it tries again: the work is done.
func (r *Rebuilder) takeOverBy(ctx context.Context, b *record.Rebuilt, cfg *fold.Config) error {
	eng := r.counts.engine
	for {
		var basis uint64
		same := false
		err := eng.Do(ctx, func() {
			basis, same = eng.Position(), sameIndicators(cfg, r.counts.fold.Config(), b.Indicators)
		})
		if err == nil && !same {
			return errOtherConfig
		}
		if err == nil {
			err = eng.TakeOver(ctx, *b, basis)
		}
		var busy *engine.UnavailableError
		if !errors.As(err, &busy) && !errors.Is(err, engine.ErrConfigChanged) {
			return err
		}
		if !retry.Sleep(ctx, r.o.Every) {
			return context.Cause(ctx)
		}
	}
}

func (r *Rebuilder) keep(from uint64) {
	r.Rebuilds.mu.Lock()
	defer r.Rebuilds.mu.Unlock()
	r.from = from
}

// sameIndicators reports whether two configurations count the same for some indicators, and as long.
func sameIndicators(a, b *fold.Config, ids []string) bool {
	of := func(c *fold.Config, id string) *fold.Indicator {
		for i := range c.Indicators {
			if c.Indicators[i].ID == id {
				return &c.Indicators[i]
			}
		}
		return nil
	}
	other := func(id string) bool { return !reflect.DeepEqual(of(a, id), of(b, id)) }
	return a == b || !slices.ContainsFunc(ids, other)
}

// read counts records up to the end of the log, and returns the first of them.
func (r *Rebuilder) read(ctx context.Context, l *loneFold, reader *retained.Reader, cfg *fold.Config,
	ids []string) (first uint64, err error) {
	progress := RebuildProgress{SLOs: sloIDs(ids), Started: time.Now().UTC()}
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
		worked := time.Since(began)
		if worked < rebuildSlice {
			continue
		}
		if time.Since(noted) > rebuildEvery {
			noted = time.Now()
			if err := r.note(ctx, &progress, &rec, first, cfg, ids); err != nil {
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
func (r *Rebuilder) note(ctx context.Context, p *RebuildProgress, rec *wal.Record, first uint64, cfg *fold.Config,
	ids []string) error {
	same := true
	err := r.counts.engine.Do(ctx, func() { same = sameIndicators(cfg, r.counts.fold.Config(), ids) })
	if err != nil {
		return err
	}
	if !same {
		return errOtherConfig
	}
	now := *p
	now.At = time.Unix(0, rec.Time).UTC()
	now.Share = float64(rec.Seq-first) / float64(max(1, r.counts.engine.Position()-first))
	now.Share = min(now.Share, 1)
	r.mu.Lock()
	r.now = &now
	r.mu.Unlock()
	return nil
}
