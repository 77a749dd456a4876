package kafka

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/sloengine/sloengine/ingest/engine"
	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/ingest/position"
	"github.com/sloengine/sloengine/ingest/record"
	"github.com/sloengine/sloengine/ingest/source"
	"github.com/sloengine/sloengine/ingest/source/kafka/kafkatest"
	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/reliability/dlq"
	"github.com/sloengine/sloengine/reliability/kafkaclient"
	"github.com/sloengine/sloengine/reliability/wal"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(kafkatest.Main(m)) }

// folded is a State that counts events by id, and holds positions and drops.
type folded struct {
	mu      sync.Mutex
	ids     map[string]int
	live    int
	backs   int
	dropped map[string]uint64
	book    *position.Book
	version uint64
}

func (s *folded) Apply(rec wal.Record, refuse engine.Refuse) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if rec.Type == record.TypeDropped {
		return record.ParseDropped(rec.Payload, func(d *record.Dropped) {
			s.dropped[string(d.Service)+"/"+string(d.Type)] += d.N
		})
	}
	if rec.Type != record.TypeEvents {
		return nil
	}
	e, err := record.ParseEvents(rec.Payload)
	if err != nil {
		return err
	}
	if e.Position != nil {
		if err := s.book.Apply(e.Position); err != nil {
			return err
		}
	}
	return engine.EachEvent(rec.Payload, func(backfill bool, v *event.View) error {
		s.ids[string(v.ID)]++
		if backfill {
			s.backs++
		} else {
			s.live++
		}
		return nil
	}, refuse)
}

// saved is the form of a checkpoint.
type saved struct {
	IDs         map[string]int
	Live, Backs int
	Dropped     map[string]uint64
	Book        []byte
}

func (s *folded) Parts() []engine.Part {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	data, err := json.Marshal(saved{s.ids, s.live, s.backs, s.dropped, s.book.Encode(nil)})
	if err != nil {
		panic(err)
	}
	return []engine.Part{{Name: "all", Version: s.version, Vital: true, Encode: func(dst []byte) []byte {
		return append(dst, data...)
	}}}
}

func (s *folded) Restore(_ string, data []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var in saved
	if err := json.Unmarshal(data, &in); err != nil {
		return err
	}
	s.ids, s.live, s.backs, s.dropped = in.IDs, in.Live, in.Backs, in.Dropped
	return s.book.Restore(in.Book)
}

func (s *folded) FinishRestore() error       { return nil }
func (s *folded) Loss(string) (string, bool) { return "everything", true }

// counted are the ids and how often each was counted.
func (s *folded) counted() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.ids)
}

// runningEngine is an engine on a folder, until stop.
type runningEngine struct {
	*engine.Engine
	state *folded
	stop  func()
}

func startEngine(t testing.TB, dir string, change ...func(*engine.Options)) *runningEngine {
	t.Helper()
	r := &runningEngine{state: &folded{ids: map[string]int{}, dropped: map[string]uint64{}, book: position.NewBook()}}
	o := engine.Options{
		Dir: dir, State: r.state, Logger: slog.New(slog.DiscardHandler), SegmentBytes: 1 << 20,
		IDs: engine.IDOptions{Bytes: 1 << 20}, Disk: engine.DiskOptions{LowWater: -1},
		Checkpoint: engine.CheckpointOptions{Interval: time.Hour},
	}
	for _, f := range change {
		f(&o)
	}
	var err error
	r.Engine, err = engine.Open(o)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	end := make(chan struct{})
	go func() {
		defer close(end)
		_ = r.Run(ctx, engine.Parts{})
		_ = r.Close()
	}()
	r.stop = sync.OnceFunc(func() { cancel(); <-end })
	t.Cleanup(r.stop)
	select {
	case <-r.Ready():
	case <-end:
		require.Fail(t, "the engine did not start")
	}
	return r
}

// deadBox keeps dead letters in memory.
type deadBox struct {
	mu  sync.Mutex
	all map[string]dlq.Entry
}

func (d *deadBox) save(_ context.Context, entries []dlq.Entry) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.all == nil {
		d.all = map[string]dlq.Entry{}
	}
	for _, e := range entries {
		d.all[e.ID] = e
	}
	return nil
}

func (d *deadBox) len() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.all)
}

// runningSource is a source that runs until stop.
type runningSource struct {
	*Source
	intake *source.Intake
	set    *metrics.Set
	dead   *deadBox
	log    *logged
	stop   func()
}

// logged holds the log lines.
type logged struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
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

func startSource(t testing.TB, e *runningEngine, client kafkaclient.Options, set Settings,
	change func(o *source.Options, k *Options)) *runningSource {
	t.Helper()
	r := &runningSource{set: metrics.NewSet(), dead: &deadBox{}, log: &logged{}}
	m := source.NewMetrics(r.set)
	log := slog.New(slog.NewTextHandler(r.log, nil))
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%d ids were counted. The source logged:\n%s", len(e.state.counted()), r.log)
		}
	})
	in := source.Options{Name: "orders", Settings: source.Defaults(), Engine: e, Lose: e.Lose, Save: r.dead.save,
		Metrics: m, Logger: log}
	k := Options{Settings: set, Client: client, Metrics: NewMetrics(m), Logger: log}
	require.NoError(t, e.Do(t.Context(), func() { k.Positions = e.state.book.Of("orders") }))
	if change != nil {
		change(&in, &k)
	}
	var err error
	r.intake, err = source.New(in)
	require.NoError(t, err)
	k.Intake = r.intake
	r.Source, err = New(k)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	end := make(chan error, 1)
	go func() { end <- r.Run(ctx) }()
	r.stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-end:
			require.NoError(t, err)
		case <-time.After(time.Minute):
			require.Fail(t, "the source does not stop")
		}
	})
	t.Cleanup(r.stop)
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

// requireOnce waits until all ids are counted, and that each is counted once.
func requireOnce(t testing.TB, e *runningEngine, want int) {
	t.Helper()
	testkit.Eventually(t, fmt.Sprintf("%d events", want), func() bool { return len(e.state.counted()) >= want })
	for id, n := range e.state.counted() {
		require.Equal(t, 1, n, id)
	}
	require.Len(t, e.state.counted(), want)
}
