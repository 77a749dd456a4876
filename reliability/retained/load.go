package retained

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sloengine/sloengine/reliability/fsys"
)

// This file reads the folder at the start, and deals with what a crash, damage or another log left there.

// load lists the folder and reads the indexes, once. A file whose index cannot be read stays, and costs its records.
func (s *Store) load() error {
	if s.loaded.Load() {
		return nil
	}
	s.loading.Lock()
	defer s.loading.Unlock()
	if s.loaded.Load() {
		return nil
	}
	files, err := s.list()
	if err != nil {
		return err
	}
	floor := s.o.Log.FirstSeq()
	for n := len(files); n > 0 && files[n-1].err != nil && files[n-1].First >= floor; n-- {
		files = files[:n-1] // the log still has them, so they are written again
	}
	if n := len(files); n > 0 {
		floor = max(floor, files[n-1].Next)
	}
	s.mu.Lock()
	s.files = files
	s.mu.Unlock()
	s.floor.Store(floor)
	s.loaded.Store(true)
	s.measure()
	return nil
}

// list reads the folder. What a crash left is deleted, and what another log left is moved aside.
func (s *Store) list() ([]*file, error) {
	names, err := s.o.FS.List(s.o.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list folder %s: %w", s.o.Dir, err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, fsys.TempSuffix) {
			_ = s.o.FS.Remove(filepath.Join(s.o.Dir, name)) // the next one of the name replaces it
		}
	}
	files := readIndexes(s.o.FS, s.o.Dir, names)
	guess(files)
	next := s.o.Log.NextSeq()
	for len(files) > 0 && files[len(files)-1].Next > next {
		f := files[len(files)-1]
		files = files[:len(files)-1]
		s.o.Logger.Error("retained records are of another log and are moved aside", "file", f.path, "first", f.First,
			"next", f.Next, "log_next", next)
		if err := s.o.FS.Rename(f.path, f.path+".aside"); err != nil {
			return nil, fmt.Errorf("move retained records aside: %w", err)
		}
	}
	for _, f := range files {
		if f.err != nil {
			s.o.Metrics.damaged.Inc()
			s.o.Logger.Error("retained records cannot be read", "file", f.path, "first", f.First, "next", f.Next,
				"err", f.err)
		}
	}
	return files, nil
}

// Names lists the files of a folder, the newest first: deletion begins with the oldest, so whoever goes through them in
// this order misses none in front of one that it still found. What is to be erased comes before all, and the chain of
// erasures behind all, so that a copy in this order lacks neither.
func Names(f fsys.FS, dir string) ([]string, error) {
	names, err := f.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list folder %s: %w", dir, err)
	}
	var before, out, behind []string
	for _, name := range slices.Backward(names) {
		if _, ok := parseName(name); ok {
			out = append(out, name)
		} else if name == pendingName {
			before = append(before, name)
		} else if name == ChainName {
			behind = append(behind, name)
		}
	}
	return slices.Concat(before, out, behind), nil
}

// readIndexes reads the indexes of the files of a folder, ascending.
func readIndexes(f fsys.FS, dir string, names []string) []*file {
	var files []*file
	for _, name := range names {
		if first, ok := parseName(name); ok {
			files = append(files, openFile(f, filepath.Join(dir, name), first))
		}
	}
	sortFiles(files)
	return files
}

func sortFiles(files []*file) {
	slices.SortFunc(files, func(a, b *file) int { return cmp.Compare(a.First, b.First) })
}

// guess fills in what a bad index does not say, so that the file takes part in deletion.
func guess(files []*file) {
	for i := len(files) - 1; i >= 0; i-- {
		if files[i].err == nil {
			continue
		}
		f := *files[i]
		f.Next = f.First + 1
		if i+1 < len(files) {
			f.Next, f.To = files[i+1].First, files[i+1].From
		} else if i > 0 {
			f.To = files[i-1].To
		}
		f.From = f.To
		files[i] = &f
	}
}

func openFile(fs fsys.FS, path string, first uint64) *file {
	x := &file{path: path}
	x.First = first
	f, err := fs.Open(path)
	if err != nil {
		x.err = err
		return x
	}
	sum, size, err := readSummary(f, first)
	_ = f.Close() // it was only read
	x.size = size
	if err != nil {
		x.err = err
		return x
	}
	x.Summary = sum
	return x
}
