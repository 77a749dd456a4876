package otlpwire

import (
	"encoding/binary"
	"math"
	"strconv"
)

// number writes the number, truth value or name of an enumeration at byte i as a field.
func (t *transcoder) number(f *fieldSpec, i int) (int, *Error) {
	if f.kind == kindBool {
		return t.truth(f, i)
	}
	s, next, quoted, err := t.digits(i)
	if err != nil {
		return 0, err
	}
	if f.kind == kindDouble {
		return next, t.double(f, i, s, quoted)
	}
	if quoted && f.kind == kindEnum {
		for n, name := range f.enum {
			if name == string(s) {
				t.tag(f.number, wireVarint)
				t.out = binary.AppendUvarint(t.out, uint64(n))
			}
		}
		return next, nil // a name of a later version of the protocol is unspecified, as a number would be
	}
	negative, v, ok := integer(s)
	low, high := uint64(0), uint64(math.MaxUint64) // of -v and v
	switch f.kind {
	case kindUint32, kindFixed32:
		high = math.MaxUint32
	case kindInt32, kindSint32, kindEnum:
		low, high = 1<<31, math.MaxInt32
	case kindInt64, kindSfixed64:
		low, high = 1<<63, math.MaxInt64
	}
	if !ok || negative && v > low || !negative && v > high {
		return 0, errorAt(i, "an integer from %s to %d is expected", strconv.FormatInt(-int64(low), 10), high)
	}
	if negative {
		v = -v
	}
	switch f.kind {
	case kindSint32:
		t.tag(f.number, wireVarint)
		t.out = binary.AppendUvarint(t.out, uint64(uint32(v)<<1^uint32(int32(v)>>31)))
	case kindFixed64, kindSfixed64:
		t.tag(f.number, wireFixed64)
		t.out = binary.LittleEndian.AppendUint64(t.out, v)
	case kindFixed32:
		t.tag(f.number, wireFixed32)
		t.out = binary.LittleEndian.AppendUint32(t.out, uint32(v))
	default:
		t.tag(f.number, wireVarint)
		t.out = binary.AppendUvarint(t.out, v)
	}
	return next, nil
}

func (t *transcoder) truth(f *fieldSpec, i int) (int, *Error) {
	word, v := "false", byte(0)
	if t.at(i) == 't' {
		word, v = "true", 1
	}
	next, err := t.literal(i, word)
	if err != nil {
		return 0, t.expected(i, "true or false")
	}
	t.tag(f.number, wireVarint)
	t.out = append(t.out, v)
	return next, nil
}

func (t *transcoder) double(f *fieldSpec, i int, s []byte, quoted bool) *Error {
	v, err := 0.0, error(nil)
	switch string(s) {
	case "NaN":
		v = math.NaN()
	case "Infinity":
		v = math.Inf(1)
	case "-Infinity":
		v = math.Inf(-1)
	default:
		if numberEnd(s, 0) == len(s) {
			v, err = strconv.ParseFloat(string(s), 64)
		} else {
			err = strconv.ErrSyntax
		}
	}
	if err != nil {
		return errorAt(i, "a number of 64 bits is expected")
	}
	t.tag(f.number, wireFixed64)
	t.out = binary.LittleEndian.AppendUint64(t.out, math.Float64bits(v))
	return nil
}

// digits returns the number at byte i, or the text there, and where it ends.
func (t *transcoder) digits(i int) (s []byte, next int, quoted bool, err *Error) {
	if t.at(i) == '"' {
		t.scratch, next, err = t.text(t.scratch[:0], i)
		return t.scratch, next, true, err
	}
	if next = numberEnd(t.in, i); next < 0 {
		return nil, 0, false, t.expected(i, "a number")
	}
	return t.in[i:next], next, false, nil
}

// numberEnd returns where the number of JSON at byte i ends, and -1 if there is none.
func numberEnd(b []byte, i int) int {
	digits := func() bool {
		from := i
		for i < len(b) && b[i] >= '0' && b[i] <= '9' {
			i++
		}
		return i > from
	}
	if i < len(b) && b[i] == '-' {
		i++
	}
	if i < len(b) && b[i] == '0' {
		i++
	} else if !digits() {
		return -1
	}
	if i < len(b) && b[i] == '.' {
		if i++; !digits() {
			return -1
		}
	}
	if i < len(b) && (b[i] == 'e' || b[i] == 'E') {
		if i++; i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		if !digits() {
			return -1
		}
	}
	return i
}

// maxDigits is how many digits an integer of 64 bits has at most.
const maxDigits = 20

// integer returns the amount of a JSON number that has no fraction: 12, 1.2e1 and 120e-1 are 12.
func integer(s []byte) (negative bool, v uint64, ok bool) {
	if numberEnd(s, 0) != len(s) {
		return false, 0, false
	}
	if negative = s[0] == '-'; negative {
		s = s[1:]
	}
	var digits [maxDigits]byte
	n, shift, zeros, fraction := 0, 0, 0, false // zeros are pending: only a digit behind them makes them count
	for i, c := range s {
		if c == 'e' || c == 'E' {
			e, err := strconv.ParseInt(string(s[i+1:]), 10, 32)
			if err != nil && n > 0 {
				return false, 0, false
			}
			shift += int(e)
			break
		}
		if c == '.' {
			fraction = true
			continue
		}
		if fraction {
			shift--
		}
		if c == '0' {
			if n > 0 {
				zeros++
			}
			continue
		}
		if n+zeros >= maxDigits {
			return false, 0, false
		}
		for ; zeros > 0; zeros-- {
			digits[n] = '0'
			n++
		}
		digits[n] = c
		n++
	}
	if n == 0 {
		return negative, 0, true
	}
	if shift += zeros; shift < 0 || n+shift > maxDigits {
		return false, 0, false
	}
	for ; shift > 0; shift-- {
		digits[n] = '0'
		n++
	}
	v, err := strconv.ParseUint(string(digits[:n]), 10, 64)
	return negative, v, err == nil
}
