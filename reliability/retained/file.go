package retained

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strconv"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/sloengine/sloengine/internal/binread"
	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/reliability/wal"
)

// This file writes and reads one file of retained records. FORMAT.md describes it.

const (
	version     = 1
	headMagic   = "sloe-his"
	footMagic   = "sloe-hix"
	headBytes   = 32
	footBytes   = 40
	suffix      = ".hist"
	blockBytes  = 1 << 20                       // of records, after which a block is closed
	maxBlock    = blockBytes + 2*wal.MaxPayload // an erasure may lengthen a record
	tailBytes   = 4096                          // read at once from the end of a file: mostly the whole summary
	maxIndex    = 64 << 20
	levelOfZstd = zstd.SpeedFastest
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// errDamaged is wrapped by what is wrong with a file.
var errDamaged = errors.New("retained records are damaged")

func fileName(first uint64) string { return fmt.Sprintf("%020d%s", first, suffix) }

func parseName(name string) (first uint64, ok bool) {
	digits, ok := strings.CutSuffix(name, suffix)
	if !ok || len(digits) != 20 {
		return 0, false
	}
	first, err := strconv.ParseUint(digits, 10, 64)
	return first, err == nil && first > 0
}

// writer writes one file.
type writer struct {
	w        io.Writer
	pack     *packer
	describe func(*wal.Record, *Sketch) error
	ruleType byte
	pace     func() // called after each block

	sum    Summary
	sketch Sketch
	blocks []Block
	raw    blockEncoder
	after  Digest // behind the last block
	size   int64
}

// begin writes the head of a file whose first record is first, behind records of that digest.
func (w *writer) begin(first uint64, before Digest) error {
	w.sum, w.after = Summary{First: first, Before: before}, before
	w.sketch = Sketch{sum: &w.sum, place: map[tagKey]int32{}}
	b := make([]byte, 0, headBytes)
	b = append(b, headMagic...)
	b = binary.LittleEndian.AppendUint32(b, version)
	b = binary.LittleEndian.AppendUint32(b, 0)
	b = binary.LittleEndian.AppendUint64(b, first)
	b = binary.LittleEndian.AppendUint32(b, 0)
	return w.write(binary.LittleEndian.AppendUint32(b, checksum(b)))
}

func (w *writer) write(b []byte) error {
	n, err := w.w.Write(b)
	w.size += int64(n)
	return err
}

func (w *writer) add(rec *wal.Record) error {
	if w.raw.full(rec) {
		if err := w.closeBlock(); err != nil {
			return err
		}
	}
	s, b := &w.sum, &w.sketch.block
	if len(w.raw.raw) == 0 {
		b.First, b.From, b.To = rec.Seq, rec.Time, rec.Time
		if s.Records == 0 {
			s.From, s.To = rec.Time, rec.Time
		}
	}
	w.raw.add(rec)
	b.Records, b.To = b.Records+1, max(b.To, rec.Time) // times of the log do not go back, but a file must not depend on it
	s.Records, s.To = s.Records+1, max(s.To, rec.Time)
	if w.ruleType != 0 && rec.Type == w.ruleType {
		s.Rules = append(s.Rules, rec.Seq)
	}
	return nil
}

func (w *writer) closeBlock() error {
	raw := w.raw.raw
	if len(raw) == 0 {
		return nil
	}
	out := w.pack.pack(raw, &w.sketch.block, &w.sketch, func(rec *wal.Record) error { return w.describe(rec, &w.sketch) })
	b := w.sketch.closeBlock()
	b.at, b.size, b.raw, b.crc = w.size, uint32(len(out)), uint32(len(raw)), checksum(out)
	b.digest = sha256.Sum256(raw)
	w.after = w.after.then(b.digest)
	w.sum.Raw += uint64(len(raw))
	w.blocks = append(w.blocks, b)
	w.raw.raw = raw[:0]
	if err := w.write(out); err != nil {
		return err
	}
	w.pace()
	return nil
}

// end writes the index. next is the number behind the last record of the segment.
func (w *writer) end(next uint64) error {
	if err := w.closeBlock(); err != nil {
		return err
	}
	w.sum.Next, w.sum.blocks, w.sum.tableAt = next, len(w.blocks), w.size
	table := appendTable(nil, &w.sum, w.blocks)
	w.sum.tableCRC, w.sum.end = checksum(table), w.size+int64(len(table))
	summary := w.sum.appendTo(nil)
	b := make([]byte, 0, footBytes)
	b = append(b, footMagic...)
	b = binary.LittleEndian.AppendUint32(b, version)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(table)))
	b = binary.LittleEndian.AppendUint32(b, w.sum.tableCRC)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(summary)))
	b = binary.LittleEndian.AppendUint32(b, checksum(summary))
	b = binary.LittleEndian.AppendUint64(b, 0)
	b = binary.LittleEndian.AppendUint32(b, checksum(b))
	for _, part := range [][]byte{table, summary, b} {
		if err := w.write(part); err != nil {
			return err
		}
	}
	return nil
}

// readSummary reads the end of a file. The error wraps errDamaged, fsys.ErrNewer, or is of the disk.
func readSummary(f fsys.File, first uint64) (s Summary, size int64, err error) {
	if size, err = f.Size(); err != nil {
		return s, 0, err
	}
	if size < headBytes+footBytes {
		return s, size, fmt.Errorf("%w: a file of %d bytes", errDamaged, size)
	}
	tail := make([]byte, min(size, tailBytes))
	if err := readFull(f, tail, size-int64(len(tail))); err != nil {
		return s, size, err
	}
	foot := tail[len(tail)-footBytes:]
	if string(foot[:8]) != footMagic || checksum(foot[:36]) != binary.LittleEndian.Uint32(foot[36:]) {
		return s, size, fmt.Errorf("%w: bad end of the index", errDamaged)
	}
	if v := binary.LittleEndian.Uint32(foot[8:]); v != version {
		return s, size, fmt.Errorf("retained records have format version %d, and this program reads %d: %w", v, version,
			fsys.ErrNewer)
	}
	tableLen, sumLen := int64(binary.LittleEndian.Uint32(foot[12:])), int64(binary.LittleEndian.Uint32(foot[20:]))
	if sumLen > maxIndex || tableLen > maxIndex || sumLen+tableLen > size-headBytes-footBytes {
		return s, size, fmt.Errorf("%w: index does not fit the file", errDamaged)
	}
	body := tail[:len(tail)-footBytes]
	if sumLen <= int64(len(body)) {
		body = body[int64(len(body))-sumLen:]
	} else {
		body = make([]byte, sumLen)
		if err := readFull(f, body, size-footBytes-sumLen); err != nil {
			return s, size, err
		}
	}
	s.tableCRC, s.end = binary.LittleEndian.Uint32(foot[16:]), size-footBytes-sumLen
	s.tableAt = s.end - tableLen
	if checksum(body) != binary.LittleEndian.Uint32(foot[24:]) || !s.parse(body) || s.First != first {
		return s, size, fmt.Errorf("%w: bad index", errDamaged)
	}
	return s, size, nil
}

func readTable(f fsys.File, s *Summary) ([]Block, error) {
	b := make([]byte, s.end-s.tableAt)
	if err := readFull(f, b, s.tableAt); err != nil {
		return nil, err
	}
	blocks, ok := parseTable(b, s)
	if checksum(b) != s.tableCRC || !ok {
		return nil, fmt.Errorf("%w: bad table of blocks", errDamaged)
	}
	return blocks, nil
}

func readFull(f fsys.File, b []byte, at int64) error {
	n, err := f.ReadAt(b, at)
	if n == len(b) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: cut off", errDamaged)
	}
	return err
}

// unpacker reads the blocks of files, one at a time, into memory that it uses again.
type unpacker struct {
	dec     *zstd.Decoder
	of      Unpacker
	in      []byte
	memory  []byte // of columns
	columns [][]byte
	raw     []byte
	read    int64 // bytes of compressed blocks
}

func (f Form) newUnpacker() (*unpacker, error) {
	dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxColumnBytes),
		zstd.WithDecoderLowmem(true))
	if err != nil {
		return nil, fmt.Errorf("make decoder: %w", err)
	}
	u := &unpacker{dec: dec}
	if f.Unpacker != nil {
		u.of = f.Unpacker()
	}
	return u, nil
}

func (u *unpacker) open(f fsys.File, b *Block) (records, error) {
	if cap(u.in) < int(b.size) {
		u.in = make([]byte, b.size)
	}
	u.in = u.in[:b.size]
	if err := readFull(f, u.in, b.at); err != nil {
		return records{}, err
	}
	u.read += int64(b.size)
	if checksum(u.in) != b.crc {
		return records{}, fmt.Errorf("%w: checksum of a block does not match", errDamaged)
	}
	if cap(u.raw) < int(b.raw) {
		u.raw = make([]byte, 0, b.raw)
	}
	raw, err := u.unpack(u.raw[:0], u.in)
	if u.raw = raw; err != nil {
		return records{}, fmt.Errorf("%w: %w", errDamaged, err)
	}
	if len(raw) != int(b.raw) {
		return records{}, fmt.Errorf("%w: block does not decompress to %d bytes", errDamaged, b.raw)
	}
	return newRecords(raw, b), nil
}

func newRecords(raw []byte, b *Block) records {
	return records{c: binread.New(raw), seq: b.First, time: b.From}
}

// records are those of one block.
type records struct {
	c    binread.Reader
	seq  uint64
	time int64
}

func (r *records) next(rec *wal.Record) bool {
	if len(r.c.Rest) == 0 {
		return false
	}
	r.seq += r.c.Uint()
	r.time += r.c.Varint()
	typ := r.c.Byte()
	payload := r.c.Bytes()
	if r.c.Bad() {
		return false
	}
	*rec = wal.Record{Seq: r.seq, Time: r.time, Type: typ, Payload: payload}
	return true
}
