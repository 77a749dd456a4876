package ratelimit

import (
	"fmt"
	"strings"
	"time"
)

// Bounds and defaults of a Config.
const (
	MaxLimit    = 4_000_000_000 // events per window, and burst
	MaxWindow   = 24 * time.Hour
	MaxContexts = 6  // context rules
	MaxBypass   = 64 // bypass rules
	MaxSources  = 8  // places that one context is looked for in
	MaxRules    = 10_000
	MaxThrottle = time.Minute // longest step and wait
	MaxFields   = 8           // that a merged event sums up

	// DefaultRule names the rule of types that have none of their own.
	DefaultRule = "(default)"
	// GlobalRule names the rule of the global layer.
	GlobalRule = "global"

	DefaultTypeLimit       = 1000 // per second, of each type
	DefaultGlobalLimit     = 10_000
	DefaultGlobalWindow    = time.Minute
	DefaultSampleRate      = 0.1
	DefaultThrottleDelay   = 10 * time.Millisecond
	DefaultThrottleMaxWait = time.Second
)

// Config is the source of a Policy. Compile reports its problems.
type Config struct {
	// Authentication says that callers can prove who they are. Without it there can
	// be no bypass rules: anyone could use them.
	Authentication bool

	// ValidName and ValidAttribute report whether a text can be the type or severity, and the name of an attribute,
	// of an event. A reference to any other is an error. Nil: anything.
	ValidName, ValidAttribute func(name string) bool

	// Global limits all events together; nil does not. Its other values are the last
	// resort of all rules.
	Global *Values
	// Default applies to types without a rule, each of which is counted separately, and supplies
	// values that other rules leave out.
	Default Values
	// Presets are named values. There are two already: high_value (10,000 events,
	// throttle, sample rate 1) and debug (100 events, drop, sample rate 0.01).
	Presets  []Preset
	Types    []TypeRule
	Contexts []ContextRule
	Bypass   []BypassRule
	// Audit lists event types, or patterns of them, that are never limited. A type
	// rule that could apply to one of them is an error, unless one of two patterns is an expression.
	Audit []string
}

// Values are those of one rule. A nil value comes from the next in line: the type's rule, its
// preset, the rule that it extends (with that one's preset, and so on), Config.Default,
// Config.Global, and the constants above. A burst is looked for only as far as the limit was: it
// belongs to that.
type Values struct {
	// events per window: 1 to MaxLimit, which admits everything
	Limit     *int64         `yaml:"limit" min:"1" max:"4000000000" off:"4000000000"`
	Window    *time.Duration `yaml:"window" min:"1ms" max:"1d"` // above 0, at most MaxWindow
	Algorithm *Algorithm     `yaml:"algorithm" one:"sliding_window token_bucket fixed_window"`
	// of a token bucket: 1 to MaxLimit; the limit if not set
	Burst      *int64    `yaml:"burst" min:"1" max:"4000000000"`
	OnExceeded *Strategy `yaml:"on_exceeded" one:"drop sample throttle aggregate"`
	// above 0, at most 1: the share to keep, as 1 in round(1/rate)
	SampleRate *float64 `yaml:"sample_rate" min:"0.000001" max:"1"`
	// step: how long an event is delayed at a time
	ThrottleDelay   *time.Duration `yaml:"throttle" min:"1ms" max:"1m"`
	ThrottleMaxWait *time.Duration `yaml:"throttle_max" min:"1ms" max:"1m"` // how long in all, before it is refused
	// AggregateFields are attributes that a merged event sums up; at most MaxFields.
	AggregateFields []string `yaml:"aggregate_fields"`
}

// unlimitedWindow is the window of rules with MaxLimit, so that they admit everything.
const unlimitedWindow = time.Millisecond

// Unlimited are the values of a rule that admits everything: no engine receives as much as it allows.
func Unlimited() Values {
	most := int64(MaxLimit)
	return Values{Limit: &most}
}

// Preset is a set of values to refer to by name.
type Preset struct {
	Name string
	Values
}

// TypeRule limits one type of events, or all types of a pattern together.
type TypeRule struct {
	// Match is a type's name, a pattern in which * stands for any text and ? for one byte, or /an RE2 expression/. An
	// exact name goes before a pattern, a pattern with more literal characters before one with less, and an expression
	// last; then the earlier one.
	Match   string `yaml:"match" is:"required"`
	Preset  string `yaml:"preset"`  // name of a preset
	Extends string `yaml:"extends"` // Match of another rule
	Values  `yaml:",inline"`
}

// ContextRule limits each value of a context for itself. An event without a value
// is not limited by the rule.
type ContextRule struct {
	Name string   `yaml:"name" is:"required"`
	From []Source `yaml:"from"` // tried in order
	// Extractor, if there is one, is asked before From is tried. It must be safe for
	// concurrent use, and must not keep its arguments.
	Extractor func(*Caller, *Subject) string
	// Values that are nil come from Config.Default and Config.Global, but the treatment of events over
	// the limit (OnExceeded, SampleRate, Throttle) comes from the event's type.
	Values `yaml:",inline"`
}

// SourceKind says where a context is looked for.
type SourceKind uint8

// The kinds of sources.
const (
	FromAttribute SourceKind = iota // of the event
	FromHeader                      // of the request
	FromClientIP
	FromToken // the name of the caller's token
)

// Source is a place where a context is looked for. The first that has a text other
// than "" gives the value.
type Source struct {
	Kind SourceKind
	Name string // of an attribute or header
}

// UnmarshalText reads attribute:NAME, header:NAME, client_ip or token.
func (s *Source) UnmarshalText(text []byte) error {
	kind, name, named := strings.Cut(string(text), ":")
	name = strings.TrimSpace(name)
	k, ok := map[string]SourceKind{"attribute": FromAttribute, "header": FromHeader, "client_ip": FromClientIP,
		"token": FromToken}[kind]
	needs := k == FromAttribute || k == FromHeader
	if !ok || named != needs || named && name == "" {
		return fmt.Errorf("invalid context source %q (want attribute:NAME, header:NAME, client_ip or token)", text)
	}
	*s = Source{Kind: k, Name: name}
	return nil
}

// BypassRule exempts events of authenticated callers. All of its conditions must
// hold; those that are left out do. One rule that fits is enough.
type BypassRule struct {
	Types      []string            // names or patterns, one of which must match
	Severities []string            // one of which the event must have
	Attributes map[string][]string // the event must have one of the values of each name
	Tokens     []string            // the caller's token must be one of these
	// Check, if there is one, must agree. As for ContextRule.Extractor.
	Check func(*Caller, *Subject) bool
}

// Strategy is the treatment of events over a limit.
type Strategy uint8

// The strategies. OnExceededSample is the default.
const (
	OnExceededSample    Strategy = iota // keep 1 of N, which then stands for N
	OnExceededDrop                      // lose it
	OnExceededThrottle                  // try it again a little later
	OnExceededAggregate                 // merge it with its like
)

var strategyNames = []string{"sample", "drop", "throttle", "aggregate"}
var algorithmNames = []string{"sliding_window", "token_bucket", "fixed_window"}

// String is the strategy's name in settings.
func (s Strategy) String() string { return nameOf(strategyNames, int(s)) }

// String is the algorithm's name in settings.
func (a Algorithm) String() string { return nameOf(algorithmNames, int(a)) }

// String is the layer's name, as in the metrics.
func (l Layer) String() string { return nameOf([]string{"global", "type", "context"}, int(l)) }

func nameOf(names []string, i int) string {
	if i < len(names) {
		return names[i]
	}
	return fmt.Sprintf("unknown (%d)", i)
}

// ParseStrategy knows drop, sample, throttle and aggregate.
func ParseStrategy(name string) (Strategy, error) {
	i, err := parseName("strategy", name, strategyNames)
	return Strategy(i), err
}

// UnmarshalText is ParseStrategy.
func (s *Strategy) UnmarshalText(text []byte) (err error) {
	*s, err = ParseStrategy(string(text))
	return err
}

// UnmarshalText is ParseAlgorithm.
func (a *Algorithm) UnmarshalText(text []byte) (err error) {
	*a, err = ParseAlgorithm(string(text))
	return err
}

// ParseAlgorithm knows sliding_window, token_bucket and fixed_window.
func ParseAlgorithm(name string) (Algorithm, error) {
	i, err := parseName("algorithm", name, algorithmNames)
	return Algorithm(i), err
}

func parseName(what, name string, names []string) (int, error) {
	for i, n := range names {
		if n == name {
			return i, nil
		}
	}
	return 0, fmt.Errorf("unknown %s %q (want one of %s)", what, name, strings.Join(names, ", "))
}

// ConfigError is one thing that is wrong with a Config.
type ConfigError struct {
	Path    string // such as types[2].limit
	Message string
}

func (e *ConfigError) Error() string { return e.Path + ": " + e.Message }
