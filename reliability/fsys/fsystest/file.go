package fsystest

import (
	"encoding/binary"
	"errors"
	"io"
	"io/fs"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sloengine/sloengine/reliability/fsys"
)

type memFile struct {
	m     *Mem
	f     vfs.File
	name  string
	pos   int64
	write bool
}

func (f *memFile) size() int64 {
	var head [8]byte
	if n, _ := f.f.ReadAt(head[:], 0); n < len(head) {
		return 0
	}
	return int64(binary.LittleEndian.Uint64(head[:]))
}

func (f *memFile) setSize(n int64) error {
	_, err := f.f.WriteAt(putSize(n), 0)
	return err
}

// readAt reads below the size; unwritten bytes read as zeros.
func (f *memFile) readAt(p []byte, off int64) (int, error) {
	size := f.size()
	if off >= size {
		if len(p) == 0 {
			return 0, nil
		}
		return 0, io.EOF
	}
	short := int64(len(p)) > size-off
	if short {
		p = p[:size-off]
	}
	n, err := f.f.ReadAt(p, headBytes+off)
	if err != nil && !errors.Is(err, io.EOF) {
		return n, err
	}
	clear(p[n:])
	if short {
		return len(p), io.EOF
	}
	return len(p), nil
}

func (f *memFile) writeAt(p []byte, off int64) (int, error) {
	if !f.write {
		return 0, &fs.PathError{Op: "write", Path: f.name, Err: fs.ErrPermission}
	}
	n, err := f.f.WriteAt(p, headBytes+off)
	if end := off + int64(n); err == nil && end > f.size() {
		err = f.setSize(end)
	}
	return n, err
}

func (f *memFile) truncate(n int64) error {
	if !f.write {
		return &fs.PathError{Op: "truncate", Path: f.name, Err: fs.ErrPermission}
	}
	// The removed part must read as zeros should the file grow again.
	st, err := f.f.Stat()
	if err != nil {
		return err
	}
	if tail := st.Size() - headBytes - n; tail > 0 {
		if _, err := f.f.WriteAt(make([]byte, tail), headBytes+n); err != nil {
			return err
		}
	}
	return f.setSize(n)
}

func (f *memFile) Read(p []byte) (int, error) {
	n, err := f.ReadAt(p, f.pos)
	f.pos += int64(n)
	if n > 0 && errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

func (f *memFile) ReadAt(p []byte, off int64) (int, error) {
	if err := f.m.begin(OpRead, f.name); err != nil {
		return 0, err
	}
	defer f.m.mu.Unlock()
	return f.readAt(p, off)
}

func (f *memFile) Write(p []byte) (int, error) {
	n, err := f.WriteAt(p, f.pos)
	f.pos += int64(n)
	return n, err
}

// WriteAt fails, on an injected fault, after the first half.
func (f *memFile) WriteAt(p []byte, off int64) (int, error) {
	if err := f.m.begin(OpWrite, f.name); err != nil {
		if errors.Is(err, ErrStopped) && !errors.Is(err, errStoppedNow) {
			return 0, err
		}
		f.m.mu.Lock()
		defer f.m.mu.Unlock()
		n, _ := f.writeAt(p[:len(p)/2], off)
		return n, err
	}
	defer f.m.mu.Unlock()
	return f.writeAt(p, off)
}

func (f *memFile) Sync() error { return f.SyncSite("") }

// SyncSite is Sync on behalf of a site.
func (f *memFile) SyncSite(site fsys.Site) error {
	if err := f.m.begin(OpSync, f.name); err != nil {
		return err
	}
	defer f.m.mu.Unlock()
	if f.m.ignored[site] {
		return nil
	}
	return f.f.Sync()
}

func (f *memFile) Preallocate(off, n int64) error {
	if err := f.m.begin(OpPreallocate, f.name); err != nil {
		return err
	}
	defer f.m.mu.Unlock()
	if off+n <= f.size() {
		return nil
	}
	return f.setSize(off + n)
}

func (f *memFile) Truncate(n int64) error {
	if err := f.m.begin(OpTruncate, f.name); err != nil {
		return err
	}
	defer f.m.mu.Unlock()
	return f.truncate(n)
}

func (f *memFile) Size() (int64, error) {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	return f.size(), nil
}

func (f *memFile) Close() error { return f.f.Close() }
