package sink

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/reliability/dispatch"
	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/reliability/retry"
)

// The syncs of this package, besides those of fsys.WriteAtomic.
const (
	// SiteMkdir: the parents of the sink's folder.
	SiteFileMkdir fsys.Site = "filesink.mkdir"
	// SiteData: lines, before they are called delivered.
	SiteFileData fsys.Site = "filesink.data"
	// SiteDir: the folder, after a file was made, renamed or removed in it.
	SiteFileDir fsys.Site = "filesink.dir"
)

// Fsync says when lines are made durable.
type Fsync string

// The policies.
const (
	// FsyncCursor: before the dispatcher saves its cursor. Nothing is lost, and one
	// fsync serves all batches of a second. The default.
	FsyncCursor Fsync = "cursor"
	// FsyncBatch: with every batch.
	FsyncBatch Fsync = "batch"
	// FsyncNever: when the system likes to. A power cut loses lines for good.
	FsyncNever Fsync = "never"
)

// FileOptions of a Sink.
type FileOptions struct {
	FS  fsys.FS
	Dir string `yaml:"dir" is:"required file"` // made if missing; one sink per folder
	// of a file, from which it is rotated. Default 100 MiB.
	MaxBytes int64         `yaml:"max_bytes" min:"1KiB" max:"1GiB" is:"size"`
	MaxAge   time.Duration `yaml:"max_age"` // of a file, likewise. 0: unbounded.
	// rotated files to retain, the oldest are removed first. 0: all.
	Retain int   `yaml:"keep" min:"0"`
	Fsync  Fsync `yaml:"fsync" one:"cursor batch never"` // default FsyncCursor
}

func (o *FileOptions) applyDefaults() {
	if o.MaxBytes == 0 {
		o.MaxBytes = 100 << 20
	}
	if o.Fsync == "" {
		o.Fsync = FsyncCursor
	}
}

func (o *FileOptions) validate() error {
	var errs []error
	if o.FS == nil || o.Dir == "" {
		errs = append(errs, errors.New("no file system or folder given"))
	}
	if o.MaxBytes < 1024 || o.MaxBytes > 1<<30 {
		errs = append(errs, fmt.Errorf("invalid max bytes %d (1 KiB to 1 GiB)", o.MaxBytes))
	}
	if o.MaxAge < 0 || o.MaxAge > 0 && o.MaxAge < time.Second {
		errs = append(errs, fmt.Errorf("invalid max age %s (0 or at least 1s)", o.MaxAge))
	}
	if o.Retain < 0 {
		errs = append(errs, fmt.Errorf("invalid number of files to retain %d (must not be negative)", o.Retain))
	}
	if !slices.Contains([]Fsync{FsyncCursor, FsyncBatch, FsyncNever}, o.Fsync) {
		errs = append(errs, fmt.Errorf("invalid fsync %q (want cursor, batch or never)", o.Fsync))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("file sink: %w", err)
	}
	return nil
}

const (
	activeFile = "events.ndjson"
	stampForm  = "20060102T150405Z"
)

// File writes events as lines of JSON into a file that is rotated by size and age.
//
// The file at hand is events.ndjson in the sink's folder; closed ones are called events-<time of
// closing>-<number>.ndjson and never change again. After a crash the file at hand is checked line by line before it
// is written on: torn or damaged lines, which hold nothing that was called durable, are taken out, so every line of
// every file is one whole event. Events may appear twice after a crash, never not at all. It does not compress or
// upload them.
//
// It is a dispatch.Flusher. All methods may be called concurrently; writes come one after the other.
type File struct {
	o    FileOptions
	lock interface{ Close() error }

	mu      sync.Mutex
	file    fsys.File // nil: it must be opened, and checked, first
	size    int64     // of whole lines
	synced  int64     // up to which they are durable
	opened  time.Time // when the file at hand got its first line
	nextNum int
	buf     []byte
	closed  bool
	// lost: a sync failed while a batch was taken, so that earlier ones may be gone
	// too. The next Flush must say so.
	lost bool
}

var (
	_ dispatch.Sink    = (*File)(nil)
	_ dispatch.Flusher = (*File)(nil)
)

// NewFile makes the folder, locks it, and repairs the file at hand.
func NewFile(o FileOptions) (*File, error) {
	o.applyDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	s := &File{o: o}
	if err := fsys.MkdirAllSynced(o.FS, o.Dir, SiteFileMkdir); err != nil {
		return nil, fmt.Errorf("file sink: %w", err)
	}
	if err := s.open(); err != nil {
		return nil, errors.Join(fmt.Errorf("file sink: %w", err), s.unlock())
	}
	return s, nil
}

// unlock releases the folder.
func (s *File) unlock() error {
	if s.lock == nil {
		return nil
	}
	lock := s.lock
	s.lock = nil
	return lock.Close()
}

func (s *File) path() string { return filepath.Join(s.o.Dir, activeFile) }

// Send appends a batch. A failed write leaves no torn line behind.
func (s *File) Send(ctx context.Context, batch []dispatch.Item) (r dispatch.Result) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return dispatch.Result{Err: err}
	}
	buf := s.buf[:0]
	for i := range batch {
		start := len(buf)
		var err error
		if buf, err = event.AppendBinaryAsJSON(buf, batch[i].Payload); err != nil {
			buf = buf[:start]
			r.Failed = append(r.Failed, dispatch.Failure{Index: i, Err: retry.Permanent(err)})
			continue
		}
		buf = append(buf, '\n')
	}
	s.buf = buf
	if cap(s.buf) > 8<<20 {
		s.buf = nil
	}
	if err := s.write(buf); err != nil {
		// It is never about the events: they wait until the folder can be written to.
		return dispatch.Result{Err: retry.WithClass(fmt.Errorf("file sink: %w", err), retry.ClassBlocked)}
	}
	return r
}

func (s *File) write(lines []byte) error {
	if s.closed {
		return errors.New("sink is closed")
	}
	if err := s.look(); err != nil {
		return err
	}
	if s.file == nil {
		if err := s.open(); err != nil {
			return err
		}
	}
	if s.due(int64(len(lines))) {
		if err := s.rotate(); err != nil {
			return err
		}
	}
	if len(lines) == 0 {
		return nil
	}
	if _, err := s.file.WriteAt(lines, s.size); err != nil {
		// The written part lies beyond size; it is cut off now, or else overwritten by the next batch or
		// removed at the next start.
		if cerr := s.file.Truncate(s.size); cerr != nil {
			s.lost = s.lost || s.synced != s.size // its content is unknown until it is opened again
			s.drop()
		}
		return fmt.Errorf("write lines: %w", err)
	}
	if s.size == 0 {
		s.opened = time.Now()
	}
	s.size += int64(len(lines))
	if s.o.Fsync == FsyncBatch {
		return s.sync()
	}
	return nil
}

// look checks whether the open file is still in its folder. Lines written to a file that was
// deleted or moved away would be lost with it.
func (s *File) look() error {
	fs, ok := s.o.FS.(interface {
		Same(name string, file fsys.File) (bool, error)
	})
	if !ok || s.file == nil {
		return nil
	}
	same, err := fs.Same(s.path(), s.file)
	if err != nil {
		return fmt.Errorf("check that the file exists: %w", err)
	}
	if same {
		return nil
	}
	s.lost = s.lost || s.synced != s.size // those lines are sent again
	s.drop()
	s.size, s.synced = 0, 0
	return s.unlock() // the folder may be another one, too
}

// due reports whether the file at hand must be rotated before n more bytes.
func (s *File) due(n int64) bool {
	if s.size == 0 {
		return false
	}
	return s.size+n > s.o.MaxBytes || s.o.MaxAge > 0 && time.Since(s.opened) >= s.o.MaxAge
}

// Flush makes the events that Send has taken durable.
func (s *File) Flush(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		if s.o.Fsync != FsyncNever && (s.lost || s.synced != s.size) {
			return errors.New("file sink: closed before all lines were synced")
		}
		return nil
	}
	err := s.flush()
	s.lost = false // the caller of Flush has received the error
	if err != nil {
		return fmt.Errorf("file sink: %w", err)
	}
	return nil
}

func (s *File) flush() error {
	if err := s.look(); err != nil {
		return err
	}
	switch {
	case s.lost && s.o.Fsync != FsyncNever:
		return errors.New("lines were lost since the last flush: a sync failed, or the file was moved or deleted")
	case s.file == nil && s.synced != s.size:
		return errors.New("the file was lost before it was flushed")
	case s.file == nil:
		return s.open() // or return the reason
	case s.due(0):
		return s.rotate()
	case s.o.Fsync == FsyncNever:
		return nil
	default:
		return s.sync()
	}
}

// sync makes the lines durable. After a failure the content of the disk is unknown: the file is
// closed and checked again, and missing lines are sent again.
func (s *File) sync() error {
	if s.synced == s.size {
		return nil
	}
	if err := fsys.SyncFile(s.file, SiteFileData); err != nil {
		s.lost = true
		s.drop()
		return fmt.Errorf("sync lines: %w", err)
	}
	s.synced = s.size
	return nil
}

// drop closes a file that can't be trusted any more.
func (s *File) drop() {
	_ = s.file.Close() // an error is pending already
	s.file = nil
}

// rotate closes the file at hand for good and begins the next one.
func (s *File) rotate() error {
	if s.o.Fsync != FsyncNever {
		if err := s.sync(); err != nil {
			return err
		}
	}
	if err := s.file.Close(); err != nil {
		s.file = nil
		return fmt.Errorf("close file: %w", err)
	}
	s.file, s.size, s.synced = nil, 0, 0
	name := fmt.Sprintf("events-%s-%06d.ndjson", time.Now().UTC().Format(stampForm), s.nextNum)
	// Synced before there is a new file of the old name: otherwise a power cut may leave
	// that one and nothing of the old.
	err := fsys.ChangeDir(s.o.FS, s.o.Dir, SiteFileDir, func() error {
		return s.o.FS.Rename(s.path(), filepath.Join(s.o.Dir, name))
	})
	if err != nil {
		return fmt.Errorf("rotate: %w", err)
	}
	s.nextNum++
	if err := s.retain(); err != nil {
		return err
	}
	return s.open()
}

// retain removes the oldest rotated files beyond Retain.
func (s *File) retain() error {
	if s.o.Retain == 0 {
		return nil
	}
	names, err := s.rotated()
	if err != nil {
		return err
	}
	for len(names) > s.o.Retain {
		if err := s.o.FS.Remove(filepath.Join(s.o.Dir, names[0])); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove old file: %w", err)
		}
		names = names[1:]
	}
	return nil
}

// rotated lists the rotated files by ascending number, so that a clock that was set back
// removes no newer ones.
func (s *File) rotated() ([]string, error) {
	all, err := s.o.FS.List(s.o.Dir)
	if err != nil {
		return nil, fmt.Errorf("list files: %w", err)
	}
	all = slices.DeleteFunc(all, func(n string) bool { return fileNumber(n) < 0 })
	slices.SortFunc(all, func(a, b string) int { return fileNumber(a) - fileNumber(b) })
	return all, nil
}

// fileNumber is that of a rotated file, -1 for any other name.
func fileNumber(name string) int {
	rest, ok := strings.CutSuffix(name, ".ndjson")
	stamp, num, found := strings.Cut(strings.TrimPrefix(rest, "events-"), "-")
	if !ok || !found || !strings.HasPrefix(name, "events-") || len(stamp) != len(stampForm) || num == "" {
		return -1
	}
	n := 0
	for _, c := range num {
		if c < '0' || c > '9' || n > 1<<40 {
			return -1
		}
		n = 10*n + int(c-'0')
	}
	return n
}

// Close makes everything durable and releases the folder.
func (s *File) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	var err error
	if s.file != nil {
		if s.o.Fsync != FsyncNever {
			err = s.sync()
		}
		if s.file != nil {
			err = errors.Join(err, s.file.Close())
			s.file = nil
		}
	}
	return errors.Join(err, s.unlock())
}
