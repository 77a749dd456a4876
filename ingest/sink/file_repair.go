package sink

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/sloengine/sloengine/reliability/fsys"
)

// open opens the file at hand behind its last whole line, or makes it.
func (s *File) open() error {
	if s.lock == nil {
		lock, err := s.o.FS.Lock(filepath.Join(s.o.Dir, ".lock"))
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("folder %s is missing (create or mount it, delivery then resumes automatically): %w", s.o.Dir, err)
		}
		if err != nil {
			return err
		}
		s.lock = lock
	}
	names, err := s.rotated()
	if err != nil {
		return errors.Join(err, s.unlock()) // the folder may come back as another one
	}
	if len(names) > 0 {
		s.nextNum = max(s.nextNum, fileNumber(names[len(names)-1])+1)
	}
	f, err := s.o.FS.OpenReadWrite(s.path())
	if errors.Is(err, fs.ErrNotExist) {
		f, err = s.o.FS.Create(s.path())
	}
	if err != nil {
		return fmt.Errorf("open file: %w", err)
	}
	good, whole, err := checkLines(f)
	if err == nil && good < 0 {
		// There is damage before whole lines: write those again, without it.
		err = s.rewrite(f)
		_ = f.Close() // it was only read
		if err != nil {
			return fmt.Errorf("repair file: %w", err)
		}
		if f, err = s.o.FS.OpenReadWrite(s.path()); err != nil {
			return fmt.Errorf("open repaired file: %w", err)
		}
		good, whole, err = checkLines(f)
		if err == nil && good < 0 {
			err = errors.New("file is still damaged after the repair")
		}
	}
	if err == nil && good < whole {
		err = f.Truncate(good)
	}
	// The entry may be one that the last process made just before it died, as may be
	// the lines: they count as durable from here on.
	if err == nil {
		err = fsys.SyncFile(f, SiteFileData)
	}
	if err == nil {
		err = fsys.SyncDir(s.o.FS, s.o.Dir, SiteFileDir)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("open file: %w", err), f.Close())
	}
	s.file, s.size, s.synced, s.opened = f, good, good, time.Now()
	return nil
}

// checkLines reads a file line by line. good is the end of the last whole line, or -1 if
// there is damage before it; whole is the file's size.
func checkLines(f fsys.File) (good, whole int64, err error) {
	whole, err = f.Size()
	if err != nil {
		return 0, 0, err
	}
	damaged := false
	err = eachLine(f, whole, func(line []byte, end int64) error {
		if !validLine(line) {
			damaged = true
			return nil
		}
		good = end
		if damaged {
			return errDamaged
		}
		return nil
	})
	if errors.Is(err, errDamaged) {
		return -1, whole, nil
	}
	return good, whole, err
}

var errDamaged = errors.New("damaged line before an intact one")

func validLine(line []byte) bool {
	return bytes.HasSuffix(line, []byte{'\n'}) && json.Valid(line) && line[0] == '{'
}

// rewrite replaces the file by its whole lines.
func (s *File) rewrite(f fsys.File) error {
	size, err := f.Size()
	if err != nil {
		return err
	}
	return fsys.WriteAtomic(s.o.FS, s.path(), func(w io.Writer) error {
		return eachLine(f, size, func(line []byte, _ int64) error {
			if !validLine(line) {
				return nil
			}
			_, err := w.Write(line)
			return err
		})
	})
}

// eachLine calls visit with every line, with its line break, and where it ends.
func eachLine(f fsys.File, size int64, visit func(line []byte, end int64) error) error {
	r := bufio.NewReaderSize(io.NewSectionReader(f, 0, size), 256<<10)
	var at int64
	for {
		line, err := r.ReadBytes('\n')
		at += int64(len(line))
		if len(line) > 0 {
			if verr := visit(line, at); verr != nil {
				return verr
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read lines: %w", err)
		}
	}
}
