package dlq

import "bytes"

// Damage is a place in a segment that is not what was written there.
type Damage struct {
	Path   string `json:"path"`
	Offset int64  `json:"offset"`
	Bytes  int64  `json:"bytes"`
	Reason string `json:"reason"`
}

// gap is a damaged place while a segment is read.
type gap struct {
	offset, end int
	// torn is false if something was synced after this place was written: a batch is
	// synced before the next one is begun.
	torn bool
}

// maxNumbers bounds the numbers in a segment: its shortest lines would make it as long as
// a segment can be.
const maxNumbers = 1 << 25

// scan calls f with every readable line of a segment, in order, and returns the places
// that are not. Numbers rise from line to line.
func scan(data []byte, segment uint64, f func(*line)) (gaps []gap) {
	first, headErr := parseSegmentHead(data, segment)
	var previous uint64
	take := func(piece []byte, at int) bool {
		l, ok := parseLine(piece, segment, true)
		if ok && headErr != nil && previous == 0 {
			first = l.n
		}
		if !ok || l.n <= previous || l.n-first > maxNumbers || at+len(piece) >= len(data) { // without its line break
			return false
		}
		previous, l.offset = l.n, at
		for i := range gaps {
			if l.batch > gaps[i].offset {
				gaps[i].torn = false
			}
		}
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
		gaps = append(gaps, gap{from, to, true})
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
	return gaps
}

// eachLine calls f with the lines of a segment without looking at checksums or for what
// hides in damaged places, until it returns false. It is for bytes that were scanned.
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
