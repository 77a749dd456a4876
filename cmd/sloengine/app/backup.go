package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/sloengine/sloengine/cmd/sloengine/app/reports"
	"github.com/sloengine/sloengine/ingest/checkpoint"
	"github.com/sloengine/sloengine/ingest/engine"
	"github.com/sloengine/sloengine/reliability/backup"
	"github.com/sloengine/sloengine/reliability/dlq"
	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/reliability/retained"
	"github.com/sloengine/sloengine/web/respond"
)

// BackupPath answers with a backup of the data folder, as a tar stream.
const BackupPath = "/api/v1/backup"

// backupStall is how long the receiver of a backup may take nothing of it.
const backupStall = time.Minute

// backups answers with backups of the data directory, one at a time.
type backups struct {
	running sync.Mutex
	engine  *engine.Engine
	store   *dlq.RangeStore
	dir     string
	version string
	trail   *auditTrail
	log     *slog.Logger
}

func newBackups(o *builder, s *storage) *backups {
	return &backups{
		engine: s.engine, store: s.deadLetters, dir: o.DataDir, version: o.Version.Version, trail: s.trail, log: o.Log,
	}
}

func (b *backups) serve(c *gin.Context) {
	if err := http.NewCrossOriginProtection().Check(c.Request); err != nil {
		respond.Problem(c, http.StatusForbidden, "The request came from a page on another site ("+err.Error()+
			"); use sloengine backup.", nil)
		return
	}
	history := c.DefaultQuery("history", "false")
	if history != "true" && history != "false" {
		respond.Problem(c, http.StatusBadRequest, "history: want true or false", nil)
		return
	}
	if !b.running.TryLock() {
		c.Header("Retry-After", "60")
		respond.Problem(c, http.StatusConflict, "Another backup is running. Try again when it has finished.", nil)
		return
	}
	defer b.running.Unlock()
	began := time.Now()
	set := backup.NewSet()
	defer set.Close()
	switch err := b.snapshot(c.Request.Context(), set, history == "true"); {
	case errors.Is(err, engine.ErrNotReady):
		c.Header("Retry-After", "5")
		respond.Problem(c, http.StatusServiceUnavailable, "The engine is still recovering. Try again when it is ready.", nil)
		return
	case err != nil:
		b.log.Error("backup failed", "err", err)
		respond.Problem(c, http.StatusInternalServerError,
			"The engine could not open the files of the backup. See the log of the engine for the cause.", nil)
		return
	}
	c.Header("Content-Type", "application/x-tar")
	c.Header("Cache-Control", "no-store")
	c.Status(http.StatusOK)
	conn := http.NewResponseController(c.Writer)
	err := set.Write(c.Writer, b.version, func() error {
		return conn.SetWriteDeadline(time.Now().Add(backupStall))
	})
	b.trail.note(c, "backup", fmt.Sprintf("%d bytes, history=%s", c.Writer.Size(), history), err)
	if err != nil {
		b.log.Error("backup failed", "err", err)
		panic(http.ErrAbortHandler) // the connection breaks, so that it does not look like the end
	}
	b.log.Info("backup sent", "bytes", c.Writer.Size(), "seconds", time.Since(began).Seconds())
}

// backupFiles are files in the data directory that a backup holds, beside those of backupDirs. It holds no key.
var backupFiles = []string{
	fsys.FormatFile, engine.InstanceFile, AlertsFile, reports.File, NotificationsFile, notificationsJournal,
	ForecastsFile, reports.AnnotationsFile, SubscriptionsFile, RejectsFile,
}

var backupDirs = []string{AuditDir, reports.Dir, engine.SinkDir, engine.DeadLetterDir, engine.LogRangeDir,
	engine.LogDir, engine.HistoryDir, engine.RebuiltDir, checkpoint.Dir}

// BackupHolds reports whether a backup may hold a file of that name.
func BackupHolds(name string) bool {
	dir, _, below := strings.Cut(name, "/")
	return below && slices.Contains(backupDirs, dir) || slices.Contains(backupFiles, name)
}

// snapshot opens everything that a start needs. The files of the history are listed before those of the log, while the
// log deletes nothing: each record is in one of both.
func (b *backups) snapshot(ctx context.Context, set *backup.Set, history bool) error {
	return b.engine.Snapshot(func() error {
		if history {
			dir := filepath.Join(b.dir, engine.HistoryDir)
			names, err := retained.Names(fsys.OS(), dir)
			if err != nil {
				return err
			}
			set.Later(engine.HistoryDir, dir, names)
		}
		if err := b.snapshotDelivery(ctx, set); err != nil {
			return err
		}
		if err := b.snapshotRebuilt(set); err != nil {
			return err
		}
		for _, name := range backupFiles {
			if err := addFile(set.Below(""), b.dir, name); err != nil {
				return err
			}
		}
		return errors.Join(addFolder(set.Below(AuditDir), filepath.Join(b.dir, AuditDir)),
			addFolder(set.Below(reports.Dir), filepath.Join(b.dir, reports.Dir)))
	}, engine.AddFile(set.Below("")))
}

// snapshotRebuilt adds rebuilt counts that the checkpoint may lack. Without those that take over meanwhile, a start
// rebuilds them again.
func (b *backups) snapshotRebuilt(set *backup.Set) error {
	dir := filepath.Join(b.dir, engine.RebuiltDir)
	names, err := fsys.OS().List(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("list rebuilt counts: %w", err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, fsys.TempSuffix) {
			continue
		}
		if err := addFile(set.Below(engine.RebuiltDir), dir, name); err != nil {
			return err
		}
	}
	return nil
}

// snapshotDelivery adds the cursors, then the dead letters, then the log ranges that dead letters
// stand for. What a cursor has passed is delivered or a dead letter by then.
func (b *backups) snapshotDelivery(ctx context.Context, set *backup.Set) error {
	return b.store.Snapshot(func() error {
		cursors := filepath.Join(b.dir, engine.SinkDir)
		names, err := fsys.OS().List(cursors)
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
		if files, ok := b.store.Store.(*dlq.File); ok { // other storages are not in the data directory
			return files.Snapshot(ctx, set.Below(engine.DeadLetterDir))
		}
		return nil
	}, set.Below(engine.LogRangeDir))
}

// addFolder adds the audit log, or the stored reports. What is recorded meanwhile is appended behind the size that was
// taken.
func addFolder(add engine.AddFile, dir string) error {
	names, err := fsys.OS().List(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("list %s: %w", filepath.Base(dir), err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, fsys.TempSuffix) {
			continue
		}
		if err := addFile(add, dir, name); err != nil {
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
