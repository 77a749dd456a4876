package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/sloengine/sloengine/ingest/engine"
	"github.com/sloengine/sloengine/reliability/backup"
	"github.com/sloengine/sloengine/reliability/dlq"
	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/reliability/wal"
	"github.com/sloengine/sloengine/web"
)

// BackupPath answers with a backup of the data folder, as a tar stream.
const BackupPath = "/api/v1/backup"

// backupStall is how long the receiver of a backup may take nothing of it.
const backupStall = time.Minute

// backups lets one backup run at a time.
type backups struct{ running sync.Mutex }

// registerBackup mounts the endpoint. A backup holds everything, so it takes the permission operate.
func (a *App) registerBackup(r gin.IRouter) {
	r.POST(BackupPath, a.allow(web.Operate), a.backup)
}

func (a *App) backup(c *gin.Context) {
	if err := http.NewCrossOriginProtection().Check(c.Request); err != nil {
		a.backupProblem(c, http.StatusForbidden, "The request came from a page of another site ("+err.Error()+"); use sloengine backup.")
		return
	}
	if !a.backups.running.TryLock() {
		c.Header("Retry-After", "60")
		a.backupProblem(c, http.StatusConflict, "Another backup is running; try again when it has ended.")
		return
	}
	defer a.backups.running.Unlock()
	began := time.Now()
	set := backup.NewSet()
	defer set.Close()
	switch err := a.snapshot(c.Request.Context(), set); {
	case errors.Is(err, engine.ErrNotReady):
		c.Header("Retry-After", "5")
		a.backupProblem(c, http.StatusServiceUnavailable, "The engine has not recovered yet; try again when it is ready.")
		return
	case err != nil:
		a.log.Error("backup failed", "err", err)
		a.backupProblem(c, http.StatusInternalServerError, "The files of the backup could not be opened; the log of the engine says why.")
		return
	}
	c.Header("Content-Type", "application/x-tar")
	c.Header("Cache-Control", "no-store")
	c.Status(http.StatusOK)
	conn := http.NewResponseController(c.Writer)
	err := set.Write(c.Writer, a.opt.Version.Version, func() error {
		return conn.SetWriteDeadline(time.Now().Add(backupStall))
	})
	a.audit("backup", fmt.Sprintf("%d bytes", c.Writer.Size()), a.auth.Caller(c.Request), c.Request.RemoteAddr)
	if err != nil {
		a.log.Error("backup failed", "err", err)
		panic(http.ErrAbortHandler) // the connection breaks, so that nobody takes it for the end
	}
	a.log.Info("backup sent", "bytes", c.Writer.Size(), "seconds", time.Since(began).Seconds())
}

func (a *App) backupProblem(c *gin.Context, status int, detail string) {
	c.Header("Content-Type", "application/problem+json")
	c.JSON(status, gin.H{"type": "about:blank", "title": http.StatusText(status), "status": status, "detail": detail})
}

// snapshot opens everything that a start needs.
func (a *App) snapshot(ctx context.Context, set *backup.Set) error {
	root := set.Below("")
	return a.engine.Snapshot(func() error {
		if err := a.delivery.snapshot(ctx, set); err != nil {
			return err
		}
		for _, name := range []string{fsys.FormatFile, engine.InstanceFile, AlertsFile} {
			if err := addFile(root, a.opt.DataDir, name); err != nil {
				return err
			}
		}
		return nil
	}, engine.AddFile(root))
}

// snapshot adds the cursors, then the dead letters, then the log ranges that dead letters stand
// for. What a cursor has passed is delivered or a dead letter by then. No log range comes or
// goes meanwhile.
func (r *delivery) snapshot(ctx context.Context, set *backup.Set) error {
	r.deadLetters.keeping.Lock()
	defer r.deadLetters.keeping.Unlock()
	system := r.deadLetters.fs
	cursors := filepath.Join(r.dir, engine.SinkDir)
	names, err := system.List(cursors)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("list cursors: %w", err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, fsys.TempSuffix) {
			continue
		}
		if err := addFile(set.Below(engine.SinkDir), cursors, name); err != nil {
			return err
		}
	}
	held, err := r.deadLetters.opened()
	if err != nil {
		return err
	}
	if files, ok := held.Store.(*dlq.File); ok { // other storages are not in the data folder
		if err := files.Snapshot(ctx, set.Below(engine.DeadLetterDir)); err != nil {
			return err
		}
	}
	kept := filepath.Join(r.dir, engine.KeptDir)
	if names, err = system.List(kept); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("list log ranges: %w", err)
	}
	for _, id := range names {
		if err := wal.SnapshotKept(system, filepath.Join(kept, id), set.Below(engine.KeptDir+"/"+id)); err != nil {
			return err
		}
	}
	return nil
}

// addFile adds a file that is only ever replaced as a whole. A missing one is left out.
func addFile(add engine.AddFile, dir, name string) error {
	file, err := fsys.OS().Open(filepath.Join(dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open %s: %w", name, err)
	}
	size, err := file.Size()
	if err != nil {
		return errors.Join(fmt.Errorf("size of %s: %w", name, err), file.Close())
	}
	add(name, size, file)
	return nil
}
