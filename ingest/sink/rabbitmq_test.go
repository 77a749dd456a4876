package sink

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/ingest/source/rabbitmq/rabbitmqtest"
	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/reliability/amqpclient"
	"github.com/sloengine/sloengine/reliability/dispatch"
	"github.com/sloengine/sloengine/reliability/nettest"
	"github.com/sloengine/sloengine/reliability/retry"
)

func rabbitMQItems(kind string, ids ...string) (batch []dispatch.Item) {
	for _, id := range ids {
		e := event.Event{ID: id, Service: "shop", Type: kind, Time: time.Unix(1_700_000_000, 0)}
		batch = append(batch, dispatch.Item{ID: id, Service: "shop", Type: kind, Payload: event.AppendBinary(nil, &e)})
	}
	return batch
}

// rabbitMQOptions are those of a sink for Alice.
func rabbitMQOptions(t *testing.T, address, exchange string) RabbitMQOptions {
	return RabbitMQOptions{Exchange: exchange, Broker: amqpclient.Options{
		URL: "amqp://" + address, Username: rabbitmqtest.Alice,
		PasswordFile: nettest.PasswordFile(t, rabbitmqtest.AlicePassword)}}
}

func openRabbitMQ(t *testing.T, o RabbitMQOptions) *RabbitMQ {
	t.Helper()
	s, err := NewRabbitMQ(o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// newExchange declares a topic exchange with a queue for orders.
func newExchange(t *testing.T, n *rabbitmqtest.Node, arguments amqp.Table) (name, queue string) {
	t.Helper()
	name, queue = rabbitmqtest.Name("events"), rabbitmqtest.Name("orders")
	ch := n.Channel(t, "/")
	require.NoError(t, ch.ExchangeDeclare(name, amqp.ExchangeTopic, true, false, false, false, nil))
	_, err := ch.QueueDeclare(queue, true, false, false, false, arguments)
	require.NoError(t, err)
	require.NoError(t, ch.QueueBind(queue, "*.order", name, false, nil))
	return name, queue
}

func TestRabbitMQOptions(t *testing.T) {
	for text, o := range map[string]RabbitMQOptions{
		"url: missing":               {},
		"unknown placeholder {user}": {RoutingKey: "{user}", Broker: amqpclient.Options{URL: "amqp://h"}},
		"exchange: longer":           {Exchange: fmt.Sprintf("%0300d", 1), Broker: amqpclient.Options{URL: "amqp://h"}},
	} {
		_, err := NewRabbitMQ(o)
		require.ErrorContains(t, err, text)
	}
}

func TestEventsBecomeMessages(t *testing.T) {
	n := rabbitmqtest.Shared(t)
	name, queue := newExchange(t, n, nil)
	s := openRabbitMQ(t, rabbitMQOptions(t, n.Address, name))
	require.NoError(t, s.Check(t.Context()))
	var ids []string
	for i := range 600 {
		ids = append(ids, fmt.Sprint("e", i))
	}
	r := s.Send(t.Context(), append(rabbitMQItems("order", ids...),
		dispatch.Item{ID: "broken", Service: "shop", Type: "order", Payload: []byte("?")}))
	require.NoError(t, r.Err)
	require.Len(t, r.Failed, 1)
	require.True(t, retry.IsPermanent(r.Failed[0].Err))
	list := n.Drain(t, queue)
	require.Len(t, list, len(ids))
	for i, d := range list {
		var e struct{ ID, Service, Type string }
		require.NoError(t, json.Unmarshal(d.Body, &e))
		require.Equal(t, ids[i], e.ID)
		require.Equal(t, ids[i], d.MessageId)
		require.Equal(t, "shop.order", d.RoutingKey)
		require.Equal(t, "application/json", d.ContentType)
		require.EqualValues(t, amqp.Persistent, d.DeliveryMode)
	}
}

func TestAnUnroutableMessageFailsAlone(t *testing.T) {
	n := rabbitmqtest.Shared(t)
	name, queue := newExchange(t, n, nil)
	o := rabbitMQOptions(t, n.Address, name)
	batch := append(rabbitMQItems("order", "1"), append(rabbitMQItems("login", "2"), rabbitMQItems("order", "3")...)...)
	r := openRabbitMQ(t, o).Send(t.Context(), batch)
	require.NoError(t, r.Err)
	require.Len(t, r.Failed, 1)
	require.Equal(t, 1, r.Failed[0].Index)
	require.Equal(t, retry.ClassTransient, retry.ClassOf(r.Failed[0].Err))
	require.ErrorContains(
		t, r.Failed[0].Err, fmt.Sprintf(`exchange %q has no queue for the routing key "shop.login"`, name))
	require.Len(t, n.Drain(t, queue), 2)
	o.NotMandatory = true
	require.Empty(t, openRabbitMQ(t, o).Send(t.Context(), batch).Failed)
}

func TestAFullQueueAsksForLess(t *testing.T) {
	n := rabbitmqtest.Shared(t)
	name, queue := newExchange(t, n, amqp.Table{"x-max-length": 2, "x-overflow": "reject-publish"})
	r := openRabbitMQ(t, rabbitMQOptions(t, n.Address, name)).Send(t.Context(), rabbitMQItems("order", "1", "2", "3", "4"))
	require.NoError(t, r.Err)
	require.NotEmpty(t, r.Failed)
	for _, f := range r.Failed {
		require.Equal(t, retry.ClassOverload, retry.ClassOf(f.Err), f.Err)
	}
	require.Len(t, n.Drain(t, queue), 4-len(r.Failed))
}

func TestRabbitMQWhatNeedsAnOperatorBlocks(t *testing.T) {
	n := rabbitmqtest.Shared(t)
	wrong := rabbitMQOptions(t, n.Address, "")
	wrong.Broker.PasswordFile = nettest.PasswordFile(t, "no")
	mallory := rabbitMQOptions(t, n.Address, "amq.topic")
	mallory.Broker.Username, mallory.Broker.PasswordFile = rabbitmqtest.Mallory,
		nettest.PasswordFile(t, rabbitmqtest.MalloryPassword)
	for text, o := range map[string]RabbitMQOptions{
		"user name or password": wrong, "not authorized": mallory,
		"does not exist": rabbitMQOptions(t, n.Address, rabbitmqtest.Name("missing")),
	} {
		s := openRabbitMQ(t, o)
		err := s.Send(t.Context(), rabbitMQItems("order", "1", "2")).Err
		require.ErrorContains(t, err, text)
		require.Equal(t, retry.ClassBlocked, retry.ClassOf(err), err)
		if text == "does not exist" { // a broker answers a wrong password after 3 s
			require.ErrorContains(t, s.Check(t.Context()), text)
		}
	}
}

func TestANetworkThatComesBackGetsEverything(t *testing.T) {
	n := rabbitmqtest.Shared(t)
	proxy := nettest.NewProxy(t, n.Address)
	name, queue := newExchange(t, n, nil)
	s := openRabbitMQ(t, rabbitMQOptions(t, proxy.Address, name))
	require.NoError(t, s.Send(t.Context(), rabbitMQItems("order", "before")).Err)
	proxy.Cut()
	err := s.Send(t.Context(), rabbitMQItems("order", "cut")).Err
	require.Equal(t, retry.ClassTransient, retry.ClassOf(err), "%v", err)
	proxy.Restore()
	require.Eventually(t, func() bool {
		return s.Send(t.Context(), rabbitMQItems("order", "after")).Err == nil
	}, testkit.Patience, 10*time.Millisecond)

	proxy.Stall()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	err = s.Send(ctx, rabbitMQItems("order", "stalled")).Err
	require.Equal(t, retry.ClassTimeout, retry.ClassOf(err), "%v", err)
	proxy.Restore()
	require.NoError(t, s.Send(t.Context(), rabbitMQItems("order", "last")).Err)
	got := map[string]bool{}
	for _, d := range n.Drain(t, queue) {
		got[d.MessageId] = true
	}
	for _, id := range []string{"before", "after", "last"} {
		require.True(t, got[id], id)
	}
}

func TestABrokerThatIsKilledKeepsWhatItConfirmed(t *testing.T) {
	if testing.Short() {
		t.Skip("a broker of its own")
	}
	n := rabbitmqtest.Start(t, rabbitmqtest.Options{})
	name, queue := newExchange(t, n, nil)
	s := openRabbitMQ(t, rabbitMQOptions(t, n.Address, name))
	require.NoError(t, s.Send(t.Context(), rabbitMQItems("order", "1", "2", "3")).Err)
	n.Kill()
	require.Error(t, s.Send(t.Context(), rabbitMQItems("order", "4")).Err)
	n.Restart(t)
	require.Eventually(t, func() bool {
		return s.Send(t.Context(), rabbitMQItems("order", "4")).Err == nil
	}, testkit.Patience, 20*time.Millisecond)
	require.Len(t, n.Drain(t, queue), 4)
}
