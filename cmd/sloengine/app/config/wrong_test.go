package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const wantTraceURL = "(want an address such as https://tempo.example/trace/{trace_id})"

// wrongSettings are settings that stop the start, each with all that is said of it.
var wrongSettings = []struct {
	name, text string
	want       []string
}{
	{"unknown section", "ingst: {}", []string{`1:1: unknown key "ingst" (did you mean "ingest"?)`}},
	{"unknown key", "ingest:\n  max_bodies: 1MiB",
		[]string{`2:3: ingest: unknown key "max_bodies" (did you mean "max_body"?)`}},
	{"unknown key far off", "disk: {xyzzyplugh: 1}",
		[]string{`1:8: disk: unknown key "xyzzyplugh" (known keys: low_water)`}},
	{"given twice", "log: {segment: 64MiB}\nlog: {segment: 32MiB}",
		[]string{`2:1: duplicate key "log" (first defined on line 1, keep one)`}},
	{"list for a mapping", "limits: [1]", []string{`1:9: limits: want a mapping (key: value), got a list`}},
	{"text for a mapping", "web: yes", []string{`1:6: web: want a mapping (key: value), got "yes"`}},
	{"empty section", "limits:", []string{`1:8: limits: the value is empty (write {} for the defaults, or leave it out)`}},
	{"empty value", "timeout:", []string{
		`1:9: timeout: want a duration such as 30s, got nothing (leave the key out for the default)`}},
	{"not YAML", "ingest: [", []string{
		`1:1: not valid YAML: did not find expected node content (check indentation, quotes and colons around here)`}},
	{"two documents", "log: {segment: 64MiB}\n---\nlog: {segment: 64MiB}",
		[]string{`3:1: the file has a second YAML document (merge them into one document)`}},
	{"size", "ingest:\n  max_body: lots",
		[]string{`2:13: ingest.max_body: "lots": want a size such as 65536, 64KiB, 16MiB or 1GiB`}},
	{"duration", "timeout: 5", []string{`1:10: timeout: "5": want a duration such as 250ms, 90s, 5m, 1h30m, 7d or 4w`}},
	{"number", "ingest: {max_batch: many}", []string{`1:21: ingest.max_batch: want a whole number, got "many"`}},
	{"bool", "web: {pprof: 1}", []string{`1:14: web.pprof: want true or false, got "1"`}},
	{"zero", "evaluator: {interval: 0s}", []string{`1:23: evaluator.interval: must be more than 0, got "0s"`}},
	{"too small", "log: {segment: 1KiB}", []string{`1:16: log.segment: must be at least 1MiB, got "1KiB"`}},
	{"too large", "ingest: {max_future: 2d}", []string{`1:22: ingest.max_future: must be at most 1d, got "2d"`}},
	{"across keys", "ingest: {bodies_memory: 1MiB}",
		[]string{`1:25: ingest.bodies_memory: must be at least ingest.max_body (raise it, or lower max_body)`}},
	{"ids forgotten too soon", "ingest: {allowed_lateness: 8d}",
		[]string{
			`1:1: known_ids.max_age: must be at least ingest.allowed_lateness, or a late duplicate is counted twice (raise ` +
				`it, or lower allowed_lateness)`}},
	{"environment", "environment: Production!",
		[]string{`1:14: environment: invalid environment name "Production!" (want lower-case letters, digits, '-' and '_')`}},

	{"names no event has",
		"auth: {tokens_file: t}\nlimits:\n  types: [{match: 'pay ment', limit: 1}, {match: '/(/', limit: 1}]\n  audit: " +
			"['au dit']\n  contexts: [{name: a, from: ['attribute:user id'], limit: 1}]\n  bypass: [{types: ['a/b'], " +
			"severities: ['very high'], attributes: {'a b': c}}]\ndead_letters: {filter: {never_save: ['a b*']}}", []string{
			`3:19: limits.types[0].match: "pay ment" can never match: no name has the characters "pay ment"`,
			"3:50: limits.types[1].match: pattern /(/: error parsing regexp: missing closing ): `(`",
			`4:11: limits.audit[0]: "au dit" can never match: no name has the characters "au dit"`,
			`5:31: limits.contexts[0].from[0]: no event can have the attribute "user id"`,
			`6:21: limits.bypass[0].types[0]: "a/b" can never match: no name has the characters "a/b"`,
			`6:42: limits.bypass[0].severities[0]: no event can have the severity "very high"`,
			`6:76: limits.bypass[0].attributes.a b: no event can have the attribute "a b"`,
			`7:38: dead_letters.filter.never_save[0]: "a b*" can never match: no name has the characters "a b" (want a name, ` +
				`a name with * and ?, or /an expression/)`}},

	{"alertmanager without url", "notifications: {alertmanagers: [{name: a}]}",
		[]string{`1:33: notifications.alertmanagers[0].url: missing (as in http://alertmanager.example:9093)`}},
	{"alertmanager url", "notifications: {alertmanagers: [{url: 'am:9093'}]}",
		[]string{
			`1:39: notifications.alertmanagers[0].url: must begin with http:// or https:// and have a host (as in ` +
				`http://alertmanager.example:9093)`}},
	{"password in the url", "notifications: {alertmanagers: [{url: 'http://u:hush@am:9093'}]}",
		[]string{
			`1:39: notifications.alertmanagers[0].url: must not contain credentials, set basic_auth (as in ` +
				`http://alertmanager.example:9093)`}},
	{"alertmanager twice", "notifications: {alertmanagers: [{url: 'http://am:9093'}, {url: 'http://am:9093/x'}]}",
		[]string{`1:58: notifications.alertmanagers[1].name: alertmanagers[0] is am:9093, too (give each a name)`}},
	{"no password", "notifications: {alertmanagers: [{url: 'http://a', basic_auth: {username: u}}]}",
		[]string{`1:63: notifications.alertmanagers[0].basic_auth.password_file: missing (or set password_env)`}},
	{"unset variable", "notifications: {alertmanagers: [{url: 'http://a', bearer_token_env: SLOENGINE_NO_SUCH}]}",
		[]string{
			`1:69: notifications.alertmanagers[0].bearer_token_env: the environment variable SLOENGINE_NO_SUCH is empty (set ` +
				`it for the engine)`}},
	{"two secrets", "notifications: {alertmanagers: [{url: 'http://a', bearer_token_file: empty, bearer_token_env: X}]}",
		[]string{
			`1:95: notifications.alertmanagers[0].bearer_token_env: the secret is named as a file, too (leave one of them ` +
				`out)`}},
	{"token of nobody", "notifications: {alertmanagers: [{url: 'http://a', bearer_token_file: nowhere}]}",
		[]string{`1:70: notifications.alertmanagers[0].bearer_token_file: open DIR/nowhere: no such file or directory`}},
	{"external label", "notifications: {external_labels: {alertname: x, a-b: y}}",
		[]string{
			`1:46: notifications.external_labels.alertname: "alertname" is not a name for an external label ` +
				`(letters, digits and underscore, as in prometheus.yml)`,
			`1:54: notifications.external_labels.a-b: "a-b" is not a name for ` +
				`an external label (letters, digits and underscore, as in prometheus.yml)`}},
	{"job", "notifications: {job: ''}",
		[]string{`1:22: notifications.job: must not be empty (the job_name of the scrape in prometheus.yml)`}},
	{"resend", "notifications: {resend: 100ms}", []string{`1:25: notifications.resend: must be at least 1s, got "100ms"`}},
	{"timeout of alerts", "notifications: {resend: 1s, timeout: 4s}",
		[]string{
			`1:38: notifications.timeout: must be less than four times resend, after which an alert ends that is not sent ` +
				`again (lower it, or raise resend)`}},
	{"dashboards", "notifications: {dashboard_url: grafana}",
		[]string{
			`1:32: notifications.dashboard_url: must begin with http:// or https:// and have a host (want a URL such as ` +
				`https://example.org/events)`}},

	{"password in the external url", "web: {external_url: 'https://u:hush@slo.example.org'}",
		[]string{
			`1:21: web.external_url: must not contain credentials (want an address such as https://slo.example.org/path)`}},
	{"external url of another scheme", "web: {external_url: 'javascript:alert(1)'}",
		[]string{
			`1:21: web.external_url: must begin with http:// or https:// and have a host (want an address such as ` +
				`https://slo.example.org/path)`}},
	{"external url with a query", "web: {external_url: 'https://slo.example.org/?a=hush'}",
		[]string{`1:21: web.external_url: must not have a query (want an address such as https://slo.example.org/path)`}},
	{"external url with a fragment", "web: {external_url: 'https://slo.example.org/#hush'}",
		[]string{
			`1:21: web.external_url: must not have a fragment, which is never sent (want an address such as ` +
				`https://slo.example.org/path)`}},
	{"external url with a space", "web: {external_url: 'https://slo.example.org/a b'}",
		[]string{
			`1:21: web.external_url: the path must not need escaping (want an address such as https://slo.example.org/path)`}},
	{"trace url of another scheme", "web: {trace_url: 'javascript:alert({trace_id})'}",
		[]string{`1:18: web.trace_url: must begin with http:// or https:// and have a host ` + wantTraceURL}},
	{"trace url without the place", "web: {trace_url: 'https://tempo.example/trace/'}",
		[]string{`1:18: web.trace_url: must contain {trace_id} once ` + wantTraceURL}},
	{"trace url with two places", "web: {trace_url: 'https://tempo.example/{trace_id}?a={trace_id}'}",
		[]string{`1:18: web.trace_url: must contain {trace_id} once ` + wantTraceURL}},
	{"trace url with another place", "web: {trace_url: 'https://tempo.example/{trace_id}/{span_id}'}",
		[]string{`1:18: web.trace_url: must not have characters that need escaping ` + wantTraceURL}},
	{"trace url with the place in the host", "web: {trace_url: 'https://{trace_id}.example/'}",
		[]string{`1:18: web.trace_url: {trace_id} must come after the host ` + wantTraceURL}},
	{"trace url with a quote", `web: {trace_url: 'https://tempo.example/{trace_id}"><script>'}`,
		[]string{`1:18: web.trace_url: must not have characters that need escaping ` + wantTraceURL}},
	{"password in the trace url", "web: {trace_url: 'https://u:hush@tempo.example/{trace_id}'}",
		[]string{`1:18: web.trace_url: must not contain credentials ` + wantTraceURL}},
	{"password in a webhook",
		"notifications: {default: a, receivers: [{name: a, webhook_configs: [{url: 'https://u:hush@x'}]}]}",
		[]string{
			`1:75: url: must not contain credentials (set http_config with basic_auth and its password_file, ` +
				`or write url_env instead)`}},
	{"password of a proxy",
		"notifications: {default: a, receivers: [{name: a, webhook_configs: [{url: 'https://x', http_config: {proxy_url: " +
			"'http://u:hush@p:3128'}}]}]}", []string{`1:113: proxy_url: must not contain credentials (set ` +
			`proxy_from_environment and the variable HTTPS_PROXY instead)`}},
	{"password of a proxy of all",
		"notifications: {default: a, global: {http_config: {proxy_url: 'http://u:hush@p:3128'}}, receivers: [{name: a, " +
			"webhook_configs: [{url: 'https://x'}]}]}", []string{`1:63: proxy_url: must not contain credentials (set ` +
			`proxy_from_environment and the variable HTTPS_PROXY instead)`}},

	{"remote write", "remote_write: [{name: a, url: 'https://u:p@x/push', max_age: 1m, interval: 50s, " +
		"headers: {X-Token: a, 'a b': c}, labels: {a-b: c}, protobuf: v3}, {name: a, url: 'ftp://x'}]", []string{
		`1:31: remote_write[0].url: must not contain credentials, set basic_auth (want a URL such as ` +
			`https://example.org/events)`,
		`1:62: remote_write[0].max_age: must be at least two intervals of 50s (raise it, or lower interval)`,
		`1:100: remote_write[0].headers.X-Token: a secret must not be set here (set basic_auth or bearer_token_file)`,
		`1:110: remote_write[0].headers.a b: not an HTTP header`,
		`1:128: remote_write[0].labels.a-b: "a-b" is not a name for a label (letters, digits and underscore, ` +
			`not two of them first)`,
		`1:142: remote_write[0].protobuf: unknown value "v3" (did you mean "v2"?)`,
		`1:154: remote_write[1].name: remote_write[0] already has this name (the name identifies its samples on disk)`,
		`1:162: remote_write[1].url: must begin with http:// or https:// and have a host (want a URL such as ` +
			`https://example.org/events)`}},
	{"source of nothing", "sources: [{name: a}]",
		[]string{`1:11: sources[0]: the source reads from nowhere (add kafka, rabbitmq, rabbitmq_dead_letters, ` +
			`outbox or prometheus)`}},
	{"source of two kinds",
		"sources: [{name: a, kafka: {brokers: ['a:1'], topics: [t]}, rabbitmq: {url: 'amqp://a', queue: q}}]",
		[]string{`1:71: sources[0].rabbitmq: kafka and rabbitmq exclude each other (define two sources)`}},
	{"Prometheus without url", "sources: [{name: a, prometheus: {}}]",
		[]string{`1:33: sources[0].prometheus.url: missing (as in http://prometheus.example:9090)`}},
	{"Prometheus that is read and writes", "sources: [{name: a, prometheus: {url: 'http://a', receive: true}}]",
		[]string{`1:60: sources[0].prometheus.receive: samples are received, or read from url (leave out url and its ` +
			`settings, or receive)`}},
	{"a Prometheus that is there twice", "sources: [{name: a, prometheus: {url: ['http://a', 'http://a', ftp://c], " +
		"external_labels: {'http://a': {region: eu}, ftp://c: {region: eu, replica: b}, 'http://d': {a-b: c}}}}]",
		[]string{`1:52: sources[0].prometheus.url[1]: the server is there twice, and its events would count twice (leave ` +
			`one of them out)`,
			`1:64: sources[0].prometheus.url[2]: must begin with http:// or https:// and have a host (as in ` +
				`http://prometheus.example:9090)`,
			`1:104: sources[0].prometheus.external_labels.http://a: are those of ftp://c, whose events would count twice ` +
				`(give each server its own, or let replicas write to a source with receive and ha)`,
			`1:165: sources[0].prometheus.external_labels.http://d: is no server of the source (write it as in url)`,
			`1:171: sources[0].prometheus.external_labels.http://d.a-b: "a-b" is not a name for an external label ` +
				`(letters, digits and underscore, as in prometheus.yml)`}},
	{"too many servers", "sources: [{name: a, prometheus: {url: [" + strings.Repeat("'http://a', ", 200) + "]}}]",
		[]string{`1:39: sources[0].prometheus.url: has 200 servers, and at most 50 are read (write the others in another ` +
			`source, with services)`}},
	{"external labels of who writes", "sources: [{name: a, prometheus: {receive: true, external_labels: {'http://a': " +
		"{a: b}}}}]",
		[]string{`1:43: sources[0].prometheus.receive: samples are received, or read from url (leave out url and its ` +
			`settings, or receive)`}},
	{"history of a Prometheus that writes", "sources: [{name: a, prometheus: {receive: true, history: 1d}}]",
		[]string{`1:58: sources[0].prometheus.history: nothing is read from a Prometheus that writes (leave it out)`}},
	{"replicas that are read", "sources: [{name: a, prometheus: {url: 'http://a', ha: {cluster: c, replica: r}}}]",
		[]string{`1:55: sources[0].prometheus.ha: is for samples that are received (set receive, or select one replica in ` +
			`the indicators)`}},
	{"one label of replicas", "sources: [{name: a, prometheus: {receive: true, ha: {cluster: c, replica: c}}}]",
		[]string{`1:75: sources[0].prometheus.ha.replica: is the label of the cluster, too (as in {cluster: cluster, ` +
			`replica: __replica__})`}},
	{"two that receive", "sources: [{name: a, prometheus: {receive: true}}, {name: b, prometheus: {receive: true}}]",
		[]string{`1:83: sources[1].prometheus.receive: another source receives, too (one source takes what all of them ` +
			`write)`}},
	{"queue of nowhere", "sources: [{name: a, rabbitmq: {url: 'amqp://u:p@a', queue: q, prefetch: 0}}]",
		[]string{`1:73: sources[0].rabbitmq.prefetch: must be at least 1, got "0"`}},
	{"credentials of a queue", "sources: [{name: a, rabbitmq: {url: 'amqp://u:p@a', queue: q}}]",
		[]string{`1:31: sources[0].rabbitmq: url: contains credentials (set username and password_file)`}},
	{"direct exchange",
		"sources: [{name: a, rabbitmq_dead_letters: {url: 'amqp://a', queue: q, exchange: x, exchange_type: direct, " +
			"retry: [{reason: expired}], work_queues: [{name: q}]}}]", []string{
			`1:116: sources[0].rabbitmq_dead_letters.retry[0].max_deaths: missing`}},
	{"direct exchange alone",
		"sources: [{name: a, rabbitmq_dead_letters: {url: 'amqp://a', queue: q, exchange: x, exchange_type: direct, " +
			"work_queues: [{name: q}]}}]", []string{
			"1:100: sources[0].rabbitmq_dead_letters.exchange_type: direct does not work (want topic or fanout): a direct " +
				"exchange compares the whole routing key, so a binding by \"#\" matches nothing",
			`1:129: sources[0].rabbitmq_dead_letters.work_queues[0].name: "q" is used twice`}},
	{"source twice",
		"sources: [{name: a, kafka: {brokers: ['a:1'], topics: [t]}}, {name: a, kafka: {brokers: ['a:1'], topics: [t]}}]",
		[]string{`1:69: sources[1].name: sources[0] already has this name (the name identifies its positions in the log)`}},
	{"outbox settings",
		"sources: [{name: a, map: {type: .kind}, outbox: {dsn: 'postgres://u:hunter2@db/shop', way: claim, start: latest, " +
			"columns: {colour: c}, engines: 2, ordinal: 2}}, {name: b, outbox: {way: id}}]", []string{
			"1:49: sources[0].outbox: dsn: contains a password (set password_file, or move the DSN to a file and set dsn_file)",
			"1:106: sources[0].outbox.start: latest requires way: xid (set counted_at of the rows that are not to be counted)",
			`1:123: sources[0].outbox.columns: unknown column "colour" (want one of id, xid, created_at, idempotency_key, ` +
				`aggregate_type, aggregate_id, event_type, topic, key, payload, headers, bucket, status, attempts, ` +
				`next_attempt_at, error, completed_at, counted_at, version, processing_instance, locked_at)`,
			"1:157: sources[0].outbox.ordinal: 2 is not below engines, which is 2",
			`1:186: sources[1].outbox.way: unknown value "id" (did you mean "xid"?)`,
		}},
	{"source settings",
		"sources: [{name: a, headers: {1x: y}, map: {service: s, type: .a..b}, kafka: {brokers: ['a'], topics: ['a b'], " +
			"topics_regex: '(', start: now, ordinal: 3, engines: 2, heartbeat: 20s}}]", []string{
			`1:35: sources[0].headers.1x: "1x" cannot be the name of an attribute`,
			`1:63: sources[0].map.type: invalid path ".a..b": a key is empty`,
			`1:78: sources[0].kafka: brokers: invalid address "a" (want host:port, such as kafka-1.example.org:9092)`,
			`1:104: sources[0].kafka.topics[0]: "a b" is not the name of a topic (want 1 to 249 letters, digits, '.', ` +
				`'_' and '-')`,
			`1:126: sources[0].kafka.topics_regex: topics and topics_regex exclude each other`,
			`1:138: sources[0].kafka.start: "now" is not earliest, latest, longest_window or a time such as ` +
				`2026-11-20T09:00:00Z`,
			`1:152: sources[0].kafka.ordinal: 3 is not below engines, which is 2`,
			`1:178: sources[0].kafka.heartbeat: at most a third of session_timeout, which is 30s`}},
	{"source without topics", "sources: [{name: a, kafka: {brokers: ['a:1'], ownership: group, sasl: {username: u}}}]",
		[]string{
			`1:28: sources[0].kafka.group: ownership: group requires the name of the group`,
			`1:28: sources[0].kafka.topics: topics or topics_regex is required`,
			`1:28: sources[0].kafka: sasl: username and password_file are required`}},
	{"redis without address", "redis: {db: 1}", []string{`1:8: redis.address: missing`}},
	{"redis addresses without a kind", "redis: {addresses: ['a:1']}",
		[]string{
			`1:20: redis.addresses: addresses requires cluster or sentinel_master, and each of these requires addresses (set ` +
				`address for a single server)`}},
	{"sentinel without addresses", "redis: {address: 'a:1', sentinel_master: m}",
		[]string{
			`1:8: redis.addresses: addresses requires cluster or sentinel_master, and each of these requires addresses (set ` +
				`address for a single server)`}},
	{"cluster and address", "redis: {address: 'a:1', cluster: true, db: 2, addresses: ['a:1', b]}", []string{
		`1:18: redis.address: address and addresses exclude each other (remove one of them)`,
		`1:44: redis.db: a cluster has only database 0 (remove it)`,
		`1:66: redis.addresses[1]: invalid address "b" (want host:port, such as 127.0.0.1:6379)`}},
	{"redis address", "redis: {address: localhost}",
		[]string{`1:18: redis.address: invalid address "localhost" (want host:port, such as 127.0.0.1:6379)`}},
	{"redis user", "redis: {address: 'a:1', username: u}",
		[]string{`1:35: redis.username: username requires a password (add password_file)`}},
	{"redis password file", "redis: {address: 'a:1', password_file: nowhere}",
		[]string{`1:40: redis.password_file: open DIR/nowhere: no such file or directory`}},
	{"password in the open", "redis: {address: 'a:1', password: x}",
		[]string{`1:25: redis: unknown key "password" (did you mean "password_file"?)`}},
	{"redis prefix", "redis: {address: 'a:1', prefix: '{x}'}",
		[]string{`1:33: redis.prefix: must be 1 to 64 letters, digits, '_', '.', ':' and '-'`}},
	{"half a certificate", "redis: {address: 'a:1', tls: {cert_file: x.pem}}",
		[]string{`1:30: redis.tls: cert_file and key_file must be set together (set both, or none)`}},
	{"no certificate", "redis: {address: 'a:1', tls: {ca_file: empty}}",
		[]string{`1:30: redis.tls: ca_file: DIR/empty contains no certificate`}},

	{"zero limit", "limits:\n  types:\n    - {match: a}\n    - {match: b}\n    - match: c\n      limit: 0",
		[]string{`6:14: limits.types[2].limit: must be at least 1, got "0"`}},
	{"fraction", "limits: {global: {limit: 1.5}}",
		[]string{`1:26: limits.global.limit: want a whole number or off, got "1.5"`}},
	{"unknown strategy", "limits: {default: {on_exceeded: backpressure}}",
		[]string{
			`1:33: limits.default.on_exceeded: unknown value "backpressure" (want drop, sample, throttle or aggregate)`}},
	{"misspelt strategy", "limits: {default: {on_exceeded: aggregat}}",
		[]string{`1:33: limits.default.on_exceeded: unknown value "aggregat" (did you mean "aggregate"?)`}},
	{"unknown algorithm", "limits: {global: {algorithm: leaky}}",
		[]string{`1:30: limits.global.algorithm: unknown value "leaky" (want sliding_window, token_bucket or fixed_window)`}},
	{"sample rate", "limits: {global: {sample_rate: 1.1}}",
		[]string{`1:32: limits.global.sample_rate: must be at most 1, got "1.1"`}},
	{"on instead of off", "limits: {global: disabled}",
		[]string{`1:18: limits.global: want a mapping or off, got "disabled"`}},
	{"burst of a window", "limits: {types: [{match: a, limit: 5, burst: 9}]}",
		[]string{`1:46: limits.types[0].burst: only valid for token_bucket, not for sliding_window`}},
	{"no type", "limits: {types: [{limit: 5}]}", []string{`1:18: limits.types[0].match: missing`}},
	{"two rules", "limits: {types: [{match: a}, {match: a}]}",
		[]string{`1:38: limits.types[1].match: duplicate rule for "a"`}},
	{"no preset", "limits: {types: [{match: a, preset: hi}]}",
		[]string{`1:37: limits.types[0].preset: unknown preset "hi" (want one of debug, high_value)`}},
	{"preset of that name", "limits: {presets: {x: {}, debug: {limit: 5}}}",
		[]string{`1:34: limits.presets.debug: preset "debug" is built in and cannot be redefined`}},
	{"preset value", "limits: {presets: {x: {throttle: 1m, throttle_max: 5s}}, types: [{match: a, preset: x}]}",
		[]string{`1:66: limits.types[0].throttle_max: the maximum wait 5s is shorter than one step of 1m0s`}},
	{"extends itself", "limits: {types: [{match: a, extends: a}]}",
		[]string{`1:38: limits.types[0].extends: the rule extends itself: a, then a`}},
	{"audit", "limits: {audit: [audit.login], types: [{match: 'audit.*', limit: 5}]}",
		[]string{
			`1:48: limits.types[0].match: "audit.*" covers audit types (audit[0], "audit.login"), which are never limited ` +
				`(narrow one of the two)`}},
	{"bypass without tokens", "limits:\n  bypass:\n    - {severities: [critical]}",
		[]string{
			`3:7: limits.bypass[0]: a bypass rule requires authentication (otherwise any sender could claim to be exempt) ` +
				`(set auth.tokens_file)`}},
	{"bypass of all", "auth: {tokens_file: t}\nlimits: {bypass: [{}]}",
		[]string{`2:19: limits.bypass[0]: a bypass rule needs at least one condition`}},
	{"token without tokens", "limits: {contexts: [{name: t, from: [token], limit: 5}]}",
		[]string{`1:38: limits.contexts[0].from[0]: token requires authentication (set auth.tokens_file)`}},
	{"context source", "limits: {contexts: [{name: u, from: [user_id, 'client_ip:x', 'header:']}]}", []string{
		`1:38: limits.contexts[0].from[0]: invalid context source "user_id" (want attribute:NAME, header:NAME, ` +
			`client_ip or token)`,
		`1:47: limits.contexts[0].from[1]: invalid context source "client_ip:x" (want attribute:NAME, header:NAME, ` +
			`client_ip or token)`,
		`1:62: limits.contexts[0].from[2]: invalid context source "header:" (want attribute:NAME, header:NAME, ` +
			`client_ip or token)`,
	}},
	{"no source", "limits: {contexts: [{name: u, from: []}]}",
		[]string{`1:37: limits.contexts[0].from: missing source for the value of "u"`}},
	{"shared without redis", "limits: {shared: {redis: true}}",
		[]string{
			`1:26: limits.shared.redis: rate limits are shared through Redis, but the redis section is missing (add redis, ` +
				`or remove shared)`}},
	{"fallback above all", "limits: {shared: {fallback: 2}}",
		[]string{`1:29: limits.shared.fallback: must be at most 1, got "2"`}},
	{"no default", "limits: {default: off, types: [{match: a, window: 1m}], contexts: [{name: u, from: [client_ip]}]}",
		[]string{
			`1:32: limits.types[0]: has no limit, and limits.default is off (add a limit, or enable the default)`,
			`1:68: limits.contexts[0]: has no limit, and limits.default is off (add a limit, or enable the default)`,
		}},
	{"no such environment", "environment: staging\nlimits: {global: {limit: {production: 5}}}",
		[]string{`2:26: limits.global.limit: no value for the environment "staging" (add it, or a default)`}},
	{"no environment", "limits: {global: {limit: {production: 5}}}",
		[]string{
			`1:26: limits.global.limit: the value differs by environment, and there is no default among them (set ` +
				`environment, or SLOENGINE_ENV)`}},
	{"another environment's value", "environment: a\nlimits: {global: {limit: {a: 5, b: 0, B: 1}}}", []string{
		`2:36: limits.global.limit.b: must be at least 1, got "0"`,
		`2:39: limits.global.limit.B: invalid environment name (want lower-case letters, digits, '-' and '_')`,
	}},

	{"budget of nothing", "budgets: [{service: shop}]",
		[]string{`1:11: budgets[0]: the budget bounds nothing (set bytes, queue or groups)`}},
	{"two budgets", "budgets: [{service: shop, bytes: 1MiB}, {service: shop, groups: 5}]",
		[]string{`1:51: budgets[1].service: "shop" has a budget already`}},
	{"share above 1", "budgets: [{service: shop, queue: 2}]",
		[]string{`1:34: budgets[0].queue: must be at most 1, got "2"`}},
	{"redact nothing", "redact: [{action: mask}]", []string{`1:10: redact[0].attributes: missing`}},
	{"redact the id", "redact: [{attributes: [user, id], action: mask}]",
		[]string{
			`1:30: redact[0].attributes[1]: "id" identifies the event and cannot be redacted (keep personal data out of it at ` +
				`the sender)`}},
	{"redact how", "redact: [{attributes: [user], action: encrypt}]",
		[]string{`1:39: redact[0].action: unknown value "encrypt" (want remove, mask, hash or truncate_ip)`}},
	{"redact type", "redact: [{attributes: [user], types: ['a b'], action: mask}]",
		[]string{`1:39: redact[0].types[0]: "a b" is not a valid event type`}},
	{"redact pattern", "redact:\n  - attributes: [user]\n    action: mask\n    pattern: '('",
		[]string{"4:14: redact[0].pattern: error parsing regexp: missing closing ): `(`"}},
	{"redact without key", "redact: [{attributes: [user], action: hash}]",
		[]string{`1:10: redact[0]: action hash requires key_file (create one with: openssl rand -hex 32 > redact.key)`}},
	{"redact with a short key", "redact: [{attributes: [user], action: hash, key_file: short}]",
		[]string{`1:55: redact[0].key_file: DIR/short has 3 bytes (want at least 16)`}},
	{"idle key", "redact: [{attributes: [user], action: mask, key_file: long}]",
		[]string{`1:55: redact[0].key_file: a key is only valid for the action hash`}},

	{"dead letters in redis", "dead_letters: {storage: redis}",
		[]string{`1:25: dead_letters.storage: the redis section is missing (add redis, or choose file)`}},
	{"files of memory", "dead_letters: {storage: memory, dir: x}",
		[]string{`1:38: dead_letters.dir: applies to storage: file, but storage is memory (remove it)`}},
	{"unknown storage", "dead_letters: {storage: s3}",
		[]string{`1:25: dead_letters.storage: unknown value "s3" (want file, redis or memory)`}},
	{"few segments", "dead_letters: {max_bytes: 16MB}",
		[]string{
			`1:27: dead_letters.max_bytes: must be at least two segments of 10000000 bytes (raise it, or lower segment)`}},
	{"cron", "dead_letters: {clean: sometimes, replay: {schedule: '0 0 30 2 *'}}", []string{
		`1:23: dead_letters.clean: schedule "sometimes" is not a cron expression (want a cron expression such as "0 2 * * ` +
			`*")`,
		`1:53: dead_letters.replay.schedule: schedule "0 0 30 2 *" never occurs (want a cron expression such as "*/10 * * ` +
			`* *")`,
	}},
	{"smtp", "smtp: {smarthost: mail, from: nobody, hello: 'a b'}",
		[]string{`1:19: smtp.smarthost: must be a host and a port (as in mail.example.org:587)`,
			`1:31: smtp.from: is not a mail address (as in SLO reports <slo@example.org>)`,
			`1:46: smtp.hello: "a b" is not a host name (as in engine.example.org)`}},
	{"smtp password in the clear", "smtp: {smarthost: 'm:25', from: a@b.c, username: u, tls: none}",
		[]string{`1:7: smtp.password_file: missing (or set password_env)`,
			`1:58: smtp.tls: the password would cross the network unencrypted (choose starttls or tls, or remove username)`}},
	{"smtp password of nobody", "smtp: {smarthost: 'm:25', from: a@b.c, password_env: PATH}",
		[]string{`1:7: smtp.username: missing (set it, or remove the password)`}},
	{"report to nobody", "reports: [{name: a, every: week, to: {}}]",
		[]string{`1:38: reports[0].to: the report goes nowhere (add email, webhooks or folder)`}},
	{"report without mail server", "reports: [{name: a, every: week, to: {email: [a@b.c]}}]",
		[]string{
			`1:46: reports[0].to.email: the smtp section is missing (add smtp: {smarthost: mail.example.org:587, ` +
				`from: slo@example.org})`}},
	{"report values",
		"reports:\n  - {name: A b, every: week, day: '1', at: 25h, timezone: Local, service: x, agreement: gold, " +
			"formats: [pdf, csv, csv], to: {folder: x}}", []string{
			`2:12: reports[0].name: invalid report name "A b" (want 1 to 64 of a-z, 0-9, '.', '_' and '-', ` +
				`not starting with '.', because it becomes a file name and a label)`,
			`2:35: reports[0].day: "1" is not a day of the week (want monday to sunday)`,
			`2:44: reports[0].at: "25h" is not a time of day (want a time such as 08:00)`,
			`2:59: reports[0].timezone: "Local" is not a time zone (want a name such as Europe/Berlin)`,
			`2:75: reports[0].service: service and agreement exclude each other (remove it)`,
			`2:89: reports[0].agreement: "gold" is not an agreement (want the service and the name, such as shop/gold)`,
			`2:105: reports[0].formats[0]: "pdf" is not a format (want html, csv or json)`,
			`2:115: reports[0].formats[2]: csv is listed twice (remove it)`}},
	{"report day",
		"reports: [{name: a, every: month, day: '31', to: {folder: x}}, {name: a, every: month, to: {webhooks: [{url: " +
			"'ftp://u:secret@x'}, {url: 'http://u:secret@x'}, {url: 'http://x'}, {url: 'http://x'}]}}]", []string{
			`1:40: reports[0].day: "31" is not a day of every month (want 1 to 28, which every month has)`,
			`1:71: reports[1].name: reports[0] already has this name (the name identifies the reports that were sent)`,
			`1:110: reports[1].to.webhooks[0].url: must begin with http:// or https:// and have a host (as in ` +
				`https://example.org/reports)`, `1:137: reports[1].to.webhooks[1].url: must not contain credentials, ` +
				`set token_file (as in https://example.org/reports)`, `1:184: reports[1].to.webhooks[3].url: the URL is listed ` +
				`twice (remove it)`}},
	{"time zone", "dead_letters: {timezone: Mars/Base}",
		[]string{`1:26: dead_letters.timezone: "Mars/Base" is not a time zone (want a name such as Europe/Berlin)`}},
	{"filter pattern", "dead_letters: {filter: {never_save: [ok, '/(/'], always_save: ['']}}", []string{
		"1:42: dead_letters.filter.never_save[1]: pattern /(/: error parsing regexp: missing closing ): `(` (want a name, " +
			"a name with * and ?, or /an expression/)",
		`1:64: dead_letters.filter.always_save[0]: empty pattern (want a name, a name with * and ?, or /an expression/)`,
	}},
	{"expression", "dead_letters: {filter: {save_if: 'event.sverity == 1'}}",
		[]string{
			`1:34: dead_letters.filter.save_if: event has no field sverity, at column 7 of the expression (the expression can ` +
				`use event and failure)`}},
	{"replay rate", "dead_letters: {replay: {rate: 0, batch: 1001}}", []string{
		`1:31: dead_letters.replay.rate: must be more than 0, got "0"`,
		`1:41: dead_letters.replay.batch: must be at most 1000, got "1001"`,
	}},

	{"jitter", "retry: {jitter: random}",
		[]string{`1:17: retry.jitter: unknown value "random" (want full, equal, decorrelated, plusminus or none)`}},
	{"spread", "retry: {jitter: plusminus, spread: 1.5}", []string{`1:36: retry.spread: must be at most 1, got "1.5"`}},
	{"retries", "retry: {max_retries: -1}", []string{`1:22: retry.max_retries: must be at least 0, got "-1"`}},
	{"cap below base", "retry: {base: 10s}",
		[]string{`1:8: retry.cap: must be at least retry.base (10s) (raise it, or lower base)`}},
	{"budget", "retry: {budget: {ratio: 0}}", []string{`1:25: retry.budget.ratio: must be more than 0, got "0"`}},
	{"retry limit", "retry: {rate_limit: {limit: 0, on_exceeded: dlq}}", []string{
		`1:29: retry.rate_limit.limit: must be at least 1, got "0"`,
		`1:45: retry.rate_limit.on_exceeded: unknown value "dlq" (want delay, drop or dead_letter)`,
	}},
	{"breaker off", "breaker: {rate: off, consecutive: off}",
		[]string{
			`1:10: breaker: both rules are off, so the breaker would never open (set breaker: off, or enable one of the ` +
				`rules)`}},
	{"probes", "breaker: {rate: {probes: 2, successes: 3}}",
		[]string{`1:40: breaker.rate.successes: successes (3) must not exceed probes (2) (lower it, or raise probes)`}},
	{"percent", "breaker: {rate: {threshold: 50}}", []string{`1:29: breaker.rate.threshold: must be at most 1, got "50"`}},
	{"bulkhead", "bulkhead: {concurrency: 0}", []string{`1:25: bulkhead.concurrency: must be at least 1, got "0"`}},

	{"sink of no kind", "sinks: [{name: a}]",
		[]string{`1:9: sinks[0]: the sink has no destination (add http, file, parquet, kafka or rabbitmq)`}},
	{"sink of two kinds", "sinks: [{name: a, http: {url: 'http://x'}, file: {dir: x}}]",
		[]string{`1:50: sinks[0].file: http and file exclude each other (define two sinks)`}},
	{"kafka and a time-out", "sinks: [{name: a, timeout: 5s, kafka: {brokers: ['k:9092'], topic: t}}]",
		[]string{
			`1:28: sinks[0].timeout: the time-out of a call to Kafka is its delivery time-out (set kafka.delivery_timeout)`}},
	{"kafka without brokers", "sinks: [{name: a, kafka: {topic: t, acks: leader}}]",
		[]string{`1:26: sinks[0].kafka: acks: leader requires idempotent: false`,
			`1:26: sinks[0].kafka: brokers: missing (give host:port of at least one broker)`}},
	{"rabbitmq with credentials", "sinks: [{name: a, rabbitmq: {url: 'amqp://u:hush@r'}}]",
		[]string{`1:29: sinks[0].rabbitmq: url: contains credentials (set username and password_file)`}},
	{"no name", "sinks: [{file: {dir: x}}]", []string{`1:9: sinks[0].name: missing`}},
	{"name", "sinks: [{name: My Sink, file: {dir: x}}]",
		[]string{
			`1:16: sinks[0].name: invalid sink name "My Sink" (want 1 to 64 of a-z, 0-9, '.', '_' and '-', ` +
				`not starting with '.', because it becomes a file name and a label)`}},
	{"same name", "sinks: [{name: a, file: {dir: x}}, {name: a, file: {dir: y}}]",
		[]string{`1:43: sinks[1].name: sinks[0] already has this name (the name identifies its cursor in the log)`}},
	{"same folder", "sinks: [{name: a, file: {dir: x}}, {name: b, file: {dir: ./y/../x}}]",
		[]string{
			`1:58: sinks[1].file.dir: sinks[0] already writes to this directory (set a separate directory for each sink)`}},
	{"folder of dead letters", "dead_letters: {dir: x}\nsinks: [{name: a, file: {dir: x/}}]",
		[]string{`2:31: sinks[0].file.dir: the dead letters use this directory (set a separate directory)`}},
	{"same folder as Parquet", "sinks: [{name: a, file: {dir: x}}, {name: b, parquet: {dir: ./x, roll: 1ms}}]",
		[]string{
			`1:61: sinks[1].parquet.dir: sinks[0] already writes to this directory (set a separate directory for each sink)`,
			`1:72: sinks[1].parquet.roll: must be at least 1s, got "1ms"`}},
	{"calls at once", "sinks: [{name: a, parquet: {dir: x}, timeout: 5s, bulkhead: {concurrency: 2}}]", []string{
		`1:47: sinks[0].timeout: a Parquet sink makes one call after the other, of at most 2m0s (remove it)`,
		`1:75: sinks[0].bulkhead.concurrency: a Parquet sink makes one call after the other, of at most 2m0s (remove it)`}},
	{"url", "sinks: [{name: a, http: {url: example.org}}]",
		[]string{
			`1:31: sinks[0].http.url: must begin with http:// or https:// and have a host (want a URL such as ` +
				`https://example.org/events)`}},
	{"password in the url", "sinks: [{name: a, http: {url: 'https://u:hush@x'}}]",
		[]string{
			`1:31: sinks[0].http.url: must not contain credentials, set header_files (want a URL such as ` +
				`https://example.org/events)`}},
	{"method", "sinks: [{name: a, http: {url: 'http://x', method: post}}]",
		[]string{`1:51: sinks[0].http.method: unknown value "post" (did you mean "POST"?)`}},
	{"secret in a header", "sinks: [{name: a, http: {url: 'http://x', headers: {authorization: Bearer x}}}]",
		[]string{
			`1:68: sinks[0].http.headers.authorization: a secret must not be set here (write the value to a file and set the ` +
				`file name under header_files)`}},
	{"own header", "sinks: [{name: a, http: {url: 'http://x', headers: {Content-Type: x}}}]",
		[]string{`1:25: sinks[0].http: header "Content-Type" is set by the sink itself`}},
	{"header twice", "sinks: [{name: a, http: {url: 'http://x', headers: {X-A: x}, header_files: {x-a: long}}}]",
		[]string{`1:82: sinks[0].http.header_files.x-a: the header is also set under headers (remove one of them)`}},
	{"signing key", "sinks: [{name: a, http: {url: 'http://x', secret_file: short}}]",
		[]string{`1:25: sinks[0].http: secret: DIR/short: key of 3 bytes is too short (at least 16)`}},
	{"ttl", "sinks: [{name: a, file: {dir: x}, ttl: 1s, batch: {wait: 5s}}]",
		[]string{
			`1:40: sinks[0].ttl: events would expire while they wait 5s for their batch (raise it, or lower batch.wait)`}},
	{"lag", "sinks: [{name: a, file: {dir: x}, max_lag_bytes: 1KiB}]",
		[]string{
			`1:50: sinks[0].max_lag_bytes: must be at least one batch of 1048576 bytes (raise it, or lower batch.bytes)`}},
	{"sink limit", "sinks: [{name: a, file: {dir: x}, rate_limit: {window: 1s}}]",
		[]string{`1:47: sinks[0].rate_limit.limit: missing`}},
	{"shared sink without redis", "sinks: [{name: a, file: {dir: x}, shared: true}]",
		[]string{
			`1:43: sinks[0].shared: breaker and retry budget are shared through Redis, but the redis section is missing (add ` +
				`redis, or remove shared)`}},
	{"sink limit without redis", "sinks: [{name: a, file: {dir: x}, rate_limit: {limit: 6, shared: true}}]",
		[]string{
			`1:66: sinks[0].rate_limit.shared: rate limits are shared through Redis, but the redis section is missing (add ` +
				`redis, or remove shared)`}},
	{"idle fallback", "sinks: [{name: a, file: {dir: x}, rate_limit: {limit: 6, fallback: 1}}]",
		[]string{
			`1:68: sinks[0].rate_limit.fallback: fallback requires a shared rate limit (set shared: true, or remove it)`}},
	{"a sink's own retry", "sinks: [{name: a, file: {dir: x}, retry: {cap: 50ms}}]",
		[]string{`1:48: sinks[0].retry.cap: must be at least retry.base (100ms) (raise it, or lower base)`}},
	{"told once", "retry: {base: 10s}\nsinks: [{name: a, file: {dir: x}}]",
		[]string{`1:8: retry.cap: must be at least retry.base (10s) (raise it, or lower base)`}},
	{"all at once", "timeout: 0s\nsinks: [{name: a, file: {dir: x, fsync: always}}]\nredis: {db: -1}\n\"a\\nb\": 1",
		[]string{
			`1:10: timeout: must be at least 1ms, got "0s"`,
			`2:41: sinks[0].file.fsync: unknown value "always" (want cursor, batch or never)`,
			`3:8: redis.address: missing`,
			`3:13: redis.db: must be at least 0, got "-1"`,
			`4:1: unknown key "a\nb" (known keys: environment, ingest, otlp, known_ids, parked, log, rebuild, checkpoint, ` +
				`evaluator, forecast, ledger, disk, auth, web, public, shutdown, alerts, notifications, smtp, reports, redis, ` +
				`limits, budgets, redact, sources, dead_letters, retry, breaker, bulkhead, timeout, sinks, remote_write)`,
		}},
}

func TestWrongSettings(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"empty": "", "short": "abc\n", "long": strings.Repeat("x", 32)} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	require.GreaterOrEqual(t, len(wrongSettings), 40)
	for _, c := range wrongSettings {
		t.Run(c.name, func(t *testing.T) {
			_, err := load(t, dir, c.text)
			require.Error(t, err)
			var got []string
			for _, line := range strings.Split(err.Error(), "\n") {
				rest, ok := strings.CutPrefix(line, filepath.Join(dir, "engine.yaml")+":")
				require.True(t, ok, line)
				got = append(got, strings.ReplaceAll(rest, dir, "DIR"))
			}
			require.Equal(t, c.want, got)
		})
	}
}

func TestWrongEnvironmentVariable(t *testing.T) {
	t.Setenv(EnvironmentVariable, "default")
	_, err := load(t, t.TempDir(), "")
	require.EqualError(
		t, err, `SLOENGINE_ENV="default" is not an environment name (want lower-case letters, digits, '-' and '_')`)
	_, err = Load("")
	require.Error(t, err)
}

func TestNoSettings(t *testing.T) {
	_, err := Load(filepath.Join(t.TempDir(), "nowhere.yaml"))
	require.ErrorContains(t, err, "read settings: ")
	c, err := load(t, t.TempDir(), "# nothing\n")
	require.NoError(t, err)
	require.Equal(t, Default(), c)
}
