package annotation

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/slo"
)

// FileVersion is the version of the file.
const FileVersion = 1

// file is the annotations on disk.
type file struct {
	Version     int          `json:"version"`
	Spec        string       `json:"spec,omitempty"` // hash of the spec that was last in force
	Annotations []Annotation `json:"annotations"`
}

// Options of a Store. All but Files are required.
type Options struct {
	File   string
	Files  fsys.FS // nil: the operating system's
	Now    func() time.Time
	Logger *slog.Logger
}

// Store holds the annotations. It is safe for concurrent use.
type Store struct {
	o    Options
	file fsys.StateFile[file]

	mu      sync.Mutex
	spec    string
	all     []Annotation // by time, never changed in place
	changes uint64
}

// New reads the file. It refuses one of a newer version, and moves a broken one aside.
func New(o Options) (*Store, error) {
	o.Files = cmp.Or(o.Files, fsys.OS())
	s := &Store{o: o, file: fsys.StateFile[file]{
		Files: o.Files, Name: o.File, What: "annotations", Damaged: "annotations are unreadable, starting without them",
		Newest: FileVersion, Logger: o.Logger,
	}}
	f, err := s.file.Load(nil)
	if err != nil {
		return nil, err
	}
	s.spec, s.all = f.Spec, prune(f.Annotations, o.Now())
	return s, nil
}

// Read reads the annotations of a file, which it leaves alone. A missing file has none.
func Read(name string) ([]Annotation, error) {
	data, err := fsys.ReadFile(name, fsys.MaxStateBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var f file
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, fmt.Errorf("annotations in %s are unreadable: %w", name, err)
	}
	if f.Version > FileVersion {
		return nil, fmt.Errorf("%s has format %d, and this program reads format %d: %w", name, f.Version, FileVersion,
			fsys.ErrNewer)
	}
	return Merge(f.Annotations), nil
}

// save writes what will be in force, and then puts it in force. s.mu is held.
func (s *Store) save(spec string, all []Annotation) error {
	if err := s.file.Save(file{FileVersion, spec, append([]Annotation{}, all...)}); err != nil {
		return fmt.Errorf("save annotations: %w", err)
	}
	s.spec, s.all = spec, all
	s.changes++
	return nil
}

// Add adds an annotation, which is on disk afterwards. One that is there already, but for its author, is not added
// twice.
func (s *Store) Add(a Annotation) (Annotation, error) {
	now := s.o.Now().UTC()
	if err := a.check(now); err != nil {
		return a, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.all {
		if x.same(&a) {
			return x, nil
		}
	}
	a.ID, a.Created = strings.ToLower(rand.Text()[:16]), now
	return a, s.save(s.spec, prune(append(slices.Clone(s.all), a), now))
}

// Delete removes an annotation.
func (s *Store) Delete(id string) (Annotation, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.all, func(a Annotation) bool { return a.ID == id })
	if i < 0 {
		return Annotation{}, ErrNotFound
	}
	a := s.all[i]
	return a, s.save(s.spec, slices.Delete(slices.Clone(s.all), i, i+1))
}

// InForce notes the spec that is in force, by its hash. If it is another one than before, also before a restart, that
// is an annotation. The first one of all is none.
func (s *Store) InForce(hash string) error {
	now := s.o.Now().UTC()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.spec == hash {
		return nil
	}
	all := s.all
	if s.spec != "" {
		a := Annotation{ID: strings.ToLower(rand.Text()[:16]), At: now.Truncate(time.Second), Kind: Spec,
			Text: "spec " + s.spec + " replaced by " + hash, Created: now}
		all = prune(append(slices.Clone(all), a), now)
	}
	return s.save(hash, all)
}

// List is the annotations of a span that are about a service, or all with "", in the order of their times. A span
// without an end has none.
func (s *Store) List(service string, sp slo.Span) []Annotation {
	s.mu.Lock()
	all := s.all
	s.mu.Unlock()
	return Select(all, service, sp)
}

// Latest returns so many at most of the latest, and the number of changes up to them.
func (s *Store) Latest(most int) (all []Annotation, changes uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[max(0, len(s.all)-most):], s.changes
}

// Changes grows with each change, for entity tags.
func (s *Store) Changes() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changes
}
