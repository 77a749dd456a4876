package ratelimit

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sloengine/sloengine/internal/order"
	"github.com/sloengine/sloengine/reliability/pattern"
)

// rule is a compiled one, with all of its values.
type rule struct {
	layer Layer
	name  string
	limit Limit
	plan  plan
	own   plan // of a context: the values that it sets itself; the rest comes from the type
	keys  prefix

	settings []Setting // of an explanation
}

// level is where a rule's values may come from.
type level struct {
	from string // its name in an explanation
	*Values
}

// plan is the treatment of events over a limit.
type plan struct {
	strategy       Strategy
	weight         uint32 // one of so many is kept
	delay, maxWait time.Duration
	fields         []string // of merged events
	set            struct{ strategy, weight, delay, maxWait, fields bool }
}

// over merges p and q; q overrides p.
func (p plan) over(q *plan) plan {
	if q.set.strategy {
		p.strategy = q.strategy
	}
	if q.set.weight {
		p.weight = q.weight
	}
	if q.set.delay {
		p.delay = q.delay
	}
	if q.set.maxWait {
		p.maxWait = q.maxWait
	}
	if q.set.fields {
		p.fields = q.fields
	}
	return p
}

func builtinPresets() []Preset {
	return []Preset{
		{"high_value", Values{Limit: new(int64(10_000)), OnExceeded: new(OnExceededThrottle), SampleRate: new(1.0)}},
		{"debug", Values{Limit: new(int64(100)), OnExceeded: new(OnExceededDrop), SampleRate: new(0.01)}},
	}
}

// Compile checks c and makes a Policy of it. It reports all errors at once, joined, each a
// *ConfigError. It keeps no reference to c but its functions.
func Compile(c Config) (*Policy, error) {
	k := newCompiler(&c)
	p := k.compile()
	if len(k.errs) > 0 {
		return nil, errors.Join(k.errs...)
	}
	return p, nil
}

func newCompiler(c *Config) *compiler {
	return &compiler{c: c, presets: map[string]*Values{}, types: map[string]*TypeRule{},
		matches: map[string]pattern.Pattern{}, told: map[[2]time.Duration]bool{}}
}

type compiler struct {
	c       *Config
	errs    []error
	presets map[string]*Values
	types   map[string]*TypeRule
	matches map[string]pattern.Pattern // of types, audit and bypass, by their text
	told    map[[2]time.Duration]bool  // step and longest wait that don't fit
	explain bool                       // keep where the values come from
}

func (k *compiler) fail(path, format string, args ...any) {
	k.errs = append(k.errs, &ConfigError{path, fmt.Sprintf(format, args...)})
}

func (k *compiler) compile() *Policy {
	c := k.c
	p := &Policy{exact: map[string]uint16{}}
	if c.Global != nil {
		k.values("global", c.Global)
		p.add(k.resolve("global", Global, GlobalRule, level{"global", c.Global}))
	}
	k.values("default", &c.Default)
	k.collectPresets()
	if len(c.Types) > MaxRules {
		k.fail("types", "%d rules exceed the maximum of %d", len(c.Types), MaxRules)
		return nil
	}
	k.audit(p)
	k.checkTypes()
	p.rules = slices.Grow(p.rules, len(c.Types)+len(c.Contexts)+1) // pointers into it are kept
	p.fallback = p.add(k.resolve("default", Type, DefaultRule))
	for i := range c.Types {
		t := &c.Types[i]
		n := p.add(k.resolve(at("types", i), Type, t.Match, k.typeLevels(t)...))
		if m := k.matches[t.Match]; m.Exact() {
			p.exact[t.Match] = n
		} else {
			p.patterns = append(p.patterns, typePattern{m, n})
		}
	}
	order.By(p.patterns, func(a, b *typePattern) int { return b.match.Literals() - a.match.Literals() })
	k.contexts(p)
	k.bypass(p)
	if c.Global != nil {
		p.global = &p.rules[0]
	}
	return p
}

func at(list string, i int) string { return fmt.Sprintf("%s[%d]", list, i) }

// name checks a text that becomes part of a key, a label and a page.
func (k *compiler) name(path, what, name string) {
	switch {
	case name == "":
		k.fail(path, "%s is missing", what)
	case len(name) > 128:
		k.fail(path, "%s is longer than 128 bytes", what)
	case strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f || r == '\uFFFD' }):
		k.fail(path, "%s %q has control characters, or is not UTF-8", what, name)
	}
}

// pattern compiles a name or pattern of types, and keeps it in matches. Its problems are reported.
func (k *compiler) pattern(path, text string) pattern.Pattern {
	before := len(k.errs)
	k.name(path, "the type or pattern", text)
	if len(k.errs) > before {
		return pattern.Pattern{}
	}
	p, err := pattern.Compile(text, k.c.ValidName)
	if err != nil {
		k.fail(path, "%v", err)
		return pattern.Pattern{}
	}
	k.matches[text] = p
	return p
}

// valid refuses names that no event can have.
func (k *compiler) valid(path, what, name string, valid func(string) bool) {
	if name != "" && valid != nil && !valid(name) {
		k.fail(path, "no event can have %s %q", what, name)
	}
}

func (k *compiler) collectPresets() {
	for _, b := range builtinPresets() {
		k.presets[b.Name] = &b.Values
	}
	for i := range k.c.Presets {
		s, path := &k.c.Presets[i], at("presets", i)
		k.name(path+".name", "the name", s.Name)
		k.values(path, &s.Values)
		if _, ok := k.presets[s.Name]; ok {
			what := "defined twice"
			if slices.ContainsFunc(builtinPresets(), func(b Preset) bool { return b.Name == s.Name }) {
				what = "built in and cannot be redefined"
			}
			k.fail(path+".name", "preset %q is %s", s.Name, what)
			continue
		}
		k.presets[s.Name] = &s.Values
	}
}

func (k *compiler) audit(p *Policy) {
	for i, a := range k.c.Audit {
		p.audit = append(p.audit, k.pattern(at("audit", i), a))
		if slices.Contains(k.c.Audit[:i], a) {
			k.fail(at("audit", i), "%q is listed twice", a)
		}
	}
}

func (k *compiler) checkTypes() {
	for i := range k.c.Types {
		t, path := &k.c.Types[i], at("types", i)
		match := k.pattern(path+".match", t.Match)
		k.values(path, &t.Values)
		if t.Match == DefaultRule {
			k.fail(path+".match", "%q is reserved for the default rule (set its values under default)", t.Match)
		}
		if _, ok := k.types[t.Match]; ok {
			k.fail(path+".match", "duplicate rule for %q", t.Match)
		} else {
			k.types[t.Match] = t
		}
		for j, a := range k.c.Audit {
			if b, ok := k.matches[a]; ok && b.Overlap(match) {
				k.fail(path+".match", "%q covers audit types (audit[%d], %q), which are never limited (narrow one of the two)",
					t.Match, j, a)
			}
		}
		if t.Preset != "" && k.presets[t.Preset] == nil {
			k.fail(path+".preset", "unknown preset %q (want one of %s)", t.Preset, k.presetNames())
		}
	}
	for i := range k.c.Types {
		k.checkExtends(at("types", i)+".extends", &k.c.Types[i])
	}
}

func (k *compiler) checkExtends(path string, t *TypeRule) {
	if t.Extends == "" {
		return
	}
	if k.types[t.Extends] == nil {
		k.fail(path, "unknown rule %q to extend", t.Extends)
		return
	}
	chain := []string{t.Match}
	for next := k.types[t.Extends]; next != nil; next = k.types[next.Extends] {
		chain = append(chain, next.Match)
		if next.Match == t.Match {
			k.fail(path, "the rule extends itself: %s", strings.Join(chain, ", then "))
			return
		}
		if slices.Contains(chain[:len(chain)-1], next.Match) {
			return // a cycle further on is reported there
		}
	}
}

func (k *compiler) presetNames() string {
	var names []string
	for n := range k.presets {
		names = append(names, n)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// typeLevels are the rule's own values and those it refers to, the closest first.
func (k *compiler) typeLevels(t *TypeRule) []level {
	var levels []level
	seen := map[string]bool{}
	for ; t != nil && !seen[t.Match]; t = k.types[t.Extends] {
		seen[t.Match] = true
		levels = append(levels, level{"type " + t.Match, &t.Values})
		if v := k.presets[t.Preset]; v != nil {
			levels = append(levels, level{"preset " + t.Preset, v})
		}
	}
	return levels
}

// values checks those that are set.
func (k *compiler) values(path string, v *Values) {
	if v.Limit != nil && (*v.Limit < 1 || *v.Limit > MaxLimit) {
		k.fail(path+".limit", "%d is out of range (want 1 to %d events)", *v.Limit, int64(MaxLimit))
	}
	if v.Window != nil && (*v.Window <= 0 || *v.Window > MaxWindow) {
		k.fail(path+".window", "%s is out of range (want more than 0, at most %s)", *v.Window, MaxWindow)
	}
	if v.Algorithm != nil && int(*v.Algorithm) >= len(algorithmNames) {
		k.fail(path+".algorithm", "unknown algorithm %d (want one of %s)", *v.Algorithm, strings.Join(algorithmNames, ", "))
	}
	if v.Burst != nil && (*v.Burst < 1 || *v.Burst > MaxLimit) {
		k.fail(path+".burst", "%d is out of range (want 1 to %d events)", *v.Burst, int64(MaxLimit))
	}
	if v.OnExceeded != nil && int(*v.OnExceeded) >= len(strategyNames) {
		k.fail(path+".on_exceeded", "unknown strategy %d (want one of %s)", *v.OnExceeded, strings.Join(strategyNames, ", "))
	}
	if v.SampleRate != nil && !(*v.SampleRate > 0 && *v.SampleRate <= 1) {
		k.fail(path+".sample_rate", "%v is out of range (want more than 0, at most 1)", *v.SampleRate)
	} else if v.SampleRate != nil && *v.SampleRate < 1e-6 {
		k.fail(path+".sample_rate", "%v is below one in a million (use drop)", *v.SampleRate)
	}
	if n := len(v.AggregateFields); n > MaxFields {
		k.fail(path+".aggregate_fields", "%d fields exceed the maximum of %d", n, MaxFields)
	}
	for i, name := range v.AggregateFields {
		k.name(at(path+".aggregate_fields", i), "the name of the attribute", name)
		if slices.Contains(v.AggregateFields[:i], name) {
			k.fail(at(path+".aggregate_fields", i), "%q is listed twice", name)
		}
	}
	for _, d := range []struct {
		name  string
		value *time.Duration
	}{{"throttle", v.ThrottleDelay}, {"throttle_max", v.ThrottleMaxWait}} {
		if d.value != nil && (*d.value <= 0 || *d.value > MaxThrottle) {
			k.fail(path+"."+d.name, "%s is out of range (want more than 0, at most %s)", *d.value, MaxThrottle)
		}
	}
}

// pick is the closest value that is set, and the index of its level, len(levels) if none sets it. With explain it notes
// where the value comes from.
func pick[T any](k *compiler, r *rule, name string, levels []level, get func(*Values) *T, builtIn T,
	format func(T) string) (T, int) {
	value, from, at := builtIn, "built-in", len(levels)
	for i, l := range levels {
		if v := get(l.Values); v != nil {
			value, from, at = *v, l.from, i
			break
		}
	}
	if k.explain {
		r.settings = append(r.settings, Setting{name, format(value), from})
	}
	return value, at
}

// resolve makes a rule of its own levels of values, the closest first, and of those that stand behind all rules.
func (k *compiler) resolve(path string, layer Layer, name string, own ...level) rule {
	levels := slices.Clone(own)
	limit, window := int64(DefaultTypeLimit), time.Second
	if layer == Global {
		limit, window = DefaultGlobalLimit, DefaultGlobalWindow
	} else {
		levels = append(levels, level{"default", &k.c.Default})
	}
	amounts := levels // of limit, window and burst: the global limit says nothing about those of one type
	if layer != Global && k.c.Global != nil {
		levels = append(slices.Clone(levels), level{"global", k.c.Global})
	}
	number := func(n int64) string {
		if n == MaxLimit {
			return "off"
		}
		return strconv.FormatInt(n, 10)
	}
	r := rule{layer: layer, name: name, keys: newPrefix(layer, name)}
	var from int
	r.limit.N, from = pick(k, &r, "limit", amounts, func(v *Values) *int64 { return v.Limit }, limit, number)
	r.limit.Window, _ = pick(k, &r, "window", amounts, func(v *Values) *time.Duration { return v.Window },
		window, time.Duration.String)
	if r.limit.N == MaxLimit {
		r.limit.Window = unlimitedWindow
	}
	r.limit.Algorithm, _ = pick(k, &r, "algorithm", levels, func(v *Values) *Algorithm { return v.Algorithm },
		SlidingWindow, Algorithm.String)
	settings := r.settings
	r.limit.Burst, _ = pick(k, &r, "burst", amounts[:min(from+1, len(amounts))], func(v *Values) *int64 {
		return v.Burst
	}, r.limit.N, number)
	if r.limit.Algorithm != TokenBucket {
		r.settings = settings
	} else if k.explain && r.settings[len(settings)].From == "built-in" {
		r.settings[len(settings)].From = "limit"
	}
	if len(own) > 0 && own[0].Burst != nil && r.limit.Algorithm != TokenBucket {
		k.fail(path+".burst", "only valid for token_bucket, not for %s", r.limit.Algorithm)
	}
	r.plan = k.planOf(&r, levels)
	if layer == Context {
		r.own = k.planOf(&rule{}, own)
	}
	if p := r.plan; p.delay > p.maxWait && !k.told[[2]time.Duration{p.delay, p.maxWait}] {
		k.told[[2]time.Duration{p.delay, p.maxWait}] = true
		k.fail(path+".throttle_max", "the maximum wait %s is shorter than one step of %s", p.maxWait, p.delay)
	}
	return r
}

func (k *compiler) planOf(r *rule, levels []level) plan {
	var p plan
	n := len(levels)
	var i int
	p.strategy, i = pick(k, r, "on_exceeded", levels, func(v *Values) *Strategy { return v.OnExceeded },
		OnExceededSample, Strategy.String)
	p.set.strategy = i < n
	rate, i := pick(k, r, "sample_rate", levels, func(v *Values) *float64 { return v.SampleRate }, DefaultSampleRate,
		func(rate float64) string { return "1/" + strconv.FormatUint(uint64(weightOf(rate)), 10) })
	p.weight, p.set.weight = weightOf(rate), i < n
	p.delay, i = pick(k, r, "throttle", levels, func(v *Values) *time.Duration { return v.ThrottleDelay },
		DefaultThrottleDelay, time.Duration.String)
	p.set.delay = i < n
	p.maxWait, i = pick(k, r, "throttle_max", levels, func(v *Values) *time.Duration {
		return v.ThrottleMaxWait
	}, DefaultThrottleMaxWait, time.Duration.String)
	p.set.maxWait = i < n
	fields, i := pick(k, r, "aggregate_fields", levels, func(v *Values) *[]string {
		if v.AggregateFields == nil {
			return nil
		}
		return &v.AggregateFields
	}, nil, func(fields []string) string { return "[" + strings.Join(fields, ", ") + "]" })
	p.fields, p.set.fields = slices.Clone(fields), i < n
	return p
}

// weightOf is how many events one that sampling keeps stands for.
func weightOf(rate float64) uint32 {
	if !(rate > 0) { // values has reported it
		return 0
	}
	return uint32(min(math.Round(1/rate), 1e6))
}
