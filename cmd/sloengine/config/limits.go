package config

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/sloengine/sloengine/reliability/ratelimit"
)

// RateLimits bounds how much comes in. Without the section nothing is bounded; in it,
// what is left out has its default.
type RateLimits struct {
	Global   Disableable[limitRule] `yaml:"global"`  // all events together
	Default  Disableable[limitRule] `yaml:"default"` // each type without a rule
	Presets  map[string]limitRule   `yaml:"presets"`
	Types    []typeLimit            `yaml:"types"`
	Contexts []contextLimit         `yaml:"contexts"`
	Bypass   []bypassConfig         `yaml:"bypass"`
	BypassIf string                 `yaml:"bypass_if"` // an expression; for callers with a token, like bypass
	Audit    []string               `yaml:"audit"`     // types that are never limited
	// RespectDLQFilter puts what the filter of the dead letters keeps there, not on the
	// floor.
	RespectDLQFilter bool               `yaml:"respect_dlq_filter"`
	AggregateWindow  Duration           `yaml:"aggregate_window" max:"1s"`             // how long a request waits to be merged with others; 0: not at all
	MaxContexts      int                `yaml:"max_contexts" min:"16" max:"100000000"` // counters in memory
	Shared           sharedLimitsConfig `yaml:"shared"`
}

func (l *RateLimits) prefill(*Config) {
	l.RespectDLQFilter, l.MaxContexts, l.Shared.Fallback.V = true, 1_000_000, 0.1
	l.AggregateWindow = Duration(100 * time.Millisecond)
}

// limitRule are the values of a rule. Each may differ by environment.
type limitRule struct {
	Limit       opt[int64]    `yaml:"limit" min:"1" max:"4000000000"` // events in a window
	Window      opt[Duration] `yaml:"window" min:"1ms" max:"1d"`
	Algorithm   opt[string]   `yaml:"algorithm" one:"sliding_window token_bucket fixed_window"`
	Burst       opt[int64]    `yaml:"burst" min:"1" max:"4000000000"` // of a token_bucket
	OnExceeded  opt[string]   `yaml:"on_exceeded" one:"drop sample throttle aggregate"`
	SampleRate  opt[float64]  `yaml:"sample_rate" min:"0.000001" max:"1"` // the share to keep
	Throttle    opt[Duration] `yaml:"throttle" min:"1ms" max:"1m"`        // how long at a time
	ThrottleMax opt[Duration] `yaml:"throttle_max" min:"1ms" max:"1m"`    // and in all

	AggregateFields []string `yaml:"aggregate_fields"` // attributes that a merged event sums up
}

type typeLimit struct {
	Match     string `yaml:"match" is:"required"` // a type, or a pattern with * and ?
	Preset    string `yaml:"preset"`
	Extends   string `yaml:"extends"` // match of another rule
	limitRule `yaml:""`
}

type contextLimit struct {
	Name      string        `yaml:"name" is:"required"`
	From      []limitSource `yaml:"from"`
	Extractor string        `yaml:"extractor"` // an expression, asked before from
	limitRule `yaml:""`
}

// limitSource says where a context is looked for: attribute:user_id, header:X-User-Id,
// client_ip or token.
type limitSource ratelimit.Source

type bypassConfig struct {
	Types      []string                `yaml:"types"`
	Severities []string                `yaml:"severities"`
	Attributes map[string]StringOrList `yaml:"attributes"`
	Tokens     []string                `yaml:"tokens"` // names in the tokens file
}

type sharedLimitsConfig struct {
	Redis    bool                 `yaml:"redis"`
	Fallback Disableable[float64] `yaml:"fallback" min:"0.0001" max:"1"` // this instance's share while Redis is not reachable; off: no limits then
}

func (s *limitSource) setting(f *settingsFile, n *yaml.Node, path string, tag reflect.StructTag) {
	var text string
	if !f.scalar(n, path, &text, tag) {
		return
	}
	kind, name, named := strings.Cut(text, ":")
	kinds := map[string]ratelimit.SourceKind{
		"attribute": ratelimit.FromAttribute, "header": ratelimit.FromHeader,
		"client_ip": ratelimit.FromClientIP, "token": ratelimit.FromToken,
	}
	k, ok := kinds[kind]
	needs := k == ratelimit.FromAttribute || k == ratelimit.FromHeader
	if !ok || named != needs || named && strings.TrimSpace(name) == "" {
		f.addProblemAt(n, path, "attribute:user_id, header:X-User-Id, client_ip or token", "%q is no place where a context can be found", text)
		return
	}
	*s = limitSource{Kind: k, Name: strings.TrimSpace(name)}
}

// values turns what is written into what is compiled.
func (r *limitRule) values() ratelimit.Values {
	v := ratelimit.Values{
		Limit: r.Limit.pointer(), Burst: r.Burst.pointer(), SampleRate: r.SampleRate.pointer(),
		Window: (*time.Duration)(r.Window.pointer()), ThrottleDelay: (*time.Duration)(r.Throttle.pointer()),
		ThrottleMaxWait: (*time.Duration)(r.ThrottleMax.pointer()), AggregateFields: r.AggregateFields,
	}
	if r.Algorithm.Set { // the name was checked when it was read
		a, _ := ratelimit.ParseAlgorithm(r.Algorithm.V)
		v.Algorithm = &a
	}
	if r.OnExceeded.Set {
		s, _ := ratelimit.ParseStrategy(r.OnExceeded.V)
		v.OnExceeded = &s
	}
	return v
}

// RateConfig is what the policy is compiled from. authenticated says that callers can
// prove who they are; failed is told of expressions that cannot be computed. Those that
// cannot be compiled are left out: checkLimits tells of them.
func (l *RateLimits) RateConfig(authenticated bool, failed func(setting string, err error)) ratelimit.Config {
	c := ratelimit.Config{Authentication: authenticated, Default: l.Default.V.values(), Audit: l.Audit}
	if !l.Global.Off {
		v := l.Global.V.values()
		c.Global = &v
	}
	if l.Default.Off {
		most, window := int64(ratelimit.MaxLimit), time.Millisecond
		c.Default = ratelimit.Values{Limit: &most, Window: &window}
	}
	for _, name := range slices.Sorted(maps.Keys(l.Presets)) {
		preset := l.Presets[name]
		c.Presets = append(c.Presets, ratelimit.Preset{Name: name, Values: preset.values()})
	}
	for i := range l.Types {
		t := &l.Types[i]
		c.Types = append(c.Types, ratelimit.TypeRule{Match: t.Match, Preset: t.Preset, Extends: t.Extends, Values: t.ruleValues(l)})
	}
	for i := range l.Contexts {
		x := &l.Contexts[i]
		rule := ratelimit.ContextRule{Name: x.Name, Values: x.ruleValues(l)}
		for _, s := range x.From {
			rule.From = append(rule.From, ratelimit.Source(s))
		}
		if x.Extractor != "" {
			rule.Extractor, _ = extractor(item("limits.contexts", i)+".extractor", x.Extractor, failed)
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

// ruleValues keeps the window that stands for an absent default out of a rule.
func (r *limitRule) ruleValues(l *RateLimits) ratelimit.Values {
	v := r.values()
	if second := time.Second; l.Default.Off && v.Limit != nil && v.Window == nil {
		v.Window = &second
	}
	return v
}

func (c *Config) checkLimits(f *settingsFile) {
	l := c.Limits
	if l == nil {
		return
	}
	authenticated := c.Auth.TokensFile != ""
	if l.Shared.Redis && c.Redis == nil {
		f.addProblem("limits.shared.redis", "add redis, or leave shared out", "limits are shared through Redis, and there is no redis section")
	}
	l.checkDefaultOff(f)
	const sees = "event and request"
	if _, err := bypassIf(l.BypassIf, nil); err != nil && l.BypassIf != "" {
		f.addExpressionProblem("limits.bypass_if", l.BypassIf, sees, err)
	}
	for i := range l.Contexts {
		path := item("limits.contexts", i) + ".extractor"
		if _, err := extractor(path, l.Contexts[i].Extractor, nil); err != nil && l.Contexts[i].Extractor != "" {
			f.addExpressionProblem(path, l.Contexts[i].Extractor, sees, err)
		}
	}
	presets := slices.Sorted(maps.Keys(l.Presets))
	_, err := ratelimit.Compile(l.RateConfig(authenticated, nil))
	for _, e := range split(err) {
		var at *ratelimit.ConfigError
		if !errors.As(e, &at) {
			f.addProblem("limits", "", "%v", e)
			continue
		}
		path, hint := limitPath(at.Path, presets), ""
		if path == item("limits.bypass", len(l.Bypass)) {
			path = "limits.bypass_if"
		}
		if i, ok := strings.CutSuffix(path, ".from"); ok && f.broken(i+".extractor") {
			continue // it has a source, and that is told to be wrong
		}
		if !authenticated && (strings.Contains(path, ".bypass") || strings.Contains(path, ".from[")) {
			hint = "set auth.tokens_file"
		}
		if !f.broken(path) {
			f.addProblem(path, hint, "%s", at.Message)
		}
	}
}

// checkDefaultOff finds rules that have no limit once there is no default one.
func (l *RateLimits) checkDefaultOff(f *settingsFile) {
	if !l.Default.Off {
		return
	}
	const hint = "add one, or leave default on"
	for i := range l.Types {
		t := &l.Types[i]
		if !t.Limit.Set && t.Preset == "" && t.Extends == "" {
			f.addProblem(item("limits.types", i), hint, "a limit is missing, and the default is off")
		}
	}
	for i := range l.Contexts {
		if !l.Contexts[i].Limit.Set {
			f.addProblem(item("limits.contexts", i), hint, "a limit is missing, and the default is off")
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
	for theirs, ours := range map[string]string{".throttle_delay": ".throttle", ".throttle_max_wait": ".throttle_max"} {
		if before, ok := strings.CutSuffix(path, theirs); ok {
			path = before + ours
		}
	}
	return "limits." + path
}

// split takes apart what errors.Join put together.
func split(err error) []error {
	if err == nil {
		return nil
	}
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		return many.Unwrap()
	}
	return []error{err}
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
