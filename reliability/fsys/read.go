package fsys

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
)

// MaxStateBytes bounds a file that the program writes and reads as a whole.
const MaxStateBytes = 1 << 30

// errNotRegular is the error for a FIFO, a device, a socket and a folder: reading one may never end.
var errNotRegular = errors.New("not a regular file")

// ReadFile reads a regular file of at most so many bytes. Like os.ReadFile it follows links.
func ReadFile(name string, most int64) ([]byte, error) {
	if err := CheckFile(name, most); err != nil {
		return nil, err
	}
	// Without O_NONBLOCK, opening a FIFO that has taken the place of the file would wait for its writer.
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err == nil {
		err = check(name, st, most)
	}
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(data)) > most { // it grew
		err = tooLarge(name, most)
	}
	return data, err
}

// readAll reads the beginning of a file of any file system.
func readAll(fsys FS, name string, most int64) ([]byte, error) {
	if fsys == OS() {
		return ReadFile(name, most) // which opens no FIFO
	}
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, most))
}

// CheckFile is ReadFile without reading, for files that a library reads.
func CheckFile(name string, most int64) error {
	st, err := os.Stat(name)
	if err != nil {
		return asOpen(err)
	}
	return check(name, st, most)
}

func check(name string, st os.FileInfo, most int64) error {
	switch {
	case !st.Mode().IsRegular():
		return &os.PathError{Op: "read", Path: name, Err: errNotRegular}
	case st.Size() > most:
		return tooLarge(name, most)
	}
	return nil
}

func tooLarge(name string, most int64) error {
	return &os.PathError{Op: "read", Path: name, Err: fmt.Errorf("larger than %d bytes", most)}
}

// asOpen is the error as os.Open would have given it.
func asOpen(err error) error {
	var p *os.PathError
	if errors.As(err, &p) {
		p.Op = "open"
	}
	return err
}
