package dlq

import (
	"bytes"
	"time"
)

// Damage is a place in a segment whose bytes are not those written there.
type Damage struct {
	Path   string `json:"path"`
	Offset int64  `json:"offset"`
	Bytes  int64  `json:"bytes"`
	Reason string `json:"reason"`
	// Lost is how many dead letters were there at most, and From and To when the ones
	// around it were saved (zero if there are none).
	Lost     int64     `json:"lost"`
	From, To time.Time `json:",omitzero"`
}

// gap is a damaged place while a segment is read.
type gap struct {
	offset, end int
	// torn is false if something was synced after this place was written: a batch is
	// synced before the next one, or a line of kind s, is begun.
	torn bool
	// The lines around it: their numbers, 0 if there is none, and when they were saved.
	before, after uint64
	from, to      int64
	lost          int64 // lines that were here at most; set once the segment is read
}

// count finds out how many lines are missing in each gap. Where nothing was compacted away, numbers
// have no holes and give the count; elsewhere the remains of the gap do.
func count(gaps []gap, data []byte, first, next uint64, dense bool) {
	for i := range gaps {
		g := &gaps[i]
		if g.before == 0 {
			g.before = max(first, 1) - 1
		}
		breaks := int64(bytes.Count(data[g.offset:g.end], []byte{'\n'}))
		if g.end == len(data) && g.end > g.offset && data[g.end-1] != '\n' {
			breaks++
		}
		after := g.after
		if after == 0 {
			after = next
		}
		switch missing := int64(after) - int64(g.before) - 1; {
		case g.end <= segmentHead:
			g.lost = 0
		case after == 0:
			g.lost = max(breaks, 1)
		case dense || missing <= 0:
			g.lost = max(missing, 0)
		default:
			g.lost = min(missing, max(breaks, 1))
		}
	}
}

// maxNumbers bounds the numbers in a segment: its shortest lines would make it as long as
// a segment can be.
const maxNumbers = 1 << 25

// scan calls f with every readable line of a segment, in order, and returns the places
// that are not. Numbers rise from line to line. dense says that the readable ones have no
// holes but those of the gaps.
func scan(data []byte, segment uint64, f func(*line)) (gaps []gap, dense bool) {
	first, headErr := parseSegmentHead(data, segment)
	var previous uint64
	var saved int64
	dense = true
	readable := segmentHead // the end of the last readable line
	take := func(piece []byte, at int) bool {
		l, ok := parseLine(piece, segment, true)
		if ok && headErr != nil && previous == 0 {
			first = l.n
		}
		// it has the number of the line before it
		mark := l.kind == lineSynced
		// without its line break
		if !ok || l.n < previous || l.n == previous && !mark || l.n-first > maxNumbers || at+len(piece) >= len(data) {
			return false
		}
		l.offset = at
		for i := range gaps {
			if l.batch > gaps[i].offset {
				gaps[i].torn = false
			}
			if gaps[i].after == 0 {
				gaps[i].after, gaps[i].to = l.n, l.saved
				if mark {
					gaps[i].after++
				}
			}
		}
		if !mark && previous > 0 && at == readable && l.n != previous+1 {
			dense = false
		}
		previous, saved, readable = l.n, l.saved, at+len(piece)+1
		f(&l)
		return true
	}
	bad := func(from, to int) {
		if from >= to {
			return
		}
		if i := len(gaps) - 1; i >= 0 && gaps[i].end == from {
			gaps[i].end = to
			return
		}
		gaps = append(gaps, gap{offset: from, end: to, torn: true, before: previous, from: saved})
	}
	at := min(segmentHead, len(data))
	for at < len(data) {
		end := bytes.IndexByte(data[at:], '\n')
		if end < 0 {
			end = len(data)
		} else {
			end += at
		}
		if take(data[at:end], at) {
			at = end + 1
			continue
		}
		// Perhaps the damage hit a line break, and whole lines hide in the piece.
		from := at
		for i := at + 1; i+lineHead <= end; i++ {
			if !shaped(data[i:end]) {
				continue
			}
			if _, ok := parseLine(data[i:end], segment, true); !ok {
				continue
			}
			if take(data[at:i-1], at) {
				from = i - 1
			}
			bad(from, i)
			if !take(data[i:end], i) {
				bad(i, min(end+1, len(data)))
			}
			from = min(end+1, len(data))
			break
		}
		bad(from, min(end+1, len(data)))
		at = end + 1
	}
	return gaps, dense
}

// eachLine calls f with the lines of a segment without verifying checksums or searching damaged
// places, until it returns false. It is for bytes that were scanned.
func eachLine(data []byte, segment uint64, clean bool, f func(*line) bool) {
	if !clean {
		stopped := false
		scan(data, segment, func(l *line) { stopped = stopped || !f(l) })
		return
	}
	for at := segmentHead; at < len(data); {
		end := bytes.IndexByte(data[at:], '\n')
		if end < 0 {
			return
		}
		if l, ok := parseLine(data[at:at+end], segment, false); ok {
			l.offset = at
			if !f(&l) {
				return
			}
		}
		at += end + 1
	}
}
