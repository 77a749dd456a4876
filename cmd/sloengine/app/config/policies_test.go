package config

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/reliability/dispatch"
	"github.com/sloengine/sloengine/reliability/retry"
)

func TestValuesOfSinksDifferByEnvironment(t *testing.T) {
	const text = `
retry: {max_retries: {production: unlimited, default: 1}, base: {production: 1s, default: 10ms}}
breaker: {consecutive: {failures: {production: 9, staging: 4, default: 5}}}
bulkhead: {concurrency: {default: 2, production: 8}}
sinks:
  - name: hook
    http: {url: {production: "https://events.example.org/in", default: "http://127.0.0.1:9/in"},
        gzip: {production: true, default: false}}
    timeout: {production: 10s, default: 2s}
    rate_limit: {limit: {production: 100, default: 5}}
`
	for env, want := range map[string]struct {
		retries     retries
		base        time.Duration
		failures    int
		concurrency int
		url         string
		gzip        bool
		timeout     time.Duration
		limit       int
	}{
		"production": {retry.Unlimited, time.Second, 9, 8, "https://events.example.org/in", true, 10 * time.Second, 100},
		"staging":    {1, 10 * time.Millisecond, 4, 2, "http://127.0.0.1:9/in", false, 2 * time.Second, 5},
		"":           {1, 10 * time.Millisecond, 5, 2, "http://127.0.0.1:9/in", false, 2 * time.Second, 5},
	} {
		t.Setenv(EnvironmentVariable, env)
		c, err := load(t, t.TempDir(), text)
		require.NoError(t, err)
		s := c.Sinks[0]
		require.Equal(t, want.retries, s.Retry.MaxRetries, env)
		require.Equal(t, want.base, s.Retry.Base)
		require.Equal(t, want.failures, s.Breaker.V.Consecutive.V.Failures)
		require.Equal(t, want.concurrency, s.Bulkhead.Concurrency)
		require.Equal(t, want.url, s.HTTP.URL)
		require.Equal(t, want.gzip, s.HTTP.Gzip)
		require.Equal(t, want.timeout, s.Timeout)
		require.Equal(t, want.limit, s.RateLimit.Limit)
	}
	t.Setenv(EnvironmentVariable, "")
	for text, want := range map[string]string{
		"timeout: {production: 10s}":                       "retry",
		"timeout: {default: 2s, production: soon}":         `timeout.production: "soon"`,
		"timeout: {default: 2s, Production: 3s}":           "invalid environment name",
		"retry: {max_retries: {default: 1, other: -1}}":    "retry.max_retries.other",
		"ingest: {max_batch: {default: 1, production: 2}}": "ingest.max_batch",
	} {
		_, err := load(t, t.TempDir(), text)
		require.Error(t, err, text)
		if want != "retry" {
			require.ErrorContains(t, err, want)
		} else {
			require.ErrorContains(t, err, "there is no default among them")
		}
	}
}

func TestRetryOn(t *testing.T) {
	c, err := load(t, t.TempDir(),
		"retry: {retry_on: [transient, 409]}\nsinks: [{name: a, file: {dir: a}}, {name: b, file: {dir: b}, retry: "+
			"{retry_on: [transient, timeout, overload, unknown, blocked]}}]")
	require.NoError(t, err)
	a, err := c.Sinks[0].Options(SinkParts{})
	require.NoError(t, err)
	want := &dispatch.RetryOn{Codes: []int{409}}
	want.Classes[retry.ClassTransient] = true
	require.Equal(t, want, a.RetryOn)
	b, err := c.Sinks[1].Options(SinkParts{})
	require.NoError(t, err)
	require.Nil(t, b.RetryOn)
	_, err = load(t, t.TempDir(), "retry: {retry_on: [transient, sometimes]}")
	require.ErrorContains(t, err, `retry.retry_on[1]: "sometimes" is neither`)
}

func TestABreakerCanBeOff(t *testing.T) {
	c, err := load(
		t, t.TempDir(), "breaker: off\nsinks: [{name: a, file: {dir: a}}, {name: b, file: {dir: b}, breaker: {rate: off}}]")
	require.NoError(t, err)
	a, err := c.Sinks[0].Options(SinkParts{})
	require.NoError(t, err)
	require.True(t, a.Breaker.Off)
	b, err := c.Sinks[1].Options(SinkParts{})
	require.NoError(t, err)
	require.False(t, b.Breaker.Off, "a sink may switch it on again")
}
