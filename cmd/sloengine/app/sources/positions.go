package sources

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/sloengine/sloengine/alerts/incident"
	"github.com/sloengine/sloengine/ingest/counting"
	"github.com/sloengine/sloengine/ingest/engine"
	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/ingest/position"
	"github.com/sloengine/sloengine/ingest/record"
	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/reliability/wal"
	"github.com/sloengine/sloengine/slo/fold"
)

// PositionsFile holds positions that the next start takes over, before any source begins to read.
const PositionsFile = "positions-import.json"

// ReadPositions reads the positions of the sources from a data directory that no engine uses. It appends nothing to the
// log.
func ReadPositions(ctx context.Context, dir string, log *slog.Logger) (book *position.Book, err error) {
	if err := engine.DataFormat.Check(fsys.OS(), dir); err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(dir, fsys.FormatFile)); err != nil {
		return nil, fmt.Errorf("%s holds no data of an engine: %w", dir, err)
	}
	counted, err := fold.New(fold.Options{})
	if err != nil {
		return nil, err
	}
	book = position.NewBook()
	state := counting.FoldState{Fold: counted, Incidents: incident.NewBook(), Positions: book}
	e, err := engine.Open(engine.Options{Dir: dir, State: state, Logger: log, Disk: engine.DiskOptions{LowWater: -1}})
	if err != nil {
		return nil, err
	}
	err = e.Inspect(ctx, counting.PositionsPart, book.Restore, func(rec wal.Record) error {
		if rec.Type != record.TypeEvents {
			return nil
		}
		_, err := state.ApplyPosition(rec.Payload)
		return err
	})
	if err = errors.Join(err, e.Close()); err != nil {
		return nil, err
	}
	return book, addPositionsFile(book, dir)
}

// WritePositions leaves positions in a data directory for the next start of its engine.
func WritePositions(dir string, book *position.Book) (err error) {
	if err := engine.DataFormat.Check(fsys.OS(), dir); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	lock, err := fsys.OS().Lock(filepath.Join(dir, engine.LockFile))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	return fsys.WriteAtomic(fsys.OS(), filepath.Join(dir, PositionsFile), func(w io.Writer) error {
		return book.WriteDocument(w, "")
	})
}

// addPositionsFile adds what the next start will take over. No file is no error.
func addPositionsFile(book *position.Book, dir string) error {
	data, err := fsys.ReadFile(filepath.Join(dir, PositionsFile), fsys.MaxStateBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = book.ReadDocument(data)
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", filepath.Join(dir, PositionsFile), err)
	}
	return nil
}

// Positions are those of the sources: in the log, and in a file that the start takes over.
type Positions struct {
	engine *engine.Engine
	book   *position.Book // of the reader's goroutine
	dir    string
	log    *slog.Logger
	ready  chan struct{} // closed when the file is in the log, and sources may begin
}

// NewPositions refuses a file that cannot be read before anything starts.
func NewPositions(eng *engine.Engine, book *position.Book, dir string, log *slog.Logger) (*Positions, error) {
	if err := addPositionsFile(position.NewBook(), dir); err != nil {
		return nil, err
	}
	return &Positions{engine: eng, book: book, dir: dir, log: log, ready: make(chan struct{})}, nil
}

// Run takes the file over. A crash in between repeats it, which changes nothing.
func (p *Positions) Run(ctx context.Context) error {
	file := position.NewBook()
	if err := addPositionsFile(file, p.dir); err != nil {
		return err
	}
	streams := 0
	for _, source := range file.Sources() {
		progress := file.Of(source)
		streams += len(progress)
		if _, err := p.engine.AdmitAt(ctx, &event.Batch{}, nil, nil, taken{source, progress}); err != nil {
			return fmt.Errorf("take over positions of source %q: %w", source, err)
		}
	}
	if streams > 0 {
		if err := fsys.OS().Remove(filepath.Join(p.dir, PositionsFile)); err != nil {
			return err
		}
		if err := fsys.SyncDir(fsys.OS(), p.dir, ""); err != nil {
			return err
		}
		p.log.Info("took over positions", "file", PositionsFile, "sources", len(file.Sources()), "streams", streams)
	}
	close(p.ready)
	<-ctx.Done()
	return nil
}

// of returns the positions of a source that is not running, as the log has them. What the source wrote last may be
// durable and not in the book yet.
func (p *Positions) of(ctx context.Context, source string) (progress []position.Progress, err error) {
	if err := p.engine.CatchUp(ctx); err != nil {
		return nil, err
	}
	err = p.engine.Do(ctx, func() { progress = p.book.Of(source) })
	return progress, err
}

// taken are positions from a file.
type taken struct {
	source   string
	progress []position.Progress
}

func (t taken) AppendPosition(dst []byte, _ []int32) []byte {
	return position.Append(dst, t.source, t.progress)
}
