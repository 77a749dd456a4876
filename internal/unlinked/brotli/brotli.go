// Package brotli declares the part of Brotli that parquet-go names: see internal/unlinked/README.md.
package brotli

import (
	"errors"
	"io"
)

var errUnlinked = errors.New("brotli is not linked")

// A WriterOptions is how a Writer compresses.
type WriterOptions struct{ Quality, LGWin int }

// A Writer compresses nothing.
type Writer struct{}

// NewWriterOptions returns a Writer.
func NewWriterOptions(io.Writer, WriterOptions) *Writer { return &Writer{} }

func (*Writer) Write([]byte) (int, error) { return 0, errUnlinked }
func (*Writer) Close() error              { return errUnlinked }
func (*Writer) Reset(io.Writer)           {}

// A Reader decompresses nothing.
type Reader struct{}

// NewReader returns a Reader.
func NewReader(io.Reader) *Reader { return &Reader{} }

func (*Reader) Read([]byte) (int, error) { return 0, errUnlinked }
func (*Reader) Reset(io.Reader) error    { return errUnlinked }
