package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sloengine/sloengine/cmd/sloengine/app/config"
	"github.com/sloengine/sloengine/ingest/counting"
	"github.com/sloengine/sloengine/ingest/record"
	"github.com/sloengine/sloengine/reliability/metric"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/spec"
	"github.com/sloengine/sloengine/web/status"
)

// reloadedSections are the sections of engine.yaml that a reload puts in force. The policies are
// those of the sinks, each of which has its own.
var reloadedSections = []string{"alerts", "notifications", "smtp", "reports", "redact", "budgets", "limits", "sources",
	"sinks", "retry", "breaker", "bulkhead", "timeout"}

// reloader reads spec files, tokens and engine.yaml again. It reads and compares all of them
// before it changes anything, so after an error everything is as it was.
type reloader struct {
	opt      Options
	start    settings // config is in force where a reload does not reach
	parts    parts
	mu       sync.Mutex                   // one reload at a time
	failed   atomic.Pointer[failedReload] // nil after a reload that worked
	failures *metrics.Counter
	config   *config.Config // of the last reload; nil: that of the start
}

// failedReload is the last reload, if it changed nothing.
type failedReload struct {
	at       time.Time
	err      error
	problems spec.Problems
}

func newFailedReload(err error) *failedReload {
	f := &failedReload{at: time.Now(), err: err}
	var broken *spec.InvalidError
	if errors.As(err, &broken) {
		f.problems = broken.Problems
	}
	return f
}

func newReloader(opt Options, start settings, p parts, set *metrics.Set) *reloader {
	r := &reloader{opt: opt, start: start, parts: p, failures: metric.ReloadFailures.Counter(set)}
	metric.ReloadLastOK.Read(set, func() float64 {
		if r.failed.Load() != nil {
			return 0
		}
		return 1
	})
	return r
}

// reload reads everything, puts it in force, and remembers for page and metrics how that went.
func (r *reloader) reload(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	next, err := r.read(ctx)
	if err == nil {
		err = r.apply(ctx, next)
	}
	if err == nil {
		r.failed.Store(nil)
		r.opt.Log.Info("reloaded", "hash", next.spec.Hash, "slos", len(next.spec.Spec.SLOs))
		r.noteInForce(ctx, next.spec, nil)
		return nil
	}
	failed := newFailedReload(err)
	r.failed.Store(failed)
	r.failures.Inc()
	r.opt.Log.Error("reload failed, keeping the old spec", "err", err, "problems", failed.problems)
	return err
}

// readFiles is what the files say now, ready to be put in force.
type readFiles struct {
	spec        *counting.Spec // with earlier definitions of SLOs that wait to be rebuilt
	settings    []func()       // cannot fail
	config      *config.Config
	needRestart []string // sections of engine.yaml that changed and stay as they are
}

// read changes nothing.
func (r *reloader) read(ctx context.Context) (next readFiles, err error) {
	if next.spec, err = r.start.specs.Read(); err != nil {
		return next, err
	}
	if next.spec, err = r.holding(ctx, next.spec); err != nil {
		return next, err
	}
	settings, err := r.opt.LoadConfig()
	if err != nil {
		return next, err
	}
	if err := settings.StartProblems(Known(next.spec.Spec), DataDir(r.opt.DataDir)).Err(); err != nil {
		return next, err
	}
	prepare := []func() (func(), error){
		func() (func(), error) { return r.prepareAlerts(&settings, next.spec.Spec) },
		func() (func(), error) { return r.parts.reports.Prepare(&settings) },
		func() (func(), error) { return r.parts.intake.redaction.Prepare(&settings) },
		func() (func(), error) { return func() { r.parts.intake.budgets.Set(settings.ServiceBudgets()) }, nil },
		func() (func(), error) { return r.parts.intake.rates.Prepare(&settings) },
		func() (func(), error) { return r.parts.sinks.prepare(settings.Sinks) },
		func() (func(), error) { return r.parts.sources.Prepare(settings.Sources) },
	}
	if tokens := r.start.config.Auth.TokensFile; tokens != "" {
		prepare = append(prepare, func() (func(), error) { return r.parts.intake.auth.PrepareTokens(tokens) })
	}
	for _, p := range prepare {
		apply, err := p()
		if err != nil {
			return next, err
		}
		next.settings = append(next.settings, apply)
	}
	next.config = &settings
	next.needRestart = slices.DeleteFunc(r.start.config.Changed(&settings), func(section string) bool {
		return slices.Contains(reloadedSections, section)
	})
	return next, nil
}

// prepareAlerts makes what settings and a spec say about notifications.
func (r *reloader) prepareAlerts(settings *config.Config, in *spec.Spec) (apply func(), err error) {
	linked := *settings
	linked.Web = r.start.config.Web // in force until a restart
	return r.parts.alerts.prepare(&linked, in)
}

// holding is the spec to put in force where the files say next.
func (r *reloader) holding(ctx context.Context, next *counting.Spec) (*counting.Spec, error) {
	eng := r.parts.storage.engine
	select {
	case <-eng.Ready():
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for the engine: %w", context.Cause(ctx))
	}
	held, err := r.parts.evaluation.parking.Generations(ctx)
	if err != nil {
		return nil, fmt.Errorf("compare spec: %w", err)
	}
	return r.parts.evaluation.rebuilds.Holding(next, r.start.specs.InForce().Spec, held), nil
}

// activate puts definitions of the files in force for SLOs that had their earlier definitions until now, together with
// a record on their counts, if still says so.
func (r *reloader) activate(ctx context.Context, ids []slo.ID, b record.Rebuilt, still func() bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !still() {
		return counting.ErrNotWanted
	}
	next, err := r.start.specs.InForce().Released(ids)
	if err != nil {
		return err
	}
	notify, err := r.prepareAlerts(cmp.Or(r.config, &r.start.config), next.Spec)
	if err != nil {
		return err
	}
	eng, counts := r.parts.storage.engine, r.parts.evaluation.counts
	var taken error
	err = r.parts.evaluation.Change(next.Inputs, func() error {
		taken = eng.TakeOver(ctx, b, next.Encoded, eng.Position())
		if taken != nil && !counts.InForce(ctx, next) {
			return taken
		}
		return nil
	})
	if err != nil {
		return err
	}
	r.start.specs.Use(next)
	notify()
	var rebuilt []string
	if taken == nil && b.Kind == record.RebuiltTaken {
		rebuilt = b.Indicators
	}
	r.noteInForce(ctx, next, rebuilt)
	return taken
}

// noteInForce tells of a spec that is in force, with indicators that have the counts of the retained log.
func (r *reloader) noteInForce(ctx context.Context, now *counting.Spec, rebuilt []string) {
	if err := r.parts.annotations.InForce(now.Hash); err != nil {
		r.opt.Log.Error("change of the spec is not annotated", "err", err)
	}
	if err := r.parts.evaluation.changes.Note(ctx, rebuilt); err != nil {
		r.opt.Log.Error("effects of the spec change are unknown", "err", err)
	}
}

// begin evaluates the spec that is in force at the start: earlier definitions of SLOs may be.
func (r *reloader) begin(ctx context.Context) error {
	r.mu.Lock()
	now := r.start.specs.InForce()
	if now != r.start.first && r.config == nil {
		notify, err := r.prepareAlerts(&r.start.config, now.Spec)
		if err == nil {
			err = r.parts.evaluation.SetSpec(now.Inputs)
		}
		if err != nil {
			r.mu.Unlock()
			return fmt.Errorf("evaluate spec: %w", err)
		}
		notify()
	}
	r.noteInForce(ctx, now, nil)
	r.mu.Unlock()
	return r.parts.evaluation.Run(ctx)
}

// apply puts the spec in force by a record of the log, so that a replay changes it at the same
// place. Then nothing can fail any more.
func (r *reloader) apply(ctx context.Context, next readFiles) error {
	eng := r.parts.storage.engine
	err := r.parts.evaluation.Change(next.spec.Inputs, func() error { return eng.SetConfig(ctx, next.spec.Encoded) })
	if err != nil {
		return fmt.Errorf("apply new spec: %w", err)
	}
	r.start.specs.Use(next.spec)
	r.parts.storage.growHistory(&r.start.config, Known(next.spec.Spec).LongestWindow)
	for _, apply := range next.settings {
		apply()
	}
	r.config = next.config
	noteUnknown(next.config, next.spec.Spec, r.opt.Log)
	if len(next.needRestart) > 0 {
		r.opt.Log.Warn("changed settings take effect after a restart", "sections", next.needRestart)
	}
	return nil
}

// onHangup reloads at every SIGHUP until ctx ends. The reload has logged and published an error itself.
func onHangup(reload func(context.Context) error, trail *auditTrail,
	specs *counting.Specs) func(context.Context) error {
	return func(ctx context.Context) error {
		hup := make(chan os.Signal, 1)
		signal.Notify(hup, syscall.SIGHUP)
		defer signal.Stop(hup)
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-hup:
				var detail string
				err := reload(ctx)
				if err == nil {
					now := specs.InForce()
					detail = fmt.Sprintf("hash=%s slos=%d", now.Hash, len(now.Spec.SLOs))
				}
				trail.record("reload", detail, "", "signal", err)
			}
		}
	}
}

// status says that the last reload failed; a nil one did not.
func (f *failedReload) status(s *status.SpecStatus) {
	if f == nil {
		return
	}
	s.Failed, s.Problems = f.at, f.problems
	if len(f.problems) == 0 {
		s.Problems = []spec.Problem{{Severity: spec.Error, Message: f.err.Error()}}
	}
}
