package sink

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/ingest/source/kafka/kafkatest"
	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/reliability/dispatch"
	"github.com/sloengine/sloengine/reliability/kafkaclient"
	"github.com/sloengine/sloengine/reliability/nettest"
	"github.com/sloengine/sloengine/reliability/retry"
)

func kafkaItems(t *testing.T, ids ...string) (batch []dispatch.Item) {
	t.Helper()
	for _, id := range ids {
		e := event.Event{ID: id, Service: "shop", Type: "order", Time: time.Unix(1_700_000_000, 0)}
		batch = append(batch, dispatch.Item{ID: id, Service: "shop", Type: "order", Payload: event.AppendBinary(nil, &e)})
	}
	return batch
}

// largeItem is an event of some size.
func largeItem(id string, size int) dispatch.Item {
	e := event.Event{ID: id, Service: "shop", Type: "order", Time: time.Unix(1_700_000_000, 0),
		Attributes: []event.Attr{{Name: "text", Value: strings.Repeat("x", size)}}}
	return dispatch.Item{ID: id, Service: "shop", Type: "order", Payload: event.AppendBinary(nil, &e)}
}

func openKafka(t *testing.T, o KafkaOptions) *Kafka {
	t.Helper()
	o.Backoff = 50 * time.Millisecond
	s, err := NewKafka(o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func kafkaIDs(t *testing.T, list []*kgo.Record) map[string]int {
	t.Helper()
	got := map[string]int{}
	for _, r := range list {
		var e struct{ ID string }
		require.NoError(t, json.Unmarshal(r.Value, &e), string(r.Value))
		got[e.ID]++
	}
	return got
}

func TestKafkaOptions(t *testing.T) {
	good := KafkaOptions{Topic: "events"}
	good.Brokers = []string{"kafka:9092"}
	for text, change := range map[string]func(o *KafkaOptions){
		"topic: missing":              func(o *KafkaOptions) { o.Topic = "" },
		"brokers: missing":            func(o *KafkaOptions) { o.Brokers = nil },
		"unknown placeholder {user}":  func(o *KafkaOptions) { o.Key = "{user}" },
		"acks: unknown value":         func(o *KafkaOptions) { o.Acks = "1" },
		"requires idempotent: false":  func(o *KafkaOptions) { o.Acks = "leader" },
		"compression: unknown codec":  func(o *KafkaOptions) { o.Compression = "brotli" },
		"less than batch_bytes":       func(o *KafkaOptions) { o.BatchBytes = 2 << 20 },
		"less than request_timeout a": func(o *KafkaOptions) { o.DeliveryTimeout = time.Second },
	} {
		o := good
		change(&o)
		_, err := NewKafka(o)
		require.ErrorContains(t, err, text)
	}
}

func TestEventsBecomeRecords(t *testing.T) {
	c := kafkatest.Shared(t)
	c.CreateTopic(t, "sink-records", 3, nil)
	o := KafkaOptions{Topic: "sink-records"}
	o.Brokers = c.Brokers()
	s := openKafka(t, o)
	require.NoError(t, s.Check(t.Context()))
	batch := kafkaItems(t, "a", "b", "c", "a")
	batch = append(batch, dispatch.Item{ID: "broken", Payload: []byte("?")})
	r := s.Send(t.Context(), batch)
	require.NoError(t, r.Err)
	require.Len(t, r.Failed, 1)
	require.Equal(t, 4, r.Failed[0].Index)
	require.True(t, retry.IsPermanent(r.Failed[0].Err))
	list := c.Records(t, "sink-records")
	require.Equal(t, map[string]int{"a": 2, "b": 1, "c": 1}, kafkaIDs(t, list))
	partition := map[string]int32{}
	for _, r := range list {
		require.Equal(t, "content-type", r.Headers[0].Key)
		require.True(t, strings.HasPrefix(string(r.Key), "shop/"), string(r.Key))
		if p, seen := partition[string(r.Key)]; seen {
			require.Equal(t, p, r.Partition, "the same key is on two partitions")
		}
		partition[string(r.Key)] = r.Partition
	}
}

// TestOnlyTheLargeEventFails: with a topic that takes less than a batch, a batch is refused whole.
func TestOnlyTheLargeEventFails(t *testing.T) {
	c := kafkatest.Shared(t)
	c.CreateTopic(t, "sink-small", 1, map[string]string{"max.message.bytes": "3000"})
	c.CreateTopic(t, "sink-wide", 1, map[string]string{"max.message.bytes": "300000"})
	o := KafkaOptions{Topic: "sink-small"}
	o.Compression = "none"
	o.Brokers = c.Brokers()
	batch := append(kafkaItems(t, "1", "2", "3"), largeItem("big", 8000))
	for i := range 30 {
		batch = append(batch, largeItem(fmt.Sprint("x", i), 200))
	}
	r := openKafka(t, o).Send(t.Context(), batch)
	require.NoError(t, r.Err)
	require.Len(t, r.Failed, 1)
	require.Equal(t, 3, r.Failed[0].Index)
	require.Equal(t, retry.ClassPermanent, retry.ClassOf(r.Failed[0].Err))
	require.ErrorContains(t, r.Failed[0].Err, "larger than the topic")
	require.Len(t, kafkaIDs(t, c.Records(t, "sink-small")), 33)

	// One that does not fit into a batch goes alone, up to max_message_bytes.
	o.Topic, o.MaxMessageBytes = "sink-wide", 100_000
	r = openKafka(t, o).Send(t.Context(), []dispatch.Item{largeItem("fits", 80_000), largeItem("not", 120_000)})
	require.NoError(t, r.Err)
	require.Len(t, r.Failed, 1)
	require.Equal(t, 1, r.Failed[0].Index)
	require.ErrorContains(t, r.Failed[0].Err, "max_message_bytes")
	require.Equal(t, map[string]int{"fits": 1}, kafkaIDs(t, c.Records(t, "sink-wide")))
}

func TestKafkaWhatNeedsAnOperatorBlocks(t *testing.T) {
	c := kafkatest.Shared(t)
	c.CreateTopic(t, "sink-blocked", 1, nil)
	password := nettest.PasswordFile(t, "wrong")
	for text, client := range map[string]kafkaclient.Options{
		"the topic does not exist": {Brokers: c.Brokers()},
		"refuse the user name": {
			Brokers: c.SASLBrokers(), SASL: &kafkaclient.SASLOptions{Username: kafkatest.Alice, PasswordFile: password}},
		"signed by an unknown authority": {Brokers: c.TLSBrokers(), TLS: c.TLSConfig().Clone()},
	} {
		o := KafkaOptions{Topic: "sink-blocked"}
		if o.Options = client; client.TLS != nil {
			o.TLS.RootCAs = nil
		} else if client.SASL == nil {
			o.Topic = "sink-missing"
		}
		s := openKafka(t, o)
		for _, err := range []error{s.Send(t.Context(), kafkaItems(t, "1", "2")).Err, s.Check(t.Context())} {
			require.ErrorContains(t, err, text)
			require.Equal(t, retry.ClassBlocked, retry.ClassOf(err), err)
		}
	}
}

// TestABrokerThatComesBackGetsEverything kills the broker under a batch, and cuts the network.
func TestABrokerThatComesBackGetsEverything(t *testing.T) {
	if testing.Short() {
		t.Skip("a broker of its own")
	}
	c := kafkatest.Start(t, kafkatest.Options{Proxied: true})
	c.CreateTopic(t, "events", 3, nil)
	o := KafkaOptions{Topic: "events"}
	o.Brokers = c.ProxiedBrokers()
	s := openKafka(t, o)
	require.NoError(t, s.Send(t.Context(), kafkaItems(t, "before")).Err)

	c.Kill(0)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	err := s.Send(ctx, kafkaItems(t, "given up")).Err
	require.Equal(t, retry.ClassTimeout, retry.ClassOf(err), "%v", err)
	sent := make(chan dispatch.Result, 1)
	go func() { sent <- s.Send(t.Context(), kafkaItems(t, "during")) }()
	c.Restart(t, 0)
	r := <-sent
	require.NoError(t, r.Err)
	require.Empty(t, r.Failed)

	c.Proxies[0].Cut()
	go func() { sent <- s.Send(t.Context(), kafkaItems(t, "cut off")) }()
	require.Eventually(t, func() bool { return s.producer.Failure() != nil }, testkit.Patience, 5*time.Millisecond)
	c.Proxies[0].Restore()
	require.NoError(t, (<-sent).Err)
	got := kafkaIDs(t, c.Records(t, "events"))
	for _, id := range []string{"before", "during", "cut off"} {
		require.Equal(t, 1, got[id], id)
	}
}

// TestASecondKafka delivers to the mock cluster of librdkafka, which shares no code with Kafka and the client.
func TestASecondKafka(t *testing.T) {
	o := KafkaOptions{Topic: "events"}
	o.Brokers, o.Version = kafkatest.Mock(t, 3), kafkatest.MockVersion
	s := openKafka(t, o)
	r := s.Send(t.Context(), kafkaItems(t, "1", "2", "3"))
	require.NoError(t, r.Err)
	require.Empty(t, r.Failed)
	client, err := kgo.NewClient(kgo.SeedBrokers(o.Brokers...), kgo.MaxVersions(kversion.FromString(o.Version)),
		kgo.ConsumeTopics("events"), kgo.FetchMaxWait(100*time.Millisecond))
	require.NoError(t, err)
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var list []*kgo.Record
	for len(list) < 3 {
		fetches := client.PollFetches(ctx)
		require.NoError(t, fetches.Err())
		list = append(list, fetches.Records()...)
	}
	require.Equal(t, map[string]int{"1": 1, "2": 1, "3": 1}, kafkaIDs(t, list))
}
