package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// keyEffects names for each key of engine.yaml the test that shows what it does, as a
// folder and the name of the test. A * stands for one part of a key.
var keyEffects = map[string]string{
	"environment":             "cmd/sloengine TestEnvironments",
	"ingest.allowed_lateness": "cmd/sloengine TestProcessSettings", "ingest.max_future": "cmd/sloengine TestProcessSettings",
	"ingest.max_body": "cmd/sloengine TestProcessSettings", "ingest.max_event": "cmd/sloengine TestProcessSettings", "ingest.max_batch": "cmd/sloengine TestProcessSettings",
	"ingest.queue": "ingest TestOverload", "ingest.bodies_memory": "ingest TestNoMemoryLeftIs503",
	"ingest.deadline": "ingest TestStalledDiskIsA504", "ingest.deadline_reserve": "ingest TestDeadlineForTheCommitter",
	"known_ids.memory": "ingest TestIDTableStaysInBudget", "known_ids.max_age": "cmd/sloengine TestProcessSettings",
	"parked.memory": "cmd/sloengine TestEvictedCountsAgain", "log.segment": "ingest TestLogIsTruncated",
	"checkpoint.interval": "cmd/sloengine TestProcessSettings", "checkpoint.log": "ingest TestLogIsTruncated",
	"evaluator.interval": "cmd/sloengine TestReload", "disk.low_water": "ingest TestLowWater",
	"auth.tokens_file": "cmd/sloengine TestTokens",
	"web.config_file":  "cmd/sloengine TestTLS", "web.external_url": "cmd/sloengine TestProcessSettings", "web.pprof": "cmd/sloengine TestProcessSettings",
	"web.allowed_hosts": "cmd/sloengine TestLoopbackServesLoopbackNamesOnly", "web.max_connections": "cmd/sloengine TestConnectionsLeaveTheLogItsDescriptors",
	"web.responses_memory": "cmd/sloengine TestReadersCannotExhaustMemory",
	"alerts.*":             "cmd/sloengine TestAlertThresholdsAreSettings",

	"redis.addresses": "cmd/sloengine TestRedisSentinel", "redis.sentinel_*": "cmd/sloengine TestRedisSentinel", "redis.cluster": "cmd/sloengine TestRedisCluster",
	"redis.address": "cmd/sloengine TestDeadLettersSharedInRedis", "redis.prefix": "cmd/sloengine TestRedisOptions", "redis.timeout": "cmd/sloengine TestRedisOptions",
	"redis.pool_size": "cmd/sloengine TestRedisOptions", "redis.username": "cmd/sloengine TestRedisOptions", "redis.password_file": "cmd/sloengine TestRedisOptions",
	"redis.db": "cmd/sloengine TestRedisOptions", "redis.tls.*": "cmd/sloengine TestRedisOptions",

	"limits.*.limit": "reliability/ratelimit TestPrecedence", "limits.*.window": "reliability/ratelimit TestPrecedence",
	"limits.*.algorithm": "reliability/ratelimit TestJudgeChargesNothing", "limits.*.burst": "reliability/ratelimit TestBurst",
	"limits.*.on_exceeded": "ingest TestStrategiesLoseNothingSilently", "limits.*.sample_rate": "reliability/ratelimit TestSampling",
	"limits.*.throttle": "reliability/ratelimit TestThrottle", "limits.*.throttle_max": "reliability/ratelimit TestThrottle",
	"limits.*.aggregate_fields": "ingest/event TestMergeFields",
	"limits.types.match":        "reliability/ratelimit TestMatchOrder", "limits.types.preset": "reliability/ratelimit TestPresets", "limits.types.extends": "reliability/ratelimit TestPrecedence",
	"limits.contexts.name": "reliability/ratelimit TestKeys", "limits.contexts.from": "reliability/ratelimit TestContextSources", "limits.contexts.extractor": "cmd/sloengine TestLimitExpressions",
	"limits.bypass.*": "reliability/ratelimit TestBypass", "limits.bypass_if": "cmd/sloengine TestLimitExpressions", "limits.audit": "reliability/ratelimit TestAudit",
	"limits.respect_dlq_filter": "cmd/sloengine TestRedisCluster", "limits.aggregate_window": "ingest TestFloodOfSingleEventsIsMerged",
	"limits.max_contexts": "reliability/ratelimit TestMemoryBound", "limits.shared.redis": "cmd/sloengine TestRedisCluster", "limits.shared.fallback": "cmd/sloengine TestRedisSentinel",

	"redact.*":               "cmd/sloengine TestRedactorOfSettings",
	"dead_letters.*":         "cmd/sloengine TestDeadLetterOptions",
	"dead_letters.storage":   "cmd/sloengine TestDeadLettersSharedInRedis",
	"dead_letters.dir":       "cmd/sloengine TestDeadLetterOptions",
	"dead_letters.max_bytes": "reliability/dlq TestFull", "dead_letters.segment": "reliability/dlq TestFile",
	"dead_letters.filter.*": "reliability/dlq TestFilter", "dead_letters.replay.*": "reliability/dlq TestReplayBySchedule",
	"retry.*": "cmd/sloengine TestSinkOptions", "retry.*.*": "cmd/sloengine TestSinkOptions",
	"breaker.*": "cmd/sloengine TestSinkOptions", "breaker.*.*": "cmd/sloengine TestSinkOptions",
	"bulkhead.*": "cmd/sloengine TestSinkOptions", "timeout": "cmd/sloengine TestSinkOptions",
	"sinks.*": "cmd/sloengine TestSinkOptions", "sinks.*.*": "cmd/sloengine TestSinkOptions", "sinks.*.*.*": "cmd/sloengine TestSinkOptions",
}

// leafKeys are the keys of settings, with the fields that hold them.
func leafKeys(prefix string, t reflect.Type, found func(key, field string)) {
	t = elem(t)
	for i := range t.NumField() {
		f := t.Field(i)
		key := f.Tag.Get("yaml")
		if f.Anonymous && key == "" {
			leafKeys(prefix, f.Type, found)
			continue
		}
		key = child(prefix, key)
		if e := elem(f.Type); e.Kind() == reflect.Struct && e != reflect.TypeFor[limitSource]() {
			leafKeys(key, f.Type, found)
		} else {
			found(key, f.Name)
		}
	}
}

// Every key of engine.yaml is held to an effect: it has a row above, of a test that is
// there, and the program reads its field. A new key without both fails.
func TestEveryKeyHasAnEffect(t *testing.T) {
	tests, read := testNames(t), fieldsRead(t)
	used := map[string]bool{}
	leafKeys("", reflect.TypeFor[config](), func(key, field string) {
		row, exact := "", false
		for pattern := range keyEffects {
			if ok, err := path.Match(strings.ReplaceAll(pattern, ".", "/"), strings.ReplaceAll(key, ".", "/")); err != nil || !ok {
				continue
			}
			if used[pattern] = true; pattern == key || !exact && len(pattern) > len(row) {
				row, exact = pattern, pattern == key
			}
		}
		if row == "" {
			t.Errorf("%s has no row in keyEffects: name the test that shows its effect", key)
		}
		if !read[field] {
			t.Errorf("%s: nothing but its checks reads the field %s", key, field)
		}
	})
	for pattern, proof := range keyEffects {
		if !used[pattern] {
			t.Errorf("%s is no key any more", pattern)
		}
		if !tests[proof] {
			t.Errorf("%s: there is no test %q", pattern, proof)
		}
	}
}

// testNames are the tests of the tree, behind their folder.
func testNames(t *testing.T) map[string]bool {
	names := map[string]bool{}
	root := filepath.Join("..", "..")
	require.NoError(t, filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(file, "_test.go") {
			return err
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		folder, err := filepath.Rel(root, filepath.Dir(file))
		for _, decl := range parsed.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") {
				names[filepath.ToSlash(folder)+" "+f.Name.Name] = true
			}
		}
		return err
	}))
	return names
}

// fieldsRead are the names of fields that this package uses outside of where settings get
// their defaults and are checked.
func fieldsRead(t *testing.T) map[string]bool {
	read := map[string]bool{}
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, decl := range parsed.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || f.Name.Name == "prefill" || f.Name.Name == "find" ||
				strings.HasPrefix(strings.ToLower(f.Name.Name), "default") || strings.HasPrefix(f.Name.Name, "check") {
				continue
			}
			ast.Inspect(f, func(n ast.Node) bool {
				if s, ok := n.(*ast.SelectorExpr); ok {
					read[s.Sel.Name] = true
				}
				return true
			})
		}
	}
	return read
}

// What the settings of the process do, seen from outside.
func TestProcessSettings(t *testing.T) {
	dir := t.TempDir()
	spec := writeFile(t, dir, "spec.yaml", limitSpec)
	p, ok := serveIn(t, dir, spec, `
ingest: {allowed_lateness: 1h, max_future: 1m, max_body: 64KiB, max_event: 1KiB, max_batch: 5}
known_ids: {max_age: 2h}
checkpoint: {interval: 100ms}
web: {external_url: "https://slo.example.org/below", pprof: true, allowed_hosts: [slo.example.org]}
`)
	require.True(t, ok, p.log.String())
	p.waitReady(t)
	send := func(events ...string) string {
		_, answer := post(t, p.base+"/api/v1/events", "", strings.Join(events, "\n"))
		return answer
	}
	at := func(d time.Duration) string {
		return fmt.Sprintf(`{"service":"shop","type":"order","time":%q}`, time.Now().Add(d).UTC().Format(time.RFC3339))
	}
	order := at(0)
	require.Contains(t, send(at(-50*time.Minute)), `"accepted":1`)
	require.Contains(t, send(at(-70*time.Minute)), `"time_too_old"`)
	require.Contains(t, send(at(30*time.Second)), `"accepted":1`)
	require.Contains(t, send(at(2*time.Minute)), `"time_in_future"`)
	require.Contains(t, send(order, order, order, order, order), `"accepted":5`)
	require.Contains(t, send(order, order, order, order, order, order), `"batch_too_large"`)
	long := func(n int) string {
		return fmt.Sprintf(`{"service":"shop","type":"order","attributes":{"x":%q}}`, strings.Repeat("x", n))
	}
	require.Contains(t, send(long(500)), `"accepted":1`)
	require.Contains(t, send(long(1000)), `"event_too_large"`)
	require.Contains(t, send(long(70_000)), `"body_too_large"`)
	require.Contains(t, string(get(t, p.base+"/api/v1/engine")), `"horizon_seconds":3600`, "at least half of max_age")
	require.Eventually(t, func() bool { return counter(t, p, "sloengine_checkpoint_written_total") > 0 }, 10*time.Second, 20*time.Millisecond)
	require.Contains(t, string(get(t, p.base+"/debug/pprof/cmdline")), "serve")
	require.Contains(t, string(get(t, p.base+"/engine")), "/below/")
}
