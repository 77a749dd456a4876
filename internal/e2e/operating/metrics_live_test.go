package operating

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/sloengine/sloengine/client"
	"github.com/sloengine/sloengine/internal/e2e/e2etest"
	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/reliability/dlq/dlqtest"
	"github.com/sloengine/sloengine/reliability/metric"
	"github.com/sloengine/sloengine/rules/series"
)

// fullSpec has every kind of SLO, score and limit that brings series of its own. The type
// that %s stands for goes away with a reload.
const fullSpec = `version: sloengine/v1
service: shop
dimensions: [country]
types: [order, payment, work, done, drop.me, sample.me, slow.me, merge.me, audit.login, vip%s]
labels: {team: shop}
slos:
  - name: checkout
    objective: 99.9
    window: 1d
    group_by: [country]
    indicator:
      events: {valid: '{type="order"}', bad: '{outcome="failure"}'}
    cost: {per_bad: 12.50, currency: EUR}
  - name: latency
    objective: 95
    window: 1d
    indicator:
      latency: {valid: '{type="order"}', threshold: 1s}
  - name: volume
    objective: 90
    window: 1d
    indicator:
      throughput: {valid: '{type="order"}', at_least: 1, per: 1m, capacity: 120 per 1m}
  - name: minutes
    objective: 90
    window: 1d
    budgeting: {ratio_timeslices: {slice: 1m}}
    indicator:
      events: {valid: '{type="order"}', bad: '{outcome="failure"}'}
  - name: conversion
    objective: 35
    window: 1d
    indicator:
      ratio: {numerator: '{type="payment"}', denominator: '{type="order"}'}
  - name: apdex
    objective: 85
    window: 1d
    indicator:
      apdex: {valid: '{type="order"}', satisfied: 500ms, tolerating: 2s}
  - name: daily
    objective: 90
    window: 7d
    indicator:
      volume: {valid: '{type="order"}', at_least: 10, per: day, timezone: UTC}
  - name: fulfilment
    objective: 90
    window: 1d
    indicator:
      completion: {started: '{type="work"}', finished: '{type="done"}', key: job, within: 15m}
limits:
  - {name: slow, match: '{type="order"}', warning: 10ms, critical: 5s}
slas:
  - name: all
    score: bands
    components:
      checkout: {slo: minutes, weight: 50}
      latency: {slo: latency, weight: 50, bands: [{p95: 1s, score: 100}, {score: 20}]}
`

const fullSettings = `evaluator: {interval: 200ms}
web: {external_url: "https://slo.example.org"}
public: {subscriptions: true}
notifications: {alertmanagers: [{url: "http://127.0.0.1:1"}]}
reports: [{name: weekly, every: week, to: {folder: reports}}]
auth: {tokens_file: tokens.yaml}
ingest: {allowed_lateness: 1d}
budgets: [{service: "*", bytes: 1GiB}]
limits:
  global: {limit: 600, window: 1d, algorithm: fixed_window, on_exceeded: drop}
  default: {on_exceeded: drop}
  types:
    - {match: drop.me, limit: 5, window: 1d, on_exceeded: drop}
    - {match: gone, limit: 5, window: 1d, on_exceeded: drop}
    - {match: payment, limit: 5, window: 1d, on_exceeded: drop}
    - {match: sample.me, limit: 5, window: 1d, on_exceeded: sample, sample_rate: 0.5}
    - {match: slow.me, limit: 5, window: 1d, on_exceeded: throttle, throttle: 1ms, throttle_max: 3ms}
    - {match: merge.me, limit: 5, window: 1d, on_exceeded: aggregate}
  contexts:
    - {name: user, from: ["attribute:user"], limit: 5, window: 1d, on_exceeded: drop}
  bypass: [{types: [vip], tokens: [all]}, {severities: [past], tokens: [all]}]
  audit: ["audit.*"]
%s
redact:
  - {attributes: [password], action: remove}
dead_letters: {filter: {always_save: [payment, gone]}, replay: {rate: 5000}}
timeout: 1s
retry: {base: 5ms, max_retries: 1, budget: {ratio: 1, min_per_second: 1000, burst: 1000}}
breaker: {consecutive: {failures: 2, open: 300ms}, health_interval: 100ms}
sources: [{name: stream, kafka: {brokers: ["%s"], topics: [stream], refresh: 100ms, fetch: {max_wait: 50ms}}},
    {name: written, prometheus: {receive: true}}]
sinks:
  - {name: archive, file: {dir: archive}}
  - {name: hook, http: {url: "http://%s/in", health_url: "http://%s/health"}, batch: {items: 10, wait: 10ms},
      max_lag_bytes: 64MiB%s}
remote_write: [{name: nowhere, url: "http://127.0.0.1:1/api/v1/write", interval: 1s}]
`

// countedFull is what the test makes happen, under the names that alerts and people look for.
var countedFull = []struct {
	family string
	labels []string
}{
	{"sloengine_ratelimit_hits_total", []string{"layer", "global", "type", ""}},
	{"sloengine_ratelimit_hits_total", []string{"layer", "type", "type", "drop.me"}},
	{"sloengine_ratelimit_hits_total", []string{"layer", "context"}},
	{"sloengine_ratelimit_dropped_total", []string{"type", "drop.me"}},
	{"sloengine_ratelimit_dropped_total", []string{"type", "(default)"}},
	{"sloengine_ratelimit_critical_total", []string{"type", "payment"}},
	{"sloengine_ratelimit_sampled_total", []string{"kept", "true"}},
	{"sloengine_ratelimit_sampled_total", []string{"kept", "false"}},
	{"sloengine_ratelimit_aggregated_total", nil},
	{"sloengine_ratelimit_throttled_total", nil},
	{"sloengine_ratelimit_bypass_total", []string{"reason", "audit"}},
	{"sloengine_ratelimit_bypass_total", []string{"reason", "bypass"}},
	{"sloengine_ratelimit_threshold", []string{"layer", "context"}},
	{"sloengine_redact_values_total", []string{"action", "remove"}},
	{"sloengine_ingest_events_total", []string{"result", "duplicate"}},
	{"sloengine_ingest_rejected_total", []string{"code", "unknown_type"}},
	{"sloengine_dlq_saved_total", []string{"origin", "admission", "reason", "rate_limited"}},
	{"sloengine_dlq_saved_total", []string{"origin", "sink", "reason", "permanent"}},
	{"sloengine_source_events_total", []string{"source", "stream", "result", "accepted"}},
	{"sloengine_source_dead_letters_total", []string{"source", "stream", "reason", "unreadable"}},
	{"sloengine_kafka_source_commits_total", []string{"source", "stream", "result", "ok"}},
	{"sloengine_dlq_replayed_total", []string{"result", "ok"}},
	{"sloengine_dlq_removed_total", []string{"why", "replayed"}},
	{"sloengine_sink_delivered_items_total", []string{"sink", "archive"}},
	{"sloengine_sink_delivered_items_total", []string{"sink", "hook"}},
	{"sloengine_sink_calls_failed_total", []string{"sink", "hook", "class", "transient"}},
	{"sloengine_retry_attempts_total", []string{"target", "hook"}},
	{"sloengine_retry_attempted_items_total", []string{"target", "hook"}},
	{"sloengine_breaker_transitions_total", []string{"breaker", "hook", "to", "open"}},
	{"sloengine_alert_transitions_total", []string{"to", "firing"}},
	{"sloengine_fold_refused_events_total", nil},
	{"sloengine_fold_dead_letters_total", nil},
	{"sloengine_dlq_entries", []string{"origin", "admission"}},
	{"slo_alert_state", []string{"service", "shop"}},
}

// fullEngine is an engine with every part switched on, and a token that may do all.
type fullEngine struct {
	*e2etest.Process
	dir   string
	hook  *e2etest.Receiver
	redis bool

	brokers []string
}

const fullToken = "token-of-the-metrics-test"

func startFull(t *testing.T) *fullEngine {
	t.Helper()
	e := &fullEngine{dir: t.TempDir(), hook: e2etest.NewReceiver(t)}
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "stream"))
	require.NoError(t, err)
	t.Cleanup(cluster.Close)
	e.brokers = cluster.ListenAddrs()
	shared, limit := "", ""
	if _, err := exec.LookPath("redis-server"); err == nil {
		e.redis = true
		shared = "  shared: {redis: true}\nredis: {address: \"" + dlqtest.Redis(t).Addr + "\", timeout: 1s}"
		limit = ", rate_limit: {limit: 1000, shared: true}"
	}
	e2etest.WriteFile(t, e.dir, "tokens.yaml",
		fmt.Sprintf(
			"- {name: all, sha256: %x, expires: 2100-01-01T00:00:00Z, services: [\"*\"], allow: [send, backfill, read, "+
				"operate]}\n", sha256.Sum256([]byte(fullToken))))
	specFile := e2etest.WriteFile(t, e.dir, "spec.yaml", fmt.Sprintf(fullSpec, ", gone"))
	p, ok := e2etest.ServeIn(
		t, e.dir, specFile, fmt.Sprintf(fullSettings, shared, e.brokers[0], e.hook.Address, e.hook.Address, limit))
	require.True(t, ok, p.Log.String())
	e.Process = p
	p.WaitReady(t)
	return e
}

func (e *fullEngine) post(t *testing.T, path, body string, want int) {
	t.Helper()
	media := "application/x-ndjson"
	if !strings.HasPrefix(path, "/api/v1/events") {
		media = "application/json"
	}
	status, answer := e.call(t, http.MethodPost, path, media, body)
	require.Equal(t, want, status, string(answer))
}

func (e *fullEngine) call(t *testing.T, method, path, media, body string) (status int, answer []byte) {
	t.Helper()
	req, err := http.NewRequest(method, e.Base+path, strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+fullToken)
	req.Header.Set("Content-Type", media)
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	answer, err = io.ReadAll(res.Body)
	require.NoError(t, err)
	return res.StatusCode, answer
}

// events sends n events of a type.
func (e *fullEngine) events(t *testing.T, n int, typ, more string, want int) {
	t.Helper()
	var body strings.Builder
	for i := range n {
		fmt.Fprintf(&body, `{"id":"%s-%d","service":"shop","type":%q%s}`+"\n", typ, i, typ, more)
	}
	e.post(t, "/api/v1/events", body.String(), want)
}

func (e *fullEngine) scrape(t *testing.T) map[string]*dto.MetricFamily {
	t.Helper()
	status, text := e.call(t, http.MethodGet, "/metrics", "", "")
	require.Equal(t, http.StatusOK, status, string(text))
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	require.NoError(t, err)
	return families
}

// TestEveryMetricIsDocumentedAndThere runs an engine with everything switched on, gives
// every part something to count, and compares /metrics with the definitions, both ways.
func TestEveryMetricIsDocumentedAndThere(t *testing.T) {
	t.Parallel()
	e := startFull(t)

	e.events(t, 1, "work", `,"attributes":{"job":"j1"}`, 202)

	// The sink refuses for now, then for good, then takes.
	e.hook.Mode.Store(e2etest.Refuses)
	e.events(t, 50, "order", `,"outcome":"failure","duration_ms":1500,"attributes":{"country":"fi","password":"x"}`, 202)
	require.Eventually(t, func() bool {
		return e2etest.Sum(e.scrape(t)["sloengine_breaker_transitions_total"], "breaker", "hook", "to", "open") > 0
	}, testkit.Patience, 50*time.Millisecond, e.Log)
	e.hook.Mode.Store(e2etest.Rejects)
	e.events(t, 20, "order", `,"attributes":{"country":"se"}`, 202) // the same ids: duplicates
	e.events(t, 20, "gone", "", 202)
	require.Eventually(t, func() bool {
		return e2etest.Sum(e.scrape(t)["sloengine_dlq_saved_total"], "reason", "permanent") > 0
	}, testkit.Patience, 50*time.Millisecond, e.Log)
	e.hook.Mode.Store(e2etest.Takes)

	producer, err := kgo.NewClient(kgo.SeedBrokers(e.brokers...), kgo.DefaultProduceTopic("stream"))
	require.NoError(t, err)
	require.NoError(t, producer.ProduceSync(t.Context(), kgo.StringRecord(`{"service":"shop","type":"order"}`),
		kgo.StringRecord("garbage")).FirstErr())
	producer.Close()
	require.Eventually(t, func() bool {
		return e2etest.Sum(e.scrape(t)["sloengine_kafka_source_commits_total"], "result", "ok") > 0
	}, testkit.Patience, 50*time.Millisecond, e.Log)

	// Every limit is exceeded, and some things pass them all.
	e.events(t, 20, "drop.me", "", 202)
	e.events(t, 20, "payment", "", 202)
	e.events(t, 40, "sample.me", "", 202)
	e.events(t, 20, "slow.me", "", 202)
	e.events(t, 20, "merge.me", `,"duration_ms":20`, 202)
	e.events(t, 20, "audit.login", "", 202)
	e.events(t, 20, "vip", "", 202)
	e.events(t, 20, "nosuch", "", 422)
	var burst, past strings.Builder
	for i := range 4000 {
		// one of them too often
		fmt.Fprintf(&burst, `{"service":"shop","type":"order","duration_ms":2,"attributes":{"country":"no","user":"u%d"}}`+
			"\n", max(i-100, 0))
	}
	e.post(t, "/api/v1/events", burst.String(), 202)

	// The type that went away is refused by the fold when its dead letters come back.
	e2etest.WriteFile(t, e.dir, "spec.yaml", fmt.Sprintf(fullSpec, ""))
	e.post(t, "/-/reload", "", 200)
	e.post(t, "/api/v1/dlq/replay", `{"all":true}`, 200)

	// A past in which everything failed makes alerts fire.
	for at := time.Now().Add(-8 * time.Hour); at.Before(time.Now()); at = at.Add(20 * time.Second) {
		fmt.Fprintf(&past,
			`{"id":"past-%d","service":"shop","type":"order","time":%d,"outcome":"failure","severity":"past",`+
				`"attributes":{"country":"fi"}}`+"\n", at.Unix(), at.Unix())
	}
	e.post(t, "/api/v1/events?backfill=true", past.String(), 202)
	// Somebody answers an incident.
	status, answer := e.call(t, http.MethodPost, "/api/v1/incidents", "application/json", `{"title":"by hand","by":"Ann"}`)
	require.Equal(t, http.StatusCreated, status, string(answer))
	var opened struct{ ID string }
	require.NoError(t, json.Unmarshal(answer, &opened))
	e.post(t, "/api/v1/incidents/"+opened.ID+"/ack", `{"by":"Ann","team":"ops"}`, 200)

	skip := map[string]string{
		"The Go client":           "its metrics are those of applications",
		"Kafka clients":           "package kafkaclient looks for them with a broker",
		"RabbitMQ clients":        "package amqpclient looks for them with a broker",
		"RabbitMQ queues":         "package rabbitmq looks for them with a broker",
		"Outbox sources":          "package outbox looks for them with a database",
		"View of several engines": "TestView looks for them",
		"Outbox relay":            "package relay looks for them",
	}
	// A forecast needs a week of hours, and the busiest hour of the week too.
	elsewhere := map[string]string{}
	for _, d := range []*metric.Family{series.ForecastRemaining, series.ForecastExhausted, series.ForecastExhaustion,
		series.CapacityPeak, series.CapacityReached} {
		elsewhere[d.Name] = "TestForecastSeries of package web looks for them"
	}
	elsewhere[metric.UncountedEvents.Name] = "TestUnknownTypesAreAdmitted looks for it"
	if !e.redis {
		t.Log("redis-server is not installed: the families of Redis and of what is shared through it are not looked for")
		skip["Redis"], skip["Shared rate limits of sinks"] = "not installed", "not installed"
	}
	var missing []string
	var families map[string]*dto.MetricFamily
	done := func() bool {
		families, missing = e.scrape(t), nil
		for _, p := range e2etest.MetricParts() {
			if skip[p.Title] != "" {
				continue
			}
			for _, d := range p.Families {
				if families[d.Name] == nil && elsewhere[d.Name] == "" {
					missing = append(missing, d.Name)
				}
			}
		}
		for _, want := range countedFull {
			if families[want.family] != nil && e2etest.Sum(families[want.family], want.labels...) <= 0 {
				missing = append(missing, fmt.Sprint(want.family, want.labels))
			}
		}
		return len(missing) == 0
	}
	require.NotContains(t, e.Log.String(), "gather metrics", "a family has two sources, or cannot be read")
	for deadline := time.Now().Add(testkit.Patience); !done() && time.Now().Before(deadline); {
		testkit.Pause(100 * time.Millisecond)
	}
	require.Empty(t, missing, "defined and not on /metrics, or made to happen and not counted\n%s", e.Log)

	for _, name := range slices.Sorted(maps.Keys(families)) {
		f := families[name]
		if strings.HasPrefix(name, "go_") || strings.HasPrefix(name, "process_") || strings.HasPrefix(name, "promhttp_") {
			continue
		}
		if d := e2etest.DocOf(name); d == nil {
			t.Errorf("%s is on /metrics and not defined", name)
		} else {
			checkFamily(t, d, f)
		}
	}

	e.Stop(t)
}

// checkFamily compares a family that was scraped with its definition.
func checkFamily(t *testing.T, d *metric.Family, f *dto.MetricFamily) {
	t.Helper()
	if got := metric.Type(strings.ToLower(f.GetType().String())); got != d.Type {
		t.Errorf("%s is a %s on /metrics, and defined as a %s", d.Name, got, d.Type)
	}
	if f.GetHelp() != d.Help {
		t.Errorf("%s has the help %q on /metrics, and %q in its definition", d.Name, f.GetHelp(), d.Help)
	}
	for _, m := range f.GetMetric() {
		have := map[string]string{}
		for _, l := range m.GetLabel() {
			have[l.GetName()] = l.GetValue()
		}
		for _, l := range d.Labels {
			v, ok := have[l.Name]
			if !ok {
				t.Errorf("%s lacks the label %s: %v", d.Name, l.Name, have)
			} else if l.Values != nil && !slices.Contains(l.Values, v) {
				t.Errorf("%s has %s=%q, which its definition lacks", d.Name, l.Name, v)
			}
			delete(have, l.Name)
		}
		if len(have) > 0 && d.Extra == "" {
			t.Errorf("%s has labels that its definition lacks: %v", d.Name, have)
		}
		if h := m.GetHistogram(); h != nil && d.Buckets != nil {
			var bounds []float64
			for _, b := range h.GetBucket() {
				if !math.IsInf(b.GetUpperBound(), 1) {
					bounds = append(bounds, b.GetUpperBound())
				}
			}
			if !slices.Equal(bounds, d.Buckets) {
				t.Errorf("%s has the buckets %v, and %v in its definition", d.Name, bounds, d.Buckets)
			}
		}
	}
}

// TestClientMetricsAreDocumented compares the families of the client with their definitions, with all values of their
// labels.
func TestClientMetricsAreDocumented(t *testing.T) {
	t.Parallel()
	set := metrics.NewSet()
	client.NewMetrics(set)
	parts := metric.Parts()
	clientPart := parts[len(parts)-1]
	require.Equal(t, "The Go client", clientPart.Title)
	var want []string
	for _, d := range clientPart.Families {
		values := [][]string{nil}
		for _, l := range d.Labels {
			var longer [][]string
			for _, v := range values {
				for _, more := range l.Values {
					longer = append(longer, append(slices.Clone(v), more))
				}
			}
			values = longer
		}
		for _, v := range values {
			want = append(want, d.Series(v...))
		}
	}
	require.ElementsMatch(t, want, set.ListMetricNames())
}
