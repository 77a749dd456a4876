package app

import (
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
	"github.com/sloengine/sloengine/reliability/metric"
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
	next, err := r.read()
	if err == nil {
		err = r.apply(ctx, next)
	}
	if err == nil {
		r.failed.Store(nil)
		r.opt.Log.Info("reloaded", "hash", next.spec.Hash, "slos", len(next.spec.Spec.SLOs))
		if err := r.parts.annotations.InForce(next.spec.Hash); err != nil { // the spec is in force
			r.opt.Log.Error("change of the spec is not annotated", "err", err)
		}
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
	spec        *counting.Spec
	settings    []func() // cannot fail
	config      *config.Config
	needRestart []string // sections of engine.yaml that changed and stay as they are
}

// read changes nothing.
func (r *reloader) read() (next readFiles, err error) {
	if next.spec, err = r.start.specs.Read(); err != nil {
		return next, err
	}
	settings, err := r.opt.LoadConfig()
	if err != nil {
		return next, err
	}
	if err := settings.StartProblems(Known(next.spec.Spec), DataDir(r.opt.DataDir)).Err(); err != nil {
		return next, err
	}
	linked := settings
	linked.Web = r.start.config.Web // in force until a restart
	prepare := []func() (func(), error){
		func() (func(), error) { return r.parts.alerts.prepare(&linked, next.spec.Spec) },
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

// apply puts the spec in force by a record of the log, so that a replay changes it at the same
// place. Then nothing can fail any more.
func (r *reloader) apply(ctx context.Context, next readFiles) error {
	eng := r.parts.storage.engine
	err := r.parts.evaluation.Change(next.spec.Inputs, func() error { return eng.SetConfig(ctx, next.spec.Encoded) })
	if err != nil {
		return fmt.Errorf("apply new spec: %w", err)
	}
	r.start.specs.Use(next.spec)
	for _, apply := range next.settings {
		apply()
	}
	noteUnknown(next.config, next.spec.Spec, r.opt.Log)
	if len(next.needRestart) > 0 {
		r.opt.Log.Warn("changed settings take effect after a restart", "sections", next.needRestart)
	}
	if err := r.parts.evaluation.changes.Note(ctx); err != nil { // the spec is in force
		r.opt.Log.Error("effects of the spec change are unknown", "err", err)
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
