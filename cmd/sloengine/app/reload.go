package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"
)

// reload takes the spec files, the tokens, limits and redaction over as they are now. All that can
// fail is done before anything is touched; then the change goes through the log,
// so that a replay makes it at the same place. On an error everything stays.
func (a *App) reload(ctx context.Context) error {
	a.specs.mu.Lock()
	defer a.specs.mu.Unlock()
	err := a.reloadAll(ctx)
	if err == nil {
		a.specs.failed.Store(nil)
		now := a.specs.current.Load()
		a.log.Info("reloaded", "hash", now.hash, "slos", len(now.spec.SLOs))
		return nil
	}
	failed := &failedLoad{at: time.Now(), err: err}
	var se *SpecError
	if errors.As(err, &se) {
		failed.problems = se.Problems
	}
	a.specs.failed.Store(failed)
	a.reloadFailures.Inc()
	a.log.Error("reload failed, the old spec stays in force", "err", err, "problems", failed.problems)
	return err
}

func (a *App) reloadAll(ctx context.Context) error {
	next, err := a.specs.read()
	if err != nil {
		return err
	}
	tokens := func() {}
	if f := a.config.Auth.TokensFile; f != "" {
		if tokens, err = a.auth.PrepareTokens(f); err != nil {
			return err
		}
	}
	settings, err := a.readSettings()
	if err != nil {
		return err
	}
	err = a.eval.Change(next.inputs, func() error { return a.engine.SetConfig(ctx, next.encoded) })
	if err != nil {
		return fmt.Errorf("put the new spec in force: %w", err)
	}
	a.specs.current.Store(next)
	settings()
	if err := a.noteChange(ctx); err != nil { // the spec is in force
		a.log.Error("effects of the spec change are unknown", "err", err)
	}
	tokens()
	return nil
}

// readSettings reads engine.yaml again and returns what puts the parts of it in force that
// can change while the engine runs.
func (a *App) readSettings() (apply func(), err error) {
	next, err := a.opt.LoadConfig()
	if err != nil {
		return nil, err
	}
	change, needRestart, err := a.delivery.reload(&next)
	if err != nil {
		return nil, err
	}
	return func() {
		change()
		if len(needRestart) > 0 {
			a.log.Warn("changed settings need a restart, the old ones stay in force until then", "sections", needRestart)
		}
	}, nil
}

// reloadOnSignal reloads at every SIGHUP until ctx ends.
func (a *App) reloadOnSignal(ctx context.Context) error {
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-hup:
			var detail string
			if err := a.reload(ctx); err != nil { // logged and published already
				detail = "error=" + strconv.QuoteToASCII(err.Error())
			} else {
				now := a.specs.current.Load()
				detail = fmt.Sprintf("hash=%s slos=%d", now.hash, len(now.spec.SLOs))
			}
			a.audit("reload", detail, "", "signal")
		}
	}
}
