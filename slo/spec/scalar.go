package spec

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/suggest"
	"github.com/sloengine/sloengine/slo/yamldoc"
)

var namePattern = regexp.MustCompile(`^[a-z0-9._-]*[a-z0-9][a-z0-9._-]*$`)

const maxName = 128

// name is the name of a service, SLO, threshold or agreement.
func readName(v *yamldoc.Value) (string, bool) {
	s, ok := v.Text()
	if !ok {
		return "", false
	}
	if len(s) > maxName {
		v.Errorf("", "%s: a name has at most %d characters", v.What, maxName)
		return "", false
	}
	if !namePattern.MatchString(s) {
		hint := "use a-z, 0-9, dots, dashes and underscores"
		if t := ToName(s); t != "" {
			hint = fmt.Sprintf("did you mean %q? %s", t, hint)
		}
		v.Errorf(hint, "%s: invalid name %q", v.What, yamldoc.Clip(s))
		return "", false
	}
	return s, true
}

var notName = regexp.MustCompile(`[^a-z0-9._-]+`)

// foreignName is name for other formats, whose names may hold more. What is not
// allowed here is changed, and said.
func readForeignName(v *yamldoc.Value) (string, bool) {
	s, ok := v.Text()
	if !ok {
		return "", false
	}
	if len(s) <= maxName && namePattern.MatchString(s) {
		return s, true
	}
	t := ToName(s)
	if t == "" || len(t) > maxName {
		v.Errorf("use a-z, 0-9, dots, dashes and underscores", "%s: invalid name %q", v.What, yamldoc.Clip(s))
		return "", false
	}
	v.Warnf("", "%s: %q is renamed to %q: names consist of a-z, 0-9, dots, dashes and underscores",
		v.What, yamldoc.Clip(s), t)
	return t, true
}

// ToName makes a name of a text: "" if nothing of it may be in one.
func ToName(s string) string {
	return strings.Trim(notName.ReplaceAllString(strings.ToLower(s), "-"), "-._")
}

// duration is a duration in a range, both ends allowed.
func readDuration(v *yamldoc.Value, lo, hi time.Duration) (time.Duration, bool) {
	s, ok := v.Text()
	if !ok {
		return 0, false
	}
	d, err := slo.ParseDuration(s)
	if err != nil {
		hint := "write it as in 250ms, 90s, 5m, 1h30m or 30d"
		switch {
		case allDigits(s):
			if fit := withUnits(s, lo, hi); fit != "" {
				hint = fmt.Sprintf("did you mean %s?", fit)
			}
			v.Errorf(hint, "%s: %q has no unit", v.What, yamldoc.Clip(s))
			return 0, false
		case strings.HasPrefix(s, "-"):
			v.Errorf("", "%s: %q is negative", v.What, yamldoc.Clip(s))
			return 0, false
		}
		if fixed := fixDuration(s); fixed != "" {
			hint = fmt.Sprintf("did you mean %s?", fixed)
		}
		v.Errorf(hint, "%s: %q is not a duration", v.What, yamldoc.Clip(s))
		return 0, false
	}
	if d < lo || d > hi {
		v.Errorf("", "%s: want %s to %s, got %s", v.What, slo.FormatDuration(lo), slo.FormatDuration(hi), yamldoc.Clip(s))
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
	return suggest.OneOf(fit)
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
func readObjective(v *yamldoc.Value) (slo.Objective, bool) {
	s, ok := v.Text()
	if !ok {
		return slo.Objective{}, false
	}
	o, err := slo.ParsePercent(s)
	if err != nil {
		v.Errorf(fixPercent(s), "%s: want a percentage above 0 and below 100, got %q", v.What, yamldoc.Clip(s))
		return slo.Objective{}, false
	}
	// Nobody promises that 1 % of anything works; it is a ratio.
	if o.Ratio() <= 0.01 {
		v.Errorf(fixPercent(s), "%s: %s is a percentage, so nearly everything could fail", v.What, s)
		return slo.Objective{}, false
	}
	return o, true
}

func fixPercent(s string) string {
	hint := "write a percentage such as 99.9"
	if s == "100" {
		return "100 leaves no error budget, 99.99 allows one failure in 10,000"
	}
	if _, frac, _ := strings.Cut(s, "."); len(frac) > 12 && allDigits(frac) {
		return "write at most 12 decimal places"
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

func allDigits(s string) bool {
	for _, c := range s {
		if c < '0' || c > '9' {
			return false
		}
	}
	return s != ""
}

func oneOfAnd(words []string) string {
	return strings.Replace(suggest.OneOf(words), " or ", " and ", 1)
}
