// Package audit is a durable record of the changes that people made: entries in files of JSON lines, which are
// only ever appended to, are bounded in size and number, and survive kill -9.
//
// It does not know the effect of an action, nor who may read the record.
package audit

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sloengine/sloengine/internal/every"
	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/reliability/health"
	"github.com/sloengine/sloengine/reliability/metric"
)

// The results of an action.
const (
	OK     = "ok"
	Failed = "failed"
)

// Entry is one action, with its actor, time, origin and result.
type Entry struct {
	Seq    uint64    `json:"seq"` // grows by one
	Time   time.Time `json:"time"`
	Action string    `json:"action"`          // such as dlq.replay
	Token  string    `json:"token,omitempty"` // name of the token; "" without tokens and for signals
	Remote string    `json:"remote"`          // address of the caller, or signal
	Result string    `json:"result"`          // OK or Failed
	Detail string    `json:"detail"`          // one line, in which foreign text is quoted
}

// Bounds and defaults.
const (
	maxDetail  = 4 << 10 // bytes
	maxPending = 1000    // entries that wait for a disk
	retryEvery = 10 * time.Second
)

// Options of a log. Dir is required.
type Options struct {
	FS        fsys.FS // default: that of the system
	Dir       string
	FileBytes int64 // of one file, at least 64 KiB; default 4 MiB
	Files     int   // retained, at least 2; default 16
	Set       *metrics.Set
	Logger    *slog.Logger
}

func (o *Options) applyDefaults() error {
	o.FS = cmp.Or(o.FS, fsys.OS())
	o.Set = cmp.Or(o.Set, metrics.NewSet())
	o.Logger = cmp.Or(o.Logger, slog.Default())
	o.FileBytes, o.Files = cmp.Or(o.FileBytes, 4<<20), cmp.Or(o.Files, 16)
	if o.Dir == "" || o.FileBytes < 64<<10 || o.Files < 2 {
		return errors.New("audit: Dir, FileBytes of at least 64 KiB and Files of at least 2 are required")
	}
	return nil
}

// Log is the record. It is safe for concurrent use.
type Log struct {
	o                 Options
	entries, failures *metrics.Counter

	mu      sync.Mutex // guards the following, and is held while the disk is written
	file    fsys.File  // nil: the next entry begins a new one
	numbers []int      // of the files, ascending; the last one is file's
	size    int64      // of file: synced bytes
	seq     uint64     // of the last entry
	pending []Entry    // not durable yet, oldest first
	lost    uint64     // of pending, beyond its bound
	failing health.Log
}

// Open opens the log of a folder, which it makes if needed. A line that a crash cut off is removed: it was never
// acknowledged.
func Open(o Options) (*Log, error) {
	if err := o.applyDefaults(); err != nil {
		return nil, err
	}
	l := &Log{o: o, entries: metric.AuditEntries.Counter(o.Set), failures: metric.AuditFailures.Counter(o.Set)}
	l.failing = health.Log{
		Logger: o.Logger, Broken: "audit log cannot be written, entries wait in memory",
		Works: "audit log is written again",
	}
	metric.AuditPending.Read(o.Set, func() float64 {
		l.mu.Lock()
		defer l.mu.Unlock()
		return float64(len(l.pending))
	})
	if err := fsys.MkdirAllSynced(o.FS, o.Dir, siteMkdir); err != nil {
		return nil, fmt.Errorf("open audit log: %w", err)
	}
	names, err := o.FS.List(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("open audit log: %w", err)
	}
	for _, name := range names {
		if n, ok := numberOf(name); ok {
			l.numbers = append(l.numbers, n)
		}
	}
	slices.Sort(l.numbers)
	if len(l.numbers) == 0 {
		return l, nil
	}
	if err := l.resume(); err != nil {
		return nil, fmt.Errorf("open audit log %s: %w", l.name(l.numbers[len(l.numbers)-1]), err)
	}
	return l, nil
}

// The places that are synced.
const (
	siteMkdir  fsys.Site = "audit.mkdir"
	siteFile   fsys.Site = "audit.file"
	siteFolder fsys.Site = "audit.dir"
)

const pattern = "audit-%06d.jsonl"

func numberOf(name string) (n int, ok bool) {
	_, err := fmt.Sscanf(name, pattern, &n)
	return n, err == nil && n > 0 && name == fmt.Sprintf(pattern, n)
}

func (l *Log) name(number int) string { return filepath.Join(l.o.Dir, fmt.Sprintf(pattern, number)) }

// resume continues in the newest file.
func (l *Log) resume() error {
	newest := l.numbers[len(l.numbers)-1]
	data, err := l.read(newest, -1)
	if err != nil {
		return err
	}
	l.size = int64(bytes.LastIndexByte(data, '\n') + 1)
	if l.file, err = l.o.FS.OpenReadWrite(l.name(newest)); err != nil {
		return err
	}
	if l.size < int64(len(data)) {
		if err := l.file.Truncate(l.size); err != nil {
			return errors.Join(err, l.file.Close())
		}
	}
	for i, number := range slices.Backward(l.numbers) { // the newest may be empty
		if i < len(l.numbers)-1 {
			if data, err = l.read(number, -1); err != nil {
				return errors.Join(err, l.file.Close())
			}
		}
		for e := range backward(data) {
			l.seq = e.Seq
			return nil
		}
	}
	return nil
}

// Record stores an entry, whose number, time and length of detail it sets. It returns when the entry is durable. An
// error means that it is not yet: it waits in memory, and Run tries again. The action itself was done, so nothing is
// refused.
func (l *Log) Record(e Entry) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seq++
	e.Seq, e.Time = l.seq, time.Now().UTC()
	if len(e.Detail) > maxDetail {
		e.Detail = e.Detail[:maxDetail] + "…"
	}
	if l.pending = append(l.pending, e); len(l.pending) > maxPending {
		l.pending = l.pending[1:]
		l.lost++
	}
	l.entries.Inc()
	return l.flush()
}

// flush makes pending entries durable. The caller holds the lock.
func (l *Log) flush() error {
	for len(l.pending) > 0 {
		if err := l.write(); err != nil {
			l.failures.Inc()
			l.failing.Note(err)
			return fmt.Errorf("write audit log: %w", err)
		}
	}
	l.failing.Note(nil, "lost", l.lost)
	l.lost = 0
	return nil
}

// write makes some pending entries durable, as many as fit into a file.
func (l *Log) write() error {
	var buf bytes.Buffer
	n := 0
	for _, e := range l.pending {
		line, err := json.Marshal(e)
		if err != nil {
			return err
		}
		if n > 0 && int64(buf.Len()+len(line)) > l.o.FileBytes {
			break
		}
		buf.Write(append(line, '\n'))
		n++
	}
	if l.file == nil || l.size > 0 && l.size+int64(buf.Len()) > l.o.FileBytes {
		if err := l.roll(); err != nil {
			return err
		}
	}
	_, err := l.file.WriteAt(buf.Bytes(), l.size)
	if err == nil {
		err = fsys.SyncFile(l.file, siteFile)
	}
	if err != nil {
		// The bytes behind size are unknown. After a failed sync all of the file is.
		if fsys.Classify(err) == fsys.SyncFailed || l.file.Truncate(l.size) != nil {
			_ = l.file.Close() // the error says why
			l.file = nil
			if last := len(l.numbers) - 1; l.size == 0 && l.o.FS.Remove(l.name(l.numbers[last])) == nil {
				l.numbers = l.numbers[:last] // or each attempt would leave a file
			}
		}
		return err
	}
	l.size += int64(buf.Len())
	l.pending = slices.Delete(l.pending, 0, n)
	l.prune()
	return nil
}

// prune removes the oldest files beyond the bound.
func (l *Log) prune() {
	for len(l.numbers) > l.o.Files {
		if err := l.o.FS.Remove(l.name(l.numbers[0])); err != nil && !errors.Is(err, fs.ErrNotExist) {
			l.o.Logger.Warn("old audit log could not be removed", "err", err)
			return
		}
		l.numbers = l.numbers[1:]
	}
}

// roll begins a new file.
func (l *Log) roll() error {
	next := 1
	if n := len(l.numbers); n > 0 {
		next = l.numbers[n-1] + 1
	}
	var file fsys.File
	err := fsys.ChangeDir(l.o.FS, l.o.Dir, siteFolder, func() (err error) {
		file, err = l.o.FS.Create(l.name(next))
		return err
	})
	if err != nil {
		if file != nil {
			err = errors.Join(err, file.Close())
		}
		return err
	}
	if l.file != nil {
		_ = l.file.Close() // all of it was synced
	}
	l.file, l.size, l.numbers = file, 0, append(l.numbers, next)
	return nil
}

// Run writes the entries that the disk did not take, until ctx ends.
func (l *Log) Run(ctx context.Context) error {
	for range every.Later(ctx, retryEvery) {
		l.mu.Lock()
		_ = l.flush() // logged
		l.mu.Unlock()
	}
	return nil
}

// Failing is since when entries are not durable; zero if all are.
func (l *Log) Failing() time.Time { return l.failing.Failure().Since }

// Close closes the file. Entries that still wait are tried once more.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.flush()
	if l.file != nil {
		err = errors.Join(err, l.file.Close())
		l.file = nil
	}
	return err
}
