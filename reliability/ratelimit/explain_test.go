package ratelimit

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The explanation matches the compiled policy: each value of each rule, with its source.
func TestExplainAgreesWithTheRules(t *testing.T) {
	n := func(v int64) *int64 { return &v }
	d := func(v time.Duration) *time.Duration { return &v }
	bucket, throttle, drop := TokenBucket, OnExceededThrottle, OnExceededDrop
	c := Config{
		Authentication: true,
		Global:         &Values{Limit: n(9), SampleRate: new(0.25)},
		Default:        Values{Window: d(2 * time.Second)},
		Presets:        []Preset{{"p", Values{Limit: n(50), OnExceeded: &throttle}}},
		Types: []TypeRule{
			{Match: "a.*", Preset: "p", Values: Values{Algorithm: &bucket, Burst: n(7)}},
			{Match: "a.b", Extends: "a.*", Values: Values{ThrottleMaxWait: d(2 * time.Second), AggregateFields: []string{"x"}}},
		},
		Contexts: []ContextRule{
			{Name: "ip", From: []Source{{Kind: FromClientIP}}, Values: Values{Limit: n(3), OnExceeded: &drop}},
			{Name: "token", From: []Source{{Kind: FromToken}}},
		},
		Bypass: []BypassRule{{Types: []string{"never"}}, {Severities: []string{"critical"}}},
		Audit:  []string{"audit*"},
	}
	e, err := Explain(c, &Caller{IP: "10.0.0.1"}, typed("a.b"))
	require.NoError(t, err)
	require.Empty(t, e.Exempt)
	var got []string
	for _, r := range e.Rules {
		got = append(got, r.Layer+" "+r.Rule+" "+r.Value)
		for _, x := range r.Settings {
			got = append(got, fmt.Sprintf("%s %s %s", x.Name, x.Value, x.From))
		}
	}
	require.Equal(t, []string{
		"global global ",
		"limit 9 global", "window 1m0s built-in", "algorithm sliding_window built-in", "on_exceeded sample built-in",
		"sample_rate 1/4 global",
		"throttle 10ms built-in", "throttle_max 1s built-in", "aggregate_fields [] built-in",
		"type a.b ",
		"limit 50 preset p", "window 2s default", "algorithm token_bucket type a.*", "burst 7 type a.*",
		"on_exceeded throttle preset p",
		"sample_rate 1/4 global", "throttle 10ms built-in", "throttle_max 2s type a.b", "aggregate_fields [x] type a.b",
		"context ip 10.0.0.1",
		"limit 3 context ip", "window 2s default", "algorithm sliding_window built-in", "on_exceeded drop context ip",
		"sample_rate 1/4 global", "throttle 10ms built-in", "throttle_max 2s type a.b", "aggregate_fields [x] type a.b",
	}, got)

	p := mustCompile(t, c)
	var b Tickets
	p.Add(&Caller{IP: "10.0.0.1"}, typed("a.b"), &b)
	require.Len(t, b.Charges(0), len(e.Rules))
	require.EqualValues(t, 50, b.Charges(0)[1].Limit.N)
	require.EqualValues(t, 7, b.Charges(0)[1].Limit.Burst)

	for _, tt := range []struct {
		caller *Caller
		typ    string
		want   string
	}{{&Caller{}, "audit.x", "audit audit*"}, {&Caller{}, "never", ""},
		{&Caller{Authenticated: true}, "never", "bypass rule 1"}} {
		e, err := Explain(c, tt.caller, typed(tt.typ))
		require.NoError(t, err)
		require.Equal(t, tt.want, e.Exempt)
	}
	_, err = Explain(Config{Types: []TypeRule{{}}}, &Caller{}, typed("x"))
	require.Error(t, err)
}

func TestCounterOfAContext(t *testing.T) {
	limit, window := int64(5), time.Minute
	l := mustLimiter(t, Options{Policy: mustCompile(t, Config{Contexts: []ContextRule{
		{Name: "ip", From: []Source{{Kind: FromClientIP}}, Values: Values{Limit: &limit, Window: &window}},
	}})})
	for used := range 8 {
		for range 2 {
			c, err := l.Counter(t.Context(), start, "ip", "10.0.0.1")
			require.NoError(t, err)
			require.Equal(t, int64(5), c.Limit)
			require.Equal(t, max(0, limit-int64(used)), c.Remaining)
		}
		var b Tickets
		l.Policy().Add(&Caller{IP: "10.0.0.1"}, typed("x"), &b)
		require.NoError(t, l.Decide(t.Context(), start, []*Tickets{&b}))
	}
	_, err := l.Counter(t.Context(), start, "user", "x")
	require.ErrorIs(t, err, ErrNoContext)
}
