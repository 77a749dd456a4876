package kafka

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sloengine/sloengine/ingest/engine"
	"github.com/sloengine/sloengine/ingest/source"
	"github.com/sloengine/sloengine/ingest/source/kafka/kafkatest"
	"github.com/sloengine/sloengine/ingest/source/sourcetest"
	"github.com/sloengine/sloengine/internal/testkit"
)

// An unclean leader election takes messages away that are counted, and gives their offsets to others. Every message
// that was ever in the topic counts once, also without an id: with a source that runs meanwhile, with a restart before
// the log is as long again, and with a source that was stopped until the log was longer than before.
func TestUncleanElection(t *testing.T) {
	if testing.Short() {
		t.Skip("three brokers start and stop several times")
	}
	c := kafkatest.Start(t, kafkatest.Options{Brokers: 3})
	create := kmsg.NewPtrCreateTopicsRequest()
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = "loss", -1, -1
	replicas := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
	replicas.Replicas = []int32{1, 2} // the third node only keeps the controllers' quorum
	topic.ReplicaAssignment = append(topic.ReplicaAssignment, replicas)
	unclean := kmsg.NewCreateTopicsRequestTopicConfig()
	unclean.Name, unclean.Value = "unclean.leader.election.enable", kmsg.StringPtr("true")
	topic.Configs = append(topic.Configs, unclean)
	create.Topics = append(create.Topics, topic)
	admin := c.Client(t)
	defer admin.Close()
	answer, err := create.RequestWith(t.Context(), admin)
	require.NoError(t, err)
	require.Zero(t, answer.Topics[0].ErrorCode)

	written := 0
	put := func(n int) {
		t.Helper()
		var records []*kgo.Record
		for range n {
			records = append(records, &kgo.Record{
				Topic: "loss", Value: fmt.Appendf(nil, `{"service":"shop","type":"order","attributes":{"n":"%d"}}`, written)})
			written++
		}
		c.Produce(t, records...)
	}
	// alone waits until a node leads and has no follower in sync, so that others may read the records that
	// it alone has.
	alone := func(id int32) {
		t.Helper()
		testkit.Eventually(t, fmt.Sprintf("node %d alone", id), func() bool {
			ask := kmsg.NewPtrMetadataRequest()
			name := kmsg.NewMetadataRequestTopic()
			name.Topic = kmsg.StringPtr("loss")
			ask.Topics = append(ask.Topics, name)
			m, err := ask.RequestWith(t.Context(), admin)
			if err != nil || len(m.Topics) != 1 || len(m.Topics[0].Partitions) != 1 {
				return false
			}
			p := m.Topics[0].Partitions[0]
			return p.Leader == id && len(p.ISR) == 1
		})
	}
	dir := t.TempDir()
	var e *sourcetest.Engine
	var s *runningSource
	begin := func() {
		e = sourcetest.Start(t, dir)
		s = startSource(t, e, plain(c.Brokers()...), settings("loss"), nil)
	}
	stop := func() { s.stop(); e.Stop() }
	begin()

	put(60)
	e.RequireOnce(t, 60)
	c.Kill(1)
	alone(1)
	put(40)
	e.RequireOnce(t, 100)
	c.Kill(0)
	c.Restart(t, 1)
	alone(2)
	put(20) // at the offsets 60 to 79
	e.RequireOnce(t, 120)
	troubles := s.intake.Troubles()
	require.Len(t, troubles, 1)
	require.Equal(t, source.Trouble{
		Kind: source.TroublePosition, Name: "loss/0", Reason: "offsets 60 to 99", Since: troubles[0].Since, Count: 1,
		Brief: "the brokers lost messages that were counted already; they stay counted, and what follows in their place " +
			"counts as well",
	}, troubles[0])
	progress := e.State.Book.Of("orders")[0]
	require.EqualValues(t, 1, progress.Generation)
	next, _ := progress.Next()
	require.EqualValues(t, 80, next)

	stop()
	put(40) // to 119
	begin()
	e.RequireOnce(t, 160)
	require.Empty(t, s.intake.Troubles())

	// The other way round, while the source is stopped.
	c.Restart(t, 0)
	testkit.Eventually(t, "both in sync", func() bool {
		ask := kmsg.NewPtrMetadataRequest()
		m, err := ask.RequestWith(t.Context(), admin)
		return err == nil && len(m.Topics) > 0 && len(m.Topics[0].Partitions) == 1 && len(m.Topics[0].Partitions[0].ISR) == 2
	})
	c.Kill(0)
	alone(2)
	put(30) // 120 to 149
	e.RequireOnce(t, 190)
	stop()
	c.Kill(1)
	c.Restart(t, 0)
	alone(1)
	put(50) // 120 to 169
	began := time.Now()
	begin()
	e.RequireOnce(t, 240)
	t.Logf("counted after %s", time.Since(began))
	testkit.Eventually(t, "no lag", func() bool {
		return len(s.Topics()) == 1 && s.Topics()[0].Owned == 1 && s.Lag() == 0
	})
	require.Equal(t, "offsets 120 to 149", s.intake.Troubles()[0].Reason)
}

// A log that is damaged in the middle is opened with the loss accepted: the source reads the messages of the lost
// records again, and those alone, although their neighbours have no ids either.
func TestAcceptedLossIsReadAgain(t *testing.T) {
	c := kafkatest.Shared(t)
	c.CreateTopic(t, "damaged", 1, nil)
	dir, copied := t.TempDir(), t.TempDir()
	e := sourcetest.Start(t, dir)
	s := startSource(t, e, plain(c.Brokers()...), settings("damaged"), nil)
	for round := range 5 {
		var records []*kgo.Record
		for i := range 20 {
			records = append(records, &kgo.Record{Topic: "damaged",
				Value: fmt.Appendf(nil, `{"service":"shop","type":"order","attributes":{"n":"round-%d-%d"}}`, round, i)})
		}
		c.Produce(t, records...)
		e.RequireOnce(t, 20*(round+1))
	}
	require.NoError(t, os.CopyFS(copied, os.DirFS(dir))) // as after a kill, without a checkpoint of the end
	s.stop()
	e.Stop()
	damaged := 0
	segments, err := filepath.Glob(filepath.Join(copied, "wal", "*.wal"))
	require.NoError(t, err)
	for _, name := range segments {
		data, err := os.ReadFile(name)
		require.NoError(t, err)
		if at := bytes.Index(data, []byte("round-2-7")); at >= 0 {
			data[at] ^= 1
			require.NoError(t, os.WriteFile(name, data, 0o600))
			damaged++
		}
	}
	require.Equal(t, 1, damaged)

	e = sourcetest.Start(t, copied, func(o *engine.Options) { o.AcceptLoss = true })
	require.Less(t, len(e.State.All()), 100, "nothing was lost")
	s = startSource(t, e, plain(c.Brokers()...), settings("damaged"), nil)
	e.RequireOnce(t, 100)
	testkit.Eventually(t, "the end", func() bool { return len(s.Topics()) == 1 && s.Lag() == 0 })
	require.Less(t, int(s.intake.Totals().Accepted), 100, "all was read again")
	e.RequireOnce(t, 100)
}
