package rabbitmq

import (
	"crypto/rand"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/stretchr/testify/require"
)

// names makes names of queues and exchanges that no other test uses.
func names(testing.TB) func(string) string {
	// Short ones: RabbitMQ cuts its errors off at 255 bytes.
	prefix := rand.Text()[:10]
	return func(s string) string { return prefix + "." + s }
}

func handlerOptions(t *testing.T) HandlerOptions {
	n := names(t)
	o := HandlerOptions{
		Queue: n("dlq"), Exchange: n("dlx"), Declare: true, Retention: DefaultRetention,
		WorkQueues: []WorkQueue{{Name: n("work"), TTL: DefaultTTL}},
	}
	o.ApplyDefaults()
	require.NoError(t, o.Validate())
	return o
}

func findings(t *testing.T, c channels, top *topology) []string {
	t.Helper()
	i, err := top.inspect(c, time.Now())
	require.NoError(t, err)
	out := []string{}
	for _, f := range i.Findings {
		out = append(out, f.String())
	}
	return out
}

func onChannel(t *testing.T, c channels, f func(ch *amqp.Channel) error) {
	t.Helper()
	refused, err := try(c, f)
	require.NoError(t, err)
	require.Nil(t, refused)
}

// A topology is declared once, found equal afterwards, and routes expired messages of both queue types.
func TestTopologyIsDeclared(t *testing.T) {
	c := dial(t)
	for _, queueType := range []string{Quorum, Classic} {
		for _, exchangeType := range []string{Topic, Fanout} {
			t.Run(queueType+" "+exchangeType, func(t *testing.T) {
				o := handlerOptions(t)
				o.QueueType, o.ExchangeType, o.WorkQueues[0].TTL = queueType, exchangeType, 10*time.Millisecond
				require.Empty(t, findings(t, c, o.topology()))
				require.Empty(t, findings(t, c, o.topology()), "a second time")
				o.Declare = false
				require.Empty(t, findings(t, c, o.topology()), "by an engine that only looks")
				onChannel(t, c, func(ch *amqp.Channel) error {
					return ch.Publish("", o.WorkQueues[0].Name, true, false,
						amqp.Publishing{Body: []byte("x"), DeliveryMode: amqp.Persistent})
				})
				require.Eventually(t, func() bool {
					i, err := o.topology().inspect(c, time.Now())
					require.NoError(t, err)
					return i.Queue(o.Queue).Messages == 1
				}, testkit.Patience, 20*time.Millisecond)
			})
		}
	}
}

// Missing parts are named, and created only if the settings say so.
func TestMissingTopology(t *testing.T) {
	c, o := dial(t), handlerOptions(t)
	o.Declare = false
	require.Equal(t, []string{
		"exchange " + o.Exchange + " does not exist", "queue " + o.Queue + " does not exist",
		"queue " + o.WorkQueues[0].Name + " does not exist",
	}, findings(t, c, o.topology()))
	i, err := o.topology().inspect(c, time.Now())
	require.NoError(t, err)
	require.True(t, i.Queue(o.Queue).Missing)
	require.Len(t, i.Problems(), 3)
}

// Every argument that differs is named with both values, by the broker's own texts.
func TestDifferencesAreNamed(t *testing.T) {
	c := dial(t)
	declare := func(t *testing.T, name string, durable bool, args amqp.Table) {
		t.Helper()
		onChannel(t, c, func(ch *amqp.Channel) error {
			_, err := ch.QueueDeclare(name, durable, false, false, false, args)
			return err
		})
	}
	t.Run("work queue without dead-letter exchange", func(t *testing.T) {
		o := handlerOptions(t)
		work := o.WorkQueues[0].Name
		declare(t, work, true, amqp.Table{"x-queue-type": "quorum", "x-message-ttl": int64(1000)})
		require.ElementsMatch(t, []string{
			"queue " + work + " has x-dead-letter-exchange (none), but the settings want " + o.Exchange,
			"queue " + work + " has x-message-ttl 1000, but the settings want 300000",
			"queue " + work + " has x-dead-letter-strategy (none), but the settings want at-least-once",
			"queue " + work + " has x-overflow (none), but the settings want reject-publish",
		}, findings(t, c, o.topology()))
		o.Declare = false
		require.ElementsMatch(t, []string{
			"queue " + work + " has x-dead-letter-exchange (none), but the settings want " + o.Exchange,
			"queue " + work + " has x-message-ttl 1000, but the settings want 300000",
		}, findings(t, c, o.topology()), "the others do not keep messages from arriving")
	})
	t.Run("dead-letter queue that is not durable and has more", func(t *testing.T) {
		o := handlerOptions(t)
		declare(t, o.Queue, false, amqp.Table{"x-dead-letter-exchange": "it's 'quoted' but current is",
			"x-max-length": int64(5), "x-max-priority": int64(3)})
		got := findings(t, c, o.topology())
		require.Contains(t, got, "queue "+o.Queue+" has durable false, but the settings want true")
		require.Contains(t, got, "queue "+o.Queue+" has x-max-length 5, but the settings want (none)")
		require.Contains(t, got, "queue "+o.Queue+" has x-message-ttl (none), but the settings want 86400000")
	})
	t.Run("classic queue with another TTL", func(t *testing.T) {
		o := handlerOptions(t)
		o.QueueType, o.Declare = Classic, false
		work := o.WorkQueues[0].Name
		onChannel(t, c, func(ch *amqp.Channel) error {
			return ch.ExchangeDeclare(o.Exchange, Topic, true, false, false, false, nil)
		})
		declare(t, o.Queue, true, amqp.Table{"x-message-ttl": int32(86_400_000), "x-max-length-bytes": int64(1 << 30),
			"x-single-active-consumer": false})
		declare(t, work, true, amqp.Table{"x-message-ttl": int32(1000), "x-dead-letter-exchange": o.Exchange})
		require.Equal(t, []string{"queue " + work + " has x-message-ttl 1000, but the settings want 300000"},
			findings(t, c, o.topology()))
	})
	t.Run("direct exchange", func(t *testing.T) {
		o := handlerOptions(t)
		onChannel(t, c, func(ch *amqp.Channel) error {
			return ch.ExchangeDeclare(o.Exchange, "direct", true, false, false, false, nil)
		})
		require.Equal(t, []string{"exchange " + o.Exchange + " has type direct, but the settings want topic"},
			findings(t, c, o.topology()))
	})
	t.Run("exclusive queue of another connection", func(t *testing.T) {
		o, other := handlerOptions(t), dial(t)
		onChannel(t, other, func(ch *amqp.Channel) error {
			_, err := ch.QueueDeclare(o.Queue, false, false, true, false, nil)
			return err
		})
		got := findings(t, c, o.topology())
		require.NotEmpty(t, got)
		require.Contains(t, got[0], "RESOURCE_LOCKED")
	})
}

// A broker that answers something else, or that is gone, is no difference.
func TestRefusalsThatAreNoDifference(t *testing.T) {
	e := &entity{kind: "queue", name: "q"}
	for _, text := range []string{"", "PRECONDITION_FAILED",
		"PRECONDITION_FAILED - invalid arg 'x-message-ttl' for queue 'q' in vhost '/'", strings.Repeat("x", 1000)} {
		_, _, ok := e.difference(nil, &amqp.Error{Code: amqp.PreconditionFailed, Reason: text})
		require.False(t, ok, text)
	}
	cut :=
		"PRECONDITION_FAILED - inequivalent arg 'x-overflow' for queue 'q' in vhost '/': received the value " +
			"'reject-publish' of t..."
	f, _, ok := e.difference(amqp.Table{argOverflow: "reject-publish"},
		&amqp.Error{Code: amqp.PreconditionFailed, Reason: cut})
	require.True(t, ok)
	require.Equal(t, "queue q has x-overflow (not stated), but the settings want reject-publish", f.String())
	require.False(t, adopt(amqp.Table{}, f, ""))
	c := dial(t)
	require.NoError(t, c.Close())
	_, err := (&topology{entities: []entity{*e}}).inspect(c, time.Now())
	require.ErrorContains(t, err, "verify queue q")
}
