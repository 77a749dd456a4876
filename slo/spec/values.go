package spec

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/suggest"
	"github.com/sloengine/sloengine/slo/yamldoc"
	"github.com/sloengine/sloengine/slo/yamldoc/shape"
	"github.com/sloengine/sloengine/slo/yamlgen"
)

// single is a single value that is written as text. What cannot be read is left zero.
type single[T any] struct {
	to   *T
	from func(v *yamldoc.Value) (T, bool)
	text func(T) string // "" is left out
	is   *doc
}

func (s single[T]) read(v *yamldoc.Value) { *s.to, _ = s.from(v) }

func (s single[T]) write(*encoder) *yamlgen.Node {
	switch text := s.text(*s.to); {
	case text == "":
		return nil
	case s.is.Kind == shape.Text && s.is != &instantDoc:
		return yamlgen.Text(text)
	default:
		return yamlgen.Plain(text)
	}
}

func (s single[T]) shape() shape.Shape { return *s.is }

func same(s string) string { return s }

// textual is a text that is written as it is read.
func textual(to *string, from func(*yamldoc.Value) (string, bool), is *doc) value {
	return single[string]{to, from, same, is}
}

// laterText is a text that is read together with the keys beside it.
type laterText struct {
	unread
	to *string
	is *doc
}

func (t laterText) write(*encoder) *yamlgen.Node { return textNode(*t.to) }
func (t laterText) shape() shape.Shape           { return *t.is }

// later is a value of a form of its own that is read together with the keys beside it.
type later struct {
	unread
	out func(e *encoder) *yamlgen.Node
	is  *doc
}

func (l later) write(e *encoder) *yamlgen.Node { return l.out(e) }
func (l later) shape() shape.Shape             { return *l.is }

// prose is a text for people.
type prose struct{ *string }

func (p prose) read(v *yamldoc.Value)        { *p.string, _ = v.Text() }
func (p prose) write(*encoder) *yamlgen.Node { return textNode(*p.string) }
func (prose) shape() shape.Shape             { return textDoc }

// unused is a text for readers of the file.
func unused() value { return prose{new(string)} }

// percentage is a percentage that is exact to the decimal.
type percentage struct{ *slo.Objective }

func (p percentage) read(v *yamldoc.Value)        { *p.Objective, _ = readObjective(v) }
func (p percentage) write(*encoder) *yamlgen.Node { return yamlgen.Plain(p.Percent()) }
func (percentage) shape() shape.Shape             { return percentDoc }

// word is one of some words.
type word[T ~string] struct {
	to *T
	of []string
}

func (w word[T]) read(v *yamldoc.Value) {
	if s, ok := v.Choice(w.of...); ok {
		*w.to = T(s)
	}
}

func (w word[T]) write(*encoder) *yamlgen.Node { return textNode(string(*w.to)) }
func (w word[T]) shape() shape.Shape           { return wordsShape(w.of...) }

// textNode is a text, nil if it is empty.
func textNode(s string) *yamlgen.Node {
	if s == "" {
		return nil
	}
	return yamlgen.Text(s)
}

type truth struct {
	to  *bool
	not bool // the field is false where the key is true
}

func (t truth) read(v *yamldoc.Value) { *t.to = v.Bool() != t.not }

func (t truth) write(*encoder) *yamlgen.Node {
	return yamlgen.Plain(strconv.FormatBool(*t.to != t.not))
}

func (t truth) shape() shape.Shape { return doc{Kind: shape.Bool, Quoted: true} }

// labelSet is a mapping of the user's own names to texts.
type labelSet struct {
	to   *map[string]string
	from func(v *yamldoc.Value) map[string]string
}

func (l labelSet) read(v *yamldoc.Value)        { *l.to = l.from(v) }
func (l labelSet) write(*encoder) *yamlgen.Node { return labelsNode(*l.to) }
func (l labelSet) shape() shape.Shape           { return labelsDoc }

// labelsNode is a mapping of texts, nil if there are none.
func labelsNode(set map[string]string) *yamlgen.Node {
	if len(set) == 0 {
		return nil
	}
	return yamlgen.Line(yamlgen.Strings(set, yamlgen.Text))
}

// length is a duration in a range. Zero is left out.
type length struct {
	to     *time.Duration
	lo, hi time.Duration
}

func (d length) read(v *yamldoc.Value) { *d.to, _ = readDuration(v, d.lo, d.hi) }

func (d length) write(*encoder) *yamlgen.Node {
	if *d.to == 0 {
		return nil
	}
	return yamlgen.Plain(slo.FormatDuration(*d.to))
}

func (d length) shape() shape.Shape {
	s := doc{Kind: shape.Duration, Min: "0", Max: slo.FormatDuration(d.hi)}
	if d.lo > 0 {
		s.Min = slo.FormatDuration(d.lo)
	}
	return s
}

// whole is a whole number in a range. Zero is left out.
type whole[T int | uint64] struct {
	to     *T
	lo, hi int64
}

func (w whole[T]) read(v *yamldoc.Value) {
	n, _ := v.Whole(w.lo, w.hi)
	*w.to = T(n)
}

func (w whole[T]) write(*encoder) *yamlgen.Node {
	if *w.to == 0 {
		return nil
	}
	return yamlgen.Plain(fmt.Sprint(*w.to))
}

func (w whole[T]) shape() shape.Shape { return wholeShape(fmt.Sprint(w.lo), fmt.Sprint(w.hi)) }

// events is a number of events.
func events(to *uint64) value { return whole[uint64]{to, 1, math.MaxUint32} }

// number is a decimal number in a range. Zero is left out.
type number struct {
	to     *float64
	lo, hi float64
}

func (n number) read(v *yamldoc.Value) { *n.to, _ = v.Number(n.lo, n.hi) }

func (n number) write(*encoder) *yamlgen.Node {
	if *n.to == 0 {
		return nil
	}
	return yamlgen.Plain(decimalText(*n.to))
}

func (n number) shape() shape.Shape { return numberShape(decimalText(n.lo), decimalText(n.hi)) }

// names are those of a list. empty says what to do if there are none.
func names(of *[]named, empty string) value { return nameList{of, empty} }

type nameList struct {
	of    *[]named
	empty string
}

func (l nameList) read(v *yamldoc.Value) {
	if v.IsList() && v.Len() == 0 {
		v.Errorf(l.empty, "%s is empty", v.What)
	}
	eachItem(v, func(i *yamldoc.Value) {
		if name, ok := readName(i); ok {
			*l.of = append(*l.of, named{name, i.At()})
		}
	})
}

func (l nameList) write(*encoder) *yamlgen.Node {
	return lineOf(*l.of, func(n *named) *yamlgen.Node { return yamlgen.Text(n.name) })
}

func (nameList) shape() shape.Shape { return listShape(nameDoc) }

// namesOf are names that have no place, to be written.
func namesOf(texts []string) (out []named) {
	for _, t := range texts {
		out = append(out, named{name: t})
	}
	return out
}

func justNames(of []named) (out []string) {
	for _, n := range of {
		out = append(out, n.name)
	}
	return out
}

// nameKey is the key of a name that is unique in the service.
func nameKey(to *string, example string) key {
	return at("name", textual(to, readName, &nameDoc)).
		need("give it a short name such as `name: " + example + "`")
}

// placeOf is where the value of a key is, or else the mapping.
func placeOf(o *yamldoc.Object, key string) Position {
	if v := o.Field(key); v != nil && !v.IsNull() {
		return v.At()
	}
	return o.At()
}

// matchers are label matchers of events. sel is nil where they cannot be read.
type matchers struct {
	to      *slo.Selector
	sel     **selector
	service string
	some    bool // all events need not be written
}

func (m matchers) read(v *yamldoc.Value) {
	*m.sel = nil
	if sel, ok := readSelector(v, m.service); ok {
		*m.sel, *m.to = &sel, sel.Selector
	}
}

func (m matchers) write(*encoder) *yamlgen.Node {
	if m.some && len(*m.to) == 0 {
		return nil
	}
	return yamlgen.Text(m.to.String())
}

func (m matchers) shape() shape.Shape { return matchersDoc }

// textList writes a list of texts.
func textList(texts []string) *yamlgen.Node {
	return lineOf(texts, func(s *string) *yamlgen.Node { return yamlgen.Text(*s) })
}

// groupNames are the attributes of groups, and groupCount how many groups there may be. readGrouping reads both.
type groupNames struct {
	unread
	to *[]string
}

func (g groupNames) write(*encoder) *yamlgen.Node { return textList(*g.to) }
func (groupNames) shape() shape.Shape             { return listShape(labelDoc) }

type groupCount struct {
	unread
	whole[int]
}

func (g groupCount) read(v *yamldoc.Value) { g.unread.read(v) }

func maxGroups(to *int) key {
	return at("max_groups", groupCount{whole: whole[int]{to, 1, maxMaxGroups}}).or(defaultGroups)
}

var defaultGroups = strconv.Itoa(DefaultMaxGroups)

const needZone = "add `timezone: UTC`, or the time zone in which days begin"

func zone(to **time.Location) value {
	return single[*time.Location]{to, (*yamldoc.Value).Zone, (*time.Location).String, &zoneDoc}
}

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
