package retained

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/reliability/health"
	"github.com/sloengine/sloengine/reliability/wal"
)

// Log is what a Store needs of the log.
type Log interface {
	// Closed is the oldest closed segment of which all records are from that number on.
	Closed(from uint64) (first, next uint64, ok bool)
	NewReader(from uint64) (*wal.Reader, error)
	FirstSeq() uint64
	NextSeq() uint64
}

// Options of a Store.
type Options struct {
	FS  fsys.FS
	Dir string
	Log Log
	// Describe tells the index what is in a record. RuleType is the type of the records whose numbers the index lists.
	Describe func(rec *wal.Record, s *Sketch) error
	RuleType byte
	// Form takes records apart so that less is left to compress.
	Form Form
	// Rewrite appends the payload of a record with what an erasure removes, and says in how many events that was. With
	// none it appends nothing.
	Rewrite func(dst []byte, rec *wal.Record, e *Erasure) (payload []byte, events int, err error)
	// Now is the time by which records are too old: that of the log, so that a clock that jumps deletes nothing.
	Now func() time.Time
	// Missing is how much space the disk lacks, in bytes, so that the oldest files must go.
	Missing func() int64
	Logger  *slog.Logger
	Metrics *Metrics
	Step    func(step string) // called after each step that makes something durable; nil: not called
}

// Bounds say how much is retained.
type Bounds struct {
	Age   time.Duration // of the receive time; 0: nothing is retained
	Bytes int64         // of all files
}

// Steps for tests that stop there.
const (
	StepMoved   = "history.moved"   // a file is durable, its segment still in the log
	StepDeleted = "history.deleted" // the oldest file is gone
	StepErasing = "history.erasing" // what is to be erased is noted
	StepNoted   = "history.noted"   // what changes in a file is noted, the file itself is old
	StepErased  = "history.erased"  // the file is new
)

// checkEvery is how often age and disk are looked at, and a failure is tried again.
const checkEvery = 10 * time.Second

// maxWaiting is how many closed segments wait in the log while they cannot be compressed. Beyond it, the oldest is
// given up: the log must not fill the disk for its own memory.
const maxWaiting = 16

// Store moves closed segments of a log into a folder, and deletes the oldest. Its methods may be called from any
// goroutine. Only that of Run changes the folder.
type Store struct {
	o      Options
	bounds atomic.Pointer[Bounds]
	offer  atomic.Uint64 // nothing else needs the records before it
	floor  atomic.Uint64 // the log may delete the records before it
	poke   chan struct{}
	moved  chan struct{}
	health health.Log
	packer *packer

	loading sync.Mutex // held while loaded becomes true
	loaded  atomic.Bool

	mu    sync.Mutex
	files []*file // ascending; the slice is replaced, never changed
	after Digest  // behind the last file; zero: it is not known

	erasures erasures
}

// file is a file of the folder. Its fields do not change.
type file struct {
	Summary
	size int64
	err  error // of the index, which is then a guess by the neighbours
	path string
}

// New makes a Store. It looks at nothing: Run does.
func New(o Options) *Store {
	o.Metrics = cmp.Or(o.Metrics, NewMetrics(metrics.NewSet()))
	if o.Step == nil {
		o.Step = func(string) {}
	}
	s := &Store{o: o, poke: make(chan struct{}, 1), moved: make(chan struct{}, 1)}
	s.bounds.Store(&Bounds{})
	s.health = health.Log{
		Tracker: health.Tracker{Cause: func(error) string { return "the retained log cannot be written" }},
		Logger:  o.Logger, Broken: "closed segments of the log cannot be retained, retrying",
		Works: "closed segments of the log are retained again",
	}
	return s
}

// SetBounds changes how much is retained, from the next look on.
func (s *Store) SetBounds(b Bounds) {
	s.bounds.Store(&b)
	s.wake()
}

// Bounds are those of the last SetBounds.
func (s *Store) Bounds() Bounds { return *s.bounds.Load() }

// Offer says that nothing else needs the records before a number: they may be moved.
func (s *Store) Offer(below uint64) {
	s.offer.Store(below)
	s.wake()
}

// Floor is the first record that the log must keep because it is not retained yet.
func (s *Store) Floor() uint64 {
	if s.bounds.Load().Age == 0 {
		return math.MaxUint64
	}
	return s.floor.Load()
}

// Moved has a signal when Floor has moved.
func (s *Store) Moved() <-chan struct{} { return s.moved }

// FailingSince is when closed segments could first not be retained; zero: they can.
func (s *Store) FailingSince() time.Time { return s.health.Failure().Since }

func (s *Store) wake() { signal(s.poke) }

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Run moves and deletes until stop is closed. What fails is tried again, and noted once.
func (s *Store) Run(stop <-chan struct{}) error {
	tick := time.NewTicker(checkEvery)
	defer tick.Stop()
	for {
		s.work(stop)
		select {
		case <-s.poke:
		case <-tick.C:
		case <-stop:
			return nil
		}
	}
}

// work does all that can be done now.
func (s *Store) work(stop <-chan struct{}) {
	b := s.Bounds()
	if b.Age > 0 {
		if err := fsys.MkdirAllSynced(s.o.FS, s.o.Dir, SiteMkdir); err != nil {
			s.note(err)
			return
		}
	}
	if err := s.load(); err != nil {
		s.note(err)
		return
	}
	err := s.expire(b)
	if err == nil {
		err = s.erase(stop)
	}
	if err != nil {
		s.note(err)
		return
	}
	for b.Age > 0 {
		select {
		case <-stop:
			return
		default:
		}
		did, err := s.moveOne(stop)
		if errors.Is(err, errStopped) {
			return
		}
		if err == nil && did {
			err = s.expire(s.Bounds())
		}
		if err != nil {
			s.note(err)
			s.giveUpIf(fsys.Classify(err) == fsys.NoSpace)
			return
		}
		if !did {
			s.note(s.erased())
			return
		}
		b = s.Bounds()
	}
}

func (s *Store) note(err error) {
	if err != nil {
		s.o.Metrics.failures.Inc()
	}
	s.health.Note(err)
}

// list of the moment; it is never changed.
func (s *Store) snapshot() []*file {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.files
}

var errStopped = errors.New("stopped")

// moveOne compresses the oldest closed segment that nothing else needs. Its file is durable before Floor moves.
func (s *Store) moveOne(stop <-chan struct{}) (did bool, err error) {
	first, next, ok := s.o.Log.Closed(s.floor.Load())
	if !ok || next > s.offer.Load() {
		return false, nil
	}
	if s.o.Missing() > 0 {
		if did, err := s.deleteOldest("disk"); did || err != nil {
			return did, err
		}
		s.giveUp(first, next, "the disk is nearly full")
		return true, nil
	}
	if next > first {
		// What is to be erased is gone from the file before the log may delete the segment. After a failure in between, the
		// file is there already.
		if files := s.snapshot(); len(files) == 0 || files[len(files)-1].First < first {
			if err := s.compress(first, next, stop); err != nil {
				return false, err
			}
			s.o.Step(StepMoved)
		}
		if err := s.erase(stop); err != nil {
			return false, err
		}
	}
	s.passed(next)
	return true, nil
}

// passed lets the log delete the records before a number.
func (s *Store) passed(next uint64) {
	s.floor.Store(next)
	s.measure()
	signal(s.moved)
}

// compress writes the file of a segment.
func (s *Store) compress(first, next uint64, stop <-chan struct{}) (err error) {
	r, err := s.o.Log.NewReader(first)
	if err != nil {
		return fmt.Errorf("read the log: %w", err)
	}
	defer r.Close()
	if err := s.makePacker(); err != nil {
		return err
	}
	before, err := s.before(first)
	if err != nil {
		return err
	}
	pace := s.pace(stop)
	w := &writer{pack: s.packer, describe: s.o.Describe, ruleType: s.o.RuleType, pace: pace}
	path := filepath.Join(s.o.Dir, fileName(first))
	err = fsys.WriteAtomic(s.o.FS, path, func(to io.Writer) error {
		w.w = to
		if err := w.begin(first, before); err != nil {
			return err
		}
		var rec wal.Record
		for rec.Seq < next-1 {
			ok, err := r.Next(&rec)
			if err != nil {
				return fmt.Errorf("read the log: %w", err)
			}
			if !ok || rec.Seq >= next {
				return fmt.Errorf("read the log: record %d is missing", next-1)
			}
			if err := w.add(&rec); err != nil {
				return err
			}
			select {
			case <-stop:
				return errStopped
			default:
			}
		}
		return w.end(next)
	})
	if err != nil {
		return err
	}
	s.o.Metrics.rawBytes.AddInt64(int64(w.sum.Raw))
	s.o.Metrics.written.AddInt64(w.size)
	s.mu.Lock()
	s.files = append(slices.Clip(s.files), &file{Summary: w.sum, size: w.size, path: path})
	s.after = w.after
	s.mu.Unlock()
	return nil
}

// before is the digest of the records before a segment.
func (s *Store) before(first uint64) (Digest, error) {
	files := s.snapshot()
	n := len(files)
	if n == 0 || files[n-1].Next != first || files[n-1].err != nil {
		return Digest{}, nil
	}
	if s.after != (Digest{}) {
		return s.after, nil
	}
	sum, err := s.Source().after(files[n-1])
	if errors.Is(err, errDamaged) {
		return Digest{}, nil
	}
	return sum, err
}

func (s *Store) makePacker() (err error) {
	if s.packer == nil {
		s.packer, err = s.o.Form.newPacker()
	}
	return err
}

// pace is called after each block. It rests as long as the block took, so that the Store takes half a core at most
// while events come in.
func (s *Store) pace(stop <-chan struct{}) func() {
	began := time.Now()
	return func() {
		s.rest(time.Since(began), stop)
		began = time.Now()
	}
}

// rest waits, at most a second and not beyond stop.
func (s *Store) rest(d time.Duration, stop <-chan struct{}) {
	t := time.NewTimer(min(d, time.Second))
	defer t.Stop()
	select {
	case <-t.C:
	case <-stop:
	}
}

// The sites of this package.
const (
	SiteMkdir  fsys.Site = "retained.mkdir"
	SiteDelete fsys.Site = "retained.delete"
	SiteChain  fsys.Site = "retained.chain"
)
