package retained

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/klauspost/compress/zstd"

	"github.com/sloengine/sloengine/internal/binread"
	"github.com/sloengine/sloengine/reliability/wal"
)

// This file compresses the records of a block, and reads them again. FORMAT.md describes the bytes.

// Form is how the owner of the log takes records apart before they are compressed. The zero Form takes none apart.
type Form struct {
	Packer   func() Packer
	Unpacker func() Unpacker
}

// Packer takes the records of a block apart into columns. It is for one goroutine.
type Packer interface {
	// Begin begins a block.
	Begin()
	// Pack takes a record, and describes it to the index if there is one. It may refer to the record until the next
	// Begin. A record that it reports false for is compressed as it is.
	Pack(rec *wal.Record, s *Sketch) bool
	// Columns are those of the records since Begin, at most maxColumns. They are valid until the next Begin.
	Columns() [][]byte
}

// Unpacker puts records together again. It is for one goroutine.
type Unpacker interface {
	// Open begins a block.
	Open(columns [][]byte) error
	// Next appends the payload of the next record that was packed, which has no more than limit bytes.
	Next(dst []byte, limit int) ([]byte, error)
}

const (
	maxColumns = 64
	// maxColumnBytes bounds what the columns of a block take. They may be a little more than its records.
	maxColumnBytes = 2 * maxBlock
)

// The forms in which a column is stored.
const (
	colStored  = 0
	colZstd    = 1
	colOneByte = 2 // the same byte again and again
)

// minZstd is the least size of a column that is compressed.
const minZstd = 32

// packer compresses blocks.
type packer struct {
	enc  *zstd.Encoder
	of   Packer // nil: records are compressed as they are
	rows []byte
	head []byte
	body []byte
	out  []byte
}

func newEncoder() (*zstd.Encoder, error) {
	return zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(levelOfZstd),
		zstd.WithEncoderCRC(false), zstd.WithWindowSize(2*blockBytes), zstd.WithLowerEncoderMem(true))
}

func (f Form) newPacker() (*packer, error) {
	enc, err := newEncoder()
	if err != nil {
		return nil, fmt.Errorf("make encoder: %w", err)
	}
	p := &packer{enc: enc}
	if f.Packer != nil {
		p.of = f.Packer()
	}
	return p, nil
}

// pack compresses the records of a block. describe tells sketch of those that the form does not know. The result is
// valid until the next call.
func (p *packer) pack(raw []byte, b *Block, sketch *Sketch, describe func(*wal.Record) error) []byte {
	columns := [][]byte{nil}
	p.rows = p.rows[:0]
	if p.of != nil {
		p.of.Begin()
	}
	var rec wal.Record
	rows := newRecords(raw, b)
	for seq, time := b.First, b.From; rows.next(&rec); seq, time = rec.Seq, rec.Time {
		packed := p.of != nil && p.of.Pack(&rec, sketch)
		p.rows = binary.AppendUvarint(p.rows, rec.Seq-seq)
		p.rows = binary.AppendVarint(p.rows, rec.Time-time)
		p.rows = append(p.rows, rec.Type)
		if packed {
			p.rows = binary.AppendUvarint(p.rows, uint64(len(rec.Payload))<<1|1)
			continue
		}
		p.rows = binary.AppendUvarint(p.rows, uint64(len(rec.Payload))<<1)
		p.rows = append(p.rows, rec.Payload...)
		// A record that cannot be described is retained all the same: the index then claims nothing of its block.
		if sketch != nil && describe(&rec) != nil {
			sketch.Unknown()
		}
	}
	columns[0] = p.rows
	if p.of != nil {
		columns = append(columns, p.of.Columns()...)
	}
	p.head, p.body = binary.AppendUvarint(p.head[:0], uint64(len(columns))), p.body[:0]
	for _, c := range columns {
		p.column(c)
	}
	p.out = append(append(p.out[:0], p.head...), p.body...)
	return p.out
}

// column compresses a column if that makes it smaller.
func (p *packer) column(c []byte) {
	from, form := len(p.body), byte(colStored)
	switch {
	case len(c) > 1 && bytes.Equal(c[1:], c[:len(c)-1]):
		form, p.body = colOneByte, append(p.body, c[0])
	case len(c) >= minZstd:
		form, p.body = colZstd, p.enc.EncodeAll(c, p.body)
		if len(p.body)-from >= len(c) {
			form, p.body = colStored, p.body[:from]
		}
	}
	if form == colStored {
		p.body = append(p.body, c...)
	}
	p.head = binary.AppendUvarint(p.head, uint64(len(c)))
	p.head = append(p.head, form)
	p.head = binary.AppendUvarint(p.head, uint64(len(p.body)-from))
}

var errColumns = errors.New("the columns of a block do not fit")

// unpack appends the records of a block to dst.
func (u *unpacker) unpack(dst, in []byte) ([]byte, error) {
	r := binread.New(in)
	n := r.Count(3)
	if n == 0 || n > maxColumns {
		return dst, errColumns
	}
	type column struct {
		size int
		form byte
		in   int
	}
	var heads [maxColumns]column
	total := uint64(0)
	for i := range n {
		size, form, in := r.Uint(), r.Byte(), r.Uint()
		if total += size; size > maxColumnBytes || total > maxColumnBytes || in > maxColumnBytes {
			return dst, errColumns
		}
		heads[i] = column{int(size), form, int(in)}
	}
	if u.columns = u.columns[:0]; cap(u.memory) < int(total) {
		u.memory = make([]byte, 0, total+total/8)
	}
	u.memory = u.memory[:0]
	for _, h := range heads[:n] {
		data, from := r.Take(h.in), len(u.memory)
		if r.Bad() {
			return dst, errColumns
		}
		switch h.form {
		case colStored:
			u.memory = append(u.memory, data...)
		case colZstd:
			var err error
			if u.memory, err = u.dec.DecodeAll(data, u.memory); err != nil {
				return dst, fmt.Errorf("%w: %w", errColumns, err)
			}
		case colOneByte:
			if len(data) != 1 {
				return dst, errColumns
			}
			u.memory = append(u.memory, bytes.Repeat(data, h.size)...)
		default:
			return dst, errColumns
		}
		if len(u.memory)-from != h.size || len(u.memory) > int(total) {
			return dst, errColumns
		}
		u.columns = append(u.columns, u.memory[from:len(u.memory):len(u.memory)])
	}
	if len(r.Rest) > 0 {
		return dst, errColumns
	}
	return u.join(dst)
}

// join appends the records that the columns hold.
func (u *unpacker) join(dst []byte) ([]byte, error) {
	if len(u.columns) > 1 {
		if u.of == nil {
			return dst, errors.New("the records are in a form that this program does not know")
		}
		if err := u.of.Open(u.columns[1:]); err != nil {
			return dst, err
		}
	}
	end := len(dst) + maxBlock
	r := binread.New(u.columns[0])
	for len(r.Rest) > 0 {
		dst = binary.AppendUvarint(dst, r.Uint())
		dst = binary.AppendVarint(dst, r.Varint())
		dst = append(dst, r.Byte())
		n := r.Uint()
		size := int(n >> 1)
		if r.Bad() || n>>1 > wal.MaxPayload+blockBytes || len(dst)+size > end {
			return dst, errColumns
		}
		dst = binary.AppendUvarint(dst, uint64(size))
		if n&1 == 0 {
			dst = append(dst, r.Take(size)...)
			continue
		}
		if len(u.columns) == 1 {
			return dst, errColumns
		}
		from := len(dst)
		var err error
		if dst, err = u.of.Next(dst, size); err != nil || len(dst)-from != size {
			return dst, errors.Join(errColumns, err)
		}
	}
	if r.Bad() {
		return dst, errColumns
	}
	return dst, nil
}
