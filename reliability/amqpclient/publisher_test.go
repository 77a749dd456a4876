package amqpclient

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/ingest/source/rabbitmq/rabbitmqtest"
	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/reliability/nettest"
	"github.com/sloengine/sloengine/reliability/retry"
)

func newPublisher(t *testing.T, address string, confirm time.Duration) *Publisher {
	t.Helper()
	p, err := NewPublisher(PublisherOptions{
		Options: Options{URL: "amqp://" + address, Username: rabbitmqtest.Alice,
			PasswordFile: nettest.PasswordFile(t, rabbitmqtest.AlicePassword)},
		ConfirmTimeout: confirm,
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

func message(exchange, key, id string) *Message {
	return &Message{Exchange: exchange, Key: key, Mandatory: true,
		Publishing: amqp.Publishing{MessageId: id, Body: []byte(id), DeliveryMode: amqp.Persistent}}
}

// bound declares an exchange with a queue for the routing key "k".
func bound(t *testing.T, n *rabbitmqtest.Node) (exchange, queue string) {
	t.Helper()
	exchange, queue = rabbitmqtest.Name("exchange"), rabbitmqtest.Name("queue")
	ch := n.Channel(t, "/")
	require.NoError(t, ch.ExchangeDeclare(exchange, amqp.ExchangeDirect, true, false, false, false, nil))
	_, err := ch.QueueDeclare(queue, true, false, false, false, nil)
	require.NoError(t, err)
	require.NoError(t, ch.QueueBind(queue, "k", exchange, false, nil))
	return exchange, queue
}

func ids(t *testing.T, n *rabbitmqtest.Node, queue string) (list []string) {
	t.Helper()
	for _, d := range n.Drain(t, queue) {
		list = append(list, d.MessageId)
	}
	return list
}

func TestAMessageFailsByItself(t *testing.T) {
	n := rabbitmqtest.Shared(t)
	one, first := bound(t, n)
	two, second := bound(t, n)
	p := newPublisher(t, n.Address, time.Minute)
	require.NoError(t, p.Check(t.Context()))
	large, odd, long := message(one, "k", "large"), message(one, "k", "odd"), message(one, "k", strings.Repeat("x", 256))
	large.Headers = amqp.Table{"h": strings.Repeat("x", 1<<20)}
	odd.Headers = amqp.Table{"CC": "this has to be a list"} // the broker closes the channel
	batch := []*Message{
		message(one, "k", "1"), message(two, "k", "2"), large, nil, message(rabbitmqtest.Name("missing"), "k", "3"), odd,
		message(one, "other", "4"), message(one, "k", "5"), message("", first, "6"),
		message(one, strings.Repeat("x", 256), "7"), long, message(two, "k", "8"),
	}
	wants := []string{
		"", "", "the headers are too large", "", "does not exist", "the broker refuses the message",
		`has no queue for the routing key "other"`, "", "", "the routing key has 256 bytes",
		"the message id has 256 bytes", "",
	}
	permanent := map[int]bool{2: true, 5: true, 9: true, 10: true}
	for range 2 { // the connection stays as good as it was
		for i, o := range p.Publish(t.Context(), batch) {
			require.False(t, o.Away, i)
			if wants[i] == "" {
				require.NoError(t, o.Err, i)
				continue
			}
			require.ErrorContains(t, o.Err, wants[i])
			class := retry.ClassBlocked
			if permanent[i] {
				class = retry.ClassPermanent
			}
			require.Equal(t, class, retry.ClassOf(o.Err), wants[i])
		}
		require.Len(t, p.idle, 1)
	}
	got := ids(t, n, first)
	for _, id := range []string{"1", "5", "6"} {
		require.GreaterOrEqual(t, strings.Count(strings.Join(got, " "), id), 2, "%v", got)
	}
	require.Equal(t, []string{"2", "8", "2", "8"}, ids(t, n, second))
}

// TestABrokerThatDoesNotConfirm stops the process of a queue, as if the members of a quorum queue had no majority.
func TestABrokerThatDoesNotConfirm(t *testing.T) {
	n := rabbitmqtest.Shared(t)
	stopped, queue := bound(t, n)
	works, _ := bound(t, n)
	control := func(what string) {
		n.Ctl(t, "eval",
			fmt.Sprintf(
				`{ok, Q} = rabbit_amqqueue:lookup(rabbit_misc:r(<<"/">>, queue, <<"%s">>)), sys:%s(amqqueue:get_pid(Q)).`,
				queue, what))
	}
	control("suspend")
	defer control("resume")
	p := newPublisher(t, n.Address, time.Second)
	outcomes := p.Publish(
		t.Context(), []*Message{message(stopped, "k", "1"), message(works, "k", "2"), message(works, "no", "3")})
	require.Equal(t, retry.ClassTimeout, retry.ClassOf(outcomes[0].Err), outcomes[0].Err)
	require.False(t, outcomes[0].Away, "the broker works")
	require.ErrorContains(t, outcomes[0].Err, "the broker works, but did not confirm the message in time")
	require.NoError(t, outcomes[1].Err)
	require.ErrorIs(t, outcomes[2].Err, ErrUnroutable)
	require.NoError(t, p.Check(t.Context()))
}

func TestABrokerThatHangsIsAway(t *testing.T) {
	n := rabbitmqtest.Shared(t)
	proxy := nettest.NewProxy(t, n.Address)
	exchange, _ := bound(t, n)
	p := newPublisher(t, proxy.Address, time.Second)
	batch := []*Message{message(exchange, "k", "1"), message("", "missing", "2")}
	require.NoError(t, p.Publish(t.Context(), batch)[0].Err)
	proxy.Stall()
	for _, o := range p.Publish(t.Context(), batch) {
		require.Error(t, o.Err)
		require.True(t, o.Away, o.Err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	require.Error(t, p.Check(ctx))
	proxy.Restore()
	require.Eventually(t, func() bool { return p.Check(t.Context()) == nil }, testkit.Patience, 10*time.Millisecond)
	require.NoError(t, p.Publish(t.Context(), batch)[0].Err)
}

// TestABrokerWithoutMemoryIsAway says that a broker which lets clients log in and takes no messages is of no use.
func TestABrokerWithoutMemoryIsAway(t *testing.T) {
	if testing.Short() {
		t.Skip("a broker of its own")
	}
	n := rabbitmqtest.Start(t, rabbitmqtest.Options{})
	exchange, queue := bound(t, n)
	p := newPublisher(t, n.Address, time.Second)
	n.Ctl(t, "set_vm_memory_high_watermark", "0.000001")
	o := p.Publish(t.Context(), []*Message{message(exchange, "k", "1")})[0]
	require.True(t, o.Away, o.Err)
	require.ErrorContains(t, o.Err, "lacks memory or disk space")
	require.ErrorContains(t, p.Check(t.Context()), "lacks memory or disk space")
	n.Ctl(t, "set_vm_memory_high_watermark", "0.9")
	require.Eventually(t, func() bool { return p.Check(t.Context()) == nil }, testkit.Patience, 50*time.Millisecond)
	require.NoError(t, p.Publish(t.Context(), []*Message{message(exchange, "k", "2")})[0].Err)
	require.Subset(t, ids(t, n, queue), []string{"2"})

	n.Kill()
	o = p.Publish(t.Context(), []*Message{message(exchange, "k", "3")})[0]
	require.True(t, o.Away, o.Err)
	n.Restart(t)
	require.Eventually(t, func() bool {
		return p.Publish(t.Context(), []*Message{message(exchange, "k", "3")})[0].Err == nil
	}, testkit.Patience, 50*time.Millisecond)
}
