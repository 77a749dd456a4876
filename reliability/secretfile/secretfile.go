// Package secretfile reads a secret from a file and follows its changes, so that a token or key can be rotated without
// a restart.
//
// It does not know the purpose of a secret: the caller checks the content and puts it into a header or a
// signature.
package secretfile

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/sloengine/sloengine/reliability/fsys"
)

// checkEvery is how old the answer of Value may be.
const checkEvery = 10 * time.Second

// maxBytes bounds the file.
const maxBytes = 64 << 10

// File is a secret. It is safe for concurrent use.
type File struct {
	name  string
	check func([]byte) error

	mu      sync.Mutex // guards the fields below, and is held while the file is read
	value   []byte
	changed time.Time // modification time of the file that value is from
	size    int64     // its size
	checked time.Time // when the file was last compared with these two
}

// Open reads the file. check is called with its content, without the white space around it, now and after every change.
// The error is that of the file or of check. Without a check, anything but an empty file will do.
func Open(name string, check func([]byte) error) (*File, error) {
	if check == nil {
		check = notEmpty
	}
	f := &File{name: name, check: check, checked: time.Now()}
	if err := f.read(); err != nil {
		return nil, err
	}
	return f, nil
}

// Value is the secret. It is read again if the file has changed, at most every 10 s, or now with fresh. While the file
// cannot be read or its content is refused, the last good value stays: files are often replaced in two steps.
func (f *File) Value(fresh bool) []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	if now := time.Now(); fresh || now.Sub(f.checked) >= checkEvery {
		f.checked = now
		if st, err := os.Stat(f.name); err == nil && (!st.ModTime().Equal(f.changed) || st.Size() != f.size) {
			_ = f.read() // the last good value stays
		}
	}
	return f.value
}

func notEmpty(raw []byte) error {
	if len(raw) == 0 {
		return errors.New("the file is empty")
	}
	return nil
}

func (f *File) read() error {
	st, err := os.Stat(f.name)
	if err != nil {
		return err
	}
	raw, err := fsys.ReadFile(f.name, maxBytes)
	if err != nil {
		return err
	}
	raw = bytes.TrimSpace(raw)
	if err := f.check(raw); err != nil {
		return fmt.Errorf("%s: %w", f.name, err)
	}
	f.value, f.changed, f.size = raw, st.ModTime(), st.Size()
	return nil
}
