package counting

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sloengine/sloengine/ingest/engine"
	"github.com/sloengine/sloengine/ingest/record"
	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/reliability/retained"
	"github.com/sloengine/sloengine/reliability/wal"
	"github.com/sloengine/sloengine/slo/fold"
)

// RebuildsPart is the part of a checkpoint that holds what was rebuilt and what waits for it.
const RebuildsPart = "rebuilds"

// The bounds of that part.
const (
	maxServiceChanges = 1000
	maxRebuiltNoted   = 100
)

// Rebuilds is the place where rebuilt counts take over: it knows which definitions began without a past, and puts a
// file of counts in their place when the log says so. Its exported methods are safe for concurrent use.
type Rebuilds struct {
	fs     fsys.FS
	dir    string // of the files
	source *retained.Source

	mu    sync.Mutex
	state rebuildState
	files map[string]bool // of the folder, not yet in a checkpoint
	ready *readyCounts    // written, and still in memory; nil: none
	from  uint64          // the log is needed from there for counts that are being written; 0: it is not
}

// readyCounts are those of a file.
type readyCounts struct {
	file string
	fold *loneFold
}

// rebuildState follows from the log alone.
type rebuildState struct {
	Version  uint64          `json:"version"` // record of the last change
	Spec     string          `json:"spec"`    // in force, whole; "" if the log lacks it
	Services []serviceChange `json:"services"`
	Waiting  []WaitingSLO    `json:"waiting"`
	Done     []RebuiltCounts `json:"done"`
}

// serviceChange says which services there were from a record on.
type serviceChange struct {
	Seq      uint64         `json:"seq"`
	Services []fold.Service `json:"services"` // names and types
}

// WaitingSLO is a definition that counts from a record on and may have a past in the log.
type WaitingSLO struct {
	Indicator string    `json:"indicator"`
	Seq       uint64    `json:"seq"`
	At        time.Time `json:"at"`
}

// RebuiltCounts replaced earlier ones at a record.
type RebuiltCounts struct {
	Indicators []string  `json:"indicators"`
	First      uint64    `json:"first"` // the oldest record that counts in them
	Next       uint64    `json:"next"`  // the first that their file does not count
	Seq        uint64    `json:"seq"`
	At         time.Time `json:"at"`
	File       string    `json:"file"`
}

// NewRebuilds is for a data directory. It reads nothing.
func NewRebuilds(f fsys.FS, dataDir string) *Rebuilds {
	return &Rebuilds{fs: f, dir: filepath.Join(dataDir, engine.RebuiltDir), files: map[string]bool{}}
}

// Open lists the folder, and says where the log and its history are. Call it once the data directory is locked, before
// the engine runs.
func (r *Rebuilds) Open(source *retained.Source) error {
	names, err := r.fs.List(r.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("list folder %s: %w", r.dir, err)
	}
	for _, name := range names {
		r.files[name] = true
	}
	r.source = source
	return nil
}

// Lowest is the first record that the log must keep, so that a start can make again what took over: until checkpoints
// hold it.
func (r *Rebuilds) Lowest() (seq uint64, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	seq, ok = r.from, r.from > 0
	for i := range r.state.Done {
		if d := &r.state.Done[i]; r.files[d.File] && (!ok || d.Next < seq) {
			seq, ok = d.Next, true
		}
	}
	return seq, ok
}

// configured notes the effects of a configuration record. cfg is the one before; nil: none.
func (r *Rebuilds) configured(rec *wal.Record, before *fold.Config, f *fold.Fold) {
	r.mu.Lock()
	defer r.mu.Unlock()
	cfg := f.Config()
	if r.noteServices(rec.Seq, cfg) {
		r.state.Version = rec.Seq
	}
	if text, err := SpecOf(rec.Payload); err == nil && text != r.state.Spec {
		r.state.Spec, r.state.Version = text, rec.Seq
	}
	has := func(id string) bool {
		return slices.ContainsFunc(cfg.Indicators, func(i fold.Indicator) bool { return i.ID == id })
	}
	started := f.LastChange().Started
	was := len(r.state.Waiting)
	r.state.Waiting = slices.DeleteFunc(r.state.Waiting, func(w WaitingSLO) bool {
		return !has(w.Indicator) || slices.Contains(started, w.Indicator)
	})
	if before != nil { // else nothing was counted before
		for _, id := range started {
			r.state.Waiting = append(r.state.Waiting, WaitingSLO{id, rec.Seq, time.Unix(0, rec.Time).UTC()})
		}
	}
	if len(started) > 0 || len(r.state.Waiting) != was {
		r.state.Version = rec.Seq
	}
}

// noteServices reports whether the services changed.
func (r *Rebuilds) noteServices(seq uint64, cfg *fold.Config) bool {
	now := serviceChange{Seq: seq, Services: servicesOf(cfg).Services}
	list := r.state.Services
	if n := len(list); n > 0 && reflect.DeepEqual(list[n-1].Services, now.Services) {
		return false
	}
	if len(list) == maxServiceChanges {
		list = slices.Delete(list, 0, 1)
	}
	r.state.Services = append(list, now)
	return true
}

// servicesOf are the services of a configuration, with their types.
func servicesOf(cfg *fold.Config) *fold.Config {
	out := &fold.Config{Version: fold.ConfigVersion, Services: []fold.Service{}}
	for i := range cfg.Services {
		s := &cfg.Services[i]
		out.Services = append(out.Services, fold.Service{Name: s.Name, Types: s.Types, AdmitUnknown: s.AdmitUnknown})
	}
	return out
}

// servicesAt are those at a record, as far back as they are known.
func (r *Rebuilds) servicesAt(seq uint64) *fold.Config {
	r.mu.Lock()
	defer r.mu.Unlock()
	cfg := &fold.Config{Version: fold.ConfigVersion}
	for i, c := range r.state.Services {
		if i == 0 || c.Seq <= seq {
			cfg.Services = c.Services
		}
	}
	return cfg
}

// apply applies a record on rebuilt counts.
func (r *Rebuilds) apply(rec *wal.Record, b *record.Rebuilt, f *fold.Fold) error {
	if b.Kind == record.RebuiltTaken {
		return r.takeOver(rec, b, f)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s := &r.state
	s.Version = rec.Seq
	s.Waiting = slices.DeleteFunc(s.Waiting, func(w WaitingSLO) bool { return slices.Contains(b.Indicators, w.Indicator) })
	if b.Kind == record.RebuiltCanceled || f.Config() == nil {
		return nil
	}
	for i := range f.Config().Indicators {
		if id := f.Config().Indicators[i].ID; slices.Contains(b.Indicators, id) {
			s.Waiting = append(s.Waiting, WaitingSLO{id, rec.Seq, time.Unix(0, rec.Time).UTC()})
		}
	}
	return nil
}

// takeOver replaces counts by rebuilt ones.
func (r *Rebuilds) takeOver(rec *wal.Record, b *record.Rebuilt, f *fold.Fold) error {
	l, err := r.counts(b)
	if err != nil {
		return fmt.Errorf("rebuilt counts of %s: %w", strings.Join(b.Indicators, ", "), err)
	}
	if err := l.catchUp(r.source, rec.Seq); err != nil {
		return err
	}
	if err := f.TakeOver(l.lone); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.files[b.File] = true
	s := &r.state
	s.Version = rec.Seq
	s.Waiting = slices.DeleteFunc(s.Waiting, func(w WaitingSLO) bool { return slices.Contains(b.Indicators, w.Indicator) })
	if len(s.Done) == maxRebuiltNoted {
		s.Done = slices.Delete(s.Done, 0, 1)
	}
	s.Done = append(s.Done, RebuiltCounts{Indicators: b.Indicators, First: b.First, Next: b.Next, Seq: rec.Seq,
		At: time.Unix(0, rec.Time).UTC(), File: b.File})
	return nil
}

// counts are those of a file: in memory if they were just written, else read.
func (r *Rebuilds) counts(b *record.Rebuilt) (*loneFold, error) {
	r.mu.Lock()
	ready := r.ready
	r.ready = nil
	r.mu.Unlock()
	if ready != nil && ready.file == b.File {
		return ready.fold, nil
	}
	data, err := r.read(b.File)
	if err != nil {
		return nil, err
	}
	if sha256.Sum256(data) != b.Hash {
		return nil, fmt.Errorf("file %s is damaged: its SHA-256 is not that in the log", b.File)
	}
	lone, err := fold.RestoreLone(data)
	if err != nil {
		return nil, err
	}
	return newLoneFold(lone, b.Next), nil
}

func (r *Rebuilds) read(name string) (data []byte, err error) {
	f, err := r.fs.Open(filepath.Join(r.dir, name))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	if size > maxRebuiltBytes {
		return nil, fmt.Errorf("file %s has %d bytes, at most %d are read", name, size, maxRebuiltBytes)
	}
	data = make([]byte, size)
	_, err = io.ReadFull(io.NewSectionReader(f, 0, size), data)
	return data, err
}

// write makes counts durable, for a record that names the file.
func (r *Rebuilds) write(l *loneFold, first uint64) (b record.Rebuilt, err error) {
	data := l.lone.Append(nil)
	b = record.Rebuilt{First: first, Next: l.next, Hash: sha256.Sum256(data)}
	b.File = fmt.Sprintf("%020d-%x%s", b.Next, b.Hash[:6], rebuiltSuffix)
	if len(data) > maxRebuiltBytes {
		return b, fmt.Errorf("rebuilt counts have %d bytes, at most %d are read", len(data), maxRebuiltBytes)
	}
	if err := fsys.MkdirAllSynced(r.fs, r.dir, siteRebuilt); err != nil {
		return b, err
	}
	return b, fsys.WriteAtomic(r.fs, filepath.Join(r.dir, b.File), func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

const (
	rebuiltSuffix             = ".counts"
	maxRebuiltBytes           = fsys.MaxStateBytes
	siteRebuilt     fsys.Site = "counting.rebuilt"
)

// remove deletes files: those of records that checkpoints hold, and those that no record names. checked is the oldest
// record that a start may read again.
func (r *Rebuilds) remove(checked uint64) error {
	r.mu.Lock()
	needed := map[string]bool{}
	for i := range r.state.Done {
		if d := &r.state.Done[i]; d.Seq >= checked {
			needed[d.File] = true
		}
	}
	var gone []string
	for name := range r.files {
		if !needed[name] && (r.ready == nil || r.ready.file != name) {
			gone = append(gone, name)
		}
	}
	r.mu.Unlock()
	for _, name := range gone {
		err := fsys.ChangeDir(r.fs, r.dir, siteRebuilt, func() error {
			return r.fs.Remove(filepath.Join(r.dir, name))
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		r.mu.Lock()
		delete(r.files, name)
		r.mu.Unlock()
	}
	return nil
}

// part is that of a checkpoint; nothing before the first change.
func (r *Rebuilds) part() (p engine.Part, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state.Version == 0 {
		return p, false
	}
	return engine.Part{Name: RebuildsPart, Version: r.state.Version, Encode: r.encode}, true
}

func (r *Rebuilds) encode(dst []byte) []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	b, err := json.Marshal(&r.state)
	if err != nil { // cannot happen: it was read from JSON or has such values
		panic(err)
	}
	return append(dst, b...)
}

func (r *Rebuilds) restore(data []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return json.Unmarshal(data, &r.state)
}

// begin says what is counted at the start, after the parts were read.
func (r *Rebuilds) begin(cfg *fold.Config) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if cfg != nil && len(r.state.Services) == 0 {
		r.noteServices(0, cfg)
	}
}
