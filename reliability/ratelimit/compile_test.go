package ratelimit

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// ruleOf is the compiled rule of a type.
func ruleOf(p *Policy, typ string) *rule { return &p.rules[p.typeOf([]byte(typ)).rule] }

// The table of seed 4, "Precedence Rules": each value from the closest level.
func TestPrecedence(t *testing.T) {
	p := mustCompile(t, Config{
		Global: &Values{Limit: new(int64(10_000)), Window: new(time.Minute), OnExceeded: new(OnExceededDrop),
			SampleRate: new(0.1)},
		Default: Values{Limit: new(int64(1_000))},
		Presets: []Preset{
			{"valued", Values{Limit: new(int64(10_000)), OnExceeded: new(OnExceededThrottle), SampleRate: new(0.5)}}},
		Types: []TypeRule{
			{Match: "debug.*", Values: Values{Limit: new(int64(100)), Window: new(time.Minute),
				OnExceeded: new(OnExceededDrop)}},
			{Match: "critical.payment", Extends: "debug.*", Preset: "valued", Values: Values{Limit: new(int64(50_000))}},
			{Match: "preset.only", Extends: "debug.*", Preset: "valued"},
			{Match: "base.only", Extends: "debug.*"},
			{Match: "chain", Extends: "preset.only"},
		},
	})
	for _, c := range []struct {
		typ      string
		limit    int64
		window   time.Duration
		strategy Strategy
		keep     uint32
	}{
		{"critical.payment", 50_000, time.Minute, OnExceededThrottle, 2}, // rule, extended, preset, preset
		{"preset.only", 10_000, time.Minute, OnExceededThrottle, 2},
		{"base.only", 100, time.Minute, OnExceededDrop, 10},
		{"chain", 10_000, time.Minute, OnExceededThrottle, 2},
		{"debug.sql", 100, time.Minute, OnExceededDrop, 10},
		{"other", 1_000, time.Second, OnExceededDrop, 10}, // default, convention, global, global
	} {
		r := ruleOf(p, c.typ)
		require.Equal(t, c.limit, r.limit.N, c.typ)
		require.Equal(t, c.window, r.limit.Window, c.typ)
		require.Equal(t, c.strategy, r.plan.strategy, c.typ)
		require.Equal(t, c.keep, r.plan.weight, c.typ)
	}
	// All layers still apply.
	var b Tickets
	p.Add(&Caller{}, typed("critical.payment"), &b)
	require.Len(t, b.Charges(0), 2)
}

func TestDefaults(t *testing.T) {
	p := mustCompile(t, Config{Global: &Values{}})
	require.Equal(t, Limit{N: 10_000, Window: time.Minute, Burst: 10_000}, p.global.limit)
	r := ruleOf(p, "any")
	require.Equal(t, DefaultRule, r.name)
	require.Equal(t, Limit{N: 1000, Window: time.Second, Burst: 1000}, r.limit)
	require.Equal(t, OnExceededSample, r.plan.strategy)
	require.EqualValues(t, 10, r.plan.weight)
	require.Equal(t, 10*time.Millisecond, r.plan.delay)
	require.Equal(t, time.Second, r.plan.maxWait)

	p = mustCompile(t, Config{})
	require.Nil(t, p.global)
	require.EqualValues(t, 1000, ruleOf(p, "any").limit.N)
}

func TestPresets(t *testing.T) {
	p := mustCompile(t, Config{Types: []TypeRule{
		{Match: "payment", Preset: "high_value"},
		{Match: "sql", Preset: "debug"},
		{Match: "page", Preset: "high_value", Values: Values{Limit: new(int64(7)), OnExceeded: new(OnExceededAggregate)}},
	}})
	r := ruleOf(p, "payment")
	require.EqualValues(t, 10_000, r.limit.N)
	require.Equal(t, OnExceededThrottle, r.plan.strategy)
	require.EqualValues(t, 1, r.plan.weight)
	r = ruleOf(p, "sql")
	require.EqualValues(t, 100, r.limit.N)
	require.Equal(t, OnExceededDrop, r.plan.strategy)
	require.EqualValues(t, 100, r.plan.weight)
	r = ruleOf(p, "page")
	require.EqualValues(t, 7, r.limit.N)
	require.Equal(t, OnExceededAggregate, r.plan.strategy)
}

// A burst comes from where the limit comes from, or from closer.
func TestBurst(t *testing.T) {
	p := mustCompile(t, Config{
		Global:  &Values{Limit: new(int64(10_000)), Algorithm: new(TokenBucket), Burst: new(int64(20_000))},
		Presets: []Preset{{"b", Values{Limit: new(int64(10)), Burst: new(int64(15))}}},
		Types: []TypeRule{
			{Match: "a", Values: Values{Limit: new(int64(100))}},
			{Match: "b", Preset: "b"},
			{Match: "c", Preset: "b", Values: Values{Limit: new(int64(30))}},
			{Match: "d", Preset: "b", Values: Values{Burst: new(int64(3))}},
		},
	})
	require.EqualValues(t, 20_000, p.global.limit.Burst)
	for typ, burst := range map[string]int64{"a": 100, "b": 15, "c": 30, "d": 3, "other": 1000} {
		require.Equal(t, TokenBucket, ruleOf(p, typ).limit.Algorithm)
		require.Equal(t, burst, ruleOf(p, typ).limit.Burst, typ)
	}
}

func TestMatchOrder(t *testing.T) {
	p := mustCompile(t, Config{Types: []TypeRule{
		{Match: "*"}, {Match: "payment.*"}, {Match: "payment.retry"}, {Match: "payment.r*"}, {Match: "*.retry.x"},
		{Match: "?ayment.*x"},
	}})
	for typ, want := range map[string]string{
		"payment.retry": "payment.retry", "payment.retries": "payment.r*", "payment.ok": "payment.*",
		"order": "*", "payment.retry.x": "payment.r*", "payment.x": "payment.*", "a.retry.x": "*.retry.x",
	} {
		require.Equal(t, want, ruleOf(p, typ).name, typ)
	}
}

func TestConfigErrors(t *testing.T) {
	user := func(v Values) ContextRule {
		return ContextRule{Name: "user", From: []Source{{Kind: FromClientIP}}, Values: v}
	}
	typ := func(v Values) Config { return Config{Types: []TypeRule{{Match: "a"}, {Match: "x", Values: v}}} }
	for name, c := range map[string]struct {
		config Config
		want   []string // "path: part of the message"
	}{
		"zero limit":     {typ(Values{Limit: new(int64(0))}), []string{"types[1].limit: 0 is out of range"}},
		"negative limit": {Config{Global: &Values{Limit: new(int64(-1))}}, []string{"global.limit: -1"}},
		"huge limit": {Config{Default: Values{Limit: new(int64(MaxLimit + 1))}},
			[]string{"default.limit: 4000000001"}},
		"no window":         {typ(Values{Window: new(time.Duration(0))}), []string{"types[1].window: 0s"}},
		"long window":       {typ(Values{Window: new(25 * time.Hour)}), []string{"types[1].window: 25h0m0s"}},
		"algorithm":         {typ(Values{Algorithm: new(Algorithm(9))}), []string{"types[1].algorithm: unknown"}},
		"strategy":          {typ(Values{OnExceeded: new(Strategy(9))}), []string{"types[1].on_exceeded: unknown"}},
		"burst":             {typ(Values{Algorithm: new(TokenBucket), Burst: new(int64(0))}), []string{"types[1].burst: 0"}},
		"burst of a window": {typ(Values{Burst: new(int64(5))}), []string{"types[1].burst: only valid for token_bucket"}},
		"rate 0":            {typ(Values{SampleRate: new(0.0)}), []string{"types[1].sample_rate: 0"}},
		"rate over 1":       {typ(Values{SampleRate: new(1.1)}), []string{"types[1].sample_rate: 1.1"}},
		"rate NaN":          {typ(Values{SampleRate: new(math.NaN())}), []string{"types[1].sample_rate: NaN"}},
		"rate tiny":         {typ(Values{SampleRate: new(1e-9)}), []string{"types[1].sample_rate: 1e-09 is below"}},
		"throttle": {typ(Values{ThrottleDelay: new(time.Duration(-1)), ThrottleMaxWait: new(time.Hour)}),
			[]string{"types[1].throttle", "types[1].throttle_max"}},
		"wait below step": {typ(Values{ThrottleDelay: new(2 * time.Second)}),
			[]string{"types[1].throttle_max: the maximum wait 1s"}},
		"default wait, once": {Config{Default: Values{ThrottleDelay: new(2 * time.Second)}, Types: []TypeRule{{Match: "a"}}},
			[]string{"default.throttle_max"}},
		"preset": {Config{Types: []TypeRule{{Match: "a", Preset: "b"}}},
			[]string{`types[0].preset: unknown preset "b" (want one of debug, high_value)`}},
		"preset values": {Config{Presets: []Preset{{"p", Values{Limit: new(int64(0))}}}}, []string{"presets[0].limit"}},
		"preset twice": {Config{Presets: []Preset{{Name: "p"}, {Name: "p"}, {Name: "debug"}}},
			[]string{`presets[1].name: preset "p" is defined twice`, `presets[2].name: preset "debug" is built in`}},
		"preset name": {Config{Presets: []Preset{{}}}, []string{"presets[0].name: the name is missing"}},
		"extends nothing": {Config{Types: []TypeRule{{Match: "a", Extends: "b"}}},
			[]string{`types[0].extends: unknown rule "b"`}},
		"extends itself": {Config{Types: []TypeRule{{Match: "a", Extends: "a"}}},
			[]string{"types[0].extends: the rule extends itself: a, then a"}},
		"extends in a ring": {
			Config{Types: []TypeRule{{Match: "a", Extends: "b"}, {Match: "b", Extends: "a"}, {Match: "c", Extends: "a"}}},
			[]string{"types[0].extends: the rule extends itself: a, then b, then a", "types[1].extends: the rule"}},
		"type twice":   {Config{Types: []TypeRule{{Match: "a"}, {Match: "a"}}}, []string{"types[1].match: duplicate"}},
		"type missing": {Config{Types: []TypeRule{{}}}, []string{"types[0].match: the type or pattern is missing"}},
		"type text": {Config{Types: []TypeRule{{Match: "a\x00b"}, {Match: strings.Repeat("x", 129)},
			{Match: "\xff"}}}, []string{"types[0].match", "types[1].match", "types[2].match"}},
		"name of default": {Config{Types: []TypeRule{{Match: DefaultRule}}}, []string{"types[0].match"}},
		"audit type": {Config{Types: []TypeRule{{Match: "audit.login"}}, Audit: []string{"audit.login"}},
			[]string{`types[0].match: "audit.login" covers audit types (audit[0]`}},
		"audit pattern": {Config{Types: []TypeRule{{Match: "audit.login"}}, Audit: []string{"x", "audit.*"}},
			[]string{`types[0].match: "audit.login" covers audit types (audit[1], "audit.*")`}},
		"audit overlap": {Config{Types: []TypeRule{{Match: "*.failed", Preset: "debug"}}, Audit: []string{"audit.*"}},
			[]string{"types[0].match"}},
		"audit same": {Config{Types: []TypeRule{{Match: "a*"}}, Audit: []string{"a*"}}, []string{"types[0].match"}},
		"audit listing": {
			Config{Audit: []string{"a", "", "a"}}, []string{"audit[1]: the type or pattern is missing", "audit[2]:"}},
		"context values": {Config{Contexts: []ContextRule{user(Values{Limit: new(int64(0))})}},
			[]string{"contexts[0].limit"}},
		"context twice":   {Config{Contexts: []ContextRule{user(Values{}), user(Values{})}}, []string{"contexts[1].name"}},
		"context nowhere": {Config{Contexts: []ContextRule{{Name: "a"}}}, []string{"contexts[0].from: missing source"}},
		"context sources": {
			Config{Contexts: []ContextRule{
				{Name: "a", From: []Source{{Kind: FromHeader}, {Kind: FromClientIP, Name: "x"}, {Kind: 9}, {Kind: FromToken}}}}},
			[]string{"contexts[0].from[0]", "contexts[0].from[1]", "contexts[0].from[2]",
				"contexts[0].from[3]: token requires authentication"}},
		"source twice": {Config{Contexts: []ContextRule{
			{Name: "a", From: []Source{{Kind: FromClientIP}, {Kind: FromClientIP}}}}}, []string{"contexts[0].from[1]"}},
		"contexts": {Config{Contexts: make([]ContextRule, 7)}, []string{"contexts[6]: 7"}},
		"bypass for all": {Config{Bypass: []BypassRule{{Types: []string{"a"}}}},
			[]string{"bypass[0]: a bypass rule requires authentication"}},
		"bypass empty": {Config{Authentication: true, Bypass: []BypassRule{{}}},
			[]string{"bypass[0]: a bypass rule needs at least one"}},
		"bypass details": {Config{Authentication: true,
			Bypass: []BypassRule{{Types: []string{""}, Severities: []string{""}, Tokens: []string{""},
				Attributes: map[string][]string{"a": nil}}}},
			[]string{"bypass[0].types[0]", "bypass[0].severities[0]", "bypass[0].tokens[0]", "bypass[0].attributes.a"}},
		"many bypass rules": {Config{Authentication: true, Bypass: make([]BypassRule, 65)}, []string{"bypass[64]"}},
		"several": {Config{Global: &Values{Limit: new(int64(0))},
			Types: []TypeRule{{Match: "a", Preset: "b", Values: Values{Window: new(-time.Second)}}}},
			[]string{"global.limit", "types[0].window", "types[0].preset"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Compile(c.config)
			require.Error(t, err)
			joined, ok := err.(interface{ Unwrap() []error })
			require.True(t, ok)
			var got []string
			for _, e := range joined.Unwrap() {
				var ce *ConfigError
				require.True(t, errors.As(e, &ce))
				got = append(got, e.Error())
			}
			require.Len(t, got, len(c.want), "%q", got)
			for _, w := range c.want {
				found := false
				for _, g := range got {
					found = found || strings.HasPrefix(g, w)
				}
				require.True(t, found, "%q is not among %q", w, got)
			}
		})
	}
}

func TestParse(t *testing.T) {
	for _, s := range []Strategy{OnExceededSample, OnExceededDrop, OnExceededThrottle, OnExceededAggregate} {
		got, err := ParseStrategy(s.String())
		require.NoError(t, err)
		require.Equal(t, s, got)
	}
	for _, a := range []Algorithm{SlidingWindow, TokenBucket, FixedWindow} {
		got, err := ParseAlgorithm(a.String())
		require.NoError(t, err)
		require.Equal(t, a, got)
	}
	_, err := ParseStrategy("backpressure")
	require.EqualError(t, err, `unknown strategy "backpressure" (want one of sample, drop, throttle, aggregate)`)
	_, err = ParseAlgorithm("leaky")
	require.ErrorContains(t, err, "sliding_window, token_bucket, fixed_window")
}
