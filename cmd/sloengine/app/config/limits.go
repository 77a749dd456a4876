package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/reliability/ratelimit"
	"github.com/sloengine/sloengine/slo/yamldoc"
)

// RateLimits bounds how much comes in. Without the section nothing is bounded; in it,
// what is left out has its default.
type RateLimits struct {
	Global   Disableable[ratelimit.Values] `yaml:"global"`  // all events together
	Default  Disableable[ratelimit.Values] `yaml:"default"` // each type without a rule
	Presets  map[string]ratelimit.Values   `yaml:"presets"`
	Types    []ratelimit.TypeRule          `yaml:"types"`
	Contexts []contextLimit                `yaml:"contexts"`
	Bypass   []bypassConfig                `yaml:"bypass"`
	BypassIf string                        `yaml:"bypass_if"` // an expression; for callers with a token, like bypass
	Audit    []string                      `yaml:"audit"`     // types that are never limited
	// RespectDLQFilter puts what the filter of the dead letters keeps there, not on the
	// floor.
	RespectDLQFilter bool `yaml:"respect_dlq_filter"`
	// how long a request waits to be merged with others; 0: not at all
	AggregateWindow time.Duration      `yaml:"aggregate_window" max:"1s"`
	MaxContexts     int                `yaml:"max_contexts" min:"16" max:"100000000"` // counters in memory
	Shared          sharedLimitsConfig `yaml:"shared"`
}

func (l *RateLimits) prefill(*Config) {
	l.RespectDLQFilter, l.MaxContexts, l.Shared.Fallback.V = true, 1_000_000, 0.1
	l.AggregateWindow = 100 * time.Millisecond
}

// contextLimit is a context rule. Its extractor is an expression.
type contextLimit struct {
	ratelimit.ContextRule `yaml:",inline"`
	Expression            string `yaml:"extractor"` // asked before from
}

type bypassConfig struct {
	Types      []string                             `yaml:"types"`
	Severities []string                             `yaml:"severities"`
	Attributes map[string]yamldoc.OneOrList[string] `yaml:"attributes"`
	Tokens     []string                             `yaml:"tokens"` // names in the tokens file
}

type sharedLimitsConfig struct {
	Redis bool `yaml:"redis"`
	// this instance's share while Redis is not reachable; off: no limits then
	Fallback Disableable[float64] `yaml:"fallback" min:"0.0001" max:"1"`
}

// RateConfig is what the policy is compiled from. authenticated says that callers can
// prove who they are; failed is told of expressions that cannot be computed. Those that
// cannot be compiled are left out: checkLimits tells of them.
func (l *RateLimits) RateConfig(authenticated bool, failed func(setting string, err error)) ratelimit.Config {
	c := ratelimit.Config{Authentication: authenticated, ValidName: event.ValidName, ValidAttribute: event.ValidAttribute,
		Default: l.Default.V, Audit: l.Audit, Types: slices.Clone(l.Types)}
	if !l.Global.Off {
		c.Global = &l.Global.V
	}
	if l.Default.Off {
		c.Default = ratelimit.Unlimited()
	}
	for _, name := range slices.Sorted(maps.Keys(l.Presets)) {
		c.Presets = append(c.Presets, ratelimit.Preset{Name: name, Values: l.Presets[name]})
	}
	for i := range l.Contexts {
		rule := l.Contexts[i].ContextRule
		if text := l.Contexts[i].Expression; text != "" {
			rule.Extractor, _ = extractor(item("limits.contexts", i)+".extractor", text, failed)
		}
		c.Contexts = append(c.Contexts, rule)
	}
	for _, b := range l.Bypass {
		rule := ratelimit.BypassRule{Types: b.Types, Severities: b.Severities, Tokens: b.Tokens}
		for name, values := range b.Attributes {
			if rule.Attributes == nil {
				rule.Attributes = map[string][]string{}
			}
			rule.Attributes[name] = values
		}
		c.Bypass = append(c.Bypass, rule)
	}
	if l.BypassIf != "" {
		if check, err := bypassIf(l.BypassIf, failed); err == nil {
			c.Bypass = append(c.Bypass, ratelimit.BypassRule{Check: check})
		}
	}
	return c
}

func (c *Config) checkLimits(f *yamldoc.Decoder) {
	l := c.Limits
	if l == nil {
		return
	}
	authenticated := c.Auth.TokensFile != ""
	if l.Shared.Redis && c.Redis == nil {
		f.Errorf("limits.shared.redis", "add redis, or remove shared",
			"rate limits are shared through Redis, but the redis section is missing")
	}
	l.checkDefaultOff(f)
	const sees = "event and request"
	if _, err := bypassIf(l.BypassIf, nil); err != nil && l.BypassIf != "" {
		expressionProblem(f, "limits.bypass_if", l.BypassIf, sees, err)
	}
	for i := range l.Contexts {
		path := item("limits.contexts", i) + ".extractor"
		if _, err := extractor(path, l.Contexts[i].Expression, nil); err != nil && l.Contexts[i].Expression != "" {
			expressionProblem(f, path, l.Contexts[i].Expression, sees, err)
		}
	}
	presets := slices.Sorted(maps.Keys(l.Presets))
	_, err := ratelimit.Compile(l.RateConfig(authenticated, nil))
	for _, e := range split(err) {
		var at *ratelimit.ConfigError
		if !errors.As(e, &at) {
			f.Errorf("limits", "", "%v", e)
			continue
		}
		path, hint := limitPath(at.Path, presets), ""
		if path == item("limits.bypass", len(l.Bypass)) {
			path = "limits.bypass_if"
		}
		if i, ok := strings.CutSuffix(path, ".from"); ok && f.Broken(i+".extractor") {
			continue // it has a source, and that is told to be wrong
		}
		if !authenticated && (strings.Contains(path, ".bypass") || strings.Contains(path, ".from[")) {
			hint = "set auth.tokens_file"
		}
		if !f.Broken(path) {
			f.Errorf(path, hint, "%s", at.Message)
		}
	}
}

// checkDefaultOff finds rules that have no limit once there is no default one.
func (l *RateLimits) checkDefaultOff(f *yamldoc.Decoder) {
	if !l.Default.Off {
		return
	}
	const hint = "add a limit, or enable the default"
	for i := range l.Types {
		t := &l.Types[i]
		if t.Limit == nil && t.Preset == "" && t.Extends == "" {
			f.Errorf(item("limits.types", i), hint, "has no limit, and limits.default is off")
		}
	}
	for i := range l.Contexts {
		if l.Contexts[i].Limit == nil {
			f.Errorf(item("limits.contexts", i), hint, "has no limit, and limits.default is off")
		}
	}
}

// limitPath finds the setting that a value of ratelimit.Config was made of.
func limitPath(path string, presets []string) string {
	if rest, ok := strings.CutPrefix(path, "presets["); ok {
		var i int
		if _, err := fmt.Sscanf(rest, "%d]", &i); err == nil && i < len(presets) {
			_, rest, _ = strings.Cut(rest, "]")
			path = "presets." + presets[i] + strings.TrimSuffix(rest, ".name")
		}
	}
	return "limits." + path
}

// split takes apart what errors.Join put together.
func split(err error) (out []error) {
	many, ok := err.(interface{ Unwrap() []error })
	if !ok && err != nil {
		return []error{err}
	}
	if ok {
		for _, err := range many.Unwrap() {
			out = append(out, split(err)...)
		}
	}
	return out
}

// RatePolicy is nil if nothing is limited.
func (c *Config) RatePolicy(failed func(setting string, err error)) (*ratelimit.Policy, error) {
	if c.Limits == nil {
		return nil, nil
	}
	return ratelimit.Compile(c.Limits.RateConfig(c.Auth.TokensFile != "", failed))
}

// RateTable are the options of the counters in memory. fallback says that they stand
// in for shared ones.
func (c *Config) RateTable(fallback bool, m *ratelimit.Metrics) ratelimit.TableOptions {
	o := ratelimit.TableOptions{MaxCounters: c.Limits.MaxContexts, Metrics: m}
	if fallback && !c.Limits.Shared.Fallback.Off {
		o.Scale = c.Limits.Shared.Fallback.V
	}
	return o
}
