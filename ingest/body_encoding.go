package ingest

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// encoding is a Content-Encoding that the handler undoes.
type encoding uint8

const (
	identity encoding = iota
	gzipped
	zstandard
	snappied // a block, of remote write
)

const supportedEncodings = "gzip, zstd, identity"

// parseEncoding reads a Content-Encoding header. Chains of encodings are
// refused: they have no use, and each link multiplies a bomb.
func parseEncoding(header string) (encoding, bool) {
	switch header {
	case "", "identity":
		return identity, true
	case "gzip":
		return gzipped, true
	case "zstd":
		return zstandard, true
	}
	switch strings.ToLower(strings.TrimSpace(header)) {
	case "identity":
		return identity, true
	case "gzip", "x-gzip":
		return gzipped, true
	case "zstd":
		return zstandard, true
	}
	return identity, false
}

// zstdWindow is the largest window that a zstd body may ask for: every decoder must support 8 MiB
// (RFC 8878, 3.1.1.1.2), and level 19 uses it.
const zstdWindow = 8 << 20

// bytesReader reads a slice. It hides its length, so that the zstd decoder
// streams and does not unpack small inputs at once, however large they become.
type bytesReader struct{ rest []byte }

func (r *bytesReader) Read(p []byte) (int, error) {
	if len(r.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

type inflater struct {
	src  bytesReader
	gzip *gzip.Reader
	zstd *zstd.Decoder
}

var (
	gzipPool = sync.Pool{New: func() any { return &inflater{gzip: new(gzip.Reader)} }}
	zstdPool = sync.Pool{New: func() any {
		// One goroutine (the caller's), windows as small as the stream asks for.
		d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(zstdWindow), zstd.WithDecoderMaxMemory(64<<20))
		if err != nil {
			panic(fmt.Sprintf("zstd options: %v", err)) // constant options
		}
		return &inflater{zstd: d}
	}}
)

// inflate unpacks src into dst, at most limit bytes: it stops at the first byte too many, however
// large the rest is.
func inflate(dst *body, src []byte, enc encoding, limit int) error {
	// Most event bodies shrink about tenfold; a wrong guess costs one copy.
	expect := int64(min(len(src)*8, limit))
	switch enc {
	case gzipped:
		in := gzipPool.Get().(*inflater)
		defer gzipPool.Put(in)
		in.src.rest = src
		defer func() { in.src.rest = nil }()
		if err := in.gzip.Reset(&in.src); err != nil {
			return badEncoding("gzip", err)
		}
		return badEncoding("gzip", dst.readFrom(in.gzip, limit, expect))
	case zstandard:
		in := zstdPool.Get().(*inflater)
		defer zstdPool.Put(in)
		in.src.rest = src
		defer func() { in.src.rest = nil; _ = in.zstd.Reset(nil) }()
		if err := in.zstd.Reset(&in.src); err != nil {
			return badEncoding("zstd", err)
		}
		return badEncoding("zstd", dst.readFrom(in.zstd, limit, expect))
	}
	return fmt.Errorf("no such encoding %d", enc)
}

// encodingError is the error of a body that does not match its Content-Encoding.
type encodingError struct {
	name string
	err  error
}

func (e *encodingError) Error() string { return fmt.Sprintf("%s: %v", e.name, e.err) }
func (e *encodingError) Unwrap() error { return e.err }

func badEncoding(name string, err error) error {
	if err == nil || errors.Is(err, errBodyTooLarge) || errors.Is(err, errNoMemory) {
		return err
	}
	return &encodingError{name, err}
}
