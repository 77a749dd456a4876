package rabbitmq

import (
	"context"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/ingest/source"
	"github.com/sloengine/sloengine/ingest/source/rabbitmq/rabbitmqtest"
)

// A quorum queue that does not answer is a state. A source that waits for it ends when its context does, and consumes
// once the queue answers.
func TestQueueThatDoesNotAnswer(t *testing.T) {
	node, r := rabbitmqtest.Shared(t), newRig(t)
	queue := names(t)("q")
	onChannel(t, r.conn, func(ch *amqp.Channel) error {
		_, err := ch.QueueDeclare(queue, true, false, false, false, amqp.Table{"x-queue-type": Quorum})
		return err
	})
	node.Ctl(t, "eval", "sys:suspend('%2F_"+queue+"').")
	run := func() (stop func()) {
		s, err := NewSource(Options{Queue: queue}, r.parts)
		require.NoError(t, err)
		s.answerWithin = 50 * time.Millisecond
		ctx, cancel := context.WithCancel(context.Background())
		done, conn := make(chan error, 1), dial(t)
		go func() { done <- s.serve(ctx, conn) }()
		return func() {
			cancel()
			require.NoError(t, <-done)
		}
	}
	stop := run()
	r.eventually(func() bool {
		list := r.intake.Troubles()
		return len(list) == 1 && list[0].Kind == source.TroubleTopic && list[0].Name == queue
	})
	require.Contains(t, r.intake.Troubles()[0].Brief, "does not answer")
	began := time.Now()
	stop()
	require.Less(t, time.Since(began), 45*time.Second, "the broker gives up after 65 s")

	defer run()()
	node.Ctl(t, "eval", "sys:resume('%2F_"+queue+"').")
	r.publish(queue, order("1"))
	r.eventually(func() bool { return len(r.all()) == 1 && len(r.intake.Troubles()) == 0 })
}
