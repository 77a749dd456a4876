package fsystest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"slices"
	"sync"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sloengine/sloengine/reliability/fsys"
)

// headBytes precede the data of every file in the underlying file system and hold its
// size, because that file system cannot truncate. The head is one of its pages, so a
// crash keeps or loses a change of size like any other page: independently of the data.
const headBytes = 4096

// Mem is a file system in memory whose unsynced data can be lost. All methods may be
// called concurrently.
type Mem struct {
	mu      sync.Mutex
	fs      *vfs.MemFS
	faults  faults
	ignored map[fsys.Site]bool
	free    uint64
	before  func(op Op, name string)
}

var _ fsys.FS = (*Mem)(nil)

// New returns an empty file system that holds only the folder "/".
func New() *Mem {
	return &Mem{fs: vfs.NewCrashableMem(), ignored: map[fsys.Site]bool{}, free: 1 << 40}
}

// CrashClone returns a possible content of the disk after a power loss now. Synced data is there;
// of the rest (pages of 4 KiB, new entries of folders) each is there with the given chance, 0 to
// 100. An unlink or rename whose folder was not synced is undone. The clone ignores the same sites,
// and has no faults, hook or locks.
func (m *Mem) CrashClone(unsyncedPercent int, seed int64) *Mem {
	m.mu.Lock()
	defer m.mu.Unlock()
	clone := &Mem{ignored: map[fsys.Site]bool{}, free: m.free}
	clone.fs = m.fs.CrashClone(vfs.CrashCloneCfg{
		UnsyncedDataPercent: unsyncedPercent,
		RNG:                 rand.New(rand.NewPCG(uint64(seed), 0)),
	})
	for site := range m.ignored {
		clone.ignored[site] = true
	}
	return clone
}

// IgnoreSync makes every sync of these sites do nothing and report success.
func (m *Mem) IgnoreSync(sites ...fsys.Site) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range sites {
		m.ignored[s] = true
	}
}

// SetFree sets the answer of Free, in bytes. It limits nothing by itself.
func (m *Mem) SetFree(bytes uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.free = bytes
}

// Create implements fsys.FS.
func (m *Mem) Create(name string) (fsys.File, error) {
	if err := m.begin(OpCreate, name); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	// An existing file is emptied in place: its synced entry stays the same file.
	if f, err := m.openExisting(name); err == nil {
		file := &memFile{m: m, f: f, name: name, write: true}
		return file, file.truncate(0)
	}
	f, err := m.fs.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return nil, err
	}
	return &memFile{m: m, f: f, name: name, write: true}, nil
}

// Open implements fsys.FS.
func (m *Mem) Open(name string) (fsys.File, error) {
	if err := m.begin(OpOpen, name); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	f, err := m.fs.Open(name)
	if err != nil {
		return nil, err
	}
	return &memFile{m: m, f: f, name: name}, nil
}

// OpenReadWrite implements fsys.FS.
func (m *Mem) OpenReadWrite(name string) (fsys.File, error) {
	if err := m.begin(OpOpen, name); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	f, err := m.openExisting(name)
	if err != nil {
		return nil, err
	}
	return &memFile{m: m, f: f, name: name, write: true}, nil
}

func (m *Mem) openExisting(name string) (vfs.File, error) {
	if _, err := m.fs.Stat(name); err != nil {
		return nil, err
	}
	return m.fs.OpenReadWrite(name, vfs.WriteCategoryUnspecified)
}

// Rename implements fsys.FS.
func (m *Mem) Rename(oldName, newName string) error {
	if err := m.begin(OpRename, oldName); err != nil {
		return err
	}
	defer m.mu.Unlock()
	return m.fs.Rename(oldName, newName)
}

// Remove implements fsys.FS.
func (m *Mem) Remove(name string) error {
	if err := m.begin(OpRemove, name); err != nil {
		return err
	}
	defer m.mu.Unlock()
	if err := m.fs.Remove(name); err != nil {
		return &fs.PathError{Op: "remove", Path: name, Err: err}
	}
	return nil
}

// List implements fsys.FS.
func (m *Mem) List(dir string) ([]string, error) {
	if err := m.begin(OpList, dir); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	names, err := m.fs.List(dir)
	slices.Sort(names)
	return names, err
}

// MkdirAll implements fsys.FS.
func (m *Mem) MkdirAll(dir string) error {
	if err := m.begin(OpMkdir, dir); err != nil {
		return err
	}
	defer m.mu.Unlock()
	return m.fs.MkdirAll(dir, 0o750)
}

// OpenDir implements fsys.FS.
func (m *Mem) OpenDir(dir string) (fsys.Dir, error) {
	if err := m.begin(OpOpenDir, dir); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	d, err := m.fs.OpenDir(dir)
	if err != nil {
		return nil, err
	}
	return &memDir{m, d, dir}, nil
}

type memDir struct {
	m    *Mem
	d    vfs.File
	name string
}

func (d *memDir) Close() error { return d.d.Close() }

func (d *memDir) Sync() error { return d.SyncSite("") }

// SyncSite is Sync on behalf of a site.
func (d *memDir) SyncSite(site fsys.Site) error {
	if err := d.m.begin(OpSyncDir, d.name); err != nil {
		return err
	}
	defer d.m.mu.Unlock()
	if d.m.ignored[site] {
		return nil
	}
	return d.d.Sync()
}

// Free implements fsys.FS with the number given to SetFree, 1 TiB at first.
func (m *Mem) Free(string) (uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.free, nil
}

// Lock implements fsys.FS. A crash clone holds no locks.
func (m *Mem) Lock(name string) (io.Closer, error) {
	if err := m.begin(OpLock, name); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	l, err := m.fs.Lock(name)
	if errors.Is(err, syscall.EAGAIN) {
		return nil, fmt.Errorf("lock %s: %w", name, fsys.ErrLocked)
	}
	return l, err
}

// ReadFile returns the content of a file, past faults and hooks.
func (m *Mem) ReadFile(name string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f, err := m.fs.Open(name)
	if err != nil {
		return nil, err
	}
	file := &memFile{m: m, f: f, name: name}
	data := make([]byte, file.size())
	_, err = file.readAt(data, 0)
	return data, errors.Join(err, f.Close())
}

// WriteFile replaces the content of a file and makes it and its entry durable, past
// faults and hooks. Its folder must exist.
func (m *Mem) WriteFile(name string, data []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	f, err := m.fs.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	file := &memFile{m: m, f: f, name: name, write: true}
	_, err = file.writeAt(data, 0)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	d, err := m.fs.OpenDir(m.fs.PathDir(name))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func putSize(n int64) []byte { return binary.LittleEndian.AppendUint64(nil, uint64(n)) }
