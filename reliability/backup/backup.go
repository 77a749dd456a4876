// Package backup carries a set of open files as a tar stream with a checksummed manifest, and puts
// it back into an empty folder.
//
// A stream without its manifest, which comes last, is not a backup: any break of the stream is
// detected. The package does not know the meaning of the files; the caller that adds them chooses
// the moment and the order in which they are opened.
package backup

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"time"

	"github.com/sloengine/sloengine/reliability/fsys"
)

const (
	// ManifestName is the last file of a backup.
	ManifestName = "BACKUP.json"
	// formatNumber is that of the manifest and of how files are named.
	formatNumber = 1
	// maxManifest bounds a manifest, in bytes.
	maxManifest = 64 << 20
)

// Manifest lists the contents of a backup.
type Manifest struct {
	Format  int       `json:"format"`
	Version string    `json:"version"` // of the program that wrote it
	Begun   time.Time `json:"begun"`   // everything acknowledged before is in it
	Files   []Entry   `json:"files"`
}

// Entry is one file of a backup. Its name is relative, with slashes.
type Entry struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// Bytes is the size of all files.
func (m *Manifest) Bytes() (n int64) {
	for i := range m.Files {
		n += m.Files[i].Size
	}
	return n
}

// Set is a set of open files. One goroutine uses it. Close it after use.
type Set struct {
	begun time.Time
	files []openFile
	later []laterFile
}

type laterFile struct{ name, path string }

type openFile struct {
	name string
	size int64
	file fsys.File
}

// NewSet begins a backup now.
func NewSet() *Set { return &Set{begun: time.Now().UTC()} }

// Below returns an add for files of one folder of the backup. The set closes them.
func (s *Set) Below(dir string) func(name string, size int64, file fsys.File) {
	return func(name string, size int64, file fsys.File) {
		s.files = append(s.files, openFile{path.Join(dir, filepath.ToSlash(name)), size, file})
	}
}

// Later adds files of a folder that are only replaced as a whole or grow, behind all others and in the order given.
// Each is opened when it is its turn, so that any number of them takes one open file. One that was deleted by then is
// left out.
func (s *Set) Later(dir, folder string, names []string) {
	for _, name := range names {
		s.later = append(s.later, laterFile{path.Join(dir, name), filepath.Join(folder, name)})
	}
}

// Write writes the stream. keepAlive is called before each write that may take long.
func (s *Set) Write(w io.Writer, version string, keepAlive func() error) error {
	m := Manifest{Format: formatNumber, Version: version, Begun: s.begun}
	t := tar.NewWriter(w)
	buf := make([]byte, 256<<10)
	writeFile := func(f *openFile) error {
		if err := t.WriteHeader(header(f.name, f.size, s.begun)); err != nil {
			return fmt.Errorf("write backup: %w", err)
		}
		sum := sha256.New()
		to := io.MultiWriter(t, sum)
		for at := int64(0); at < f.size; {
			part := buf[:min(int64(len(buf)), f.size-at)]
			if n, err := f.file.ReadAt(part, at); n < len(part) {
				return fmt.Errorf("back up %s: read at %d of %d bytes: %w", f.name, at, f.size, err)
			}
			if err := keepAlive(); err != nil {
				return fmt.Errorf("write backup: %w", err)
			}
			if _, err := to.Write(part); err != nil {
				return fmt.Errorf("write backup: %w", err)
			}
			at += int64(len(part))
		}
		m.Files = append(m.Files, Entry{f.name, f.size, hex.EncodeToString(sum.Sum(nil))})
		return nil
	}
	for i := range s.files {
		if err := writeFile(&s.files[i]); err != nil {
			return err
		}
	}
	for _, l := range s.later {
		f, err := l.open()
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("back up %s: %w", l.name, err)
		}
		if err := errors.Join(writeFile(&f), f.file.Close()); err != nil {
			return err
		}
	}
	data, err := json.MarshalIndent(m, "", " ")
	if err != nil {
		return fmt.Errorf("write backup: %w", err)
	}
	if err := t.WriteHeader(header(ManifestName, int64(len(data)), s.begun)); err != nil {
		return fmt.Errorf("write backup: %w", err)
	}
	if _, err := t.Write(data); err != nil {
		return fmt.Errorf("write backup: %w", err)
	}
	if err := t.Close(); err != nil {
		return fmt.Errorf("write backup: %w", err)
	}
	return nil
}

func (l *laterFile) open() (openFile, error) {
	file, err := fsys.OS().Open(l.path)
	if err != nil {
		return openFile{}, err
	}
	size, err := file.Size()
	if err != nil {
		return openFile{}, errors.Join(err, file.Close())
	}
	return openFile{l.name, size, file}, nil
}

func header(name string, size int64, at time.Time) *tar.Header {
	return &tar.Header{Name: name, Size: size, Mode: 0o640, ModTime: at.Truncate(time.Second), Format: tar.FormatPAX}
}

// Close closes the files.
func (s *Set) Close() error {
	var errs []error
	for _, f := range s.files {
		errs = append(errs, f.file.Close())
	}
	s.files = nil
	return errors.Join(errs...)
}
