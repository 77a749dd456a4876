package retained

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"github.com/sloengine/sloengine/reliability/wal"
)

// This file chains the digests of all records, so that who noted the digest at a record can tell later whether the
// records up to it are those of then.

// Digest is the SHA-256 of the Digest before a block and that of the block's records before they are compressed. A
// block that begins behind a gap follows the zero Digest.
type Digest [sha256.Size]byte

func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// then is the digest behind another block.
func (d Digest) then(block Digest) Digest { return sha256.Sum256(append(d[:], block[:]...)) }

// blockEncoder has the records of a block as they are before they are compressed. Where a block ends depends on its
// records and on where the segment begins alone, so that the digest at a record of the log is known before it is
// retained.
type blockEncoder struct {
	raw  []byte
	seq  uint64 // of the last record
	time int64
}

// full reports whether a record begins another block.
func (b *blockEncoder) full(rec *wal.Record) bool {
	return len(b.raw) > 0 && len(b.raw)+len(rec.Payload) > blockBytes
}

func (b *blockEncoder) add(rec *wal.Record) {
	if len(b.raw) == 0 {
		b.seq, b.time = rec.Seq, rec.Time
	}
	b.raw = appendRecord(b.raw, rec, b.seq, b.time)
	b.seq, b.time = rec.Seq, rec.Time
}

// appendRecord appends a record that follows one of that number and time in its block.
func appendRecord(dst []byte, rec *wal.Record, seq uint64, time int64) []byte {
	dst = binary.AppendUvarint(dst, rec.Seq-seq)
	dst = binary.AppendVarint(dst, rec.Time-time)
	dst = append(dst, rec.Type)
	dst = binary.AppendUvarint(dst, uint64(len(rec.Payload)))
	return append(dst, rec.Payload...)
}

// after is the digest behind a file.
func (s *Source) after(f *file) (Digest, error) {
	sum := f.Before
	err := s.eachBlock(f, func(b *Block, _ uint64, _ func() ([]byte, error)) error {
		sum = sum.then(b.digest)
		return nil
	})
	return sum, err
}

// eachBlock goes through the blocks of a file. raw reads the records of one, encoded.
func (s *Source) eachBlock(f *file, see func(b *Block, next uint64, raw func() ([]byte, error)) error) (err error) {
	if f.err != nil {
		return f.err
	}
	open, blocks, err := s.enter(f)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, open.Close()) }()
	u, err := s.form.newUnpacker()
	if err != nil {
		return err
	}
	defer u.dec.Close()
	for i := range blocks {
		next := f.Next
		if i+1 < len(blocks) {
			next = blocks[i+1].First
		}
		if err := see(&blocks[i], next, func() ([]byte, error) {
			_, err := u.open(open, &blocks[i])
			return u.raw, err
		}); err != nil {
			return err
		}
	}
	return nil
}

// ErrNotRetained means that the digest at a record cannot be computed, since records before it are gone.
var ErrNotRetained = errors.New("the records are not retained")

// Digest is that of all records up to a number.
func (s *Source) Digest(ctx context.Context, at uint64) (sum Digest, err error) {
	for range 3 { // segments may be moved meanwhile
		if sum, err = s.digest(ctx, at); !errors.Is(err, wal.ErrTruncated) {
			return sum, err
		}
	}
	return sum, fmt.Errorf("%w: %w", ErrNotRetained, err)
}

func (s *Source) digest(ctx context.Context, at uint64) (sum Digest, err error) {
	files, err := s.files()
	if err != nil {
		return sum, err
	}
	var from uint64
	if i := lastBefore(files, at); i >= 0 {
		f := files[i]
		if at >= f.Next {
			if sum, err = s.after(f); err != nil {
				return sum, err
			}
			from = f.Next
		} else {
			sum = f.Before
			return sum, s.eachBlock(f, func(b *Block, next uint64, raw func() ([]byte, error)) error {
				if next-1 <= at {
					sum = sum.then(b.digest)
				} else if b.First <= at {
					return sum.part(b, at, raw)
				}
				return nil
			})
		}
	} else if len(files) > 0 {
		return sum, fmt.Errorf("%w: the oldest is %d", ErrNotRetained, files[0].First)
	}
	starts := s.segments(from)
	live, err := s.live(from)
	if err != nil {
		return sum, err
	}
	defer func() { err = errors.Join(err, live.Close()) }()
	var (
		rec  wal.Record
		b    blockEncoder
		last uint64
	)
	end := func() {
		if len(b.raw) > 0 {
			sum = sum.then(sha256.Sum256(b.raw))
			b.raw = b.raw[:0]
		}
	}
	for n := 0; last < at; n++ {
		if n&1023 == 0 && ctx.Err() != nil {
			return sum, context.Cause(ctx)
		}
		ok, err := live.Next(&rec)
		if err != nil {
			return sum, err
		}
		if !ok || rec.Seq > at {
			break
		}
		begins := slices.Contains(starts, rec.Seq)
		if begins || b.full(&rec) {
			end()
		}
		if begins && rec.Seq != max(last+1, from) {
			sum = Digest{}
		}
		b.add(&rec)
		last = rec.Seq
	}
	if end(); last < at {
		return sum, fmt.Errorf("%w: the log ends with record %d", ErrNotRetained, last)
	}
	return sum, nil
}

// part adds the records of a block up to a number.
func (d *Digest) part(b *Block, at uint64, raw func() ([]byte, error)) error {
	data, err := raw()
	if err != nil {
		return err
	}
	if sha256.Sum256(data) != b.digest {
		return fmt.Errorf("%w: those from record %d on were changed", ErrNotRetained, b.First)
	}
	var (
		part blockEncoder
		rec  wal.Record
	)
	r := newRecords(data, b)
	for r.next(&rec) && rec.Seq <= at {
		part.add(&rec)
	}
	*d = d.then(sha256.Sum256(part.raw))
	return nil
}

// lastBefore is the place of the last file that begins with a number or before it, -1 without one.
func lastBefore(files []*file, at uint64) int {
	i := len(files) - 1
	for i >= 0 && files[i].First > at {
		i--
	}
	return i
}

// Checked is what Check found.
type Checked struct {
	First   uint64 // the oldest retained record
	Blocks  int
	Changed []Gap // whose records are not those that were retained; the first maxGaps of them
	More    int
	Erased  int // blocks that differ as the chain of erasures says
}

// Check reads all retained records up to a number, and compares them with their digests.
func (s *Source) Check(ctx context.Context, at uint64) (out Checked, err error) {
	files, err := s.files()
	if err != nil {
		return out, err
	}
	note := func(first, next uint64, reason string) {
		if len(out.Changed) == maxGaps {
			out.More++
			return
		}
		out.Changed = append(out.Changed, Gap{first, next, reason})
	}
	erased, err := s.erasedBlocks()
	if err != nil {
		return out, err
	}
	var sum Digest
	next := uint64(0)
	for _, f := range files[:lastBefore(files, at)+1] {
		if out.First == 0 {
			out.First = f.First
		}
		if next != 0 && f.First == next && f.err == nil && f.Before != sum {
			note(f.First, f.Next, "they do not follow those before them")
		}
		sum, next = f.Before, f.Next
		err := s.eachBlock(f, func(b *Block, next uint64, raw func() ([]byte, error)) error {
			if err := ctx.Err(); err != nil {
				return context.Cause(ctx)
			}
			out.Blocks++
			sum = sum.then(b.digest)
			data, err := raw()
			switch {
			case err != nil:
				note(b.First, next, err.Error())
			case sha256.Sum256(data) == b.digest:
			case erased.leads(b, sumOf(data)):
				out.Erased++
			default:
				note(b.First, next, "their digest differs")
			}
			return nil
		})
		if ctx.Err() != nil {
			return out, err
		}
		if err != nil {
			note(f.First, f.Next, err.Error())
			next = 0
		}
	}
	return out, nil
}
