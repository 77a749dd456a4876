package ratelimit

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestQuota(t *testing.T) {
	policy := func(v Values) *Policy {
		v.Window = new(time.Minute)
		return mustCompile(t, Config{
			Global:   &Values{Limit: new(int64(1000))},
			Default:  Values{Limit: new(int64(500)), Window: new(time.Hour)},
			Contexts: []ContextRule{{Name: `us"er`, From: byUser, Values: v}},
			Audit:    []string{"audit"},
		})
	}
	for name, c := range map[string]struct {
		values         Values
		subject        *Subject
		events         int
		policy, header string
	}{
		"context": {Values{Limit: new(int64(20))}, user("a"), 3, `"us\"er";q=20;w=60;sloengine-unit="events"`,
			`"us\"er";r=17;t=60`},
		"type": {Values{Limit: new(int64(20))}, typed("a"), 3, `"(default)";q=500;w=3600;sloengine-unit="events"`,
			`"(default)";r=497;t=3600`},
		"global": {Values{Limit: new(int64(2000))}, user("a"), 700, `"(default)";q=500;w=3600;sloengine-unit="events"`,
			`"(default)";r=0;t=4040`},
		"over": {Values{Limit: new(int64(20))}, user("a"), 21, `"us\"er";q=20;w=60;sloengine-unit="events"`,
			`"us\"er";r=0;t=65`},
		"fixed": {Values{Limit: new(int64(20)), Algorithm: new(FixedWindow)}, user("a"), 3,
			`"us\"er";q=20;w=60;sloengine-unit="events"`, `"us\"er";r=17;t=50`},
		"token bucket": {Values{Limit: new(int64(60)), Algorithm: new(TokenBucket), Burst: new(int64(10))}, user("a"), 4,
			`"us\"er";q=10;w=10;sloengine-unit="events"`, `"us\"er";r=6;t=4`},
		"odd window": {Values{Limit: new(int64(7)), Algorithm: new(TokenBucket), Burst: new(int64(1))}, user("a"), 1,
			`"us\"er";q=1;sloengine-unit="events"`, `"us\"er";r=0;t=9`},
	} {
		t.Run(name, func(t *testing.T) {
			l := mustLimiter(t, Options{Policy: policy(c.values)})
			now := start.Add(10 * time.Second)
			var b Tickets
			for range c.events {
				l.Policy().Add(&Caller{}, c.subject, &b)
			}
			require.NoError(t, l.Decide(t.Context(), now, []*Tickets{&b}))
			q, ok := b.Quota(now)
			require.True(t, ok)
			require.Equal(t, c.policy, q.PolicyHeader())
			require.Equal(t, c.header, q.Header())
		})
	}

	l := mustLimiter(t, Options{Policy: policy(Values{})})
	var b Tickets
	l.Policy().Add(&Caller{}, typed("audit"), &b)
	require.NoError(t, l.Decide(t.Context(), start, []*Tickets{&b}))
	_, ok := b.Quota(start)
	require.False(t, ok, "what is exempt has no quota")

	l = mustLimiter(t, Options{Policy: policy(Values{}), Store: failing{}})
	b.Reset()
	l.Policy().Add(&Caller{}, typed("a"), &b)
	require.NoError(t, l.Decide(t.Context(), start, []*Tickets{&b}))
	_, ok = b.Quota(start)
	require.False(t, ok, "a store that does not tell")
	b.List[0].Over, b.List[0].Wait = 1<<1, 1500*time.Millisecond // it still names the exceeded limit
	q, ok := b.Quota(start)
	require.True(t, ok)
	require.Equal(t, `"(default)";r=0;t=2`, q.Header())
	require.Equal(t, `"(default)";q=500;w=3600;sloengine-unit="events"`, q.PolicyHeader())
	require.Equal(t, 2, b.List[0].RetryAfter())
	require.Equal(t, `"a?\\b?"`, sfString("aä\\b\n"))
}
