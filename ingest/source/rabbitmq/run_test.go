package rabbitmq

import (
	"context"
	"errors"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/ingest/source"
	"github.com/sloengine/sloengine/ingest/source/rabbitmq/rabbitmqtest"
)

// run runs a source that connects by itself until the test ends.
func (r *rig) run(o Options, dial func(context.Context) (*amqp.Connection, error)) *Source {
	r.t.Helper()
	r.parts.Dial = dial
	s, err := NewSource(o, r.parts)
	require.NoError(r.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	r.t.Cleanup(func() { cancel(); require.NoError(r.t, <-done) })
	return s
}

func (r *rig) troubles() (kinds []source.Kind) {
	for _, x := range r.intake.Troubles() {
		kinds = append(kinds, x.Kind)
	}
	return kinds
}

func to(url *string) func(context.Context) (*amqp.Connection, error) {
	return func(context.Context) (*amqp.Connection, error) {
		return amqp.DialConfig(*url, amqp.Config{Dial: amqp.DefaultDial(5 * time.Second)})
	}
}

// Whatever is wrong with the connection is a clear state, and never the end.
func TestWrongConnections(t *testing.T) {
	node := rabbitmqtest.Shared(t)
	for name, c := range map[string]struct {
		dial func(context.Context) (*amqp.Connection, error)
		kind source.Kind
	}{
		"wrong password":       {to(ptr(node.URLOf(node.Address, rabbitmqtest.Alice, "wrong", "/"))), source.TroubleCredentials},
		"unknown user":         {to(ptr(node.URLOf(node.Address, "bob", "x", "/"))), source.TroubleCredentials},
		"unknown virtual host": {to(ptr(node.URL("nowhere"))), source.TroubleCredentials},
		"nothing listens":      {to(ptr(node.URLOf("127.0.0.1:1", rabbitmqtest.Alice, "x", "/"))), source.TroubleConnection},
		"no TLS there": {func(context.Context) (*amqp.Connection, error) {
			return amqp.DialTLS("amqps://"+node.Address, node.TLSConfig())
		}, source.TroubleTLS},
		"untrusted certificate": {func(context.Context) (*amqp.Connection, error) {
			return amqp.DialTLS("amqps://"+node.TLSAddress, nil)
		}, source.TroubleTLS},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.run(Options{Queue: names(t)("q")}, c.dial)
			r.eventually(func() bool { return len(r.troubles()) == 1 })
			require.Equal(t, c.kind, r.troubles()[0], r.intake.Troubles()[0].Reason)
			require.NotContains(t, r.log.String(), rabbitmqtest.AlicePassword)
		})
	}
}

func ptr(s string) *string { return &s }

// A user that may connect and may not read is a state, too.
func TestMissingPermission(t *testing.T) {
	node, r := rabbitmqtest.Shared(t), newRig(t)
	queue := names(t)("q")
	onChannel(t, r.conn, func(ch *amqp.Channel) error {
		_, err := ch.QueueDeclare(queue, true, false, false, false, nil)
		return err
	})
	s := r.run(Options{Queue: queue}, to(ptr(node.URLOf(node.Address, rabbitmqtest.Mallory, rabbitmqtest.MalloryPassword, "/"))))
	r.eventually(func() bool { return len(r.troubles()) == 1 && s.Inspection() != nil })
	require.Equal(t, source.TroubleCredentials, r.troubles()[0])
	require.Contains(t, s.Inspection().Findings[0].String(), "cannot be verified")
	require.Empty(t, s.Inspection().Problems())
}

// A source connects again after its connection was closed, and takes up what was not acknowledged.
func TestReconnects(t *testing.T) {
	r := newRig(t)
	url := rabbitmqtest.Shared(t).URL("/")
	var conns []*amqp.Connection
	connected := make(chan *amqp.Connection, 10)
	s := r.run(Options{Queue: names(t)("q"), Declare: true}, func(ctx context.Context) (*amqp.Connection, error) {
		c, err := to(&url)(ctx)
		if err == nil {
			connected <- c
		}
		return c, err
	})
	for i := range 3 {
		conns = append(conns, <-connected)
		r.eventually(func() bool { return s.Inspection() != nil })
		r.publish(s.queue, order(string(rune('a'+i))))
		r.eventually(func() bool { return len(r.all()) == i+1 && len(r.troubles()) == 0 })
		require.NoError(t, conns[i].Close())
	}
	r.eventually(func() bool { return r.messages(s.queue) == 0 })
	require.Len(t, r.all(), 3)
	require.Contains(t, r.log.String(), "no connection to the broker")
}

func TestTroubleOfErrors(t *testing.T) {
	kind, _ := trouble(errors.New("x"))
	require.Equal(t, source.TroubleConnection, kind)
	kind, _ = trouble(nil)
	require.Equal(t, source.TroubleConnection, kind)
}
