package config

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/reliability/ratelimit"
)

// keyEffects are the keys of engine.yaml by the test that shows what they do: a folder and
// the name of the test. A * stands for one part of a key, where several sections share a
// type: write keys out otherwise, so that a new one is missed.
var keyEffects = map[string]string{
	"cmd/sloengine/app/config TestEnvironments": `environment`,
	"internal/e2e/operating TestProcessSettings": `
		ingest.allowed_lateness ingest.max_future ingest.max_body ingest.max_event ingest.max_batch known_ids.max_age
		checkpoint.interval web.external_url web.pprof`,
	"ingest/engine TestOverload":                            `ingest.queue`,
	"ingest TestNoMemoryLeftIs503":                          `ingest.bodies_memory`,
	"ingest TestStalledDiskIsA504":                          `ingest.deadline`,
	"ingest TestDeadlineForTheCommitter":                    `ingest.deadline_reserve`,
	"ingest/dedup TestTableStaysInBudget":                   `known_ids.memory`,
	"internal/e2e/faults TestEvictedCountsAgain":            `parked.memory`,
	"ingest/engine TestLogIsTruncated":                      `log.segment checkpoint.log`,
	"cmd/sloengine/app TestHistoryBounds":                   `log.retain log.retain_bytes`,
	"ingest/counting TestRebuildShare":                      `rebuild.cpu`,
	"sla/report TestLedgerOptions":                          `ledger.accounts ledger.deployment`,
	"sla/outlook TestTheMostUrgentGroupsAreForecast":        `forecast.groups`,
	"internal/e2e/operating TestReload":                     `evaluator.interval`,
	"ingest/engine TestLowWater":                            `disk.low_water`,
	"internal/e2e/operating TestTokens":                     `auth.tokens_file`,
	"internal/e2e/otlp TestFailingTraces":                   `web.trace_url`,
	"internal/e2e/operating TestTLS":                        `web.config_file`,
	"cmd/sloengine/app TestLoopbackServesLoopbackNamesOnly": `web.allowed_hosts`,
	"internal/e2e/web TestPublicLook": `public.name public.logo public.color
		public.color_dark`,
	"internal/e2e/web TestPublicSubscriptions":                     `public.subscriptions public.private_webhooks`,
	"internal/e2e/web TestShutdownTimeout":                         `shutdown.timeout`,
	"internal/e2e/faults TestConnectionsLeaveTheLogItsDescriptors": `web.max_connections`,
	"internal/e2e/web TestReadersCannotExhaustMemory":              `web.responses_memory`,
	"internal/e2e/operating TestAlertThresholdsAreSettings": `
		alerts.disk_free alerts.dead_letters alerts.dead_letters_growth alerts.retries alerts.limit_hits alerts.limit_drops
		alerts.type_hits alerts.context_hits alerts.critical_limited alerts.client_failures alerts.rejected_share
		alerts.sink_lag
		alerts.fold_lag alerts.dead_lettered_rate alerts.dead_lettered_share alerts.dead_letter_queue_depth
		alerts.outbox_pending alerts.outbox_failures alerts.outbox_latency`,
	"internal/e2e/alerting TestNotifications": `
		notifications.send notifications.alertmanagers.url notifications.alertmanagers.name notifications.external_labels
		notifications.resend
		notifications.dashboard_url notifications.runbook_url`,
	"alerts/notify TestBadPeers":              `notifications.timeout`,
	"cmd/sloengine/app TestAlertsOnTheEngine": `notifications.job notifications.instance`,
	"alerts/receivers TestPreview":            `notifications.preview`,
	"internal/e2e/alerting TestReceivers": `
		notifications.receivers notifications.global notifications.templates notifications.default notifications.routes
		notifications.services
		notifications.watchdog notifications.timing.group_wait notifications.timing.group_interval
		notifications.timing.repeat_interval
		notifications.escalation.after notifications.escalation.receiver`,
	"cmd/sloengine/app/config TestNotifySettings": `
		notifications.alertmanagers.basic_auth.username notifications.alertmanagers.basic_auth.password_file
		notifications.alertmanagers.basic_auth.password_env
		notifications.alertmanagers.bearer_token_file notifications.alertmanagers.bearer_token_env
		notifications.alertmanagers.tls.ca_file notifications.alertmanagers.tls.cert_file
		notifications.alertmanagers.tls.key_file
		notifications.alertmanagers.tls.server_name notifications.alertmanagers.tls.insecure_skip_verify`,
	"internal/e2e/alerting TestScheduledReports": `
		smtp.smarthost smtp.from smtp.username smtp.password_file smtp.tls smtp.hello smtp.tls_config.ca_file
		reports.name reports.every reports.day reports.at reports.timezone reports.agreement reports.service reports.formats
		reports.to.email reports.to.webhooks.url reports.to.webhooks.token_env reports.to.folder`,
	"cmd/sloengine/app/config TestReportSettings": `
		smtp.password_env smtp.tls_config.cert_file smtp.tls_config.key_file smtp.tls_config.server_name
		smtp.tls_config.insecure_skip_verify reports.to.webhooks.token_file`,
	"internal/e2e/faults TestDeadLettersSharedInRedis": `redis.address dead_letters.storage`,
	"internal/e2e/otlp TestParquetSink":                `sinks.parquet.dir sinks.parquet.roll`,
	"internal/e2e/faults TestSharedSink":               `sinks.shared`,
	"cmd/sloengine/app/config TestBrokerSinks": `
		sinks.kafka.brokers sinks.kafka.client_id sinks.kafka.version sinks.kafka.sasl.mechanism sinks.kafka.sasl.username
		sinks.kafka.sasl.password_file sinks.kafka.request_timeout sinks.kafka.backoff sinks.kafka.topic sinks.kafka.key
		sinks.kafka.acks sinks.kafka.compression sinks.kafka.batch_bytes sinks.kafka.max_message_bytes sinks.kafka.linger
		sinks.kafka.buffer_bytes sinks.kafka.delivery_timeout sinks.kafka.idempotent sinks.kafka.tls.ca_file
		sinks.kafka.tls.cert_file sinks.kafka.tls.key_file sinks.kafka.tls.server_name sinks.kafka.tls.insecure_skip_verify
		sinks.rabbitmq.url sinks.rabbitmq.username sinks.rabbitmq.password_file sinks.rabbitmq.heartbeat
		sinks.rabbitmq.connect_timeout sinks.rabbitmq.client_name sinks.rabbitmq.exchange sinks.rabbitmq.routing_key
		sinks.rabbitmq.mandatory sinks.rabbitmq.persistent sinks.rabbitmq.tls.ca_file sinks.rabbitmq.tls.cert_file
		sinks.rabbitmq.tls.key_file sinks.rabbitmq.tls.server_name sinks.rabbitmq.tls.insecure_skip_verify`,
	"internal/e2e/operating TestRedisSentinel": `redis.addresses redis.sentinel_master redis.sentinel_username
		redis.sentinel_password_file limits.shared.fallback`,
	"internal/e2e/operating TestRedisCluster": `redis.cluster limits.respect_dlq_filter limits.shared.redis`,
	"cmd/sloengine/app/config TestRedisOptions": `
		redis.pool_size redis.username redis.password_file redis.db redis.tls.ca_file redis.tls.cert_file redis.tls.key_file
		redis.tls.server_name redis.tls.insecure_skip_verify redis.prefix redis.timeout`,
	"reliability/ratelimit TestPrecedence":            `limits.*.limit limits.*.window limits.types.extends`,
	"reliability/ratelimit TestJudgeChargesNothing":   `limits.*.algorithm`,
	"reliability/ratelimit TestBurst":                 `limits.*.burst`,
	"ingest/engine TestStrategiesLoseNothingSilently": `limits.*.on_exceeded`,
	"reliability/ratelimit TestSampling":              `limits.*.sample_rate`,
	"reliability/ratelimit TestThrottle":              `limits.*.throttle limits.*.throttle_max`,
	"ingest/event TestMergeFields":                    `limits.*.aggregate_fields`,
	"reliability/ratelimit TestMatchOrder":            `limits.types.match`,
	"reliability/ratelimit TestPresets":               `limits.types.preset`,
	"reliability/ratelimit TestKeys":                  `limits.contexts.name`,
	"reliability/ratelimit TestContextSources":        `limits.contexts.from`,
	"internal/e2e/operating TestLimitExpressions":     `limits.contexts.extractor limits.bypass_if`,
	"reliability/ratelimit TestBypass": `limits.bypass.types limits.bypass.severities
		limits.bypass.attributes limits.bypass.tokens`,
	"reliability/ratelimit TestAudit":        `limits.audit`,
	"ingest TestFloodOfSingleEventsIsMerged": `limits.aggregate_window`,
	"reliability/ratelimit TestMemoryBound":  `limits.max_contexts`,
	"internal/e2e/web TestServiceBudgets":    `budgets.service budgets.bytes budgets.queue budgets.groups`,
	"cmd/sloengine/app/config TestRedactorOfSettings": `redact.attributes redact.types redact.action redact.pattern
		redact.replace redact.key_file`,
	"cmd/sloengine/app/config TestDeadLetterOptions": `dead_letters.dir dead_letters.retention dead_letters.clean
		dead_letters.timezone`,
	"ingest/source/series TestCounters":       `sources.prometheus.interval sources.prometheus.scrape_interval`,
	"ingest/source/series TestExternalLabels": `sources.prometheus.external_labels`,
	"ingest/source/series TestHistory":        `sources.prometheus.history`,
	"ingest/source/series TestFailovers":      `sources.prometheus.ha.cluster sources.prometheus.ha.replica`,
	"internal/e2e/brokers TestWritten":        `sources.prometheus.receive`,
	"internal/e2e/brokers TestPrometheus": `sources.prometheus.url sources.prometheus.services sources.prometheus.alerts
		sources.prometheus.basic_auth.username sources.prometheus.basic_auth.password_file`,
	"cmd/sloengine/app/config TestPrometheusClient": `sources.prometheus.basic_auth.password_env
		sources.prometheus.bearer_token_file sources.prometheus.bearer_token_env sources.prometheus.tls.ca_file
		sources.prometheus.tls.cert_file sources.prometheus.tls.key_file sources.prometheus.tls.server_name
		sources.prometheus.tls.insecure_skip_verify`,
	"internal/e2e/brokers TestRemoteWriteOutage": `remote_write.name remote_write.url remote_write.interval
		remote_write.labels`,
	"reliability/remotewrite TestVersions": `remote_write.protobuf`,
	"reliability/remotewrite TestBounds":   `remote_write.max_age remote_write.max_bytes`,
	"cmd/sloengine/app/config TestRemoteWriteClient": `remote_write.headers remote_write.basic_auth.* remote_write.tls.*
		remote_write.bearer_token_file remote_write.bearer_token_env`,
	"ingest/source TestFormats":               `sources.format`,
	"ingest/source TestMapping":               `sources.map.*`,
	"ingest TestMappedCloudEvents":            `ingest.cloudevents.map.*`,
	"internal/e2e/operating TestOTLPOverGRPC": `otlp.grpc`,
	"ingest/otlp TestAttributesOfTheSpec":     `otlp.keep`,
	"ingest/otlp TestServices":                `otlp.services`,
	"ingest/otlp TestFractionalWeights":       `otlp.sampling`,
	"ingest/otlp TestRules":                   `otlp.spans.*`,
	"ingest/otlp TestLogs":                    `otlp.logs.*`,
	"ingest/otlp TestSums":                    `otlp.metrics.*`,
	"ingest/source TestHeadersAsAttributes":   `sources.headers`,
	"ingest/source TestBackfill":              `sources.backfill`,
	"ingest/source TestDeadLetters":           `sources.max_message`,
	"ingest/source/kafka TestStatic": `sources.kafka.brokers sources.kafka.topics
		sources.kafka.refresh sources.kafka.commit sources.kafka.fetch.min_bytes sources.kafka.fetch.max_wait`,
	"ingest/source/kafka TestStart":                    `sources.kafka.start`,
	"ingest/source/kafka TestRegex":                    `sources.kafka.topics_regex`,
	"ingest/source/kafka TestOrdinalsAndNewPartitions": `sources.kafka.engines sources.kafka.ordinal`,
	"ingest/source/kafka TestGroup": `sources.kafka.ownership sources.kafka.group
		sources.kafka.instance sources.kafka.session_timeout sources.kafka.heartbeat`,
	"ingest/source/kafka TestMemoryIsBounded": `sources.kafka.buffer`,
	"cmd/sloengine/app/config TestSourceConnection": `
		sources.name sources.kafka.tls.ca_file sources.kafka.tls.cert_file sources.kafka.tls.key_file
		sources.kafka.tls.server_name
		sources.kafka.tls.insecure_skip_verify sources.kafka.client_id sources.kafka.version sources.kafka.request_timeout
		sources.kafka.backoff sources.kafka.sasl.mechanism sources.kafka.sasl.username sources.kafka.sasl.password_file`,
	"cmd/sloengine/app/config TestRabbitMQSettings": `
		sources.rabbitmq.* sources.rabbitmq.tls.* sources.rabbitmq_dead_letters.tls.*
		sources.rabbitmq_dead_letters.work_queues.typical_duration`,
	"cmd/sloengine/app/config TestAdviceOnRabbitMQ": `sources.rabbitmq_dead_letters.work_queues.type`,
	"ingest/source/rabbitmq TestTopologyIsDeclared": `sources.rabbitmq_dead_letters.*
		sources.rabbitmq_dead_letters.work_queues.name sources.rabbitmq_dead_letters.work_queues.ttl`,
	"ingest/source/rabbitmq TestArgumentsOfWorkQueue": `sources.rabbitmq_dead_letters.work_queues.delivery_limit`,
	"ingest/source/rabbitmq TestRetryRules":           `sources.rabbitmq_dead_letters.retry.*`,
	"ingest/source/outbox TestRowsAreCountedOnce": `sources.outbox.dsn_file sources.outbox.way
		sources.outbox.service sources.outbox.poll sources.outbox.refresh sources.outbox.batch`,
	"ingest/source/outbox TestStart":               `sources.outbox.start`,
	"ingest/source/outbox TestEnginesShareTheRows": `sources.outbox.engines sources.outbox.ordinal`,
	"ingest/source/outbox TestOtherTables":         `sources.outbox.preset`,
	"ingest/source/outbox TestColumns":             `sources.outbox.table sources.outbox.columns`,
	"ingest/source/outbox TestNotifications": `sources.outbox.listen_dsn sources.outbox.listen_dsn_file
		sources.outbox.listen_channel`,
	"reliability/postgres TestWhatAnOperatorReads": `sources.outbox.dsn sources.outbox.password_file`,
	"reliability/postgres TestTransactionPooling":  `sources.outbox.transaction_pooling sources.outbox.max_connections`,
	"reliability/postgres TestAPoolConnectsAgain":  `sources.outbox.connect_timeout sources.outbox.application_name`,
	"reliability/dlq TestFull":                     `dead_letters.max_bytes`,
	"reliability/dlq TestFile":                     `dead_letters.segment`,
	"reliability/dlq TestFilter": `dead_letters.filter.never_save dead_letters.filter.always_save
		dead_letters.filter.save_if dead_letters.filter.default`,
	"reliability/dlq TestReplayBySchedule": `
		dead_letters.replay.schedule dead_letters.replay.batch dead_letters.replay.max_age dead_letters.replay.rate
		dead_letters.replay.stop_after`,
	"cmd/sloengine/app/config TestSinkOptions": `
		retry.max_retries retry.base retry.cap retry.jitter retry.spread retry.retry_on retry.max_elapsed
		retry.max_retry_after
		retry.budget.ratio retry.budget.min_per_second retry.budget.burst retry.rate_limit.limit retry.rate_limit.interval
		retry.rate_limit.on_exceeded retry.staged.items retry.staged.interval retry.staged.growth breaker.consecutive.failures
		breaker.consecutive.open breaker.consecutive.probes breaker.rate.threshold breaker.rate.min_calls breaker.rate.window
		breaker.rate.open breaker.rate.probes breaker.rate.successes breaker.probe_timeout breaker.health_interval
		bulkhead.concurrency bulkhead.max_wait timeout sinks.name sinks.http.url sinks.http.method sinks.http.format
		sinks.http.gzip sinks.http.headers sinks.http.header_files sinks.http.secret_file sinks.http.health_url
		sinks.http.max_conns sinks.http.tls.ca_file sinks.http.tls.cert_file sinks.http.tls.key_file
		sinks.http.tls.server_name
		sinks.http.tls.insecure_skip_verify sinks.file.dir sinks.file.max_bytes sinks.file.max_age sinks.file.keep
		sinks.file.fsync sinks.start sinks.batch.items sinks.batch.bytes sinks.batch.wait sinks.retry.max_retries
		sinks.retry.base sinks.retry.cap sinks.retry.jitter sinks.retry.spread sinks.retry.retry_on sinks.retry.max_elapsed
		sinks.retry.max_retry_after sinks.retry.budget.ratio sinks.retry.budget.min_per_second sinks.retry.budget.burst
		sinks.retry.rate_limit.limit sinks.retry.rate_limit.interval sinks.retry.rate_limit.on_exceeded
		sinks.retry.staged.items
		sinks.retry.staged.interval sinks.retry.staged.growth sinks.breaker.consecutive.failures
		sinks.breaker.consecutive.open
		sinks.breaker.consecutive.probes sinks.breaker.rate.threshold sinks.breaker.rate.min_calls sinks.breaker.rate.window
		sinks.breaker.rate.open sinks.breaker.rate.probes sinks.breaker.rate.successes sinks.breaker.probe_timeout
		sinks.breaker.health_interval sinks.bulkhead.concurrency sinks.bulkhead.max_wait sinks.timeout sinks.ttl
		sinks.max_lag_bytes sinks.rate_limit.limit sinks.rate_limit.window sinks.rate_limit.unit sinks.rate_limit.wait
		sinks.rate_limit.shared sinks.rate_limit.fallback`,
}

// leafKeys are the keys of settings, with the fields that hold them.
func leafKeys(prefix string, t reflect.Type, found func(key, field string)) {
	t = elem(t)
	for i := range t.NumField() {
		f := t.Field(i)
		key, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		switch {
		case f.Anonymous && key == "":
			leafKeys(prefix, f.Type, found)
			continue
		case key == "":
			continue // no setting
		}
		key = child(prefix, key)
		if e := elem(f.Type); e.Kind() == reflect.Struct && e != reflect.TypeFor[ratelimit.Source]() {
			leafKeys(key, f.Type, found)
		} else {
			field := f.Name
			if t.PkgPath() != reflect.TypeFor[Config]().PkgPath() && t.Name() != "" {
				field = "" // the component's own
			}
			found(key, field)
		}
	}
}

// Every key of engine.yaml is held to an effect: it has a row above, of a test that is
// there, and the program reads its field. A new key without both fails.
func TestEveryKeyHasAnEffect(t *testing.T) {
	tests, read := testNames(t), fieldsRead(t)
	used, rows := map[string]bool{}, map[string]bool{}
	for proof, keys := range keyEffects {
		if !tests[proof] {
			t.Errorf("there is no test %q", proof)
		}
		for _, key := range strings.Fields(keys) {
			rows[key] = true
		}
	}
	leafKeys("", reflect.TypeFor[Config](), func(key, field string) {
		shown := false
		for row := range rows {
			if ok, err := path.Match(strings.ReplaceAll(row, ".", "/"), strings.ReplaceAll(key, ".", "/")); err == nil && ok {
				shown, used[row] = true, true
			}
		}
		if !shown {
			t.Errorf("%s is not in keyEffects: add it to the test that shows its effect", key)
		}
		if field != "" && !read[field] {
			t.Errorf("%s: nothing but its checks reads the field %s", key, field)
		}
	})
	for row := range rows {
		if !used[row] {
			t.Errorf("%s is no key any more", row)
		}
	}
}

// testNames are the tests of the tree, behind their folder.
func testNames(t *testing.T) map[string]bool {
	names := map[string]bool{}
	root := filepath.Join("..", "..", "..", "..")
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

// fieldsRead are the names of fields that this package and those it is for use outside of where settings get
// their defaults and are checked.
func fieldsRead(t *testing.T) map[string]bool {
	read := map[string]bool{}
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	users, err := filepath.Glob("../../*.go")
	require.NoError(t, err)
	parts, err := filepath.Glob("../*.go")
	require.NoError(t, err)
	below, err := filepath.Glob("../*/*.go")
	require.NoError(t, err)
	for _, file := range slices.Concat(files, users, parts, below) {
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
