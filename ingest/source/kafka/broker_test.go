package kafka

import (
	"context"
	"crypto/tls"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/sloengine/sloengine/ingest/engine"
	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/ingest/source"
	"github.com/sloengine/sloengine/ingest/source/kafka/kafkatest"
	"github.com/sloengine/sloengine/ingest/source/sourcetest"
	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/reliability/kafkaclient"
	"github.com/sloengine/sloengine/reliability/nettest"
	"github.com/sloengine/sloengine/reliability/ratelimit"
)

// With a real broker: the text that an operator reads for each mistake, and that the source reads on once it
// is fixed.
func TestMistakes(t *testing.T) {
	c := kafkatest.Shared(t)
	c.CreateTopic(t, "mistakes", 2, nil)
	c.Produce(t, &kgo.Record{Topic: "mistakes", Value: []byte(valueOf("m"))})
	user := func(name, password string) *kafkaclient.SASLOptions {
		return &kafkaclient.SASLOptions{Username: name, PasswordFile: nettest.PasswordFile(t, password)}
	}
	for name, x := range map[string]struct {
		client kafkaclient.Options
		topic  string
		kind   source.Kind
		at     string
		brief  string
	}{
		"wrong password": {kafkaclient.Options{Brokers: c.SASLBrokers(), SASL: user(kafkatest.Alice, "wrong")},
			"mistakes", source.TroubleCredentials, "", "the brokers refuse the user name or password (check sasl)"},
		"wrong password over TLS": {kafkaclient.Options{Brokers: c.SASLTLSBrokers(), TLS: c.TLSConfig(),
			SASL: user(kafkatest.Alice, "wrong")}, "mistakes", source.TroubleCredentials, "",
			"the brokers refuse the user name or password (check sasl)"},
		"no rights": {kafkaclient.Options{Brokers: c.SASLBrokers(),
			SASL: user(kafkatest.Mallory, kafkatest.MalloryPassword)}, "mistakes", source.TroubleCredentials, "mistakes",
			"the user is not authorized for the topic (change its access control list)"},
		"unknown CA": {kafkaclient.Options{Brokers: c.TLSBrokers(), TLS: &tls.Config{}}, "mistakes",
			source.TroubleTLS, "", "the certificate of the broker is signed by an unknown authority (set tls.ca_file)"},
		"no TLS": {kafkaclient.Options{Brokers: c.TLSBrokers()}, "mistakes", source.TroubleTLS, "",
			"the port wants TLS (set tls)"},
		"no listener": {kafkaclient.Options{Brokers: []string{"127.0.0.1:1"}}, "mistakes",
			source.TroubleConnection, "", "the brokers are not reachable"},
		"no topic": {kafkaclient.Options{Brokers: c.Brokers()}, "missing", source.TroubleTopic, "missing",
			"the topic does not exist (create it)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // a new password is read after ten seconds
			x.client.Backoff = 50 * time.Millisecond
			e := sourcetest.Start(t, t.TempDir())
			s := startSource(t, e, x.client, settings(x.topic), nil)
			var got []source.Trouble
			testkit.Eventually(t, "trouble", func() bool { got = s.intake.Troubles(); return len(got) == 1 })
			require.Equal(t, []any{x.kind, x.at, x.brief}, []any{got[0].Kind, got[0].Name, got[0].Brief}, got[0].Reason)
			if !strings.HasPrefix(name, "wrong password") {
				return
			}
			require.NoError(t, os.WriteFile(x.client.SASL.PasswordFile, []byte(kafkatest.AlicePassword), 0o600))
			e.RequireOnce(t, 1)
			testkit.Eventually(t, "no trouble", func() bool { return len(s.intake.Troubles()) == 0 })
		})
	}
}

// A broker that shares no code with Apache Kafka, speaks an older protocol and has no IDs of topics: messages count
// once over restarts.
func TestASecondImplementation(t *testing.T) {
	client := plain(kafkatest.Mock(t, 3)...)
	client.Version = kafkatest.MockVersion
	producer, err := kafkaclient.New(client, kgo.DefaultProduceTopic("mocked"),
		kgo.RecordPartitioner(kgo.RoundRobinPartitioner()), kgo.DisableIdempotentWrite(), kgo.AllowAutoTopicCreation())
	require.NoError(t, err)
	defer producer.Close()
	dir := t.TempDir()
	for round := range 3 {
		for _, id := range ids(fmt.Sprint("r", round), 100) {
			producer.Produce(t.Context(), kgo.StringRecord(valueOf(id)), func(_ *kgo.Record, err error) {
				assert.NoError(t, err)
			})
		}
		require.NoError(t, producer.Flush(t.Context()))
		e := sourcetest.Start(t, dir)
		s := startSource(t, e, client, settings("mocked"), nil)
		e.RequireOnce(t, 100*(round+1))
		testkit.Eventually(t, "no lag", func() bool {
			return len(s.Topics()) == 1 && s.Topics()[0].Owned == 4 && s.Lag() == 0
		})
		require.Empty(t, s.intake.Troubles())
		s.stop()
		e.Stop()
	}
}

// Messages of aborted transactions do not count, and markers leave no gap in the durable offsets.
func TestTransactions(t *testing.T) {
	c := kafkatest.Shared(t)
	c.CreateTopic(t, "transactions", 1, nil)
	client := c.Client(t, kgo.DefaultProduceTopic("transactions"), kgo.TransactionalID("t"))
	defer client.Close()
	for round := range 6 {
		require.NoError(t, client.BeginTransaction())
		for i := range 10 {
			require.NoError(
				t, client.ProduceSync(t.Context(), kgo.StringRecord(valueOf(fmt.Sprintf("r%d-%d", round, i)))).FirstErr())
		}
		require.NoError(t, client.EndTransaction(t.Context(), kgo.TransactionEndTry(round%2 == 0)))
	}
	dir := t.TempDir()
	e := sourcetest.Start(t, dir)
	s := startSource(t, e, plain(c.Brokers()...), settings("transactions"), nil)
	e.RequireOnce(t, 30)
	s.stop()
	e.Stop()
	e = sourcetest.Start(t, dir)
	s = startSource(t, e, plain(c.Brokers()...), settings("transactions"), nil)
	require.NoError(t, client.BeginTransaction())
	require.NoError(t, client.ProduceSync(t.Context(), kgo.StringRecord(valueOf("last"))).FirstErr())
	require.NoError(t, client.EndTransaction(t.Context(), kgo.TryCommit))
	e.RequireOnce(t, 31)
	require.Len(t, e.State.Book.Of("orders")[0].Ranges, 1)
	require.Empty(t, s.intake.Troubles())
}

// dyingEngine is one that is killed between the log and the answer, once dead is set.
type dyingEngine struct {
	*sourcetest.Engine
	dead *atomic.Bool
}

func (e *dyingEngine) AdmitAt(ctx context.Context, b *event.Batch, t *ratelimit.Tickets, todo []int32,
	at engine.Position) (engine.Result, error) {
	result, err := e.Engine.AdmitAt(ctx, b, t, todo, at)
	if e.dead.Load() {
		<-ctx.Done()
		return result, ctx.Err()
	}
	return result, err
}

// In a group, a crash between the log and the commit makes the next owner count at most one poll of each partition
// again. This is that crash: the source ends as a killed engine does, right after its batch is durable.
func TestGroupCountsAtMostOnePollTwice(t *testing.T) {
	c := kafkatest.Shared(t)
	c.CreateTopic(t, "grouped", 3, nil)
	var records []*kgo.Record
	for i := range 3000 {
		records = append(records, &kgo.Record{Topic: "grouped", Key: fmt.Append(nil, i),
			Value: fmt.Appendf(nil, `{"service":"shop","type":"order","attributes":{"n":"%d"}}`, i)})
	}
	set := settings("grouped")
	set.Ownership, set.Group, set.SessionTimeout, set.Heartbeat = Group, "grouped", 6*time.Second, 500*time.Millisecond
	one := sourcetest.Start(t, t.TempDir())
	var dead atomic.Bool
	first := startSource(t, one, plain(c.Brokers()...), set, func(o *source.Options, _ *Options) {
		o.Engine = &dyingEngine{one, &dead}
	})
	c.Produce(t, records[:1500]...)
	one.RequireOnce(t, 1500)
	testkit.Eventually(t, "commits", func() bool { return first.Lag() == 0 })
	dead.Store(true)
	c.Produce(t, records[1500:1800]...)
	testkit.Eventually(t, "a batch without a commit", func() bool { return len(one.State.All()) > 1500 })
	counted := len(one.State.All()) - 1500
	first.stop()

	two := sourcetest.Start(t, t.TempDir())
	startSource(t, two, plain(c.Brokers()...), set, nil)
	c.Produce(t, records[1800:]...)
	want := 3000 - 1500 // the uncommitted messages, and all that follow
	two.RequireOnce(t, want)
	twice := len(one.State.All()) + want - 3000
	t.Logf("counted twice: %d of %d messages that were not committed", twice, 300)
	require.Equal(t, len(one.State.All())-1500, twice)
	require.GreaterOrEqual(t, twice, counted)
	require.LessOrEqual(t, twice, pollRecords)
}
