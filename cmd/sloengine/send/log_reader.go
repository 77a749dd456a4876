package send

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/sloengine/sloengine/ingest/event"
)

// Reader reads the events of a stream. Its memory is bounded for every stream. It is not safe for
// concurrent use.
type Reader struct {
	p   *Parser
	r   *bufio.Reader
	buf []byte // the record so far
	cut int    // bytes of it that were left out, being too many

	line, recordLine     int   // lines before the next read, and line of the record
	offset, recordOffset int64 // likewise

	last     []byte // the record that was read last
	lastLine int

	// Of the json format:
	depth    int
	inString bool
	escaped  bool
}

// NewReader reads from r with p, which must not be used for anything else.
func NewReader(r io.Reader, p *Parser) *Reader {
	return &Reader{p: p, r: bufio.NewReaderSize(r, 64<<10)}
}

// Next reads the next event into dst. A *LineError means that a record was skipped; the next call
// continues behind it. At the end of the stream the error is io.EOF, and a last line without a line
// break is kept: if the stream has grown, Next continues where it stopped; if it has ended for
// good, Flush returns the rest. Other errors are those of the stream.
func (r *Reader) Next(dst *event.Event) error {
	for {
		err := r.record()
		if errors.Is(err, io.EOF) {
			return io.EOF
		}
		if err != nil {
			return fmt.Errorf("read log: %w", err)
		}
		if len(bytes.TrimSpace(r.buf)) == 0 && r.cut == 0 {
			r.next()
			continue
		}
		if err := r.parse(dst); !errors.Is(err, errNoEvent) {
			return err
		}
	}
}

// Flush reads the text behind the last line break. It returns io.EOF if there is no such text.
func (r *Reader) Flush(dst *event.Event) error {
	if len(bytes.TrimSpace(r.buf)) == 0 && r.cut == 0 {
		r.next()
		return io.EOF
	}
	err := r.parse(dst)
	if errors.Is(err, errNoEvent) {
		return io.EOF
	}
	return err
}

// Offset returns how many bytes of the stream belong to records that were
// returned or passed over.
func (r *Reader) Offset() int64 { return r.offset - int64(len(r.buf)+r.cut) }

// Record returns the bytes of the record that Next or Flush read last, event or
// not, and the line where it begins. They are valid until the next call; of a
// record that is too long only the beginning is kept.
func (r *Reader) Record() (line int, text []byte) { return r.lastLine, r.last }

func (r *Reader) parse(dst *event.Event) error {
	defer r.next()
	line := r.recordLine + 1
	r.last, r.lastLine = r.buf, line
	if r.cut > 0 {
		r.p.lines = line
		return &LineError{Line: line, Offset: r.recordOffset, Reason: tooLong(len(r.buf)+r.cut, r.p.opt.MaxLineBytes)}
	}
	return r.p.parseAt(r.buf, line, r.recordOffset, dst)
}

// next forgets the record.
func (r *Reader) next() {
	r.buf, r.cut = r.buf[:0], 0
	r.depth, r.inString, r.escaped = 0, false, false
	r.recordLine, r.recordOffset = r.line, r.offset
}

// record fills buf up to the end of a record, or of the stream.
func (r *Reader) record() error {
	if r.p.format == JSON {
		return r.value()
	}
	for {
		part, err := r.r.ReadSlice('\n')
		r.offset += int64(len(part))
		r.keep(part)
		switch {
		case err == nil:
			r.line++
			return nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return err
		}
	}
}

// keep adds to the record as much as is needed to detect that it is too long.
func (r *Reader) keep(part []byte) {
	n := min(len(part), max(0, r.p.opt.MaxLineBytes+2-len(r.buf))) // 2 for the line break
	r.buf = append(r.buf, part[:n]...)
	r.cut += len(part) - n
}

// value fills buf with one value of a JSON text: an element of the outermost
// array, or one of several values that follow each other. It finds only where
// values end; whether they are JSON shows when they are read.
func (r *Reader) value() error {
	for {
		c, err := r.r.ReadByte()
		if err != nil {
			return err
		}
		if r.depth == 0 && !r.inString {
			if c == event.BOM[0] && len(r.buf) == 0 {
				if rest, _ := r.r.Peek(len(event.BOM) - 1); string(rest) == event.BOM[1:] {
					_, _ = r.r.Discard(len(rest)) // which are there
					r.offset += int64(len(event.BOM))
					r.next()
					continue
				}
			}
			switch c {
			case ' ', '\t', '\r', '\n', ',', '[', ']':
				if len(r.buf) > 0 { // the end of a number or a word
					return r.r.UnreadByte()
				}
				r.offset++
				if c == '\n' {
					r.line++
				}
				r.next()
				continue
			}
		}
		r.offset++
		if c == '\n' {
			r.line++
		}
		r.keep([]byte{c})
		switch {
		case r.inString:
			switch {
			case r.escaped:
				r.escaped = false
			case c == '\\':
				r.escaped = true
			case c == '"':
				r.inString = false
			}
		case c == '"':
			r.inString = true
		case c == '{' || c == '[':
			r.depth++
		case c == '}' || c == ']':
			if r.depth--; r.depth <= 0 {
				return nil
			}
		}
	}
}
