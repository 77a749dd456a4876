package kafka

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/sloengine/sloengine/ingest/source"
	"github.com/sloengine/sloengine/ingest/source/kafka/kafkatest"
	"github.com/sloengine/sloengine/ingest/source/sourcetest"
	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/reliability/kafkaclient"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(kafkatest.Main(m)) }

// runningSource is a source that runs until stop.
type runningSource struct {
	*Source
	intake *source.Intake
	set    *metrics.Set
	dead   sourcetest.DeadLetters
	log    testkit.Buffer
	stop   func()
}

func settings(topics ...string) Settings {
	s := Defaults()
	s.Topics = topics
	s.Refresh = 100 * time.Millisecond
	s.Fetch.MinBytes, s.Fetch.MaxWait = 1, 50*time.Millisecond
	return s
}

func plain(brokers ...string) kafkaclient.Options {
	return kafkaclient.Options{Brokers: brokers, Backoff: 100 * time.Millisecond}
}

func startSource(t testing.TB, e *sourcetest.Engine, client kafkaclient.Options, set Settings,
	change func(o *source.Options, k *Options)) *runningSource {
	t.Helper()
	r := &runningSource{set: metrics.NewSet()}
	m := source.NewMetrics(r.set)
	log := slog.New(slog.NewTextHandler(&r.log, nil))
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%d ids were counted. The source logged:\n%s", len(e.State.All()), &r.log)
		}
	})
	in := source.Options{Name: "orders", Settings: source.Defaults(), Engine: e, Lose: e.Lose, Save: r.dead.Save,
		Metrics: m, Logger: log}
	k := Options{Settings: set, Client: client, Metrics: NewMetrics(m), Logger: log}
	require.NoError(t, e.Do(t.Context(), func() { k.Positions = e.State.Book.Of("orders") }))
	if change != nil {
		change(&in, &k)
	}
	var err error
	r.intake, err = source.New(in)
	require.NoError(t, err)
	k.Intake = r.intake
	r.Source, err = New(k)
	require.NoError(t, err)
	r.stop = sourcetest.Run(t, r.Run)
	return r
}

// producer writes to topics.
type producer struct {
	*kgo.Client
	admin *kadm.Client
}

func newProducer(t testing.TB, brokers ...string) *producer {
	t.Helper()
	c, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return &producer{c, kadm.NewClient(c)}
}

func (p *producer) create(t testing.TB, topic string, partitions int32) {
	t.Helper()
	_, err := p.admin.CreateTopic(t.Context(), partitions, 1, nil, topic)
	require.NoError(t, err)
}

// put writes one event for each id, spread over the partitions from first on.
func (p *producer) put(t testing.TB, topic string, partitions int, ids ...string) {
	t.Helper()
	var records []*kgo.Record
	for i, id := range ids {
		records = append(records, &kgo.Record{
			Topic: topic, Partition: int32(i % partitions),
			Value: []byte(fmt.Sprintf(`{"id":%q,"service":"shop","type":"order"}`, id)),
		})
	}
	require.NoError(t, p.ProduceSync(t.Context(), records...).FirstErr())
}

func ids(prefix string, n int) (out []string) {
	for i := range n {
		out = append(out, fmt.Sprintf("%s-%d", prefix, i))
	}
	return out
}
