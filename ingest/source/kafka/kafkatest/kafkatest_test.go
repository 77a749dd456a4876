package kafkatest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kversion"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(Main(m)) }

func TestListenersOfARealBroker(t *testing.T) {
	began := time.Now()
	c := Shared(t)
	t.Logf("ready after %s, %s of CPU", time.Since(began), c.CPU(t, 0))
	c.CreateTopic(t, "orders", 3, map[string]string{"retention.ms": "3600000"})
	c.Produce(t, &kgo.Record{Topic: "orders", Key: []byte("k"), Value: []byte("one")},
		&kgo.Record{Topic: "orders", Key: []byte("l"), Value: []byte("two")})
	require.Len(t, c.Records(t, "orders"), 2)

	ask := func(options ...kgo.Opt) error {
		client, err := kgo.NewClient(append(options, kgo.RetryTimeout(5*time.Second))...)
		require.NoError(t, err)
		defer client.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		if err := client.Ping(ctx); err != nil {
			return err
		}
		return client.ProduceSync(ctx, &kgo.Record{Topic: "orders", Value: []byte("x")}).FirstErr()
	}
	require.NoError(t, ask(kgo.SeedBrokers(c.TLSBrokers()...), kgo.DialTLSConfig(c.TLSConfig())))
	require.NoError(
		t, ask(kgo.SeedBrokers(c.SASLBrokers()...), kgo.SASL(plain.Auth{User: Alice, Pass: AlicePassword}.AsMechanism())))
	require.NoError(t, ask(kgo.SeedBrokers(c.SASLBrokers()...),
		kgo.SASL(scram.Auth{User: Alice, Pass: AlicePassword}.AsSha512Mechanism())))
	require.NoError(t, ask(kgo.SeedBrokers(c.SASLBrokers()...),
		kgo.SASL(scram.Auth{User: Alice, Pass: AlicePassword}.AsSha256Mechanism())))
	require.ErrorIs(t, ask(kgo.SeedBrokers(c.SASLBrokers()...),
		kgo.SASL(plain.Auth{User: Alice, Pass: "wrong"}.AsMechanism())), kerr.SaslAuthenticationFailed)
	require.ErrorIs(t, ask(kgo.SeedBrokers(c.SASLBrokers()...),
		kgo.SASL(plain.Auth{User: Mallory, Pass: MalloryPassword}.AsMechanism())), kerr.TopicAuthorizationFailed)
	require.Len(t, c.Records(t, "orders"), 6)
}

func TestABrokerThatIsKilledHasItsDataAgain(t *testing.T) {
	if testing.Short() {
		t.Skip("other packages run the helpers under the race detector")
	}
	c := Start(t, Options{Proxied: true})
	c.CreateTopic(t, "orders", 1, nil)
	client, err := kgo.NewClient(kgo.SeedBrokers(c.ProxiedBrokers()...), kgo.DefaultProduceTopic("orders"))
	require.NoError(t, err)
	defer client.Close()
	require.NoError(t, client.ProduceSync(t.Context(), kgo.StringRecord("before")).FirstErr())
	c.Kill(0)
	began := time.Now()
	c.Restart(t, 0)
	t.Logf("ready again after %s", time.Since(began))
	require.NoError(t, client.ProduceSync(t.Context(), kgo.StringRecord("after")).FirstErr())

	c.Proxies[0].Cut()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	require.Error(t, client.Ping(ctx), "the client goes around the proxy")
	c.Proxies[0].Restore()
	require.NoError(t, client.ProduceSync(t.Context(), kgo.StringRecord("restored")).FirstErr())
	c.Stop(0)
	c.Restart(t, 0)
	var got []string
	for _, r := range c.Records(t, "orders") {
		got = append(got, string(r.Value))
	}
	require.Equal(t, []string{"before", "after", "restored"}, got)
}

func TestThreeNodesSurviveOne(t *testing.T) {
	if testing.Short() {
		t.Skip("other packages run the helpers under the race detector")
	}
	began := time.Now()
	c := Start(t, Options{Brokers: 3})
	t.Logf("ready after %s, CPU %s", time.Since(began), c.CPU(t, 0)+c.CPU(t, 1)+c.CPU(t, 2))
	c.CreateTopic(t, "orders", 3, map[string]string{"min.insync.replicas": "2"})
	client := c.Client(t, kgo.DefaultProduceTopic("orders"), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
	defer client.Close()
	write := func(n int) {
		for i := range n {
			require.NoError(t, client.ProduceSync(t.Context(), kgo.StringRecord(fmt.Sprint(i))).FirstErr())
		}
	}
	write(6)
	c.Kill(0)
	write(6)
	c.Restart(t, 0)
	write(6)
	require.Len(t, c.Records(t, "orders"), 18)
}

func TestMockClusterIsASecondBroker(t *testing.T) {
	brokers := Mock(t, 3)
	require.Len(t, brokers, 3)
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.MaxVersions(kversion.FromString(MockVersion)),
		kgo.DefaultProduceTopic("orders"), kgo.ConsumeTopics("orders"), kgo.FetchMaxWait(100*time.Millisecond))
	require.NoError(t, err)
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.NoError(t, client.ProduceSync(ctx, kgo.StringRecord("one")).FirstErr())
	fetches := client.PollFetches(ctx)
	require.NoError(t, fetches.Err())
	require.Equal(t, "one", string(fetches.Records()[0].Value))
}
