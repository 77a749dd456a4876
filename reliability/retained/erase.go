package retained

import (
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/reliability/wal"
)

// This file removes something from records that are retained. What is asked for is durable first. Each file is then
// written beside and swapped, after its changes are noted in the chain. A start continues where it ended.

// Erasure says what is removed from the records before a number. The value itself is not in it, since it is stored
// until the last of these records is retained.
type Erasure struct {
	ID        string    `json:"id"`
	Attribute string    `json:"attribute,omitempty"` // whose value goes; "": what the rules of redaction name
	Salt      []byte    `json:"salt,omitempty"`
	Hash      []byte    `json:"hash,omitempty"`  // SHA-256 of salt and value
	Token     string    `json:"token,omitempty"` // in place of the value
	Below     uint64    `json:"below"`           // the first record that is left alone
	Asked     time.Time `json:"asked"`
}

// NewErasure is one of a value of an attribute. The token in its place is drawn, so that it does not lead to the value.
func NewErasure(attribute, value string) Erasure {
	e := Erasure{ID: rand.Text()[:16], Attribute: attribute, Salt: []byte(rand.Text()), Asked: time.Now().UTC(),
		Token: "erased-" + strings.ToLower(rand.Text()[:8])}
	e.Hash = e.sum(nil, []byte(value))
	return e
}

func (e *Erasure) sum(dst, value []byte) []byte {
	h := sha256.New()
	h.Write(e.Salt)
	h.Write(value)
	return h.Sum(dst)
}

// Is reports whether a value is the one that goes.
func (e *Erasure) Is(value []byte) bool {
	var sum [sha256.Size]byte
	return string(e.sum(sum[:0], value)) == string(e.Hash)
}

// Progress says how far an erasure is.
type Progress struct {
	Erasure
	Next    uint64 `json:"next"`   // the files of records before it are done
	Events  uint64 `json:"events"` // that were changed
	Damaged int    `json:"damaged,omitempty"`
	// Files are still to be searched. Done means that all records before Below are.
	Files int  `json:"-"`
	Done  bool `json:"-"`
}

// maxErasures is how many erasures may be at work.
const maxErasures = 100

// ErrManyErasures means that so many are at work that no other begins.
var ErrManyErasures = fmt.Errorf("%d erasures are at work already: try again when one is done", maxErasures)

// pendingName is the file with the erasures at work.
const pendingName = "erasing"

const pendingVersion = 1

type pendingFile struct {
	Version int         `json:"version"`
	Pending []*Progress `json:"pending"`
}

// erasures are those at work. Only the goroutine of Run carries them out.
type erasures struct {
	mu      sync.Mutex // held while the file is replaced
	loaded  bool
	pending []*Progress // in the order in which they were asked for
	ended   []*Progress // lately, so that who asked for them sees their figures
	chain   *chain      // of the goroutine of Run
	unpack  *unpacker
}

func (s *Store) pendingFile() fsys.StateFile[pendingFile] {
	return fsys.StateFile[pendingFile]{Files: s.o.FS, Name: filepath.Join(s.o.Dir, pendingName),
		What: "erasures of retained records", Newest: pendingVersion, Logger: s.o.Logger,
		Damaged: "the erasures at work cannot be read and end (repeat them)"}
}

// loadErasures reads those that an earlier process left. mu is held.
func (s *Store) loadErasures() error {
	x := &s.erasures
	if x.loaded {
		return nil
	}
	file := s.pendingFile()
	v, err := file.Load(func(f *pendingFile) error {
		for _, p := range f.Pending {
			if p == nil || p.ID == "" {
				return errors.New("an erasure without id")
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	x.pending, x.loaded = v.Pending, true
	s.o.Metrics.erasing.Set(float64(len(x.pending)))
	return nil
}

// saveErasures makes them durable. mu is held.
func (s *Store) saveErasures() error {
	file := s.pendingFile()
	s.o.Metrics.erasing.Set(float64(len(s.erasures.pending)))
	if err := file.Save(pendingFile{Version: pendingVersion, Pending: s.erasures.pending}); err != nil {
		return fmt.Errorf("note erasures: %w", err)
	}
	return nil
}

// Erase begins an erasure, durably. Nothing begins if one that is at work does the same, or ended since it was last
// asked for: its progress is returned then.
func (s *Store) Erase(e Erasure, same func(*Erasure) bool) (Progress, error) {
	if err := s.load(); err != nil { // it removes what a crash left, which must not be what is written here
		return Progress{}, err
	}
	x := &s.erasures
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := fsys.MkdirAllSynced(s.o.FS, s.o.Dir, SiteMkdir); err != nil {
		return Progress{}, err
	}
	if err := s.loadErasures(); err != nil {
		return Progress{}, err
	}
	for _, p := range x.pending {
		if same(&p.Erasure) {
			return s.progress(p), nil
		}
	}
	if i := slices.IndexFunc(x.ended, func(p *Progress) bool { return same(&p.Erasure) }); i >= 0 {
		p := x.ended[i]
		x.ended = slices.Delete(x.ended, i, i+1)
		return *p, nil
	}
	if len(x.pending) >= maxErasures {
		return Progress{}, ErrManyErasures
	}
	p := &Progress{Erasure: e}
	x.pending = append(x.pending, p)
	if err := s.saveErasures(); err != nil {
		x.pending = x.pending[:len(x.pending)-1]
		return Progress{}, err
	}
	s.o.Step(StepErasing)
	s.wake()
	return s.progress(p), nil
}

// Erasure is the progress of one, which is that of the last look with Done if it ended meanwhile.
func (s *Store) Erasure(last Progress) Progress {
	x := &s.erasures
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, p := range slices.Concat(x.ended, x.pending) {
		if p.ID == last.ID {
			last = s.progress(p)
			if p.Done { // the figures are asked for once
				x.ended = slices.DeleteFunc(x.ended, func(e *Progress) bool { return e == p })
			}
			return last
		}
	}
	last.Done, last.Files = true, 0
	return last
}

// progress is a copy with the files that are left.
func (s *Store) progress(p *Progress) Progress {
	out := *p
	for _, f := range s.snapshot() {
		if f.First < p.Below && f.Next > p.Next {
			out.Files++
		}
	}
	return out
}

// atWork are the erasures that there are now.
func (s *Store) atWork() ([]*Progress, error) {
	x := &s.erasures
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := s.loadErasures(); err != nil {
		return nil, err
	}
	return append([]*Progress(nil), x.pending...), nil
}

// progressEvery is after how many unchanged files the progress is stored.
const progressEvery = 64

// erase carries out what is asked for in the files that there are.
func (s *Store) erase(stop <-chan struct{}) error {
	pending, err := s.atWork()
	if err != nil {
		return err
	}
	for _, p := range pending {
		unchanged := 0
		for _, f := range s.snapshot() {
			if f.First >= p.Below || f.Next <= p.Next {
				continue
			}
			events, damaged, err := s.rewrite(f, &p.Erasure, stop)
			if err != nil {
				return err
			}
			if damaged > 0 {
				s.o.Logger.Error("retained records cannot be read and are not erased", "file", f.path, "blocks", damaged)
			}
			if unchanged++; events > 0 || damaged > 0 {
				unchanged = 0
			}
			if err := s.advance(p, f.Next, events, damaged, unchanged%progressEvery == 0); err != nil {
				return err
			}
		}
	}
	return s.erased()
}

func (s *Store) advance(p *Progress, next uint64, events uint64, damaged int, save bool) error {
	s.erasures.mu.Lock()
	defer s.erasures.mu.Unlock()
	p.Next, p.Events, p.Damaged = next, p.Events+events, p.Damaged+damaged
	if !save {
		return nil
	}
	return s.saveErasures()
}

// erased ends the erasures whose records have all been looked at, and all if nothing is retained. The hash of the value
// goes with them.
func (s *Store) erased() error {
	off, floor := s.bounds.Load().Age == 0, s.floor.Load()
	s.erasures.mu.Lock()
	defer s.erasures.mu.Unlock()
	if err := s.loadErasures(); err != nil {
		return err
	}
	var left []*Progress
	for _, p := range s.erasures.pending {
		if !off && floor < p.Below {
			left = append(left, p)
			continue
		}
		p.Done = true
		s.erasures.ended = append(s.erasures.ended[max(0, len(s.erasures.ended)-maxErasures+1):], p)
		s.o.Logger.Info("erased from the retained log", "id", p.ID, "attribute", p.Attribute, "events", p.Events,
			"damaged", p.Damaged)
	}
	if len(left) == len(s.erasures.pending) {
		return nil
	}
	s.erasures.pending = left
	return s.saveErasures()
}

// rewrite removes something from a file. Records that cannot be read stay as they are.
func (s *Store) rewrite(f *file, e *Erasure, stop <-chan struct{}) (events uint64, damaged int, err error) {
	if f.err != nil {
		return 0, 1, nil
	}
	x := &eraser{s: s, e: e}
	if x.u, err = s.unpacker(); err != nil {
		return 0, 0, err
	}
	x.open, x.blocks, err = (&Source{fs: s.o.FS}).enter(f)
	if errors.Is(err, errDamaged) {
		return 0, 1, nil
	}
	if err != nil {
		return 0, 0, fmt.Errorf("erase from %s: %w", f.path, err)
	}
	defer x.open.Close() // it was only read
	pace := s.pace(stop)
	first := 0
	for ; first < len(x.blocks); first++ {
		if err := x.block(first); err != nil {
			return 0, 0, fmt.Errorf("erase from %s: %w", f.path, err)
		}
		if x.frame.Events > 0 {
			break
		}
		select {
		case <-stop:
			return 0, 0, errStopped
		default:
		}
		pace()
	}
	if first == len(x.blocks) {
		return 0, x.damaged, nil
	}
	if err := s.makePacker(); err != nil {
		return 0, 0, err
	}
	x.damaged = 0
	w := &writer{pack: s.packer, pace: pace}
	err = fsys.WriteAtomic(s.o.FS, f.path, func(to io.Writer) error {
		w.w = to
		return x.write(w, f, stop)
	})
	if err != nil {
		return 0, 0, fmt.Errorf("erase: %w", err)
	}
	s.replaceFile(f, &file{Summary: w.sum, size: w.size, path: f.path})
	s.o.Step(StepErased)
	s.o.Metrics.erased.AddInt64(int64(x.line.events()))
	return x.line.events(), x.damaged, nil
}

func (s *Store) unpacker() (*unpacker, error) {
	if s.erasures.unpack == nil {
		u, err := s.o.Form.newUnpacker()
		if err != nil {
			return nil, err
		}
		s.erasures.unpack = u
	}
	return s.erasures.unpack, nil
}

func (s *Store) replaceFile(old, by *file) {
	s.mu.Lock()
	files := append([]*file(nil), s.files...)
	for i := range files {
		if files[i] == old {
			files[i] = by
		}
	}
	s.files = files
	s.mu.Unlock()
	s.measure()
}

// eraser rewrites one file.
type eraser struct {
	s       *Store
	e       *Erasure
	u       *unpacker
	open    fsys.File
	blocks  []Block
	damaged int
	line    link

	raw     blockEncoder // the block at hand, if frame.Events > 0
	payload []byte
	frame   Frame
}

// block reads a block and makes its new form. Without a change frame.Events is 0, and u.in holds the block as it was.
func (x *eraser) block(i int) error {
	b := &x.blocks[i]
	x.frame = Frame{First: b.First}
	records, err := x.u.open(x.open, b)
	if errors.Is(err, errDamaged) && len(x.u.in) == int(b.size) {
		x.damaged++
		return nil
	}
	if err != nil {
		return err
	}
	x.raw.raw = x.raw.raw[:0]
	var rec wal.Record
	for records.next(&rec) {
		x.frame.Records++
		if rec.Seq < x.e.Below {
			payload, events, err := x.s.o.Rewrite(x.payload[:0], &rec, x.e)
			if err != nil {
				x.damaged++ // it stays as it is
			}
			if events > 0 && err == nil {
				x.payload, rec.Payload = payload, payload
				x.frame.Events += uint64(events)
			}
		}
		x.raw.add(&rec)
	}
	if x.frame.Events > 0 {
		x.frame.Old, x.frame.New = sumOf(x.u.raw), sumOf(x.raw.raw)
	}
	return nil
}

func sumOf(b []byte) string { return Digest(sha256.Sum256(b)).String() }

// write writes the whole file, and notes what changes before it returns.
func (x *eraser) write(w *writer, f *file, stop <-chan struct{}) error {
	if err := w.begin(f.First, f.Before); err != nil {
		return err
	}
	w.sum = f.Summary
	for i := range x.blocks {
		if err := x.block(i); err != nil {
			return err
		}
		b, out := x.blocks[i], x.u.in
		if x.frame.Events > 0 {
			out = w.pack.pack(x.raw.raw, &b, nil, nil)
			w.sum.Raw += uint64(len(x.raw.raw)) - uint64(b.raw)
			b.size, b.raw, b.crc = uint32(len(out)), uint32(len(x.raw.raw)), checksum(out)
			x.line.Frames = append(x.line.Frames, x.frame)
		}
		b.at = w.size
		w.blocks = append(w.blocks, b)
		if err := w.write(out); err != nil {
			return err
		}
		select {
		case <-stop:
			return errStopped
		default:
		}
		w.pace()
	}
	if err := w.end(f.Next); err != nil {
		return err
	}
	x.line.Erasure, x.line.Attribute, x.line.Asked, x.line.File = x.e.ID, x.e.Attribute, x.e.Asked, f.First
	if err := x.s.appendChain(&x.line); err != nil {
		return err
	}
	x.s.o.Step(StepNoted)
	return nil
}
