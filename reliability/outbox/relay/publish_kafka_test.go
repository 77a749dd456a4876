package relay

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/ingest/source/kafka/kafkatest"
	"github.com/sloengine/sloengine/reliability/kafkaclient"
	"github.com/sloengine/sloengine/reliability/nettest"
	"github.com/sloengine/sloengine/reliability/outbox"
	"github.com/sloengine/sloengine/reliability/retry"
)

func rowMessage(topic, key, payload string) *Message {
	return &Message{Row: &outbox.Row{Topic: topic, Key: key, Payload: []byte(payload)},
		Headers: []Header{{Name: "traceparent", Value: "00-1"}}}
}

func newKafka(t *testing.T, o kafkaclient.Options) *Kafka {
	t.Helper()
	o.Backoff, o.RequestTimeout = 50*time.Millisecond, 5*time.Second
	k, err := NewKafka(kafkaclient.ProducerOptions{Options: o, BatchBytes: 1 << 20, MaxMessageBytes: 1 << 20,
		DeliveryTimeout: 10 * time.Second})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, k.Close()) })
	return k
}

func TestRowsBecomeRecords(t *testing.T) {
	c := kafkatest.Shared(t)
	c.CreateTopic(t, "rows", 3, nil)
	c.CreateTopic(t, "small", 1, map[string]string{"max.message.bytes": "2000"})
	k := newKafka(t, kafkaclient.Options{Brokers: c.Brokers()})
	require.NoError(t, k.Check(t.Context()))
	batch := []*Message{
		rowMessage("rows", "a", "1"), rowMessage("missing", "a", "lost"), rowMessage("rows", "a", "2"),
		rowMessage("small", "a", strings.Repeat("x\x00y", 5000)), rowMessage("rows", "b", strings.Repeat("x", 2<<20)),
		rowMessage("rows", "a", "3"),
	}
	outcomes := k.Publish(t.Context(), batch)
	for i, want := range []string{"", "the topic does not exist", "", "", "more than max_message_bytes", ""} {
		require.False(t, outcomes[i].Away, i)
		if want != "" {
			require.ErrorContains(t, outcomes[i].Err, want)
		} else if i != 3 { // compression may make it fit
			require.NoError(t, outcomes[i].Err)
		}
	}
	require.Equal(t, retry.ClassPermanent, retry.ClassOf(outcomes[4].Err))
	require.Equal(t, retry.ClassBlocked, retry.ClassOf(outcomes[1].Err))
	var values []string
	for _, r := range c.Records(t, "rows") {
		require.Equal(t, "a", string(r.Key))
		require.Equal(t, "traceparent", r.Headers[0].Key)
		require.Equal(t, "00-1", string(r.Headers[0].Value))
		values = append(values, string(r.Value))
	}
	require.Equal(t, []string{"1", "2", "3"}, values)
}

func TestWhatIsAboutTheClusterIsNoAttempt(t *testing.T) {
	c := kafkatest.Shared(t)
	c.CreateTopic(t, "guarded", 1, nil)
	wrong := kafkaclient.Options{Brokers: c.SASLBrokers(),
		SASL: &kafkaclient.SASLOptions{Username: kafkatest.Alice, PasswordFile: nettest.PasswordFile(t, "wrong")}}
	down := kafkaclient.Options{Brokers: []string{nettest.FreeAddress(t)}}
	for _, o := range []kafkaclient.Options{wrong, down} {
		k := newKafka(t, o)
		out := k.Publish(t.Context(), []*Message{rowMessage("guarded", "a", "1")})[0]
		require.Error(t, out.Err)
		require.True(t, out.Away, out.Err)
	}
	// Permission for one topic is about its rows.
	o := kafkaclient.Options{Brokers: c.SASLBrokers(),
		SASL: &kafkaclient.SASLOptions{
			Username: kafkatest.Mallory, PasswordFile: nettest.PasswordFile(t, kafkatest.MalloryPassword)}}
	out := newKafka(t, o).Publish(t.Context(), []*Message{rowMessage("guarded", "a", "1")})[0]
	require.ErrorContains(t, out.Err, "not authorized")
}
