package inflight

import (
	"encoding/binary"
	"errors"
	"fmt"
	"github.com/zeebo/xxh3"
	"math/bits"
)

// This file encodes a Table: a head, and parts of entries in the order of their slots. FORMAT.md describes the bytes.
// Entries are records of fixed width, so that encoding a million of them takes tens of milliseconds.

const (
	partPages   = 16 // pages of a part
	partEntries = partPages * pageSize

	recordBytes = 8*4 + 4 + 4 + 2 + 1 + 1 + 1 // an entry without the text of its key
)

// ErrSnapshot is wrapped by the errors of bytes that no Table has written.
var ErrSnapshot = errors.New("damaged entries in flight")

// Parts is how many parts there are. Those without entries are among them.
func (t *Table) Parts() int { return (len(t.pages) + partPages - 1) / partPages }

// Part gives the version of a part, and whether it has entries.
func (t *Table) Part(n int) (version uint64, used bool) {
	for _, p := range t.part(n) {
		used = used || p.n > 0
	}
	return t.versions[n], used
}

func (t *Table) part(n int) []*page {
	return t.pages[n*partPages : min((n+1)*partPages, len(t.pages))]
}

// PartsBytes is the most that all parts take when they are encoded.
func (t *Table) PartsBytes() int {
	return t.size()*(recordBytes+KeyBytes) + len(t.pages)*(pageSize/8) + 16*t.Parts()
}

// AppendPart encodes a part.
func (t *Table) AppendPart(b []byte, n int) []byte {
	pages := t.part(n)
	for len(pages) > 0 && pages[len(pages)-1].n == 0 {
		pages = pages[:len(pages)-1] // whether there are some depends on when memory was released
	}
	for _, p := range pages {
		for _, used := range p.used {
			b = binary.LittleEndian.AppendUint64(b, used)
		}
		for w, used := range p.used {
			for ; used != 0; used &= used - 1 {
				b = p.appendEntry(b, w*64+bits.TrailingZeros64(used))
			}
		}
	}
	return b
}

// appendEntry encodes the entry at a place of the page.
func (p *page) appendEntry(b []byte, i int) []byte {
	e, k := &p.entries[i], &p.keys[i]
	text := k.text[:min(int(k.n), KeyBytes)]
	at := len(b)
	if cap(b)-at < recordBytes+KeyBytes {
		b = append(b, make([]byte, recordBytes+KeyBytes)...)
	}
	b = b[:at+recordBytes+len(text)]
	r := b[at : at+recordBytes : at+recordBytes]
	binary.LittleEndian.PutUint64(r, e.lo)
	binary.LittleEndian.PutUint64(r[8:], e.hi)
	binary.LittleEndian.PutUint64(r[16:], uint64(e.start))
	binary.LittleEndian.PutUint64(r[24:], uint64(e.at))
	binary.LittleEndian.PutUint32(r[32:], p.due[i])
	binary.LittleEndian.PutUint32(r[36:], e.group)
	binary.LittleEndian.PutUint16(r[40:], e.stage)
	r[42], r[43], r[44] = byte(e.state), e.flags, k.n
	copy(b[at+recordBytes:], text)
	return b
}

// counters are the cumulative figures, in the order of the head.
func (f *figures) counters() []*uint64 {
	return []*uint64{&f.ended, &f.expired, &f.corrected, &f.repeated, &f.unmatched, &f.untracked, &f.displaced}
}

// AppendHead encodes what is not in the parts.
func (t *Table) AppendHead(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(t.minute))
	for _, n := range t.counters() {
		b = binary.AppendUvarint(b, *n)
	}
	return b
}

// RestoreHead is the inverse of AppendHead, into a new Table. It returns what follows the head.
func (t *Table) RestoreHead(b []byte) (rest []byte, err error) {
	var minute uint64
	for _, n := range append([]*uint64{&minute}, t.counters()...) {
		x, size := binary.Uvarint(b)
		if size <= 0 {
			return nil, fmt.Errorf("%w: cut short", ErrSnapshot)
		}
		*n, b = x, b[size:]
	}
	t.minute = uint32(minute)
	return b, nil
}

// RestorePart is the inverse of AppendPart, into a new Table. Parts come in any order. FinishRestore follows them. data
// is not kept.
func (t *Table) RestorePart(n int, version uint64, data []byte) error {
	if n < 0 || n > MaxEntries/partEntries {
		return fmt.Errorf("%w: part %d", ErrSnapshot, n)
	}
	pages := 0
	for len(data) > 0 {
		if pages == partPages || len(data) < pageSize/8 {
			return fmt.Errorf("%w: part %d is cut short or too long", ErrSnapshot, n)
		}
		for len(t.pages) <= n*partPages+pages {
			t.addPage()
		}
		p := t.pages[n*partPages+pages]
		for w := range p.used {
			p.used[w] = binary.LittleEndian.Uint64(data[8*w:])
		}
		data = data[pageSize/8:]
		for w, used := range p.used {
			for ; used != 0; used &= used - 1 {
				var ok bool
				if data, ok = p.readEntry(data, w*64+bits.TrailingZeros64(used)); !ok {
					return fmt.Errorf("%w: an entry of part %d", ErrSnapshot, n)
				}
				p.n++
			}
		}
		pages++
	}
	if n < len(t.versions) {
		t.versions[n] = version
	}
	return nil
}

// readEntry is the inverse of appendEntry.
func (p *page) readEntry(r []byte, i int) (rest []byte, ok bool) {
	if len(r) < recordBytes {
		return nil, false
	}
	p.entries[i] = entry{
		lo: binary.LittleEndian.Uint64(r), hi: binary.LittleEndian.Uint64(r[8:]),
		start: int64(binary.LittleEndian.Uint64(r[16:])), at: int64(binary.LittleEndian.Uint64(r[24:])),
		group: binary.LittleEndian.Uint32(r[36:]), stage: binary.LittleEndian.Uint16(r[40:]),
		state: state(r[42]), flags: r[43],
	}
	p.due[i] = binary.LittleEndian.Uint32(r[32:])
	k := &p.keys[i]
	k.n = r[44]
	n := min(int(k.n), KeyBytes)
	if len(r) < recordBytes+n {
		return nil, false
	}
	copy(k.text[:], r[recordBytes:recordBytes+n])
	return r[recordBytes+n:], true
}

// FinishRestore builds what is not in a snapshot, and checks that the parts make sense together: groups and stages are
// below the given numbers, and no key is there twice.
func (t *Table) FinishRestore(groups, stages int) error {
	total := 0
	for _, p := range t.pages {
		total += p.n
	}
	t.index.reset(total)
	for n, p := range t.pages {
		if p.n == pageSize {
			t.room[n/64] &^= 1 << (n % 64)
		}
		for i := range p.entries {
			e := &p.entries[i]
			if p.used[i/64]>>(i%64)&1 == 0 {
				continue
			}
			if e.state < open || e.state > closed || e.state != held && (int(e.group) >= groups || int(e.stage) >= stages) {
				return fmt.Errorf("%w: entry %d", ErrSnapshot, n*pageSize+i)
			}
			if _, twice := t.find(xxh3.Uint128{Lo: e.lo, Hi: e.hi}); twice {
				return fmt.Errorf("%w: a key is there twice", ErrSnapshot)
			}
			t.index.put(uint32(e.lo), uint32(n*pageSize+i))
			t.tally(e, 1)
		}
	}
	return nil
}
