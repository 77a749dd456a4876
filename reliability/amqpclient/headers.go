package amqpclient

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"slices"
	"strings"
	"sync/atomic"

	amqp "github.com/rabbitmq/amqp091-go"
)

// This file stands between the broker and the library, which closes the connection at headers that it cannot read, for
// example tables that are nested deeper than 32 levels. Such a message would come again on each new connection, and
// nothing behind it would ever be read. So the unreadable part is cut out of the frame, and a header names it.

// HeaderUnreadable is the header of a message that says which of its headers and properties were cut out because they
// cannot be read, separated by commas.
const HeaderUnreadable = "x-sloengine-unreadable"

const (
	frameHead       = 7 // type, channel, size
	contentHeader   = 2 // a type
	maxHeaderFrame  = 16 << 20
	readBuffer      = 16 << 10
	maxNesting      = 32   // of tables and arrays, in the library
	maxElements     = 8000 // of a table or an array; the library takes 8192
	maxUnreadable   = 256  // bytes of the names
	headersProperty = 0x2000
	otherProperties = "properties"
)

// properties are those of a content header in their order. A size of -1 is a short string, and one of -2 a table.
var properties = []struct {
	flag uint16
	size int
}{
	{0x8000, -1}, {0x4000, -1}, {headersProperty, -2}, {0x1000, 1}, {0x0800, 1}, {0x0400, -1}, {0x0200, -1},
	{0x0100, -1}, {0x0080, -1},
	{0x0040, 8}, {0x0020, -1}, {0x0010, -1}, {0x0008, -1}, {0x0004, -1},
}

// readableConn is a connection whose content headers the library can read.
type readableConn struct {
	net.Conn
	in   *bufio.Reader
	pass int    // bytes of the frame that are passed on as they are
	out  []byte // of a content header, not read yet
	raw  []byte // memory of out

	most atomic.Int64 // bytes of a frame that the library takes; 0: not known yet
}

func (c *readableConn) Read(p []byte) (n int, err error) {
	for {
		switch {
		case len(c.out) > 0:
			n = copy(p, c.out)
			c.out = c.out[n:]
			return n, nil
		case c.pass > 0:
			n, err = c.in.Read(p[:min(len(p), c.pass)])
			c.pass -= n
			return n, err
		}
		if err := c.next(); err != nil {
			return 0, err
		}
	}
}

// next reads the next frame, or passes it through if it is not a content header.
func (c *readableConn) next() error {
	head, err := c.in.Peek(frameHead)
	if err != nil {
		return err
	}
	size := frameHead + int(binary.BigEndian.Uint32(head[3:])) + 1
	if head[0] != contentHeader || size > maxHeaderFrame {
		c.pass = size
		return nil
	}
	c.raw = slices.Grow(c.raw[:0], size)[:size]
	if _, err := io.ReadFull(c.in, c.raw); err != nil {
		return err
	}
	c.out = readableHeader(c.raw, int(c.most.Load()))
	return nil
}

// readableHeader is a frame with a content header that the library can read: the frame itself if it can. most bounds
// its bytes; 0: unbounded. The broker has no such bound: its additions to headers that fill a frame make a larger
// one.
func readableHeader(frame []byte, most int) []byte {
	const start = frameHead + 14 // class, weight, size of the body, flags
	if len(frame) < start+1 {
		return frame
	}
	flags, kept := binary.BigEndian.Uint16(frame[start-2:]), uint16(0)
	rest := frame[start : len(frame)-1]
	var before, after, table, cut []byte
	for _, p := range properties {
		if flags&p.flag == 0 {
			continue
		}
		n := p.size
		switch p.size {
		case -1:
			n = shortEnd(rest)
		case -2:
			n = longEnd(rest)
		}
		if n < 0 || n > len(rest) { // where the others begin is not known
			cut = appendName(cut, []byte(otherProperties))
			break
		}
		value := rest[:n]
		rest = rest[n:]
		switch {
		case p.size == -2:
			over := 0
			if most > 0 {
				over = len(frame) - most
			}
			table, cut = readableTable(value[4:], cut, over)
		case p.flag > headersProperty:
			before = append(before, value...)
		default:
			after = append(after, value...)
		}
		kept |= p.flag
	}
	if len(cut) == 0 {
		return frame
	}
	out := slices.Clone(frame[:start])
	binary.BigEndian.PutUint16(out[start-2:], kept|headersProperty)
	out = append(out, before...)
	name := HeaderUnreadable
	out = binary.BigEndian.AppendUint32(out, uint32(len(table)+1+len(name)+1+4+len(cut)))
	out = append(out, table...)
	out = append(append(out, byte(len(name))), name...)
	out = append(binary.BigEndian.AppendUint32(append(out, 'S'), uint32(len(cut))), cut...)
	out = append(out, after...)
	binary.BigEndian.PutUint32(out[3:], uint32(len(out)-frameHead))
	return append(out, frame[len(frame)-1])
}

// readableTable are the fields of a table that can be read, which is all of it mostly. It adds the names of the others
// to cut. If the table is too large, by over bytes, it leaves out the last fields that have as many as the largest one.
func readableTable(all, cut []byte, over int) (table, names []byte) {
	table, whole := all, true
	large := 0
	if over > 0 {
		over += maxUnreadable + len(HeaderUnreadable) + 6
		large = largest(all, over)
	}
	leave := func(rest, name []byte) {
		if whole {
			table, whole = slices.Clone(all[:len(all)-len(rest)]), false
		}
		cut = appendName(cut, name)
	}
	for b, n := all, 0; len(b) > 0; n++ {
		end := shortEnd(b)
		if end > len(b) || n >= maxElements {
			leave(b, []byte("headers"))
			break
		}
		size := fieldEnd(b[end:])
		if size < 0 { // where the next one begins is not known
			leave(b, b[1:end])
			break
		}
		switch {
		case over > 0 && end+size >= large:
			over -= end + size
			leave(b, b[1:end])
		case !readable(b[end:end+size], 0):
			leave(b, b[1:end])
		case !whole:
			table = append(table, b[:end+size]...)
		}
		b = b[end+size:]
	}
	return table, cut
}

// largest is the least size of the largest fields of a table that have so many bytes together.
func largest(b []byte, bytes int) int {
	var sizes []int
	for len(b) > 0 {
		n := shortEnd(b)
		if n > len(b) || fieldEnd(b[n:]) < 0 {
			break // nothing behind it is kept
		}
		n += fieldEnd(b[n:])
		sizes, b = append(sizes, n), b[n:]
	}
	slices.Sort(sizes)
	least := 0
	for i := len(sizes) - 1; i >= 0 && bytes > 0; i-- {
		least, bytes = sizes[i], bytes-sizes[i]
	}
	return least
}

// appendName adds a name, which is never an empty one, so that cut shows whether anything was cut.
func appendName(cut, name []byte) []byte {
	if len(name) == 0 {
		name = []byte(`""`)
	}
	if len(cut) > 0 && len(cut)+len(name) > maxUnreadable {
		return cut
	}
	if len(cut) > 0 {
		cut = append(cut, ", "...)
	}
	return append(cut, strings.ToValidUTF8(string(name), "?")...)
}

// shortEnd and longEnd are the sizes of a short and of a long string at the beginning of b, -1 if there is none.
func shortEnd(b []byte) int {
	if len(b) == 0 {
		return -1
	}
	return 1 + int(b[0])
}

func longEnd(b []byte) int {
	if len(b) < 4 {
		return -1
	}
	return 4 + int(binary.BigEndian.Uint32(b))
}

// fieldEnd is the size of a field with its type at the beginning of b, -1 if b has none.
func fieldEnd(b []byte) int {
	if len(b) == 0 {
		return -1
	}
	n := -1
	switch b[0] {
	case 'V':
		n = 0
	case 't', 'b', 'B':
		n = 1
	case 's', 'u':
		n = 2
	case 'I', 'i', 'f':
		n = 4
	case 'D':
		n = 5
	case 'l', 'd', 'T':
		n = 8
	case 'S', 'x', 'A', 'F':
		n = longEnd(b[1:])
	}
	if n < 0 || n > len(b)-1 {
		return -1
	}
	return 1 + n
}

// readable reports whether the library can read a field that is whole. depth is how many containers it is in.
func readable(field []byte, depth int) bool {
	table := field[0] == 'F'
	if !table && field[0] != 'A' {
		return true
	}
	if depth >= maxNesting {
		return false
	}
	b := field[5:]
	for n := 0; len(b) > 0; n++ {
		if table {
			end := shortEnd(b)
			if end > len(b) {
				return false
			}
			b = b[end:]
		}
		size := fieldEnd(b)
		if size < 0 || n >= maxElements || !readable(b[:size], depth+1) {
			return false
		}
		b = b[size:]
	}
	return true
}

// Fits reports whether the headers and properties of a message fit into a frame of the connection. The broker closes
// the connection otherwise.
func Fits(conn *amqp.Connection, p *amqp.Publishing) bool {
	return conn.Config.FrameSize <= 0 || headerBytes(p) <= conn.Config.FrameSize
}

// headerBytes is the most that the properties need in their frame.
func headerBytes(p *amqp.Publishing) int { return 9*(MaxName+1) + 128 + fieldBytes(p.Headers) }

func fieldBytes(v any) int {
	n := 5
	switch v := v.(type) {
	case string:
		n += len(v)
	case []byte:
		n += len(v)
	case []any:
		for _, x := range v {
			n += fieldBytes(x)
		}
	case amqp.Table:
		for name, x := range v {
			n += 1 + len(name) + fieldBytes(x)
		}
	default:
		n = 9
	}
	return n
}
