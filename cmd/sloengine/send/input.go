package send

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// opened is a file or standard input, unpacked.
type opened struct {
	io.Reader
	name    string
	closers []func() error
}

func (o *opened) Close() error {
	var first error
	for i := len(o.closers) - 1; i >= 0; i-- {
		if err := o.closers[i](); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// waiting is a FIFO or a device, whose opening and reading may wait for ever. Both happen in the first Read.
type waiting struct {
	name string
	file *os.File
}

func (w *waiting) Read(p []byte) (n int, err error) {
	if w.file == nil {
		if w.file, err = os.Open(w.name); err != nil {
			return 0, err
		}
	}
	if n, err = w.file.Read(p); err != nil {
		_ = w.file.Close()
	}
	return n, err
}

// open opens a file; count sees every byte read of it, before unpacking. Reading anything but a regular file ends with
// ctx.
func open(ctx context.Context, name string, stdin io.Reader, count func(int)) (*opened, error) {
	if name == "-" {
		return unpack(&opened{Reader: interruptible(ctx, stdin), name: "stdin"}, count)
	}
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return nil, err
	case info.IsDir():
		return nil, fmt.Errorf("%s is a folder", name)
	case !info.Mode().IsRegular():
		return unpack(&opened{Reader: interruptible(ctx, &waiting{name: name}), name: name}, count)
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	return unpack(&opened{Reader: file, name: name, closers: []func() error{file.Close}}, count)
}

// unpack looks at the first bytes: names of files lie, and standard input has none.
func unpack(o *opened, count func(int)) (*opened, error) {
	buffered := bufio.NewReaderSize(&counter{o.Reader, count}, 256<<10)
	o.Reader = buffered
	magic, err := buffered.Peek(4)
	if err != nil && err != io.EOF {
		_ = o.Close()
		return nil, fmt.Errorf("read %s: %w", o.name, err)
	}
	switch {
	case len(magic) >= 2 && magic[0] == 0x1f && magic[1] == 0x8b:
		r, err := gzip.NewReader(buffered)
		if err != nil {
			_ = o.Close()
			return nil, fmt.Errorf("read %s: %w", o.name, err)
		}
		o.Reader = r
		o.closers = append(o.closers, r.Close)
	case len(magic) == 4 && string(magic) == "\x28\xb5\x2f\xfd":
		r, err := zstd.NewReader(buffered, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(128<<20))
		if err != nil {
			_ = o.Close()
			return nil, fmt.Errorf("read %s: %w", o.name, err)
		}
		o.Reader = r
		o.closers = append(o.closers, func() error { r.Close(); return nil })
	}
	return o, nil
}

// counter tells how many bytes were read.
type counter struct {
	r     io.Reader
	count func(int)
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	if n > 0 && c.count != nil {
		c.count(n)
	}
	return n, err
}

// sizeOf is how many bytes the files have together, or -1 if one doesn't say.
func sizeOf(files []string) int64 {
	var total int64
	for _, name := range files {
		if name == "-" {
			return -1
		}
		info, err := os.Stat(name)
		if err != nil || !info.Mode().IsRegular() {
			return -1
		}
		total += info.Size()
	}
	return total
}
