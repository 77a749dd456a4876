package kafka

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/sloengine/sloengine/ingest/engine"
	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/ingest/source"
	"github.com/sloengine/sloengine/ingest/source/kafka/kafkatest"
	"github.com/sloengine/sloengine/ingest/source/sourcetest"
	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/reliability/nettest"
	"github.com/sloengine/sloengine/reliability/ratelimit"
)

func fake(t testing.TB, opts ...kfake.Opt) []string {
	t.Helper()
	c, err := kfake.NewCluster(append(opts, kfake.NumBrokers(1))...)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c.ListenAddrs()
}

// topics counts those of tests with Apache Kafka, which share a broker.
var topics atomic.Int32

// onBoth runs a test with the fake cluster of the client's author, which needs no Java, and with Apache Kafka, which is
// the proof. The topic is one of its own and does not exist.
func onBoth(t *testing.T, test func(t *testing.T, brokers []string, topic string)) {
	t.Run("fake", func(t *testing.T) { test(t, fake(t), "orders") })
	t.Run("apache", func(t *testing.T) {
		test(t, kafkatest.Shared(t).Brokers(), fmt.Sprintf("%s-%d", strings.ReplaceAll(t.Name(), "/", "."), topics.Add(1)))
	})
}

// Messages count once over restarts, also without ids, and the broker knows how far the source is.
func TestStatic(t *testing.T) { onBoth(t, testStatic) }

func testStatic(t *testing.T, brokers []string, topic string) {
	p := newProducer(t, brokers...)
	p.create(t, topic, 4)
	p.put(t, topic, 4, ids("a", 1000)...)
	dir := t.TempDir()
	e := sourcetest.Start(t, dir)
	s := startSource(t, e, plain(brokers...), settings(topic), nil)
	e.RequireOnce(t, 1000)
	require.Equal(t, 1000, e.State.Backs(), "they were there before the source")
	p.put(t, topic, 4, ids("b", 500)...)
	e.RequireOnce(t, 1500)
	require.Equal(t, 500, e.State.Live())
	testkit.Eventually(t, "a commit", func() bool {
		at, err := p.admin.FetchOffsets(t.Context(), "sloengine.orders")
		o, ok := at.Lookup(topic, 3)
		return err == nil && ok && o.At == 375
	})
	testkit.Eventually(t, "no lag", func() bool {
		return len(s.Topics()) == 1 && s.Lag() == 0 && s.Topics()[0].Owned == 4
	})
	s.stop()
	e.Stop()

	p.put(t, topic, 4, ids("c", 500)...)
	e = sourcetest.Start(t, dir)
	startSource(t, e, plain(brokers...), settings(topic), nil)
	e.RequireOnce(t, 2000)
}

// Two engines share a topic by their ordinals, and partitions that are added are read from their beginning.
func TestOrdinalsAndNewPartitions(t *testing.T) { onBoth(t, testOrdinalsAndNewPartitions) }

func testOrdinalsAndNewPartitions(t *testing.T, brokers []string, topic string) {
	p := newProducer(t, brokers...)
	p.create(t, topic, 4)
	p.put(t, topic, 4, ids("old", 100)...)
	dirs := []string{t.TempDir(), t.TempDir()}
	var engines []*sourcetest.Engine
	var sources []*runningSource
	start := func() {
		engines, sources = nil, nil
		for i, host := range []string{"slo-0", "slo-1"} {
			set := settings(topic)
			set.Engines, set.Ordinal, set.Start = 2, Hostname, Latest
			e := sourcetest.Start(t, dirs[i])
			engines = append(engines, e)
			sources = append(sources, startSource(t, e, plain(brokers...), set, func(_ *source.Options, k *Options) {
				k.Hostname = host
			}))
		}
	}
	start()
	for _, s := range sources {
		testkit.Eventually(t, "partitions", func() bool { return len(s.Topics()) == 1 && s.Topics()[0].Owned == 2 })
	}
	p.put(t, topic, 4, ids("new", 100)...)
	engines[0].RequireOnce(t, 50)
	engines[1].RequireOnce(t, 50)
	for _, s := range sources {
		s.stop()
	}
	for _, e := range engines {
		e.Stop()
	}
	more := func(partitions int, id string) {
		t.Helper()
		_, err := p.admin.UpdatePartitions(t.Context(), partitions, topic)
		require.NoError(t, err)
		testkit.Eventually(t, "the brokers know the partitions", func() bool {
			found, err := p.admin.ListTopics(t.Context(), topic)
			return err == nil && len(found[topic].Partitions) == partitions
		})
		p = newProducer(t, brokers...) // the other knows fewer partitions
		p.put(t, topic, partitions, ids(id, 10*partitions)...)
	}
	more(6, "stopped")
	start()
	engines[0].RequireOnce(t, 80)
	engines[1].RequireOnce(t, 80)
	more(8, "running")
	engines[0].RequireOnce(t, 120)
	engines[1].RequireOnce(t, 120)
}

// Where a source begins that was never there.
func TestStart(t *testing.T) { onBoth(t, testStart) }

func testStart(t *testing.T, brokers []string, topic string) {
	p := newProducer(t, brokers...)
	p.create(t, topic, 1)
	now := time.Now()
	var records []*kgo.Record
	for i := range 10 {
		records = append(records, &kgo.Record{Topic: topic, Timestamp: now.Add(time.Duration(i-10) * time.Hour),
			Value: []byte(valueOf(fmt.Sprintf("e-%d", i)))})
	}
	for _, r := range records { // one batch each, as offsets are found by batch
		require.NoError(t, p.ProduceSync(t.Context(), r).FirstErr())
	}
	for start, want := range map[string]int{
		Earliest: 10, LongestWindow: 5, now.Add(-150 * time.Minute).UTC().Format(time.RFC3339): 2,
		now.Add(time.Hour).UTC().Format(time.RFC3339): 0, Latest: 0,
	} {
		t.Run(start, func(t *testing.T) {
			set := settings(topic)
			set.Start = start
			e := sourcetest.Start(t, t.TempDir())
			s := startSource(t, e, plain(brokers...), set, func(_ *source.Options, k *Options) {
				k.LongestWindow = func() time.Duration { return 5*time.Hour + time.Minute }
			})
			testkit.Eventually(t, "the end", func() bool {
				return len(s.Topics()) == 1 && s.Topics()[0].Owned == 1 && s.Lag() == 0
			})
			e.RequireOnce(t, want)
		})
	}
}

// A regular expression takes the topics that match, also those that come later.
func TestRegex(t *testing.T) {
	brokers := fake(t)
	p := newProducer(t, brokers...)
	e := sourcetest.Start(t, t.TempDir())
	set := settings()
	set.TopicsRegex = "^shop[.]"
	s := startSource(t, e, plain(brokers...), set, nil)
	testkit.Eventually(t, "trouble", func() bool { return len(s.intake.Troubles()) == 1 })
	require.Equal(t, "no topic matches topics_regex", s.intake.Troubles()[0].Brief)
	for _, topic := range []string{"shop.a", "other", "shop.b"} {
		p.create(t, topic, 1)
		p.put(t, topic, 1, topic)
	}
	e.RequireOnce(t, 2)
	testkit.Eventually(t, "no trouble", func() bool { return len(s.intake.Troubles()) == 0 })
}

// An unreadable message stops no others: it is a dead letter, and the position is behind it.
func TestGarbage(t *testing.T) { onBoth(t, testGarbage) }

func testGarbage(t *testing.T, brokers []string, topic string) {
	p := newProducer(t, brokers...)
	p.create(t, topic, 1)
	for _, value := range []string{valueOf("a"), "\x00garbage", "[" + valueOf("b") + `,{"service":"shop"}]`, "",
		strings.Repeat("x", 3000), valueOf("c")} {
		require.NoError(t, p.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Value: []byte(value)}).FirstErr())
	}
	dir := t.TempDir()
	e := sourcetest.Start(t, dir)
	s := startSource(t, e, plain(brokers...), settings(topic), func(o *source.Options, _ *Options) {
		o.Settings.MaxMessage = 2000
	})
	e.RequireOnce(t, 3)
	require.Equal(t, 3, len(s.dead.All()))
	for id, entry := range s.dead.All() {
		require.Equal(t, topic, entry.From.Topic, id)
	}
	require.EqualValues(t, 1, s.intake.Totals().Messages-5)
	s.stop()
	e.Stop()
	e = sourcetest.Start(t, dir)
	s = startSource(t, e, plain(brokers...), settings(topic), nil)
	testkit.Eventually(t, "the end", func() bool { return len(s.Topics()) == 1 && s.Lag() == 0 })
	require.Zero(t, len(s.dead.All()))
}

// Messages that retention deleted before they were read are a gap with a size, and coverage falls.
func TestRetentionRunsPastThePosition(t *testing.T) { onBoth(t, testRetention) }

func testRetention(t *testing.T, brokers []string, topic string) {
	p := newProducer(t, brokers...)
	p.create(t, topic, 1)
	p.put(t, topic, 1, ids("a", 10)...)
	dir := t.TempDir()
	e := sourcetest.Start(t, dir)
	s := startSource(t, e, plain(brokers...), settings(topic), nil)
	e.RequireOnce(t, 10)
	s.stop()
	e.Stop()
	p.put(t, topic, 1, ids("b", 20)...)
	cut := kadm.Offsets{}
	cut.Add(kadm.Offset{Topic: topic, At: 25})
	_, err := p.admin.DeleteRecords(t.Context(), cut)
	require.NoError(t, err)
	e = sourcetest.Start(t, dir)
	s = startSource(t, e, plain(brokers...), settings(topic), func(o *source.Options, _ *Options) {
		o.Kinds = func() []source.ServiceType { return []source.ServiceType{{Service: "shop", Type: "order"}} }
	})
	e.RequireOnce(t, 15)
	testkit.Eventually(t, "trouble", func() bool { return len(s.intake.Troubles()) == 1 })
	require.Equal(t, "15 messages were deleted by retention before they were read; coverage is lower for it",
		s.intake.Troubles()[0].Brief)
	require.Equal(t, map[string]uint64{"shop/order": 15}, e.State.Dropped())
	s.stop()
	e.Stop()

	// Once more: a loss is counted once.
	e = sourcetest.Start(t, dir)
	s = startSource(t, e, plain(brokers...), settings(topic), nil)
	testkit.Eventually(t, "the end", func() bool { return len(s.Topics()) == 1 && s.Lag() == 0 })
	require.Empty(t, s.intake.Troubles())
	require.Equal(t, map[string]uint64{"shop/order": 15}, e.State.Dropped())
}

// A topic that is deleted, missing for a while, and created again is shown as that, and read from its beginning.
func TestTopicComesAndGoes(t *testing.T) { onBoth(t, testTopicComesAndGoes) }

func testTopicComesAndGoes(t *testing.T, brokers []string, topic string) {
	p := newProducer(t, brokers...)
	e := sourcetest.Start(t, t.TempDir())
	s := startSource(t, e, plain(brokers...), settings(topic), nil)
	trouble := func(brief string) {
		t.Helper()
		testkit.Eventually(t, brief, func() bool {
			for _, x := range s.intake.Troubles() {
				if x.Brief == brief && x.Name == topic {
					return true
				}
			}
			return false
		})
	}
	trouble("the topic does not exist (create it)")
	for round := range 3 {
		p.create(t, topic, 2)
		p.put(t, topic, 2, ids(fmt.Sprintf("r%d", round), 20)...)
		e.RequireOnce(t, 20*(round+1))
		_, err := p.admin.DeleteTopic(t.Context(), topic)
		require.NoError(t, err)
		trouble("the topic does not exist (create it)")
		p.PurgeTopicsFromProducing(topic)
	}
	trouble("the topic was deleted and created again; the new one is read from its beginning")
	require.Equal(t, 1, strings.Count(s.log.String(), "kind=position"))
}

// Without brokers the source waits, reports it once, and continues.
func TestBrokerGone(t *testing.T) {
	address := nettest.FreeAddress(t)
	_, text, err := net.SplitHostPort(address)
	require.NoError(t, err)
	port, err := strconv.Atoi(text)
	require.NoError(t, err)
	e := sourcetest.Start(t, t.TempDir())
	s := startSource(t, e, plain(address), settings("orders"), nil)
	testkit.Eventually(t, "trouble", func() bool { return len(s.intake.Troubles()) == 1 })
	require.Equal(t, source.TroubleConnection, s.intake.Troubles()[0].Kind)
	brokers := fake(t, kfake.Ports(port))
	p := newProducer(t, brokers...)
	p.create(t, "orders", 1)
	p.put(t, "orders", 1, ids("a", 10)...)
	e.RequireOnce(t, 10)
	testkit.Eventually(t, "no trouble", func() bool { return len(s.intake.Troubles()) == 0 })
	require.Equal(t, 1, strings.Count(s.log.String(), `msg="source fails" source=orders kind=connection`))
	require.Equal(t, 1, strings.Count(s.log.String(), `msg="source works again" source=orders kind=connection`))
}

func valueOf(id string) string {
	return fmt.Sprintf(`{"id":%q,"service":"shop","type":"order"}`, id)
}

// A consumer group hands partitions over between engines without counting twice.
func TestGroup(t *testing.T) {
	brokers := fake(t)
	p := newProducer(t, brokers...)
	p.create(t, "orders", 4)
	p.put(t, "orders", 4, ids("a", 100)...)
	set := settings("orders")
	set.Ownership, set.Group = Group, "sloengine"
	one := sourcetest.Start(t, t.TempDir())
	first := startSource(t, one, plain(brokers...), set, nil)
	one.RequireOnce(t, 100)
	two := sourcetest.Start(t, t.TempDir())
	second := startSource(t, two, plain(brokers...), set, nil)
	testkit.Eventually(t, "both own partitions", func() bool {
		return len(first.Topics()) == 1 && first.Topics()[0].Owned == 2 && len(second.Topics()) == 1 &&
			second.Topics()[0].Owned == 2
	})
	p.put(t, "orders", 4, ids("b", 100)...)
	one.RequireOnce(t, 150)
	two.RequireOnce(t, 50)
	first.stop()
	p.put(t, "orders", 4, ids("c", 100)...)
	two.RequireOnce(t, 150)
}

// The fetched messages that are not stored yet have a bound, while the engine takes nothing.
func TestMemoryIsBounded(t *testing.T) {
	brokers := fake(t)
	p := newProducer(t, brokers...)
	p.create(t, "orders", 8)
	value := []byte(fmt.Sprintf(`{"service":"shop","type":"order","attributes":{"x":%q}}`, strings.Repeat("x", 1000)))
	for part := range int32(8) {
		var records []*kgo.Record
		for range 4000 {
			records = append(records, &kgo.Record{Topic: "orders", Partition: part, Value: value})
		}
		require.NoError(t, p.ProduceSync(t.Context(), records...).FirstErr())
	}
	set := settings("orders")
	set.Buffer = 4 << 20
	stuck := &stuckEngine{}
	e := sourcetest.Start(t, t.TempDir())
	s := startSource(t, e, plain(brokers...), set, func(o *source.Options, _ *Options) { o.Engine = stuck })
	testkit.Eventually(t, "batches that wait", func() bool { return stuck.calls.Load() >= maxInFlight })
	testkit.Eventually(t, "trouble", func() bool { return len(s.intake.Troubles()) == 1 })
	before := uint64(0)
	testkit.Eventually(t, "no more messages", func() bool {
		now := s.intake.Totals().Messages
		same := now == before
		before = now
		testkit.Pause(200 * time.Millisecond)
		return same
	})
	require.Less(t, before, uint64(32_000), "all messages are in memory")
	require.Equal(t, source.TroubleEngine, s.intake.Troubles()[0].Kind)
	stuck.free.Store(true)
	testkit.Eventually(t, "all", func() bool { return s.intake.Totals().Messages == 32_000 })
	testkit.Eventually(t, "no trouble", func() bool { return len(s.intake.Troubles()) == 0 })
}

// stuckEngine takes nothing until it is free, but for positions without events.
type stuckEngine struct {
	calls atomic.Int32
	free  atomic.Bool
}

func (e *stuckEngine) AdmitAt(_ context.Context, b *event.Batch, _ *ratelimit.Tickets, _ []int32,
	_ engine.Position) (engine.Result, error) {
	if len(b.Events) > 0 && !e.free.Load() {
		e.calls.Add(1)
		return engine.Result{}, engine.ErrOverloaded
	}
	return engine.Result{Accepted: len(b.Events)}, nil
}

// stalled is an engine that takes a number of batches and is busy then.
type stalled struct {
	source.Engine
	left atomic.Int64
}

func (s *stalled) AdmitAt(ctx context.Context, b *event.Batch, t *ratelimit.Tickets, todo []int32,
	at engine.Position) (engine.Result, error) {
	if len(b.Events) > 0 && s.left.Add(-1) < 0 {
		return engine.Result{}, &engine.UnavailableError{Code: "overload", Detail: "busy", RetryAfter: 10 * time.Millisecond}
	}
	return s.Engine.AdmitAt(ctx, b, t, todo, at)
}

// A restart during the first read of a topic continues the backfill: by the log alone, and by a checkpoint.
func TestRestartDuringTheFirstRead(t *testing.T) {
	for ownership, checkpoint := range map[string]bool{Static: false, Group: true} {
		t.Run(ownership, func(t *testing.T) {
			t.Parallel()
			onBoth(t, func(t *testing.T, brokers []string, topic string) {
				p, dir, set := newProducer(t, brokers...), t.TempDir(), settings(topic)
				set.Ownership, set.Group = ownership, topic
				p.create(t, topic, 2)
				p.put(t, topic, 2, ids("old", 1000)...)
				for _, batches := range []int64{2, 2, 1 << 40} {
					e := sourcetest.Start(t, dir)
					s := &stalled{Engine: e}
					s.left.Store(batches)
					src := startSource(t, e, plain(brokers...), set, func(o *source.Options, _ *Options) {
						o.Engine, o.BatchEvents = s, 100
					})
					if batches > 2 {
						e.RequireOnce(t, 1000)
						p.put(t, topic, 2, ids("new", 10)...)
						e.RequireOnce(t, 1010)
						require.Equal(t, 1000, e.State.Backs())
						require.Equal(t, 10, e.State.Live())
						break
					}
					testkit.Eventually(t, "the engine is busy", func() bool { return s.left.Load() < 0 })
					src.stop()
					if !checkpoint {
						from := dir
						dir = t.TempDir()
						require.NoError(t, os.CopyFS(dir, os.DirFS(from))) // as after a kill
					}
					e.Stop()
				}
			})
		})
	}
}
