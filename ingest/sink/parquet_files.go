package sink

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/sloengine/sloengine/ingest/parquet"
	"github.com/sloengine/sloengine/reliability/fsys"
)

// SiteParquetMove is the sync of a folder that a file was moved into.
const SiteParquetMove fsys.Site = "parquetsink.move"

const (
	lockFile   = ".lock"
	stateFile  = ".sloengine.json"
	stagedDir  = ".staged"
	stagedName = "%d-%d.staged" // of which save, and which file of it

	parquetVersion = 1
)

// parquetState is what a folder holds.
type parquetState struct {
	Version int `json:"version"`
	// Everything before this place is in a file, or was never sent.
	Record   uint64 `json:"record"`
	Index    int    `json:"index"`
	Received int64  `json:"received"` // Unix nanoseconds, of the newest event
	// Files that may still be in .staged, by number, with where they belong.
	Save   int      `json:"save"`
	Staged []string `json:"staged,omitempty"`
}

func (s *parquetState) place() parquet.Place { return parquet.Place{Record: s.Record, Index: s.Index} }

func (s *Parquet) file(name ...string) string {
	return filepath.Join(append([]string{s.o.Dir}, name...)...)
}

// open locks the folder and finishes what was saved. What is held may be among it, if the last save failed.
func (s *Parquet) open() error {
	lock, err := s.o.FS.Lock(s.file(lockFile))
	if err != nil {
		return missing(s.o.Dir, err)
	}
	s.lock = lock
	state, err := s.load()
	if err == nil {
		err = s.finish(&state)
	}
	if err == nil {
		err = fsys.MkdirAllSynced(s.o.FS, s.file(stagedDir), SiteFileMkdir)
	}
	if err == nil {
		err = s.sweep()
	}
	if err == nil {
		// Proves that the folder can be written to.
		err = s.saveState(&state)
	}
	if err != nil {
		return errors.Join(err, s.unlock())
	}
	s.state = state
	if !state.place().Before(s.next) {
		s.drop()
	}
	return nil
}

// load reads the state of the folder.
func (s *Parquet) load() (state parquetState, err error) {
	name := s.file(stateFile)
	f, err := s.o.FS.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return s.fresh()
	}
	if err != nil {
		return state, err
	}
	data, err := io.ReadAll(io.LimitReader(f, fsys.MaxStateBytes))
	if err = errors.Join(err, f.Close()); err != nil {
		return state, fmt.Errorf("read %s: %w", name, err)
	}
	if err = json.Unmarshal(data, &state); err == nil && state.Version > parquetVersion {
		return state, fmt.Errorf("%s has format %d, and this program reads format %d: %w", name, state.Version,
			parquetVersion, fsys.ErrNewer)
	}
	if err == nil && state.Version < 1 {
		err = errors.New("no version")
	}
	for _, to := range state.Staged {
		if !filepath.IsLocal(to) {
			err = fmt.Errorf("invalid name %q", to)
		}
	}
	switch {
	case err != nil:
		return state, fmt.Errorf("damaged %s, which says which events the folder has (give an empty folder): %w", name, err)
	case state.Save < s.state.Save:
		return state, fmt.Errorf("folder %s is an older copy of the one that was written to (mount that one, or restart to "+
			"continue with the copy)", s.o.Dir)
	}
	return state, nil
}

// fresh is the state of an empty folder.
func (s *Parquet) fresh() (state parquetState, err error) {
	if s.state.Version > 0 {
		return state, fmt.Errorf("folder %s has lost its files (mount it again, or restart to continue in an empty folder)",
			s.o.Dir)
	}
	names, err := s.o.FS.List(s.o.Dir)
	if err != nil {
		return state, err
	}
	for _, name := range names {
		if !strings.HasPrefix(name, ".") {
			return state, fmt.Errorf("folder %s holds %s, and no %s: which events it has is not known (give an empty folder)",
				s.o.Dir, name, stateFile)
		}
	}
	return parquetState{Version: parquetVersion}, nil
}

func (s *Parquet) saveState(state *parquetState) error {
	data, err := json.Marshal(state)
	if err != nil {
		return err
	}
	return fsys.Replace(s.o.FS, s.file(stateFile), append(data, '\n'))
}

// save writes what a Writer holds, and the state to with it.
func (s *Parquet) save(w *parquet.Writer, kind string, to parquetState) (err error) {
	to.Save++
	to.Staged, err = w.Stage(s.file(stagedDir), kind, func(n int) string { return fmt.Sprintf(stagedName, to.Save, n) })
	if err == nil {
		// From here on the events are delivered: a start moves the files if this process cannot.
		err = s.saveState(&to)
	}
	if err == nil {
		err = s.finish(&to)
	}
	if err != nil {
		return err
	}
	w.Drop()
	s.state = to
	// Only the next start would read it again, and then finds nothing to move.
	return s.saveState(&to)
}

// finish moves staged files to where they belong. Some may have been moved before.
func (s *Parquet) finish(state *parquetState) error {
	for n, name := range state.Staged {
		from, to := s.file(stagedDir, fmt.Sprintf(stagedName, state.Save, n)), s.file(name)
		// The folder may be of a disk that is gone: making it again would be on another one.
		if _, err := s.o.FS.List(s.o.Dir); err != nil {
			return missing(s.o.Dir, err)
		}
		if err := fsys.MkdirAllSynced(s.o.FS, filepath.Dir(to), parquet.SiteMkdir); err != nil {
			return err
		}
		err := fsys.ChangeDir(s.o.FS, filepath.Dir(to), SiteParquetMove, func() error {
			err := s.o.FS.Rename(from, to)
			if !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			f, err := s.o.FS.Open(to)
			if err != nil {
				return fmt.Errorf("%s is lost (restore it, or create an empty file of that name to continue): %w", to, err)
			}
			return f.Close()
		})
		if err != nil {
			return fmt.Errorf("move file: %w", err)
		}
	}
	state.Staged = nil
	return nil
}

// sweep removes files that no state has.
func (s *Parquet) sweep() error {
	names, err := s.o.FS.List(s.file(stagedDir))
	for _, name := range names {
		err = errors.Join(err, s.o.FS.Remove(s.file(stagedDir, name)))
	}
	return err
}
