package yamldoc

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"gopkg.in/yaml.v3"

	"github.com/sloengine/sloengine/slo/suggest"
)

// maxText bounds names and other short texts, in bytes.
const maxText = 4096

// Text is the text of a scalar as written: 99.90 stays "99.90", and quotes around a number make no difference.
func (v *Value) Text() (string, bool) { return v.TextUpTo(maxText) }

// TextUpTo is Text of at most so many bytes.
func (v *Value) TextUpTo(most int) (string, bool) {
	switch {
	case v == nil:
	case v.IsNull():
		v.Errorf("fill it in or remove the key", "%sis empty", v.called(" "))
	case !v.IsScalar():
		v.failf("", "want a single value, got %s", v.Shape())
	case v.n.Style&yaml.TaggedStyle != 0:
		v.failf("remove the tag", "YAML tags such as %s are not supported", Clip(v.n.Tag))
	case len(v.n.Value) > most:
		v.Errorf("", "%sis longer than %d bytes", v.called(" "), most)
	case strings.ContainsFunc(v.n.Value, func(c rune) bool { return unicode.IsControl(c) && c != '\n' && c != '\t' }):
		v.Errorf("", "%scontains control characters", v.called(" "))
	default:
		return v.n.Value, true
	}
	return "", false
}

// String is Text that YAML takes for a string: a number or a truth value is not, unless it has quotes.
func (v *Value) String() (string, bool) {
	s, ok := v.Text()
	if ok && v.n.ShortTag() != "!!str" {
		v.failf("quote it if you mean the text", "want text, got %s", v.Shape())
		return "", false
	}
	return s, ok
}

// Choice is one of some words.
func (v *Value) Choice(words ...string) (string, bool) {
	s, ok := v.Text()
	if !ok || slices.Contains(words, s) {
		return s, ok
	}
	v.unknown(s, words)
	return "", false
}

// unknown reports a word that is none of the known ones.
func (v *Value) unknown(s string, words []string) {
	hint := suggest.DidYouMean(s, words)
	if hint == "" {
		hint = "want " + suggest.OneOf(words)
	}
	v.failf(hint, "unknown value %s", v.Shape())
}

// Bool is true or false; false if it is neither.
func (v *Value) Bool() bool {
	s, ok := v.Choice("true", "false")
	return ok && s == "true"
}

// Whole is an integer in a range.
func (v *Value) Whole(lo, hi int64) (int64, bool) {
	s, ok := v.Text()
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < lo || n > hi {
		v.failf("", "want a whole number from %d to %d, got %s", lo, hi, v.Shape())
		return 0, false
	}
	return n, true
}

var decimal = regexp.MustCompile(`^-?[0-9]{1,15}(\.[0-9]{1,15})?$`)

// Number is a decimal number in a range.
func (v *Value) Number(lo, hi float64) (float64, bool) {
	s, ok := v.Text()
	if !ok {
		return 0, false
	}
	x, err := strconv.ParseFloat(s, 64)
	if err != nil || !decimal.MatchString(s) || x < lo || x > hi {
		v.failf("", "want a number from %v to %v, got %s", lo, hi, v.Shape())
		return 0, false
	}
	return x, true
}

// Float is any finite number.
func (v *Value) Float() (float64, bool) {
	s, ok := v.Text()
	if !ok {
		return 0, false
	}
	x, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsInf(x, 0) || math.IsNaN(x) || strings.ContainsAny(s, "xXpP_") {
		v.failf("", "want a number, got %s", v.Shape())
		return 0, false
	}
	return x + 0, true // no negative zero
}

// Instant is a point in time in RFC 3339.
func (v *Value) Instant() (time.Time, bool) {
	s, ok := v.Text()
	if !ok {
		return time.Time{}, false
	}
	t, err := time.Parse(time.RFC3339, strings.ToUpper(s))
	if err != nil {
		v.failf("write it as in 2026-11-22T01:00:00Z or 2026-11-22T04:00:00+03:00", "invalid RFC 3339 time %s", v.Shape())
		return time.Time{}, false
	}
	if t.Year() < 1970 || t.Year() > 2200 {
		v.failf("", "the year %d is out of range", t.Year())
		return time.Time{}, false
	}
	return t, true
}

// Zone is an IANA time zone.
func (v *Value) Zone() (*time.Location, bool) {
	s, ok := v.Text()
	if !ok {
		return nil, false
	}
	loc, err := LoadZone(s)
	if err != nil {
		v.failf("want an IANA name such as Europe/Moscow or UTC", "unknown time zone %s", v.Shape())
		return nil, false
	}
	return loc, true
}

// LoadZone refuses "Local", which means something else on every machine.
func LoadZone(s string) (*time.Location, error) {
	if s == "" || s == "Local" {
		return nil, errors.New("not a time zone")
	}
	return time.LoadLocation(s)
}

// sizeUnits are the suffixes of sizes.
var sizeUnits = []struct {
	suffix string
	bytes  int64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"kB", 1e3}, {"MB", 1e6}, {"GB", 1e9}}

// ParseSize reads a number of bytes: 65536, 64KiB, 16MiB, 1GiB, 10MB.
func ParseSize(text string) (int64, error) {
	num, unit := text, int64(1)
	for _, u := range sizeUnits {
		if cut, ok := strings.CutSuffix(text, u.suffix); ok {
			num, unit = cut, u.bytes
		}
	}
	n, err := strconv.ParseInt(strings.TrimSpace(num), 10, 64)
	if err != nil || n < 0 || n > (1<<62)/unit {
		return 0, fmt.Errorf("%q: want a size such as 65536, 64KiB, 16MiB or 1GiB", text)
	}
	return n * unit, nil
}
