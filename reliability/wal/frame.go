package wal

import (
	"encoding/binary"
	"hash/crc32"
)

// frameHead is the number of bytes before a payload. See FORMAT.md.
const frameHead = 33

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// frame is a decoded head.
type frame struct {
	payloadCRC uint32
	length     uint32
	delta      uint16 // number of records before it in its batch
	count      uint16 // number of records of its batch; 0 = not named
	seq        uint64
	rule       uint16 // number of the last record of Options.RuleType, itself included; 0 = not named
	time       int64
	typ        byte
}

// batch is the number of the first record of the frame's batch.
func (f *frame) batch() uint64 { return f.seq - uint64(f.delta) }

// checksum starts from the salt of the segment, so that bytes that a sender chose, or
// that another segment left on the disk, are not mistaken for a frame.
func checksum(salt uint32, b []byte) uint32 { return crc32.Update(salt, castagnoli, b) }

// maxSeq is the highest number of a record: the two bytes above it hold the rule.
const maxSeq = 1<<48 - 1

// maxBatch is the most records of one batch: a frame has two bytes for their number.
const maxBatch = 1<<16 - 1

// appendFrame encodes a record. The head has a checksum of its own, so that a damaged length is noticed before anybody
// reads that many bytes, and so that a start can look for frames at any offset without reading payloads.
func appendFrame(dst []byte, salt uint32, p *Pending, delta, count, rule uint16) []byte {
	at := len(dst)
	var head [frameHead]byte
	dst = append(dst, head[:]...)
	dst = append(dst, p.Payload...)
	for _, part := range p.Parts {
		dst = append(dst, part...)
	}
	h, payload := dst[at:at+frameHead], dst[at+frameHead:]
	binary.LittleEndian.PutUint32(h[4:], checksum(salt, payload))
	binary.LittleEndian.PutUint32(h[8:], uint32(len(payload)))
	binary.LittleEndian.PutUint16(h[12:], delta)
	binary.LittleEndian.PutUint16(h[14:], count)
	binary.LittleEndian.PutUint64(h[16:], p.Seq|uint64(rule)<<48)
	binary.LittleEndian.PutUint64(h[24:], uint64(p.Time))
	h[32] = p.Type
	binary.LittleEndian.PutUint32(h[0:], checksum(salt, h[4:]))
	return dst
}

// parseHead reads the head in b, which holds at least frameHead bytes. The reason is ""
// if it is good.
func parseHead(b []byte, salt uint32, f *frame) (reason string) {
	b = b[:frameHead]
	if checksum(salt, b[4:]) != binary.LittleEndian.Uint32(b) {
		return "checksum of the frame's head does not match"
	}
	f.payloadCRC = binary.LittleEndian.Uint32(b[4:])
	f.length = binary.LittleEndian.Uint32(b[8:])
	f.delta = binary.LittleEndian.Uint16(b[12:])
	f.count = binary.LittleEndian.Uint16(b[14:])
	f.seq = binary.LittleEndian.Uint64(b[16:]) & maxSeq
	f.rule = binary.LittleEndian.Uint16(b[22:])
	f.time = int64(binary.LittleEndian.Uint64(b[24:]))
	f.typ = b[32]
	if f.length > MaxPayload {
		return "payload is longer than a record may be"
	}
	return ""
}

// laterBatch reports whether data, the bytes from a bad frame to the end of the segment,
// holds a whole frame of a batch that began after seq, the record that the bad frame
// should have been.
func laterBatch(data []byte, salt uint32, seq uint64) bool {
	_, _, found := findFrame(data, salt, seq, 0, func(f *frame) bool { return f.batch() > seq && f.batch() <= f.seq })
	return found
}

// nextFrame finds the first whole frame in data of a record behind seq and, unless stop
// is 0, before stop.
func nextFrame(data []byte, salt uint32, seq, stop uint64) (at int, found uint64, ok bool) {
	return findFrame(data, salt, seq, stop, func(*frame) bool { return true })
}

// findFrame looks at every offset of data, since a bad length hides where the next frame
// begins.
func findFrame(data []byte, salt uint32, seq, stop uint64, wanted func(*frame) bool) (at int, found uint64, ok bool) {
	var f frame
	most := uint64(len(data))/frameHead + 1
	for i := 0; i+frameHead <= len(data); i++ {
		// Cheap tests first: nearly every offset fails here.
		n := binary.LittleEndian.Uint64(data[i+16:]) & maxSeq
		if n <= seq || n-seq > most || stop != 0 && n >= stop {
			continue
		}
		if parseHead(data[i:], salt, &f) != "" || !wanted(&f) {
			continue
		}
		end := i + frameHead + int(f.length)
		if end <= len(data) && checksum(salt, data[i+frameHead:end]) == f.payloadCRC {
			return i, n, true
		}
	}
	return 0, 0, false
}

// startOfChecksum is the value that a checksum over b started from, if it gave sum.
func startOfChecksum(sum uint32, b []byte) uint32 {
	crc := ^sum
	for i := len(b) - 1; i >= 0; i-- {
		k := topOfTable[crc>>24] // the entries of the table differ in their highest byte
		crc = (crc^castagnoli[k])<<8 | uint32(k^b[i])
	}
	return ^crc
}

// topOfTable finds the entry of the table with that highest byte.
var topOfTable = func() (index [256]byte) {
	for i, v := range castagnoli {
		index[v>>24] = byte(i)
	}
	return index
}()
