package fsys

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
)

// BrokenSuffix ends the name of a damaged state file that was moved aside.
const BrokenSuffix = ".broken"

// SiteStateAside: the folder of a state file, after a damaged one was moved aside.
const SiteStateAside Site = "state.aside"

// StateFile is a small JSON file that is read at the start and replaced as a whole. The field version of T is its
// format. Nothing but T depends on it: a damaged file is moved aside, and its owner starts without.
type StateFile[T any] struct {
	Files   FS
	Name    string
	What    string // such as "annotations", for errors
	Damaged string // the log line about a damaged file
	Oldest  int    // the oldest format that is read; 0: Newest
	Newest  int    // the format that is written
	Logger  *slog.Logger
}

// CheckVersion refuses a file of a format above Newest with an error that wraps [ErrNewer]. Nothing else is an error
// here: Load finds out whether the file is missing or damaged.
func (s *StateFile[T]) CheckVersion() error {
	if _, _, err := s.read(); errors.Is(err, ErrNewer) {
		return err
	}
	return nil
}

func (s *StateFile[T]) read() (data []byte, version int, err error) {
	data, err = readAll(s.Files, s.Name, MaxStateBytes)
	var head struct{ Version int }
	if _ = json.Unmarshal(data, &head); head.Version > s.Newest {
		err = fmt.Errorf("%s: %s has format %d, and this program reads formats up to %d: %w",
			s.What, s.Name, head.Version, s.Newest, ErrNewer)
	}
	return data, head.Version, err
}

// Load reads the file. A missing one is the zero T, and so is a damaged one, which is moved aside and logged. check,
// which may be nil, completes T or reports the damage.
//
// The error is that of [StateFile.CheckVersion], or that there was no file descriptor, which proves no damage.
func (s *StateFile[T]) Load(check func(*T) error) (v T, err error) {
	data, version, err := s.read()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return v, nil
	case errors.Is(err, ErrNewer) || Classify(err) == NoFiles:
		return v, err
	case err == nil:
		err = json.Unmarshal(data, &v)
	}
	if oldest := cmp.Or(s.Oldest, s.Newest); err == nil && version < oldest {
		err = fmt.Errorf("format %d: want %d", version, s.Newest)
	}
	if err == nil && check != nil {
		err = check(&v)
	}
	if err != nil {
		s.moveAside(err)
		v = *new(T)
	}
	return v, nil
}

// moveAside keeps a damaged file, which the next Save would replace. If that is not possible, the log says so: the
// owner continues without it, since the owner may be the part that reports a broken disk.
func (s *StateFile[T]) moveAside(err error) {
	kept := s.Name + BrokenSuffix
	rename := func() error { return s.Files.Rename(s.Name, kept) }
	if moved := ChangeDir(s.Files, filepath.Dir(s.Name), SiteStateAside, rename); moved != nil {
		s.Logger.Error(s.Damaged, "file", s.Name, "err", err, "not_kept", moved)
		return
	}
	s.Logger.Error(s.Damaged, "file", s.Name, "kept", kept, "err", err)
}

// Save replaces the file, durably.
func (s *StateFile[T]) Save(v T) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode %s: %w", s.Name, err)
	}
	return s.Write(append(data, '\n'))
}

// Write is Save of a T that is encoded already.
func (s *StateFile[T]) Write(data []byte) error { return Replace(s.Files, s.Name, data) }
