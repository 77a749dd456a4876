package reports

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sloengine/sloengine/alerts/incident"
	"github.com/sloengine/sloengine/ingest/counting"
	"github.com/sloengine/sloengine/ingest/engine"
	"github.com/sloengine/sloengine/ingest/position"
	"github.com/sloengine/sloengine/ingest/record"
	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/reliability/retained"
	"github.com/sloengine/sloengine/reliability/retry"
	"github.com/sloengine/sloengine/reliability/wal"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/sla/annotation"
	"github.com/sloengine/sloengine/sla/evaluator"
	"github.com/sloengine/sloengine/sla/report"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/fold"
	"github.com/sloengine/sloengine/slo/spec"
	"github.com/sloengine/sloengine/web/api"
	"github.com/sloengine/sloengine/web/site"
)

// AsOf calls do with the report of a fold, and with the fold as the source of a report on a period. The same records
// give the same.
func AsOf(ctx context.Context, f *fold.Fold, in evaluator.Inputs, at time.Time,
	do func(*sla.Report, report.Source) error) error {
	e, err := evaluator.New(evaluator.Options{
		Source: func(_ context.Context, req fold.Request) (*fold.Sums, error) { return f.Sums(req), nil },
	})
	if err != nil {
		return err
	}
	if err := e.SetSpec(in); err != nil {
		return err
	}
	rep, err := e.Tick(ctx, at)
	if err != nil {
		return err
	}
	return do(rep, report.Source{
		Counts: func(_ context.Context, q []fold.ReadRequest) ([]fold.ReadResult, error) { return f.Read(q), nil },
		Kept:   func(_ context.Context, ids []string, sp slo.Span) ([]float64, error) { return f.Kept(ids, sp), nil },
	})
}

// Past makes reports of the retained log of an engine.
type Past struct {
	Source *retained.Source
	Spec   *spec.Spec // that was in force before the first one of the log; nil: the first one

	Annotations []annotation.Annotation // those there are now
}

// OpenPast reads the data directory of an engine, which may be running.
func OpenPast(dataDir string) (*Past, error) {
	source, err := engine.OpenLog(fsys.OS(), dataDir)
	if err != nil {
		return nil, err
	}
	p := &Past{Source: source}
	p.Annotations, err = annotation.Read(filepath.Join(dataDir, AnnotationsFile))
	return p, err
}

func (p *Past) annotations(service string, sp slo.Span) []annotation.Annotation {
	return annotation.Select(p.Annotations, service, sp)
}

// Known is how much of the past the log holds.
type Known struct {
	First uint64    // its oldest record
	Since time.Time // when that was received
	Last  uint64    // the newest one that was read
	End   time.Time // when that was received
	// Rebuilt are the SLOs whose counts were replaced by rebuilt ones.
	Rebuilt map[slo.ID]Takeover
}

// Takeover is the record at which rebuilt counts replaced earlier ones.
type Takeover struct {
	SLO   slo.ID `json:"slo"`
	Seq   uint64 `json:"record"`
	First uint64 `json:"counted_from_record"`
	Why   string `json:"not_computed,omitempty"` // "": the counts were made again, with the hash of the takeover
}

// lost are the SLOs whose rebuilt counts could not be made again.
func (k *Known) lost(id slo.ID) bool { return k.Rebuilt[id].Why != "" }

func (k *Known) anyLost() bool {
	for id := range k.Rebuilt {
		if k.lost(id) {
			return true
		}
	}
	return false
}

func (k *Known) rebuilt(id slo.ID) string {
	x := k.Rebuilt[id]
	return fmt.Sprintf("counts of %s, which were rebuilt at record %d: %s", id, x.Seq, x.Why)
}

// Lost says which counts could not be made again; "" if all were.
func (k *Known) Lost(from time.Time) string {
	switch {
	case !k.Covers(from):
		return fmt.Sprintf("counts before %s cannot be computed: record %d is the oldest that is retained",
			k.Since.Format(time.RFC3339), k.First)
	case k.anyLost():
		return "counts that were rebuilt from the log cannot be computed"
	}
	return ""
}

// Covers reports whether the log holds all events of a period.
func (k *Known) Covers(from time.Time) bool { return k.First == 1 || !from.Before(k.Since) }

// ErrNoSpec means that the log does not say which spec was in force.
var ErrNoSpec = errors.New("the log does not hold the spec that was in force: name it with -f")

// lane is a fold of the log.
type lane struct {
	state  counting.FoldState
	spec   *spec.Spec
	frozen bool // it keeps its spec
}

// walk is a way through the log.
type walk struct {
	Known
	ctx    context.Context
	source *retained.Source
	begun  *fold.Config // of the first record
	lanes  []*lane
	rules  []uint64 // config records behind the position of the report
}

// walk folds the log up to a position with as many folds, and continues to its end if further is set: the first fold
// keeps its spec there. stop is called at the position.
func (p *Past) walk(ctx context.Context, folds int, to uint64, further bool,
	stop func(*walk) error) (_ *walk, err error) {
	first, err := p.firstSpec(ctx)
	if err == nil {
		err = p.await(ctx, to)
	}
	if err != nil {
		return nil, err
	}
	w := &walk{ctx: ctx, source: p.Source, Known: Known{Rebuilt: map[slo.ID]Takeover{}}}
	for range folds {
		f, err := fold.New(fold.Options{})
		if err != nil {
			return nil, err
		}
		w.lanes = append(w.lanes, &lane{spec: first, state: counting.FoldState{Fold: f, Incidents: incident.NewBook(),
			Positions: position.NewBook()}})
	}
	q := retained.Query{}
	if !further && to != 0 {
		q.To = to + 1
	}
	stopped := false
	halt := func() error {
		if stopped {
			return nil
		}
		stopped = true
		w.lanes[0].frozen = true
		return stop(w)
	}
	for rec, err := range p.Source.Records(ctx, q) {
		if err != nil {
			return nil, err
		}
		if to != 0 && rec.Seq > to {
			if err := halt(); err != nil {
				return nil, err
			}
		}
		if err := w.apply(rec, stopped); err != nil {
			return nil, fmt.Errorf("record %d: %w", rec.Seq, err)
		}
	}
	if w.Last < to {
		return nil, fmt.Errorf("%w: the log ends with record %d, before %d", retained.ErrNotRetained, w.Last, to)
	}
	return w, halt()
}

// await waits a moment for a record: the folder of a running engine says a little later how far its log is durable.
func (p *Past) await(ctx context.Context, seq uint64) error {
	for n := 0; seq != 0 && n < 30; n++ {
		for _, err := range p.Source.Records(ctx, retained.Query{From: seq, To: seq + 1}) {
			return err
		}
		if !retry.Sleep(ctx, 100*time.Millisecond) {
			break
		}
	}
	return context.Cause(ctx)
}

func (w *walk) apply(rec *wal.Record, behind bool) error {
	at := time.Unix(0, rec.Time).UTC()
	begins := w.First == 0
	if begins {
		w.First, w.Since = rec.Seq, at
	}
	w.Last, w.End = rec.Seq, at
	if rec.Type == record.TypeRebuilt {
		b, err := record.ParseRebuilt(rec.Payload)
		if err != nil {
			return err
		}
		if b.Kind == record.RebuiltTaken {
			if err := w.takeOver(rec, &b, behind); err != nil {
				return err
			}
		}
	}
	if rec.Type == record.TypeConfig && behind {
		w.rules = append(w.rules, rec.Seq)
	}
	if begins {
		first, err := evaluator.Compile(counting.Inputs(w.lanes[0].spec))
		if err != nil {
			return err
		}
		w.begun = first
	}
	for _, l := range w.lanes {
		if begins && rec.Type != record.TypeConfig {
			cfg, err := evaluator.Compile(counting.Inputs(l.spec))
			if err != nil {
				return err
			}
			l.state.Fold.Advance(rec.Time, fold.Tick)
			if err := l.state.Fold.SetConfig(cfg, rec.Time); err != nil {
				return err
			}
		}
		if rec.Type == record.TypeConfig {
			if l.frozen {
				l.state.Fold.Advance(rec.Time, fold.Tick)
				continue
			}
			sp, err := specIn(rec.Payload)
			if err != nil {
				return err
			}
			if sp != nil {
				l.spec = sp
			}
		}
		// What the engine could not apply it could not count.
		_ = l.state.Apply(*rec, func(int, []byte, string) {})
	}
	return nil
}

// takeOver makes rebuilt counts again. A fold that keeps its spec keeps its counts, too: those that take over are of
// another definition.
func (w *walk) takeOver(rec *wal.Record, b *record.Rebuilt, behind bool) error {
	why := ""
	last := w.lanes[len(w.lanes)-1]
	again, err := counting.Remake(w.ctx, w.source, b, rec.Seq, w.begun, last.state.Fold.Config())
	switch {
	case w.ctx.Err() != nil:
		return context.Cause(w.ctx)
	case err != nil:
		why = err.Error()
	}
	for _, l := range w.lanes {
		if l.state.Fold.Advance(rec.Time, fold.Tick); why != "" || behind && l.frozen {
			continue
		}
		made, err := again()
		if err == nil {
			err = l.state.Fold.TakeOver(made)
		}
		if err != nil {
			return fmt.Errorf("rebuilt counts: %w", err)
		}
	}
	for _, ind := range b.Indicators {
		id, _, _ := strings.Cut(ind, "#")
		w.Rebuilt[slo.ID(id)] = Takeover{SLO: slo.ID(id), Seq: rec.Seq, First: b.First, Why: why}
	}
	return nil
}

// specIn is the spec of a config record; nil if an earlier version wrote it.
func specIn(payload []byte) (*spec.Spec, error) {
	text, err := counting.SpecOf(payload)
	if err != nil || text == "" {
		return nil, err
	}
	sp, problems := spec.Load([]spec.File{{Name: "spec of the log", Data: []byte(text)}})
	return sp, problems.Err()
}

// firstSpec is the one to begin with.
func (p *Past) firstSpec(ctx context.Context) (_ *spec.Spec, err error) {
	if p.Spec != nil {
		return p.Spec, nil
	}
	for rec, err := range p.Source.Records(ctx, retained.Query{}) {
		if err != nil {
			return nil, err
		}
		if rec.Type == record.TypeConfig {
			sp, err := specIn(rec.Payload)
			if err == nil && sp == nil {
				err = ErrNoSpec
			}
			return sp, err
		}
	}
	return nil, ErrNoSpec
}

// Report makes the report on a period as of a position, 0 for the end of the log, and of the time of the last record.
func (p *Past) Report(ctx context.Context, ask report.Query, at uint64) (out *api.WrittenReport, k Known, err error) {
	w, err := p.walk(ctx, 1, at, false, func(w *walk) error {
		var err error
		out, err = w.lanes[0].written(ctx, p.Source, w, ask, time.Time{}, func(from *report.Source) {
			// Deployments are not in the log: with them the same records would not give the same.
			from.LedgerOptions.Accounts = slices.DeleteFunc(slices.Clone(slo.LedgerOrder),
				func(a slo.Account) bool { return a == slo.AccountDeployment })
		})
		return err
	})
	if err != nil {
		return nil, k, err
	}
	return out, w.Known, nil
}

// written is a report of the fold. add completes its source by what does not follow from the log.
func (l *lane) written(ctx context.Context, source *retained.Source, w *walk, ask report.Query, when time.Time,
	add func(*report.Source)) (out *api.WrittenReport, err error) {
	seal := &report.Seal{Position: w.Last, Evaluated: when}
	if when.IsZero() {
		seal.Evaluated = w.End
	}
	sum, err := source.Digest(ctx, seal.Position)
	if err == nil {
		seal.Digest = sum.String()
	} else if !errors.Is(err, retained.ErrNotRetained) {
		return nil, fmt.Errorf("digest of the log: %w", err)
	}
	err = AsOf(ctx, l.state.Fold, counting.Inputs(l.spec), seal.Evaluated,
		func(rep *sla.Report, from report.Source) (err error) {
			from.Incidents = site.IncidentsOf(l.state.Incidents.View(), seal.Evaluated,
				func(inc *incident.Incident) []incident.Spent { return inc.Spent })
			add(&from)
			out, err = api.WriteSealed(ctx, from, rep, ask, seal)
			return err
		})
	return out, err
}
