package dlq

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"strconv"

	"github.com/sloengine/sloengine/reliability/fsys"
)

// The kinds of line. Those of removals are the values of type removal.
const (
	lineEntry = 'e' // an entry
	lineAgain = 'u' // an entry that takes the place of an earlier line
	// lineSynced says that all before it was synced; n is that of the last line before it.
	lineSynced = 's'
)

const (
	segmentMagic = "SLODLQ2 " // no release wrote version 1
	// lineHead: checksum, begin of the batch, kind, number, time of saving in ms, each
	// followed by a space; all but the kind in lower-case hex of fixed width.
	lineHead    = 9 + 9 + 2 + 17 + 13
	againHead   = 17 // the number of the line that is replaced, and a space
	segmentHead = len(segmentMagic) + 17 + 17 + 9
	syncedLine  = lineHead + 1 // with its line break
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// seal is the checksum of data in a segment. The number of the segment goes in, so that
// a line is valid only where it was written.
func seal(segment uint64, data []byte) uint32 {
	return crc32.Update(uint32(segment*0x9E3779B97F4A7C15>>32), castagnoli, data)
}

// line is one line of a segment. Body points into the segment's bytes.
type line struct {
	offset   int // of its first byte
	size     int // with the line break
	batch    int // offset at which its batch begins
	kind     byte
	n        uint64
	saved    int64 // ms since 1970
	replaces uint64
	body     []byte
}

func appendHex(dst []byte, v uint64, digits int) []byte {
	const hexDigits = "0123456789abcdef"
	for i := digits - 1; i >= 0; i-- {
		dst = append(dst, hexDigits[v>>(4*i)&15])
	}
	return dst
}

func parseHex(data []byte) (v uint64, ok bool) {
	for _, c := range data {
		switch {
		case c >= '0' && c <= '9':
			v = v<<4 | uint64(c-'0')
		case c >= 'a' && c <= 'f':
			v = v<<4 | uint64(c-'a'+10)
		default:
			return 0, false
		}
	}
	return v, true
}

// appendLine writes l. Its offset, size and the target of its body are not used.
func appendLine(dst []byte, segment uint64, l *line) []byte {
	start := len(dst)
	dst = append(dst, "00000000 "...)
	dst = append(appendHex(dst, uint64(l.batch), 8), ' ', l.kind, ' ')
	dst = append(appendHex(dst, l.n, 16), ' ')
	dst = append(appendHex(dst, uint64(l.saved), 12), ' ')
	if l.kind == lineAgain {
		dst = append(appendHex(dst, l.replaces, 16), ' ')
	}
	dst = append(dst, l.body...)
	appendHex(dst[start:start], uint64(seal(segment, dst[start+9:])), 8)
	return append(dst, '\n')
}

// shaped is a cheap look whether data may begin with a line.
func shaped(data []byte) bool {
	return len(data) >= lineHead && data[8] == ' ' && data[17] == ' ' && data[19] == ' ' &&
		data[36] == ' ' && data[49] == ' '
}

// parseLine reads a line without its line break. Check says whether to compute the
// checksum.
func parseLine(data []byte, segment uint64, check bool) (l line, ok bool) {
	if !shaped(data) {
		return l, false
	}
	if check {
		sum, ok := parseHex(data[:8])
		if !ok || uint32(sum) != seal(segment, data[9:]) {
			return l, false
		}
	}
	batch, ok1 := parseHex(data[9:17])
	n, ok2 := parseHex(data[20:36])
	saved, ok3 := parseHex(data[37:49])
	l = line{size: len(data) + 1, batch: int(batch), kind: data[18], n: n, saved: int64(saved), body: data[lineHead:]}
	if !ok1 || !ok2 || !ok3 || n == 0 {
		return l, false
	}
	switch l.kind {
	case lineEntry, lineSynced, byte(discarded), byte(replayed), byte(purged):
	case lineAgain:
		if len(l.body) < againHead || l.body[againHead-1] != ' ' {
			return l, false
		}
		if l.replaces, ok = parseHex(l.body[:againHead-1]); !ok {
			return l, false
		}
		l.body = l.body[againHead:]
	default:
		return l, false
	}
	return l, true
}

func (l *line) isEntry() bool { return l.kind == lineEntry || l.kind == lineAgain }

// span is a range of line numbers, both ends in it.
type span [2]uint64

// removes are the lines that l takes away.
func (l *line) removes() ([]span, error) {
	switch l.kind {
	case lineEntry, lineSynced:
		return nil, nil
	case lineAgain:
		return []span{{l.replaces, l.replaces}}, nil
	}
	var spans []span
	if err := json.Unmarshal(l.body, &spans); err != nil {
		return nil, fmt.Errorf("removal %d: %w", l.n, err)
	}
	for _, s := range spans {
		if s[0] == 0 || s[0] > s[1] || s[1] >= l.n {
			return nil, fmt.Errorf("removal %d of the lines %d to %d", l.n, s[0], s[1])
		}
	}
	return spans, nil
}

// spansOf joins ascending numbers to ranges.
func spansOf(numbers []uint64) (spans []span) {
	for _, n := range numbers {
		if last := len(spans) - 1; last >= 0 && spans[last][1]+1 == n {
			spans[last][1] = n
			continue
		}
		spans = append(spans, span{n, n})
	}
	return spans
}

func appendSpans(dst []byte, spans []span) []byte {
	dst = append(dst, '[')
	for i, s := range spans {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendUint(append(dst, '['), s[0], 10)
		dst = append(strconv.AppendUint(append(dst, ','), s[1], 10), ']')
	}
	return append(dst, ']')
}

func appendSegmentHead(dst []byte, number, first uint64) []byte {
	start := len(dst)
	dst = append(dst, segmentMagic...)
	dst = append(appendHex(dst, number, 16), ' ')
	dst = append(appendHex(dst, first, 16), ' ')
	sum := seal(number, dst[start:])
	return append(appendHex(dst, uint64(sum), 8), '\n')
}

// parseSegmentHead returns the first line number that the segment may hold.
func parseSegmentHead(data []byte, number uint64) (first uint64, err error) {
	if len(data) < segmentHead {
		return 0, fmt.Errorf("header too short")
	}
	data = data[:segmentHead]
	if !bytes.HasPrefix(data, []byte(segmentMagic[:6])) {
		return 0, fmt.Errorf("not a segment")
	}
	if data[6] != segmentMagic[6] && data[6] >= '0' && data[6] <= '9' {
		// Not damage: the checksum of every format covers its version.
		if sum, ok := parseHex(data[len(data)-9 : len(data)-1]); ok && uint32(sum) == seal(number, data[:len(data)-9]) {
			return 0, &VersionError{Version: string(data[6:7])}
		}
	}
	first, ok := parseHex(data[len(segmentMagic)+17 : len(segmentMagic)+33])
	if !ok || !bytes.Equal(data, appendSegmentHead(nil, number, first)) {
		return 0, fmt.Errorf("damaged header: %s", hex.EncodeToString(data[:16]))
	}
	return first, nil
}

// VersionError says that a segment has a format that this program does not read: a later one, since no release wrote
// format 1.
type VersionError struct{ Path, Version string }

func (e *VersionError) Error() string {
	return fmt.Sprintf("dead letters %s have format %s, and this program reads format 2: %s",
		e.Path, e.Version, fsys.Newer)
}

// Unwrap distinguishes it from damage.
func (e *VersionError) Unwrap() error { return fsys.ErrNewer }
