package config

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/ingest/redact"
	"github.com/sloengine/sloengine/ingest/sink"
	"github.com/sloengine/sloengine/reliability/breaker"
	"github.com/sloengine/sloengine/reliability/bulkhead"
	"github.com/sloengine/sloengine/reliability/dispatch"
	"github.com/sloengine/sloengine/reliability/dlq"
	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/reliability/ratelimit"
	"github.com/sloengine/sloengine/reliability/ratelimit/shared"
	"github.com/sloengine/sloengine/reliability/redisconn"
	"github.com/sloengine/sloengine/reliability/retry"
	"github.com/sloengine/sloengine/reliability/wal"
)

func mustLoad(t testing.TB, dir, text string) *Config {
	t.Helper()
	c, err := load(t, dir, text)
	require.NoError(t, err)
	return &c
}

func TestEnvironments(t *testing.T) {
	const text = `
environment: staging
limits:
  global: {limit: {production: 10000, default: 100}, window: {staging: 2s, default: 1s}, on_exceeded: drop}
  types: [{match: a, sample_rate: {default: 0.5, staging: 0.25, production: 0.1}}]
`
	dir := t.TempDir()
	values := func() (int64, time.Duration, float64) {
		l := mustLoad(t, dir, text).Limits.RateConfig(false, nil)
		require.Equal(t, ratelimit.OnExceededDrop, *l.Global.OnExceeded)
		return *l.Global.Limit, *l.Global.Window, *l.Types[0].SampleRate
	}
	limit, window, rate := values()
	require.Equal(t, int64(100), limit)
	require.Equal(t, 2*time.Second, window)
	require.InDelta(t, 0.25, rate, 0)

	t.Setenv(EnvironmentVariable, "production")
	limit, window, rate = values()
	require.Equal(t, int64(10_000), limit)
	require.Equal(t, time.Second, window)
	require.InDelta(t, 0.1, rate, 0)
	require.Equal(t, environment("production"), mustLoad(t, dir, text).Environment)
	require.Equal(t, environment("production"), mustLoad(t, dir, "").Environment)
}

// A limit that is off in one environment admits everything there, whatever its window.
func TestLimitOff(t *testing.T) {
	const text = `
limits:
  global: off
  types: [{match: a, limit: {production: 7, default: off}, window: 1m, on_exceeded: drop}]
`
	rule := func() ratelimit.Status {
		policy, err := ratelimit.Compile(mustLoad(t, t.TempDir(), text).Limits.RateConfig(false, nil))
		require.NoError(t, err)
		l, err := ratelimit.New(ratelimit.Options{})
		require.NoError(t, err)
		l.SetPolicy(policy)
		for _, s := range l.Status() {
			if s.Rule == "a" {
				return s
			}
		}
		return ratelimit.Status{}
	}
	require.Zero(t, rule(), "not among the limits")
	t.Setenv(EnvironmentVariable, "production")
	require.InDelta(t, 7.0/60, rule().PerSecond, 1e-9)
	_, err := load(t, t.TempDir(), "limits: {types: [{match: a, limit: none}]}")
	require.ErrorContains(t, err, "want a whole number or off")
}

func TestAnchors(t *testing.T) {
	c := mustLoad(t, t.TempDir(), `
retry: &patient {max_retries: 9, cap: 30s}
sinks:
  - {name: a, file: {dir: a}, retry: {<<: *patient, cap: 1m}, timeout: 1s}
  - {name: b, file: {dir: b}, breaker: &off {rate: off}}
  - {name: c, file: {dir: c}, breaker: *off}
`)
	require.Equal(t, retries(9), c.Sinks[0].Retry.MaxRetries)
	require.Equal(t, time.Minute, c.Sinks[0].Retry.Cap)
	require.Equal(t, 30*time.Second, c.Sinks[1].Retry.Cap)
	require.True(t, c.Sinks[1].Breaker.V.Rate.Off)
	require.True(t, c.Sinks[2].Breaker.V.Rate.Off)
	require.False(t, c.Breaker.V.Rate.Off)
}

func TestRatePolicy(t *testing.T) {
	c := mustLoad(t, t.TempDir(), "")
	policy, err := c.RatePolicy(nil)
	require.NoError(t, err)
	require.Nil(t, policy, "without the section nothing is limited")

	c = mustLoad(t, t.TempDir(), `
auth: {tokens_file: tokens.yaml}
redis: {address: "127.0.0.1:6379"}
limits:
  global: off
  default: {limit: 7}
  presets: {slow: {throttle: 5ms, throttle_max: 2s, on_exceeded: throttle}}
  types:
    - {match: "pay.*", preset: slow, limit: 5, window: 1m, algorithm: token_bucket, burst: 9}
    - {match: pay.retry, extends: "pay.*", on_exceeded: aggregate}
  contexts: [{name: user, from: ["attribute:user_id", "header: X-User-Id", client_ip, token], limit: 3}]
  bypass: [{types: ["x*"], severities: [critical], attributes: {tier: gold, region: [a, b]}, tokens: [shop]}]
  audit: ["audit.*"]
  respect_dlq_filter: false
  max_contexts: 5000
  shared: {redis: true, fallback: 0.25}
`)
	policy, err = c.RatePolicy(nil)
	require.NoError(t, err)
	require.NotNil(t, policy)
	limit, five, nine, three, minute := int64(7), int64(5), int64(9), int64(3), time.Minute
	step, longest, bucket := 5*time.Millisecond, 2*time.Second, ratelimit.TokenBucket
	throttle, aggregate := ratelimit.OnExceededThrottle, ratelimit.OnExceededAggregate
	got := c.Limits.RateConfig(true, nil)
	got.ValidName, got.ValidAttribute = nil, nil // functions
	require.Equal(t, ratelimit.Config{
		Authentication: true,
		Default:        ratelimit.Values{Limit: &limit},
		Presets: []ratelimit.Preset{
			{Name: "slow", Values: ratelimit.Values{ThrottleDelay: &step, ThrottleMaxWait: &longest, OnExceeded: &throttle}}},
		Types: []ratelimit.TypeRule{
			{Match: "pay.*", Preset: "slow",
				Values: ratelimit.Values{Limit: &five, Window: &minute, Algorithm: &bucket, Burst: &nine}},
			{Match: "pay.retry", Extends: "pay.*", Values: ratelimit.Values{OnExceeded: &aggregate}},
		},
		Contexts: []ratelimit.ContextRule{{Name: "user", Values: ratelimit.Values{Limit: &three}, From: []ratelimit.Source{
			{Kind: ratelimit.FromAttribute, Name: "user_id"}, {Kind: ratelimit.FromHeader, Name: "X-User-Id"},
			{Kind: ratelimit.FromClientIP}, {Kind: ratelimit.FromToken},
		}}},
		Bypass: []ratelimit.BypassRule{{Types: []string{"x*"}, Severities: []string{"critical"},
			Attributes: map[string][]string{"tier": {"gold"}, "region": {"a", "b"}}, Tokens: []string{"shop"}}},
		Audit: []string{"audit.*"},
	}, got)
	require.False(t, c.Limits.RespectDLQFilter)
	require.Equal(t, ratelimit.TableOptions{MaxCounters: 5000, Scale: 0.25}, c.RateTable(true, nil))
	require.Equal(t, ratelimit.TableOptions{MaxCounters: 5000}, c.RateTable(false, nil))
}

// With the default off, only what has a rule is limited.
func TestDefaultLimitOff(t *testing.T) {
	c := mustLoad(t, t.TempDir(), "limits: {global: off, default: off, types: [{match: a, limit: 2, on_exceeded: drop}]}")
	policy, err := c.RatePolicy(nil)
	require.NoError(t, err)
	limiter, err := ratelimit.New(ratelimit.Options{Policy: policy})
	require.NoError(t, err)
	passed := map[string]int{}
	for _, typ := range []string{"a", "b"} {
		var tickets ratelimit.Tickets
		for range 5000 {
			policy.Add(&ratelimit.Caller{}, &ratelimit.Subject{Type: []byte(typ)}, &tickets)
		}
		require.NoError(t, limiter.Decide(context.Background(), time.Now(), []*ratelimit.Tickets{&tickets}))
		for i := range tickets.List {
			if tickets.List[i].Verdict.Action == ratelimit.Pass {
				passed[typ]++
			}
		}
	}
	require.Equal(t, map[string]int{"a": 2, "b": 5000}, passed)
}

func TestSinkOptions(t *testing.T) {
	dir := t.TempDir()
	secretsIn(t, dir)
	c := mustLoad(t, dir, `
redis: {address: "127.0.0.1:6379"}
timeout: 7s
retry: {max_retries: 0, budget: {min_per_second: 0}}
sinks:
  - {name: plain, file: {dir: plain}}
  - name: full
    http: {url: "https://example.org/in", method: PUT, format: ndjson, gzip: true, headers: {X-A: b},
        header_files: {Authorization: webhook.auth}, secret_file: webhook.key, tls: {ca_file: webhook-ca.pem}}
    start: newest
    batch: {items: 10, bytes: 2KiB, wait: 0s}
    retry:
      {max_retries: unlimited, base: 1s, cap: 2s, jitter: plusminus, spread: 1, max_elapsed: 1h, max_retry_after: 2m,
       budget: {ratio: 0.5, min_per_second: 2, burst: 3}, rate_limit: {limit: 4, interval: 5s,
           on_exceeded: dead_letter}, staged: {items: 6, interval: 7s, growth: 8}}
    breaker: {consecutive: {failures: 9, open: 10s, probes: 11}, rate: {threshold: 0.12, min_calls: 13, window: 14s,
        open: 15s, probes: 17, successes: 16}, probe_timeout: 18s, health_interval: 19s}
    bulkhead: {concurrency: 20, max_wait: 21s}
    timeout: 22s
    ttl: 23s
    max_lag_bytes: 24KiB
    rate_limit: {limit: 6, window: 2s, unit: events, wait: 9s, shared: true, fallback: 0.5}
  - {name: limited, file: {dir: limited, max_bytes: 1MiB, max_age: 1h, keep: 3, fsync: batch}, retry: {staged: off},
      rate_limit: {limit: 600, window: 1m}}
`)
	var asked SharedSinkLimit
	turns, err := dispatch.NewLocalLimit(1, 1, 0)
	require.NoError(t, err)
	parts := SinkParts{FS: fsys.OS(), Shared: func(l SharedSinkLimit) (dispatch.Limiter, error) {
		asked = l
		return turns, nil
	}}
	var got []dispatch.SinkOptions
	for i := range c.Sinks {
		o, err := c.Sinks[i].Options(parts)
		require.NoError(t, err)
		require.Equal(t, []string{"file", "http", "file"}[i], c.Sinks[i].Kind())
		if o.Open != nil {
			require.NoDirExists(t, filepath.Join(dir, o.Name), "it is opened when its lane begins")
			s, err := o.Open()
			require.NoError(t, err)
			require.NoError(t, s.(*sink.File).Close())
			require.DirExists(t, filepath.Join(dir, o.Name))
		} else {
			s := o.Sink.(*sink.HTTP)
			require.NoError(t, s.Close())
			require.False(t, s.HealthCloses())
		}
		o.Sink, o.Open = nil, nil
		got = append(got, o)
	}
	require.Equal(t, dispatch.SinkOptions{
		Name: "plain", MaxLagBytes: 4 << 30, BatchItems: 500, BatchBytes: 1 << 20, BatchWait: 100 * time.Millisecond,
		Timeout: 7 * time.Second,
		Retry: retry.Options{Base: 100 * time.Millisecond, Cap: 5 * time.Second, Jitter: retry.Full, Spread: 0.5,
			MaxRetries: retry.Never, MaxRetryAfter: time.Minute},
		Budget:     &retry.BudgetOptions{Ratio: 0.2, MinPerSecond: -1, Burst: 10},
		RetryLimit: &retry.LimitOptions{PerInterval: 100, Interval: time.Second, OnExceed: retry.Delay},
		Staged:     dispatch.Staged{Items: 100, Interval: time.Second, Growth: 2},
		Breaker: breaker.Options{
			Consecutive: breaker.Consecutive{Failures: 5, Open: time.Minute, Probes: 3},
			Rate: breaker.Rate{Threshold: 0.5, MinCalls: 10, Window: time.Minute, Open: 30 * time.Second,
				Probes: 3, Successes: 2},
			ProbeTimeout: 5 * time.Second, HealthInterval: 5 * time.Second,
		},
		Bulkhead: bulkhead.Options{Concurrency: 4},
	}, got[0])
	require.Equal(t, dispatch.SinkOptions{
		Name: "full", Start: dispatch.Newest, BatchItems: 10, BatchBytes: 2048, BatchWait: -1, Timeout: 22 * time.Second,
		TTL: 23 * time.Second, MaxLagBytes: 24 << 10,
		Retry: retry.Options{Base: time.Second, Cap: 2 * time.Second, Jitter: retry.PlusMinus, Spread: 1,
			MaxRetries: retry.Unlimited, MaxElapsed: time.Hour, MaxRetryAfter: 2 * time.Minute},
		Budget:     &retry.BudgetOptions{Ratio: 0.5, MinPerSecond: 2, Burst: 3},
		RetryLimit: &retry.LimitOptions{PerInterval: 4, Interval: 5 * time.Second, OnExceed: retry.DeadLetter},
		Staged:     dispatch.Staged{Items: 6, Interval: 7 * time.Second, Growth: 8},
		Breaker: breaker.Options{
			Consecutive: breaker.Consecutive{Failures: 9, Open: 10 * time.Second, Probes: 11},
			Rate: breaker.Rate{Threshold: 0.12, MinCalls: 13, Window: 14 * time.Second, Open: 15 * time.Second,
				Probes: 17, Successes: 16},
			ProbeTimeout: 18 * time.Second, HealthInterval: 19 * time.Second,
		},
		Bulkhead:  bulkhead.Options{Concurrency: 20, MaxWait: 21 * time.Second},
		RateLimit: turns, LimitItems: true,
	}, got[1])
	require.Equal(t, SharedSinkLimit{"full", 6, 2 * time.Second, 9 * time.Second, 0.5}, asked)
	require.True(t, got[2].Staged.Off)
	require.IsType(t, &dispatch.LocalLimit{}, got[2].RateLimit)
	require.False(t, got[2].LimitItems)

	require.NoError(t, os.Remove(filepath.Join(dir, "webhook.key")))
	_, err = c.Sinks[1].Options(parts)
	require.ErrorContains(t, err, "sink full: http sink: secret: ")
}

type noRecords struct{}

func (noRecords) NewReader(uint64) (*wal.Reader, error)    { return nil, io.EOF }
func (noRecords) Wait(ctx context.Context, _ uint64) error { <-ctx.Done(); return ctx.Err() }
func (noRecords) FirstSeq() uint64                         { return 1 }
func (noRecords) DurableSeq() uint64                       { return 0 }
func (noRecords) SizeFrom(uint64) int64                    { return 0 }

type nowhere struct{}

func (nowhere) Send(context.Context, []dispatch.Item) dispatch.Result { return dispatch.Result{} }

// What the settings give by default is what a dispatcher takes by itself, as far as it
// shows, and the packages below take it.
func TestSinkDefaultsAreThoseOfThePackages(t *testing.T) {
	d, err := dispatch.New(dispatch.Options{
		FS: fsys.OS(), Dir: t.TempDir(), Source: noRecords{}, Split: func(*wal.Record, func(dispatch.Item)) error {
			return nil
		},
		DeadLetter: func(context.Context, []dispatch.DeadLetter) error { return nil },
	})
	require.NoError(t, err)
	p := defaultPolicies()
	ours := dispatch.SinkOptions{Name: "b", Sink: nowhere{}}
	p.fill(&ours)
	require.NoError(t, d.Add(dispatch.SinkOptions{Name: "a", Sink: nowhere{}}))
	require.NoError(t, d.Add(ours))
	s := d.Status()
	require.Len(t, s, 2)
	s[1].Bulkhead.Name = s[0].Bulkhead.Name
	require.Equal(t, s[0].Bulkhead, s[1].Bulkhead)
	require.Equal(t, s[0].Budget.Left, s[1].Budget.Left)
	require.Equal(t, s[0].RetryLimit, s[1].RetryLimit)

	fixed := func() float64 { return 0.999999 }
	ours.Retry.Rand = fixed
	a, err := retry.New(retry.Options{Rand: fixed})
	require.NoError(t, err)
	b, err := retry.New(ours.Retry)
	require.NoError(t, err)
	for n := range 12 {
		require.Equal(t, a.Delay(n, 0), b.Delay(n, 0))
	}
}

// The settings are an operator's, but a typing error must not end in a panic.
func FuzzSettings(f *testing.F) {
	for _, c := range wrongSettings {
		f.Add(c.text)
	}
	example, err := os.ReadFile(exampleFile)
	require.NoError(f, err)
	f.Add(uncommented(string(example)))
	f.Add("retry: &a {base: 1s, <<: *a}")
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Contains(text, "file") { // may name any
			return
		}
		_, err := Read("e.yaml", []byte(text))
		if err == nil {
			return
		}
		for _, line := range strings.Split(err.Error(), "\n") {
			require.True(t, strings.HasPrefix(line, "e.yaml:"), "%q", err.Error())
		}
	})
}

func TestRedisOptions(t *testing.T) {
	dir := t.TempDir()
	secretsIn(t, dir)
	o, err := mustLoad(t, dir, "").RedisOptions()
	require.NoError(t, err)
	require.Nil(t, o)

	c := mustLoad(t, dir,
		"redis: {address: 'redis.internal:6380', username: u, password_file: redis.password, db: 3, timeout: 200ms, "+
			"tls: {ca_file: redis-ca.pem}}\ndead_letters: {storage: redis}")
	o, err = c.RedisOptions()
	require.NoError(t, err)
	require.Equal(t, []string{"redis.internal:6380"}, o.Addrs)
	require.Equal(t, 3, o.DB)
	var tuned redisconn.Options
	shared.Tune(&tuned, 200*time.Millisecond)
	require.Equal(t, tuned.Timeout, o.Timeout)
	require.Equal(t, tuned.Retries, o.Retries)
	require.Equal(t, "redis.internal", o.TLS.ServerName)
	require.NotNil(t, o.TLS.RootCAs)
	user, password, err := o.Login()
	require.NoError(t, err)
	require.Equal(t, "u/hush", user+"/"+password)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "redis.password"), []byte("new"), 0o600))
	_, password, err = o.Login()
	require.NoError(t, err)
	require.Equal(t, "new", password, "it is read again")
	require.NoError(t, os.Remove(filepath.Join(dir, "redis.password")))
	_, _, err = o.Login()
	require.ErrorContains(t, err, "redis.password_file: ")

	client := redisconn.New(redisconn.Options{Addrs: []string{"127.0.0.1:1"}})
	defer client.Close()
	store, err := c.DeadLetterStore(dir, client, nil)
	require.NoError(t, err)
	require.IsType(t, &dlq.Redis{}, store)
	require.Equal(t, 7*24*time.Hour, c.RetentionOptions(store).MaxAge)
	require.Equal(t, "{sloengine:dlq}", c.RedisKeys("dlq"))
	for settings, want := range map[string]redisconn.Options{
		"cluster: true, addresses: ['a:1', 'b:2'], pool_size: 7": {Addrs: []string{"a:1", "b:2"},
			Cluster: true, PoolSize: 7},
		"sentinel_master: m, addresses: ['a:1'], sentinel_username: s, sentinel_password_file: webhook.key, db: 2": {
			Addrs: []string{"a:1"}, Master: "m", DB: 2},
	} {
		o, err := mustLoad(t, dir, "redis: {"+settings+"}").RedisOptions()
		require.NoError(t, err)
		want.Name = o.Name
		shared.Tune(&want, 100*time.Millisecond)
		if want.Master != "" {
			want.Sentinel.User, want.Sentinel.Password = "s", strings.Repeat("s", 32)
		}
		require.Equal(t, want, *o)
	}
	plain := mustLoad(t, dir, "redis: {address: '[::1]:6379', tls: {}}")
	o, err = plain.RedisOptions()
	require.NoError(t, err)
	require.Equal(t, "::1", o.TLS.ServerName)
}

func TestDeadLetterOptions(t *testing.T) {
	dir := t.TempDir()
	c := mustLoad(t, dir, `
dead_letters:
  dir: dead
  retention: 3d
  clean: "0 4 * * *"
  timezone: Europe/Moscow
  filter: {never_save: ["debug.*"], always_save: ["payment.*"], save_if: 'failure.attempts > 2', default: drop}
  replay: {schedule: "@hourly", batch: 7, max_age: 1d, rate: 0.5, stop_after: 2}
`)
	store, err := c.DeadLetterStore(t.TempDir(), nil, nil)
	require.NoError(t, err)
	defer store.Close()
	require.DirExists(t, filepath.Join(dir, "dead"))
	zone, err := time.LoadLocation("Europe/Moscow")
	require.NoError(t, err)
	require.Equal(t, dlq.ReplayOptions{Store: store, Batch: 7, MaxAge: 24 * time.Hour, Rate: 0.5, StopAfter: 2,
		Cron: "@hourly", Zone: zone}, c.ReplayOptions(store, nil))
	require.Equal(t, dlq.RetentionOptions{Store: store, MaxAge: 72 * time.Hour, Cron: "0 4 * * *", Zone: zone},
		c.RetentionOptions(store))
	_, err = dlq.NewReplayer(c.ReplayOptions(store, nil))
	require.NoError(t, err)
	_, err = dlq.NewRetention(c.RetentionOptions(store))
	require.NoError(t, err)

	filter, err := c.DeadLetterFilter(dlq.NewMetrics(metrics.NewSet()))
	require.NoError(t, err)
	for typ, want := range map[string]bool{"debug.x": false, "payment.x": true, "other": false} {
		require.Equal(t, want, filter.ShouldSave(&dlq.Subject{Type: typ}), typ)
	}
	require.True(t, filter.ShouldSave(&dlq.Subject{Type: "other", Attempts: 3}))

	data := t.TempDir()
	file, err := mustLoad(t, dir, "").DeadLetterStore(data, nil, nil)
	require.NoError(t, err)
	defer file.Close()
	require.DirExists(t, filepath.Join(data, "dead-letters"))
	memory, err := mustLoad(t, dir, "dead_letters: {storage: memory}").DeadLetterStore(data, nil, nil)
	require.NoError(t, err)
	require.IsType(t, &dlq.Memory{}, memory)
}

func TestRedactorOfSettings(t *testing.T) {
	dir := t.TempDir()
	secretsIn(t, dir)
	c := mustLoad(t, dir,
		"redact: [{attributes: [user], action: hash, key_file: redact.key}, {attributes: ['*'], types: ['log*'], "+
			"action: mask, pattern: '(\\d)\\d+', replace: '${1}..'}]")
	r, err := c.Redactor(redact.NewMetrics(metrics.NewSet()))
	require.NoError(t, err)
	e := event.Event{ID: "1", Time: time.Unix(1, 0), Service: "s", Type: "login",
		Attributes: []event.Attr{{Name: "card", Value: "1234 x"}, {Name: "user", Value: "jane"}}}
	raw, err := r.Append(nil, event.AppendBinary(nil, &e))
	require.NoError(t, err)
	var v event.View
	_, err = v.Parse(raw)
	require.NoError(t, err)
	card, _ := v.Attr("card")
	require.Equal(t, "1.. x", string(card))
	user, _ := v.Attr("user")
	require.NotEqual(t, "jane", string(user))

	require.NoError(t, os.Remove(filepath.Join(dir, "redact.key")))
	_, err = c.Redactor(nil)
	require.ErrorContains(t, err, "redact[0].key_file: ")
}

func TestChangedSections(t *testing.T) {
	dir := t.TempDir()
	a := mustLoad(t, dir, "limits: {global: {limit: 5}}\nsinks: [{name: a, file: {dir: x}}]")
	require.Empty(t, a.Changed(mustLoad(t, dir, "sinks: [{name: a, file: {dir: x}}]\nlimits: {global: {limit: 5}}")))
	b := mustLoad(
		t, dir, "limits: {global: {limit: 6}}\nsinks: [{name: a, file: {dir: x}, ttl: 1h}]\nlog: {segment: 1MiB}")
	require.Equal(t, "log limits sinks", strings.Join(a.Changed(b), " "))
}
