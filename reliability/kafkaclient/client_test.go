package kafkaclient

import (
	"context"
	"crypto/tls"
	"strings"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/sloengine/sloengine/ingest/source/kafka/kafkatest"
	"github.com/sloengine/sloengine/reliability/nettest"
	"github.com/sloengine/sloengine/reliability/remote"
	"github.com/sloengine/sloengine/reliability/retry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(kafkatest.Main(m)) }

func TestWrongOptions(t *testing.T) {
	for text, o := range map[string]Options{
		"brokers: missing":                             {},
		`brokers: invalid address "kafka"`:             {Brokers: []string{"kafka"}},
		`version: unknown Kafka version "latest"`:      {Brokers: []string{"k:9092"}, Version: "latest"},
		"sasl: username and password_file are require": {Brokers: []string{"k:9092"}, SASL: &SASLOptions{Username: "u"}},
		"sasl: password_file: stat /nowhere": {Brokers: []string{"k:9092"},
			SASL: &SASLOptions{Username: "u", PasswordFile: "/nowhere"}},
		`sasl: unknown mechanism "GSSAPI"`: {Brokers: []string{"k:9092"},
			SASL: &SASLOptions{Username: "u", PasswordFile: nettest.PasswordFile(t, "x"), Mechanism: "GSSAPI"}},
	} {
		require.ErrorContains(t, o.Validate(), text)
	}
	require.NoError(t, Options{Brokers: []string{"k:9092", "[::1]:9092"}, Version: "2.8"}.Validate())
}

// TestWhatAnOperatorReads makes each mistake with a real broker.
func TestWhatAnOperatorReads(t *testing.T) {
	c := kafkatest.Shared(t)
	c.CreateTopic(t, "words", 1, map[string]string{"max.message.bytes": "2000"})
	sasl := func(mechanism, user, password string) *SASLOptions {
		return &SASLOptions{Mechanism: mechanism, Username: user, PasswordFile: nettest.PasswordFile(t, password)}
	}
	for name, x := range map[string]struct {
		o     Options
		topic string
		value string
		kind  remote.Kind
		class retry.Class
		text  string
	}{
		"plain": {o: Options{Brokers: c.Brokers()}},
		"SASL PLAIN": {
			o: Options{Brokers: c.SASLBrokers(), SASL: sasl("PLAIN", kafkatest.Alice, kafkatest.AlicePassword)}},
		"SCRAM 256": {
			o: Options{Brokers: c.SASLBrokers(), SASL: sasl("SCRAM-SHA-256", kafkatest.Alice, kafkatest.AlicePassword)}},
		"SCRAM 512": {o: Options{Brokers: c.SASLBrokers(), SASL: sasl("", kafkatest.Alice, kafkatest.AlicePassword)}},
		"TLS":       {o: Options{Brokers: c.TLSBrokers(), TLS: c.TLSConfig()}},
		"SCRAM and TLS": {o: Options{Brokers: c.SASLTLSBrokers(), TLS: c.TLSConfig(),
			SASL: sasl("", kafkatest.Alice, kafkatest.AlicePassword)}},
		"old": {o: Options{Brokers: c.Brokers(), Version: "2.4"}},
		"wrong password": {o: Options{Brokers: c.SASLBrokers(), SASL: sasl("PLAIN", kafkatest.Alice, "no")},
			kind: remote.KindCredentials, class: retry.ClassBlocked, text: "user name or password"},
		"wrong SCRAM": {o: Options{Brokers: c.SASLBrokers(), SASL: sasl("", kafkatest.Alice, "no")},
			kind: remote.KindCredentials, class: retry.ClassBlocked, text: "user name or password"},
		"wrong over TLS": {o: Options{Brokers: c.SASLTLSBrokers(), TLS: c.TLSConfig(), SASL: sasl("", kafkatest.Alice, "no")},
			kind: remote.KindCredentials, class: retry.ClassBlocked, text: "user name or password"},
		"no TLS": {o: Options{Brokers: c.SASLTLSBrokers(), SASL: sasl("", kafkatest.Alice, kafkatest.AlicePassword)},
			kind: remote.KindTLS, class: retry.ClassBlocked, text: "the port wants TLS (set tls)"},
		"no rights": {o: Options{Brokers: c.SASLBrokers(), SASL: sasl("", kafkatest.Mallory, kafkatest.MalloryPassword)},
			kind: remote.KindCredentials, class: retry.ClassBlocked, text: "not authorized for the topic"},
		"foreign CA": {o: Options{Brokers: c.TLSBrokers(), TLS: &tls.Config{}}, kind: remote.KindTLS,
			class: retry.ClassBlocked, text: "unknown authority"},
		"TLS where not": {o: Options{Brokers: c.Brokers(), TLS: c.TLSConfig()}, kind: remote.KindConnection,
			class: retry.ClassTransient, text: "is TLS misconfigured"},
		"missing topic": {o: Options{Brokers: c.Brokers()}, topic: "missing", kind: remote.KindTopology,
			class: retry.ClassBlocked, text: "the topic does not exist"},
		"large": {o: Options{Brokers: c.Brokers()}, value: strings.Repeat("x", 4000), kind: remote.KindMessage,
			class: retry.ClassPermanent, text: "larger than"},
		"no listener": {o: Options{Brokers: []string{"127.0.0.1:1"}}, kind: remote.KindConnection,
			class: retry.ClassTransient, text: "refused"},
	} {
		t.Run(name, func(t *testing.T) {
			x.o.Backoff = 50 * time.Millisecond
			topic := x.topic
			if topic == "" {
				topic = "words"
			}
			client, err := New(x.o, kgo.DefaultProduceTopic(topic), kgo.RecordRetries(3),
				kgo.ProducerBatchCompression(kgo.NoCompression()))
			require.NoError(t, err)
			defer client.Close()
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			ctx, stop := client.Watch(ctx)
			defer stop()
			err = Explain(client.ProduceSync(ctx, kgo.StringRecord("v"+x.value)).FirstErr())
			if b := context.Cause(ctx); b != nil {
				err = b
			}
			if x.text == "" {
				require.NoError(t, err)
				require.NoError(t, client.Failure())
				return
			}
			if f := client.Failure(); x.kind == remote.KindConnection && f != nil {
				err = f
			}
			var e *remote.BrokerError
			require.ErrorAs(t, err, &e)
			require.ErrorContains(t, err, x.text)
			require.Equal(t, x.kind, e.Kind)
			require.Equal(t, x.class, retry.ClassOf(err), err)
			require.NotContains(t, err.Error(), "secret")
		})
	}
}

func TestMetricsOfAClient(t *testing.T) {
	c := kafkatest.Shared(t)
	c.CreateTopic(t, "counted", 1, nil)
	set := metrics.NewSet()
	m := NewMetrics(set)
	client, err := New(Options{Brokers: c.Brokers(), Name: "sink:k", Metrics: m}, kgo.DefaultProduceTopic("counted"))
	require.NoError(t, err)
	require.NoError(t, client.ProduceSync(t.Context(), kgo.StringRecord("v")).FirstErr())
	text := func() string {
		var b strings.Builder
		set.WritePrometheus(&b)
		return b.String()
	}
	for _, line := range []string{
		`sloengine_kafka_request_seconds_count{client="sink:k",request="produce"} 1`,
		`sloengine_kafka_request_failures_total{client="sink:k",request="produce"} 0`,
		`sloengine_kafka_buffered_records{client="sink:k"} 0`,
		`sloengine_kafka_buffered_bytes{client="sink:k"} 0`,
		`sloengine_kafka_throttled_seconds_total{client="sink:k"} 0`,
		`sloengine_kafka_connects_total{client="sink:k",result="failure"} 0`,
	} {
		require.Contains(t, text(), line+"\n")
	}
	require.NotContains(t, text(), `sloengine_kafka_connects_total{client="sink:k",result="success"} 0`)
	client.Close()
	require.NotContains(t, text(), `sloengine_kafka_disconnects_total{client="sink:k"} 0`+"\n")
	m.Forget("sink:k")
	require.Empty(t, text())
}
