package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/sloengine/sloengine/ingest/engine"
	"github.com/sloengine/sloengine/reliability/fsys"
)

// standbyEvery is how often a standby tries to lock the data directory.
const standbyEvery = 100 * time.Millisecond

// standBy waits until no other engine uses the data directory, and returns its lock. The directory must hold the data
// of an engine: one that is not mounted is empty, and an engine that began with it would lack everything.
//
// It swallows SIGHUP, since the files are read again once the lock is held.
func standBy(ctx context.Context, dir string, log *slog.Logger) (io.Closer, error) {
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)
	tick := time.NewTicker(standbyEvery)
	defer tick.Stop()
	for began, told := time.Now(), false; ; {
		if _, err := os.Stat(filepath.Join(dir, fsys.FormatFile)); err != nil {
			return nil, fmt.Errorf(
				"standby: %s holds no data of an engine (is it mounted? start the first engine without --standby): %w", dir, err)
		}
		lock, err := fsys.OS().Lock(filepath.Join(dir, engine.LockFile))
		if err == nil {
			if told {
				log.Info("standby takes over", "dir", dir, "waited", time.Since(began).Round(time.Millisecond))
			}
			return lock, nil
		}
		if !errors.Is(err, fsys.ErrLocked) {
			return nil, fmt.Errorf("standby: %w", err)
		}
		if !told {
			log.Info("standing by while another engine uses the data directory", "dir", dir)
			told = true
		}
		select {
		case <-tick.C:
		case <-hup:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
