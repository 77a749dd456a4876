package wal

import (
	"errors"
	"io"
	"math/bits"

	"github.com/sloengine/sloengine/reliability/fsys"
)

// windowBytes is how much a scanner reads at once.
//
// It is large enough for sequential reads at the speed of the disk and small beside the caches: every reader and
// every sink has a window of its own.
const windowBytes = 512 << 10

// scanner walks the frames of one segment through a window that is reused. It belongs to the reader or survey that it
// is part of. Payloads that it returns point into the window, so they are valid until the next frame is read.
//
// It knows nothing of the log: neither where the durable end is nor which segment follows. Its owner passes both
// as the limit and the number that must come next. After a bad frame it has not moved, so its owner decides
// whether that is the end or damage.
type scanner struct {
	f    fsys.File
	salt uint32
	off  int64 // in the file, of the next frame
	buf  []byte
	r, w int // buf[r:w] are the bytes from off on
}

// open starts at an offset of a file, keeping the window's memory.
func (s *scanner) open(f fsys.File, salt uint32, off int64) {
	s.f, s.salt, s.off, s.r, s.w = f, salt, off, 0, 0
}

// peek returns the next n bytes without moving, nil if they reach beyond limit or the
// end of the file.
//
// The bytes are valid until the next call. nil without an error means that there are not as many bytes. The limit
// is the owner's: for a reader the durable end of the segment, beyond which the writer may be writing at this
// moment.
func (s *scanner) peek(n int, limit int64) ([]byte, error) {
	if s.w-s.r >= n {
		return s.buf[s.r : s.r+n], nil
	}
	if s.off+int64(n) > limit {
		return nil, nil
	}
	s.w = copy(s.buf, s.buf[s.r:s.w])
	s.r = 0
	if want := max(n, int(min(windowBytes, limit-s.off))); want > len(s.buf) {
		// A power of two while small, so that it grows only a few times.
		size := 1 << bits.Len(uint(max(want, 4096)-1))
		if want > windowBytes {
			size = (want + windowBytes - 1) / windowBytes * windowBytes
		}
		grown := make([]byte, size)
		copy(grown, s.buf[:s.w])
		s.buf = grown
	}
	for s.w < n {
		at := s.off + int64(s.w)
		want := min(int64(len(s.buf)-s.w), limit-at)
		k, err := s.f.ReadAt(s.buf[s.w:s.w+int(want)], at)
		s.w += k
		if s.w >= n {
			break
		}
		if errors.Is(err, io.EOF) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
	}
	return s.buf[:n], nil
}

// next reads the frame at off and moves behind it. Bytes at limit and beyond are treated as absent.
// If the frame is bad, reason says why and nothing moves; err is of the disk.
//
// The checks run in the order in which their data can be trusted: the head with its length, then the number, then
// the payload. So no length is used before it is proven, and a frame of another record is not taken for the one
// that is missing. A wrong number is a bad frame like any other.
func (s *scanner) next(limit int64, seq uint64, f *frame) (payload []byte, reason string, err error) {
	head, err := s.peek(frameHead, limit)
	if err != nil {
		return nil, "", err
	}
	if head == nil {
		return nil, "frame is cut off in its head", nil
	}
	if reason := parseHead(head, s.salt, f); reason != "" {
		return nil, reason, nil
	}
	if f.seq != seq {
		return nil, "frame holds another record than the next one", nil
	}
	total := frameHead + int(f.length)
	whole, err := s.peek(total, limit)
	if err != nil {
		return nil, "", err
	}
	if whole == nil {
		return nil, "frame is cut off in its payload", nil
	}
	payload = whole[frameHead:total:total]
	if checksum(s.salt, payload) != f.payloadCRC {
		return nil, "checksum of the payload does not match", nil
	}
	s.r += total
	s.off += int64(total)
	return payload, "", nil
}
