package config

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	"github.com/sloengine/sloengine/reliability/nettest"
	"github.com/sloengine/sloengine/reliability/ratelimit"
)

const exampleFile = "../../../../deploy/engine.yaml"

// uncommented takes the # from settings, and leaves prose alone.
func uncommented(text string) string {
	return regexp.MustCompile(`(?m)^#([^ \n#].*|  .*)$`).ReplaceAllString(text, "$1")
}

// load reads settings from a file in dir.
func load(t testing.TB, dir, text string) (Config, error) {
	t.Helper()
	file := filepath.Join(dir, "engine.yaml")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return Load(file)
}

// secretsIn writes the files that the example names.
func secretsIn(t testing.TB, dir string) {
	t.Helper()
	cert, key := nettest.SelfSigned(t)
	for name, data := range map[string][]byte{
		"redis.password": []byte("hush\n"), "redact.key": []byte(strings.Repeat("k", 32)),
		"webhook.auth": []byte("Bearer 1234567890abcdef\n"),
		"webhook.key":  []byte(strings.Repeat("s", 32)), "alertmanager.password": []byte("hush\n"),
		"alertmanager.token": []byte("1234\n"), "alertmanager-ca.pem": cert,
		"slack.url": []byte("https://hooks.example.org/hush\n"), "pagerduty.key": []byte("hush\n"),
		"messages.tmpl": []byte(`{{ define "slack.default.footer" }}sloengine{{ end }}`),
		"redis-ca.pem":  cert, "webhook-ca.pem": cert, "client.pem": cert, "client-key.pem": key,
		"logo.svg":      []byte("<svg xmlns='http://www.w3.org/2000/svg'/>"),
		"smtp.password": []byte("hush\n"), "mail-ca.pem": cert, "reports.token": []byte("1234\n"),
		"kafka.password": []byte("hush\n"), "kafka-ca.pem": cert, "rabbitmq.password": []byte("hush\n"),
		"rabbitmq-ca.pem": cert, "outbox.dsn": []byte("postgres://u:hush@db/shop\n"),
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), data, 0o600))
	}
}

// The example in deploy/ shows every setting, with its default where it has one.
func TestExampleIsTheDefault(t *testing.T) {
	c, err := Load(exampleFile)
	require.NoError(t, err)
	c.places = nil
	require.Equal(t, Default(), c)
	empty, err := Load("")
	require.NoError(t, err)
	require.Equal(t, c, empty)
}

func TestExampleUncommented(t *testing.T) {
	dir := t.TempDir()
	secretsIn(t, dir)
	t.Setenv("ALERTMANAGER_PASSWORD", "hush")
	t.Setenv("ALERTMANAGER_TOKEN", "1234")
	t.Setenv("BI_TOKEN", "1234")
	data, err := os.ReadFile(exampleFile)
	require.NoError(t, err)
	text := uncommented(string(data))
	c, err := load(t, dir, text)
	require.NoError(t, err)

	// What is not said stays as it is.
	require.Equal(t, filepath.Join(dir, "tokens.yaml"), c.Auth.TokensFile)
	plain := Default()
	plain.places = c.places
	plain.Auth, plain.Web, plain.Redis, plain.Limits, plain.Budgets, plain.Redact, plain.Sources, plain.Sinks,
		plain.Notifications, plain.SMTP, plain.Reports, plain.Public, plain.RemoteWrite =
		c.Auth, c.Web, c.Redis, c.Limits, c.Budgets, c.Redact,
		c.Sources, c.Sinks, c.Notifications, c.SMTP, c.Reports, c.Public, c.RemoteWrite
	plain.Log, plain.Ingest.CloudEvents, plain.OTLP = c.Log, c.Ingest.CloudEvents, c.OTLP
	plain.OTLP.Keep = Default().OTLP.Keep
	require.Equal(t, plain, c)

	// The values shown are those of a section that says as little as it can.
	bare, err := load(t, dir, `
auth: {tokens_file: tokens.yaml}
redis: {address: "127.0.0.1:6379"}
limits: {}
sources: [{name: orders, kafka: {brokers: ["kafka-1:9092", "kafka-2:9092"], topics: [order-events]}}]
sinks: [{name: archive, file: {dir: /var/lib/sloengine/archive}},
    {name: webhook, http: {url: "https://events.example.org/in"}, shared: true, rate_limit: {limit: 6, shared: true}},
  {name: stream, kafka: {brokers: ["kafka-1.example.org:9093", "kafka-2.example.org:9093"], topic: sloengine-events,
      version: "3.7"}},
  {name: bus, rabbitmq: {url: "amqps://rabbitmq.example.org/shop", username: sloengine, exchange: sloengine}}]
remote_write: [{name: mimir, url: "https://mimir.example.org/api/v1/push", headers: {X-Scope-OrgID: shop},
    labels: {cluster: eu-1}}]
`)
	require.NoError(t, err)
	require.Equal(t, bare.RemoteWrite[0].Settings, c.RemoteWrite[0].Settings)
	redis := *c.Redis
	redis.PasswordFile, redis.TLS, redis.Addresses = "", nil, nil
	require.Equal(t, *bare.Redis, redis)
	orders := c.Sources[0]
	k := *orders.Kafka
	orders.Headers, k.TLS, k.Options, orders.Kafka = nil, nil, bare.Sources[0].Kafka.Options, &k
	require.Equal(t, bare.Sources[0], orders)
	require.Equal(t, bare.Sinks[0], c.Sinks[0])
	webhook := c.Sinks[1]
	h := *webhook.HTTP
	h.Headers, h.HeaderFiles, h.SecretFile, h.HealthURL, h.TLS = nil, nil, "", "", tlsConfig{}
	webhook.HTTP, webhook.policies = &h, defaultPolicies()
	require.Equal(t, bare.Sinks[1], webhook)
	stream, bus := *c.Sinks[2].Kafka, *c.Sinks[3].RabbitMQ
	stream.SASL, stream.TLS, bus.PasswordFile, bus.TLS = nil, nil, "", nil
	require.Equal(t, *bare.Sinks[2].Kafka, stream)
	require.Equal(t, *bare.Sinks[3].RabbitMQ, bus)
	limits := *c.Limits
	limits.Global, limits.Default = bare.Limits.Global, bare.Limits.Default
	limits.Presets, limits.Types, limits.Contexts, limits.Bypass, limits.Audit = nil, nil, nil, nil, nil
	limits.BypassIf = ""
	require.Equal(t, *bare.Limits, limits)
	require.Equal(t, ratelimit.Values{
		Limit: new(int64(ratelimit.DefaultGlobalLimit)), Window: new(ratelimit.DefaultGlobalWindow),
		Algorithm: new(ratelimit.SlidingWindow), OnExceeded: new(ratelimit.OnExceededSample),
		SampleRate: new(ratelimit.DefaultSampleRate), ThrottleDelay: new(ratelimit.DefaultThrottleDelay),
		ThrottleMaxWait: new(ratelimit.DefaultThrottleMaxWait), AggregateFields: []string{"path", "amount"},
	}, c.Limits.Global.V)
	require.Equal(t, ratelimit.Values{Limit: new(int64(ratelimit.DefaultTypeLimit)), Window: new(time.Second)},
		c.Limits.Default.V)

	// And every setting is shown somewhere.
	var root yaml.Node
	require.NoError(t, yaml.Unmarshal([]byte(text), &root))
	shown := map[string]bool{}
	showKeys(root.Content[0], reflect.TypeOf(Config{}), shown)
	for _, key := range allKeys(reflect.TypeOf(Config{})) {
		require.True(t, shown[key], "%s is not shown in the example", key)
	}
}

// elem looks through what holds a struct of settings.
func elem(t reflect.Type) reflect.Type {
	for {
		switch {
		case t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map:
			t = t.Elem()
		case t.Kind() == reflect.Struct && strings.HasPrefix(t.Name(), "Disableable["):
			f, _ := t.FieldByName("V")
			t = f.Type
		default:
			return t
		}
	}
}

// keyOf names a setting by the struct that it is in, since some are in several places.
func keyOf(t reflect.Type, key string) string { return t.String() + "." + key }

func allKeys(t reflect.Type) (keys []string) {
	if t = elem(t); t.Kind() != reflect.Struct {
		return nil
	}
	for i := range t.NumField() {
		f := t.Field(i)
		key, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		switch {
		case f.Anonymous && key == "":
			keys = append(keys, allKeys(f.Type)...)
		case key == "": // no setting
		case f.Type != reflect.TypeOf(ratelimit.Source{}):
			keys = append(keys, keyOf(t, key))
			if elem(f.Type) != reflect.TypeOf(ratelimit.Source{}) {
				keys = append(keys, allKeys(f.Type)...)
			}
		}
	}
	return keys
}

func showKeys(n *yaml.Node, t reflect.Type, shown map[string]bool) {
	if n.Kind == yaml.SequenceNode {
		for _, c := range n.Content {
			showKeys(c, t, shown)
		}
		return
	}
	isMap := t.Kind() == reflect.Map
	if t = elem(t); n.Kind != yaml.MappingNode || t.Kind() != reflect.Struct {
		return
	}
	for i := 0; i < len(n.Content); i += 2 {
		if isMap {
			showKeys(n.Content[i+1], t, shown)
			continue
		}
		showKey(n.Content[i].Value, n.Content[i+1], t, shown)
	}
}

func showKey(key string, value *yaml.Node, t reflect.Type, shown map[string]bool) {
	for i := range t.NumField() {
		f := t.Field(i)
		tag, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if f.Anonymous && tag == "" {
			showKey(key, value, f.Type, shown)
		} else if tag == key {
			shown[keyOf(t, key)] = true
			showKeys(value, f.Type, shown)
		}
	}
}

// Tags are only looked at when a value is read: a wrong one would show late.
func TestTagsOfSettings(t *testing.T) {
	known := []string{"yaml", "min", "max", "above", "one", "is", "off"}
	var walk func(reflect.Type)
	walk = func(typ reflect.Type) {
		typ = elem(typ)
		if typ.Kind() != reflect.Struct || typ == reflect.TypeOf(ratelimit.Source{}) {
			return
		}
		for i := range typ.NumField() {
			f := typ.Field(i)
			for _, m := range regexp.MustCompile(`(\w+):"`).FindAllStringSubmatch(string(f.Tag), -1) {
				require.True(t, slices.Contains(known, m[1]), "%s.%s: %s", typ, f.Name, f.Tag)
			}
			if f.Anonymous || f.Tag != "" || f.Name == "V" { // the rest of a component's options is no setting
				walk(f.Type)
			}
		}
	}
	walk(reflect.TypeOf(Config{}))
}
