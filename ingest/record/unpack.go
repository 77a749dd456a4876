package record

import (
	"encoding/binary"
	"errors"

	"github.com/sloengine/sloengine/ingest/event"
)

// This file puts events together again from the columns of a block.

var errColumns = errors.New("the columns of a block do not fit each other")

// columnReader takes bytes from the front of columns. After the first that are missing, it is bad and yields zeros.
type columnReader struct {
	columns [numColumns][]byte
	bad     bool
}

func (c *columnReader) fail() {
	c.columns, c.bad = [numColumns][]byte{}, true
}

func (c *columnReader) byte(i int) byte {
	if len(c.columns[i]) == 0 {
		c.fail()
		return 0
	}
	b := c.columns[i][0]
	c.columns[i] = c.columns[i][1:]
	return b
}

func (c *columnReader) take(i, n int) []byte {
	if n > len(c.columns[i]) {
		c.fail()
		return nil
	}
	b := c.columns[i][:n:n]
	c.columns[i] = c.columns[i][n:]
	return b
}

func (c *columnReader) uint(i int) uint64 {
	x, n := binary.Uvarint(c.columns[i])
	if n <= 0 {
		c.fail()
		return 0
	}
	c.columns[i] = c.columns[i][n:]
	return x
}

// bytes reads a length and as many bytes.
func (c *columnReader) bytes(i int) []byte {
	n := c.uint(i)
	if n > uint64(len(c.columns[i])) {
		c.fail()
		return nil
	}
	return c.take(i, int(n))
}

func (c *columnReader) planes(first int) (x uint64) {
	for i, shift := 0, 0; shift < 64; i, shift = min(i+1, numPlanes-1), shift+7 {
		b := c.byte(first + i)
		x |= uint64(b&0x7f) << shift
		if b < 0x80 {
			break
		}
	}
	return x
}

func (c *columnReader) code(first int) int {
	return int(c.byte(first)) | int(c.byte(first+1))<<8
}

// unpacker is a retained.Unpacker.
type unpacker struct {
	c     columnReader
	time  int64
	id    []byte // of the event at hand, likewise
	value []byte
	rest  []byte
	arena []byte // texts of the dictionaries

	rests, kinds, pairs, names [][]byte
	shapes                     []*shape
}

// Open begins with the columns of a block.
func (u *unpacker) Open(columns [][]byte) error {
	if len(columns) != numColumns {
		return errColumns
	}
	u.c = columnReader{}
	copy(u.c.columns[:], columns)
	u.time, u.arena, u.shapes = 0, u.arena[:0], u.shapes[:0]
	u.rests, u.kinds, u.pairs, u.names = u.rests[:0], u.kinds[:0], u.pairs[:0], u.names[:0]
	return nil
}

// Next appends the payload of the next record. It appends at most limit bytes.
func (u *unpacker) Next(dst []byte, limit int) ([]byte, error) {
	c, end := &u.c, len(dst)+limit
	n := c.uint(colHeads)
	dst = append(dst, c.bytes(colHeads)...)
	for ; n > 0 && !c.bad; n-- {
		if dst = u.event(dst); len(dst) > end {
			return dst, errColumns
		}
	}
	if c.bad {
		return dst, errColumns
	}
	return dst, nil
}

func (u *unpacker) event(dst []byte) []byte {
	c := &u.c
	e := event.Parts{Flags: c.byte(colFlags)}
	unit := c.byte(colUnits)
	of := units[unit&3]
	e.Time = (u.time/of + unzigzag(c.planes(colTime))) * of
	u.time = e.Time
	if e.HasDuration() {
		e.Duration = c.planes(colDuration) * uint64(units[unit>>2&3])
	}
	if e.HasCount() {
		e.Count = c.uint(colMerged)
	}
	if e.HasWeight() {
		e.Weight = c.uint(colMerged)
	}
	u.id = u.text(u.id[:0])
	e.ID = u.id
	if code := c.code(colRest); code > len(u.rests) {
		c.fail()
	} else if code > 0 {
		e.Rest = u.rests[code-1]
	} else {
		u.makeRest(&e)
		e.Rest = u.rest
		if !e.HasDurations() {
			u.rests = u.remember(u.rests, u.rest)
		}
	}
	return e.Append(dst)
}

// remember adds a text to a dictionary.
func (u *unpacker) remember(list [][]byte, b []byte) [][]byte {
	if len(list) == maxCodes {
		return list
	}
	if cap(u.arena)-len(u.arena) < len(b) {
		u.arena = make([]byte, 0, max(2*cap(u.arena), 1<<16, len(b))) // texts refer to the old one
	}
	from := len(u.arena)
	u.arena = append(u.arena, b...)
	return append(list, u.arena[from:len(u.arena):len(u.arena)])
}

// text appends an id or a value.
func (u *unpacker) text(dst []byte) []byte {
	c := &u.c
	switch code := c.code(colShape); {
	case code == 1:
		return append(dst, c.bytes(colTexts)...)
	case code == 0:
		s, ok := parseShape(c.bytes(colTexts))
		if !ok || len(u.shapes) == maxShapes {
			c.fail()
			return dst
		}
		u.shapes = append(u.shapes, s)
		return s.append(dst, c)
	case code-2 < len(u.shapes):
		return u.shapes[code-2].append(dst, c)
	}
	c.fail()
	return dst
}

// makeRest puts rest together from its parts.
func (u *unpacker) makeRest(e *event.Parts) {
	c := &u.c
	u.rest = u.rest[:0]
	switch code := c.code(colKind); {
	case code == 1:
		u.rest = append(u.rest, c.bytes(colTexts)...)
		return
	case code == 0:
		u.rest = append(u.rest, c.bytes(colTexts)...)
		u.kinds = u.remember(u.kinds, u.rest)
	case code-2 < len(u.kinds):
		u.rest = append(u.rest, u.kinds[code-2]...)
	default:
		c.fail()
	}
	e.Rest = u.rest
	_, n, ok := e.Fields()
	if !ok {
		c.fail()
	}
	for ; n > 0 && !c.bad; n-- {
		u.pair()
	}
	if e.HasDurations() {
		u.rest = append(u.rest, c.bytes(colTexts)...)
	}
}

func (u *unpacker) pair() {
	c := &u.c
	switch code := c.code(colPair); {
	case code == 1:
		u.rest = append(u.rest, c.bytes(colTexts)...)
	case code == 0:
		from := len(u.rest)
		if name := int(c.byte(colName)); name > len(u.names) {
			c.fail()
		} else if name > 0 {
			u.rest = append(u.rest, u.names[name-1]...)
		} else {
			name := c.bytes(colTexts)
			u.names = u.remember(u.names, name)
			u.rest = append(u.rest, name...)
		}
		u.value = u.text(u.value[:0])
		u.rest = appendBytes(u.rest, u.value)
		u.pairs = u.remember(u.pairs, u.rest[from:])
	case code-2 < len(u.pairs):
		u.rest = append(u.rest, u.pairs[code-2]...)
	default:
		c.fail()
	}
}
