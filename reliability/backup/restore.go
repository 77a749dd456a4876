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
	"math"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/sloengine/sloengine/reliability/fsys"
)

// SiteFile, SiteDir and SiteMkdir are the syncs of a restore and of a backup to a folder.
const (
	SiteFile  fsys.Site = "backup.file"
	SiteDir   fsys.Site = "backup.dir"
	SiteMkdir fsys.Site = "backup.mkdir"
)

// errIncomplete says that a stream ended before its manifest.
var errIncomplete = errors.New(
	"the backup is incomplete: its manifest " + ManifestName + " is missing; make another one")

// foreign says that a backup has a file that no engine has put there.
func foreign(name string) error { return fmt.Errorf("%q is not a file that a backup holds", name) }

// each calls f with every file of a stream, and returns the manifest, which it checks against the
// files passed to f: no file is missing, changed or unlisted.
func each(r io.Reader, f func(name string, size int64, content io.Reader) error) (*Manifest, error) {
	got := map[string]Entry{}
	for t := tar.NewReader(r); ; {
		h, err := t.Next()
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, errIncomplete
		}
		if err != nil {
			return nil, fmt.Errorf("read backup: %w", err)
		}
		if h.Name == ManifestName {
			return readManifest(t, got)
		}
		if !filepath.IsLocal(h.Name) || path.Clean(h.Name) != h.Name || h.Typeflag != tar.TypeReg {
			return nil, fmt.Errorf("read backup: %w", foreign(h.Name))
		}
		sum := sha256.New()
		if err := f(h.Name, h.Size, io.TeeReader(t, sum)); err != nil {
			if errors.Is(err, io.ErrUnexpectedEOF) {
				return nil, errIncomplete
			}
			return nil, err
		}
		got[h.Name] = Entry{h.Name, h.Size, hex.EncodeToString(sum.Sum(nil))}
	}
}

func readManifest(r io.Reader, got map[string]Entry) (*Manifest, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxManifest))
	if err != nil {
		return nil, errIncomplete
	}
	var m Manifest
	if err := json.Unmarshal(data, &m); err != nil {
		return nil, fmt.Errorf("read %s: %w", ManifestName, err)
	}
	if m.Format > formatNumber {
		return nil, fmt.Errorf("the backup has format %d, and this program reads formats up to %d: %w", m.Format,
			formatNumber, fsys.ErrNewer)
	}
	var errs []error
	for _, e := range m.Files {
		switch have, ok := got[e.Name]; {
		case !ok:
			errs = append(errs, fmt.Errorf("%s is missing", e.Name))
		case have != e:
			errs = append(errs, fmt.Errorf("%s is damaged: its checksum or size differs from the manifest", e.Name))
		}
		delete(got, e.Name)
	}
	for name := range got {
		errs = append(errs, fmt.Errorf("%s is not in the manifest", name))
	}
	if len(errs) > 0 {
		return nil, fmt.Errorf("the backup cannot be used: %w", errors.Join(errs...))
	}
	return &m, nil
}

// Check reads a stream and writes it on to w, which gets all of it before Check returns nil.
func Check(r io.Reader, w io.Writer) (*Manifest, error) {
	all := io.TeeReader(r, w)
	m, err := each(all, func(_ string, _ int64, content io.Reader) error {
		_, err := io.Copy(io.Discard, content)
		return err
	})
	if err == nil {
		_, err = io.Copy(io.Discard, all) // the padding
	}
	return m, err
}

// Unpack writes a stream to an empty folder, its manifest last. Such a folder is a backup, too.
func Unpack(r io.Reader, dir string) (*Manifest, error) {
	f := fsys.OS()
	if err := empty(f, dir); err != nil {
		return nil, err
	}
	w := writer{fs: f, dir: dir, made: map[string]bool{}}
	m, err := each(r, w.file)
	if err != nil {
		return nil, err
	}
	if err := w.sync(); err != nil {
		return nil, err
	}
	data, err := json.MarshalIndent(m, "", " ")
	if err != nil {
		return nil, err
	}
	return m, fsys.Replace(f, filepath.Join(dir, ManifestName), data)
}

// Restore checks all of a backup, a folder or a tar file, and then writes it to an empty folder. Until
// all of it is durable, format makes that folder one that no engine opens. holds says which names may be in a backup:
// one with others, such as a key that its author knows, is refused.
func Restore(from, dir string, format fsys.Format, holds func(name string) bool) (*Manifest, error) {
	f := fsys.OS()
	if err := empty(f, dir); err != nil {
		return nil, err
	}
	if _, err := read(from, func(name string, _ int64, content io.Reader) error {
		if !holds(name) {
			return fmt.Errorf("read backup: %w", foreign(name))
		}
		_, err := io.Copy(io.Discard, content)
		return err
	}); err != nil {
		return nil, err
	}
	if err := fsys.MkdirAllSynced(f, dir, SiteMkdir); err != nil {
		return nil, err
	}
	if err := format.BeginRestore(f, dir); err != nil {
		return nil, err
	}
	w := writer{fs: f, dir: dir, made: map[string]bool{}}
	var number []byte
	m, err := read(from, func(name string, size int64, content io.Reader) (err error) {
		if name == fsys.FormatFile {
			number, err = io.ReadAll(content)
			return err
		}
		return w.file(name, size, content)
	})
	if err == nil {
		err = w.sync()
	}
	if err != nil {
		return nil, fmt.Errorf("restore: %w; delete %s before you try again", err, dir)
	}
	return m, format.EndRestore(f, dir, string(number))
}

// read is each for a tar file or a folder.
func read(from string, f func(name string, size int64, content io.Reader) error) (*Manifest, error) {
	st, err := os.Stat(from)
	if err != nil {
		return nil, fmt.Errorf("open backup: %w", err)
	}
	if st.IsDir() {
		return readFolder(from, f)
	}
	if !st.Mode().IsRegular() {
		return nil, fmt.Errorf("open backup: %s is neither a folder nor a regular file", from)
	}
	file, err := os.Open(from)
	if err != nil {
		return nil, fmt.Errorf("open backup: %w", err)
	}
	defer file.Close()
	return each(file, f)
}

func readFolder(dir string, f func(name string, size int64, content io.Reader) error) (*Manifest, error) {
	manifest, err := os.Open(filepath.Join(dir, ManifestName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w", dir, errIncomplete)
	}
	if err != nil {
		return nil, fmt.Errorf("open backup: %w", err)
	}
	defer manifest.Close()
	got := map[string]Entry{}
	err = filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || name == manifest.Name() {
			return err
		}
		rel, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		if err := fsys.CheckFile(name, math.MaxInt64); err != nil {
			return err
		}
		file, err := os.Open(name)
		if err != nil {
			return err
		}
		defer file.Close()
		size, err := file.Seek(0, io.SeekEnd)
		if err == nil {
			_, err = file.Seek(0, io.SeekStart)
		}
		if err != nil {
			return err
		}
		sum := sha256.New()
		rel = filepath.ToSlash(rel)
		if err := f(rel, size, io.TeeReader(file, sum)); err != nil {
			return err
		}
		got[rel] = Entry{rel, size, hex.EncodeToString(sum.Sum(nil))}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read backup: %w", err)
	}
	return readManifest(manifest, got)
}

// empty refuses a folder that holds anything. A missing one is empty.
func empty(f fsys.FS, dir string) error {
	names, err := f.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open %s: %w", dir, err)
	}
	if names = slices.DeleteFunc(names, func(n string) bool { return n == "lost+found" }); len(names) > 0 {
		return fmt.Errorf("%s is not empty: it holds %s; give a folder that is empty or does not exist", dir, names[0])
	}
	return nil
}

// writer writes files below a folder and remembers which folders it made.
type writer struct {
	fs   fsys.FS
	dir  string
	made map[string]bool
}

func (w *writer) file(name string, size int64, content io.Reader) (err error) {
	to := filepath.Join(w.dir, filepath.FromSlash(name))
	if dir := filepath.Dir(to); !w.made[dir] {
		if err := fsys.MkdirAllSynced(w.fs, dir, SiteMkdir); err != nil {
			return err
		}
		w.made[dir] = true
	}
	file, err := w.fs.Create(to)
	if err != nil {
		return fmt.Errorf("write %s: %w", to, err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	n, err := io.Copy(file, content)
	switch {
	case err != nil:
		return fmt.Errorf("write %s: %w", to, err)
	case n != size:
		return fmt.Errorf("write %s: %d of %d bytes: %w", to, n, size, io.ErrUnexpectedEOF)
	}
	return fsys.SyncFile(file, SiteFile)
}

// sync makes the entries of all folders durable.
func (w *writer) sync() error {
	for dir := range w.made {
		if err := fsys.SyncDir(w.fs, dir, SiteDir); err != nil {
			return fmt.Errorf("sync folder %s: %w", dir, err)
		}
	}
	return nil
}
