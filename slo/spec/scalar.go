package spec

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"

	"gopkg.in/yaml.v3"

	"github.com/sloengine/sloengine/slo"
)

// maxText bounds names and other short texts, in bytes.
const maxText = 4096

// text is the text of a scalar as written: 99.90 stays "99.90", and quotes
// around a number make no difference.
func (v *value) text() (string, bool) { return v.textUpTo(maxText) }

func (v *value) textUpTo(most int) (string, bool) {
	switch {
	case v.null():
		v.errorf("fill it in or remove the key", "%s is empty", v.what)
	case v.n.Kind != yaml.ScalarNode:
		v.errorf("", "%s: want a single value, got %s", v.what, v.shape())
	case v.n.Style&yaml.TaggedStyle != 0:
		v.errorf("remove the tag", "%s: YAML tags such as %s are not used here", v.what, clip(v.n.Tag))
	case len(v.n.Value) > most:
		v.errorf("", "%s is longer than %d bytes", v.what, most)
	case strings.ContainsFunc(v.n.Value, func(c rune) bool { return unicode.IsControl(c) && c != '\n' && c != '\t' }):
		v.errorf("", "%s holds control characters", v.what)
	default:
		return v.n.Value, true
	}
	return "", false
}

var namePattern = regexp.MustCompile(`^[a-z0-9._-]*[a-z0-9][a-z0-9._-]*$`)

const maxName = 128

// name is the name of a service, SLO, limit or agreement.
func (v *value) name() (string, bool) {
	s, ok := v.text()
	if !ok {
		return "", false
	}
	if len(s) > maxName {
		v.errorf("", "%s: a name has at most %d characters", v.what, maxName)
		return "", false
	}
	if !namePattern.MatchString(s) {
		hint := "use a-z, 0-9, dot, dash and underscore"
		if t := toName(s); t != "" {
			hint = fmt.Sprintf("did you mean %q? %s", t, hint)
		}
		v.errorf(hint, "%s: %q is not a name", v.what, clip(s))
		return "", false
	}
	return s, true
}

var notName = regexp.MustCompile(`[^a-z0-9._-]+`)

// foreignName is name for other formats, whose names may hold more. What is not
// allowed here is changed, and said.
func (v *value) foreignName() (string, bool) {
	s, ok := v.text()
	if !ok {
		return "", false
	}
	if len(s) <= maxName && namePattern.MatchString(s) {
		return s, true
	}
	t := toName(s)
	if t == "" || len(t) > maxName {
		v.errorf("use a-z, 0-9, dot, dash and underscore", "%s: %q is not a name", v.what, clip(s))
		return "", false
	}
	v.warnf("", "%s: %q is called %q here: names are of a-z, 0-9, dot, dash and underscore", v.what, clip(s), t)
	return t, true
}

func toName(s string) string {
	return strings.Trim(notName.ReplaceAllString(strings.ToLower(s), "-"), "-._")
}

// choice is one of some words.
func (v *value) choice(words ...string) (string, bool) {
	s, ok := v.text()
	if !ok {
		return "", false
	}
	for _, w := range words {
		if s == w {
			return s, true
		}
	}
	hint := didYouMean(s, words)
	if hint == "" {
		hint = "want " + oneOf(words)
	}
	v.errorf(hint, "%s: %q is not known", v.what, clip(s))
	return "", false
}

func (v *value) bool() bool {
	s, ok := v.choice("true", "false")
	return ok && s == "true"
}

// whole is an integer in a range.
func (v *value) whole(lo, hi int64) (int64, bool) {
	s, ok := v.text()
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < lo || n > hi {
		v.errorf("", "%s: want a whole number from %d to %d, got %q", v.what, lo, hi, clip(s))
		return 0, false
	}
	return n, true
}

var decimal = regexp.MustCompile(`^-?[0-9]{1,15}(\.[0-9]{1,15})?$`)

// number is a decimal number in a range.
func (v *value) number(lo, hi float64) (float64, bool) {
	s, ok := v.text()
	if !ok {
		return 0, false
	}
	x, err := strconv.ParseFloat(s, 64)
	if err != nil || !decimal.MatchString(s) || x < lo || x > hi {
		v.errorf("", "%s: want a number from %v to %v, got %q", v.what, lo, hi, clip(s))
		return 0, false
	}
	return x, true
}

// float is any finite number.
func (v *value) float() (float64, bool) {
	s, ok := v.text()
	if !ok {
		return 0, false
	}
	x, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsInf(x, 0) || math.IsNaN(x) || strings.ContainsAny(s, "xXpP_") {
		v.errorf("", "%s: want a number, got %q", v.what, clip(s))
		return 0, false
	}
	return x + 0, true // no negative zero
}

// duration is a duration in a range, both ends allowed.
func (v *value) duration(lo, hi time.Duration) (time.Duration, bool) {
	s, ok := v.text()
	if !ok {
		return 0, false
	}
	d, err := slo.ParseDuration(s)
	if err != nil {
		hint := "write it such as 250ms, 90s, 5m, 1h30m or 30d"
		switch {
		case allDigits(s):
			if fit := withUnits(s, lo, hi); fit != "" {
				hint = fmt.Sprintf("did you mean %s?", fit)
			}
			v.errorf(hint, "%s: %q has no unit", v.what, clip(s))
			return 0, false
		case strings.HasPrefix(s, "-"):
			v.errorf("", "%s: %q is negative", v.what, clip(s))
			return 0, false
		}
		if fixed := fixDuration(s); fixed != "" {
			hint = fmt.Sprintf("did you mean %s?", fixed)
		}
		v.errorf(hint, "%s: %q is not a duration", v.what, clip(s))
		return 0, false
	}
	if d < lo || d > hi {
		v.errorf("", "%s: want %s to %s, got %s", v.what, slo.FormatDuration(lo), slo.FormatDuration(hi), clip(s))
		return 0, false
	}
	return d, true
}

// withUnits lists a number with the units that bring it into a range.
func withUnits(s string, lo, hi time.Duration) string {
	var fit []string
	for _, unit := range []string{"s", "m", "ms", "h", "d"} {
		d, err := slo.ParseDuration(s + unit)
		if err == nil && d >= lo && d <= hi && len(fit) < 3 {
			fit = append(fit, s+unit)
		}
	}
	return oneOf(fit)
}

// unitWords are spellings of units that are common elsewhere.
var unitWords = strings.NewReplacer(
	"milliseconds", "ms", "millisecond", "ms", "msec", "ms", "seconds", "s", "second", "s", "secs", "s", "sec", "s",
	"minutes", "m", "minute", "m", "mins", "m", "min", "m", "hours", "h", "hour", "h", "hrs", "h", "hr", "h",
	"days", "d", "day", "d", "weeks", "w", "week", "w", " ", "")

var fraction = regexp.MustCompile(`^([0-9]{1,6})\.([0-9]{1,3})(s|m|h|d)$`)

// fixDuration guesses what a broken duration was meant to be; "" if unclear.
func fixDuration(s string) string {
	if len(s) > 40 {
		return ""
	}
	fixed := unitWords.Replace(strings.ToLower(s))
	if m := fraction.FindStringSubmatch(fixed); m != nil {
		one, _ := slo.ParseDuration("1" + m[3])
		x, _ := strconv.ParseFloat(m[1]+"."+m[2], 64)
		return slo.FormatDuration(time.Duration(x * float64(one)).Round(time.Millisecond))
	}
	d, err := slo.ParseDuration(fixed)
	if err != nil || d == 0 {
		return ""
	}
	return fixed
}

// objective is a percentage, exact to the decimal.
func (v *value) objective() (slo.Objective, bool) {
	s, ok := v.text()
	if !ok {
		return slo.Objective{}, false
	}
	o, err := slo.ParsePercent(s)
	if err != nil {
		v.errorf(fixPercent(s), "%s: %q is not a percentage between 0 and 100, both excluded", v.what, clip(s))
		return slo.Objective{}, false
	}
	// Nobody promises that 1 % of anything works; it is a ratio.
	if o.Ratio() <= 0.01 {
		v.errorf(fixPercent(s), "%s: %s is taken as percent, so nearly everything could fail", v.what, s)
		return slo.Objective{}, false
	}
	return o, true
}

func fixPercent(s string) string {
	hint := "write percent such as 99.9"
	if s == "100" {
		return "100 leaves no error budget; 99.99 allows one failure in 10,000"
	}
	if _, frac, _ := strings.Cut(s, "."); len(frac) > 12 && allDigits(frac) {
		return "write at most 12 digits after the point"
	}
	t := strings.ReplaceAll(strings.TrimSuffix(strings.TrimSpace(s), "%"), ",", ".")
	if rest, ok := strings.CutPrefix(strings.TrimPrefix(t, "0"), "."); ok && allDigits(rest) && len(rest) <= 12 {
		rest += strings.Repeat("0", max(0, 2-len(rest)))
		t = strings.TrimRight(rest[:2]+"."+rest[2:], ".")
	}
	if _, err := slo.ParsePercent(t); err != nil || t == s {
		return hint
	}
	return fmt.Sprintf("did you mean %s?", t)
}

// instant is a point in time in RFC 3339.
func (v *value) instant() (time.Time, bool) {
	s, ok := v.text()
	if !ok {
		return time.Time{}, false
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		v.errorf("write it such as 2026-11-22T01:00:00Z or 2026-11-22T04:00:00+03:00", "%s: %q is not an RFC 3339 time", v.what, clip(s))
		return time.Time{}, false
	}
	if t.Year() < 1970 || t.Year() > 2200 {
		v.errorf("", "%s: the year %d is out of range", v.what, t.Year())
		return time.Time{}, false
	}
	return t, true
}

// zone is an IANA time zone.
func (v *value) zone() (*time.Location, bool) {
	s, ok := v.text()
	if !ok {
		return nil, false
	}
	loc, err := loadZone(s)
	if err != nil {
		v.errorf("want an IANA name such as Europe/Moscow or UTC", "%s: unknown time zone %q", v.what, clip(s))
		return nil, false
	}
	return loc, true
}

// loadZone refuses "Local", which means something else on every machine.
func loadZone(s string) (*time.Location, error) {
	if s == "" || s == "Local" {
		return nil, errors.New("not a time zone")
	}
	return time.LoadLocation(s)
}

func allDigits(s string) bool {
	for _, c := range s {
		if c < '0' || c > '9' {
			return false
		}
	}
	return s != ""
}

// clip shortens hostile text for a message.
func clip(s string) string {
	const most = 80
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "…"
	}
	return s
}

func fold(s string) string { return strings.ToLower(strings.ReplaceAll(s, "-", "_")) }

func oneOfAnd(words []string) string {
	return strings.Replace(oneOf(words), " or ", " and ", 1)
}
