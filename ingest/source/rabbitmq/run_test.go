package rabbitmq

import (
	"context"
	"slices"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/ingest/source"
	"github.com/sloengine/sloengine/ingest/source/rabbitmq/rabbitmqtest"
	"github.com/sloengine/sloengine/reliability/amqpclient"
	"github.com/sloengine/sloengine/reliability/nettest"
)

// run runs a source that connects by itself until the test ends.
func (r *rig) run(o Options, connect amqpclient.Options) *Source {
	r.t.Helper()
	var err error
	r.parts.Client, err = amqpclient.New(connect)
	require.NoError(r.t, err)
	s, err := NewSource(o, r.parts)
	require.NoError(r.t, err)
	r.start(&s.consumer)
	return s
}

func (r *rig) start(c *consumer) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); c.Run(ctx) }()
	r.t.Cleanup(func() { cancel(); <-done })
}

// as are the options of a client for a user of the node.
func as(t testing.TB, address, user, password string) amqpclient.Options {
	return amqpclient.Options{URL: "amqp://" + address, Username: user, PasswordFile: nettest.PasswordFile(t, password)}
}

func (r *rig) troubles() (kinds []source.Kind) {
	for _, x := range r.intake.Troubles() {
		kinds = append(kinds, x.Kind)
	}
	return kinds
}

// Every failure of the connection is a clear state, and never ends the source.
func TestWrongConnections(t *testing.T) {
	node := rabbitmqtest.Shared(t)
	vhost := as(t, node.Address, rabbitmqtest.Alice, rabbitmqtest.AlicePassword)
	vhost.URL += "/nowhere"
	tlsThere, plainThere := as(t, node.TLSAddress, rabbitmqtest.Alice, rabbitmqtest.AlicePassword),
		as(t, node.Address, rabbitmqtest.Alice, rabbitmqtest.AlicePassword)
	tlsThere.URL, plainThere.URL = "amqps://"+node.TLSAddress, "amqps://"+node.Address
	for name, c := range map[string]struct {
		connect amqpclient.Options
		kind    source.Kind
	}{
		"wrong password":        {as(t, node.Address, rabbitmqtest.Alice, "wrong"), source.TroubleCredentials},
		"unknown user":          {as(t, node.Address, "bob", "x"), source.TroubleCredentials},
		"unknown virtual host":  {vhost, source.TroubleTopic},
		"nothing listens":       {as(t, "127.0.0.1:1", rabbitmqtest.Alice, "x"), source.TroubleConnection},
		"no TLS there":          {plainThere, source.TroubleTLS},
		"untrusted certificate": {tlsThere, source.TroubleTLS},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.run(Options{Queue: names(t)("q")}, c.connect)
			r.eventually(func() bool { return len(r.troubles()) == 1 })
			require.Equal(t, c.kind, r.troubles()[0], r.intake.Troubles()[0].Reason)
			require.NotContains(t, r.log.String(), rabbitmqtest.AlicePassword)
		})
	}
}

// A user that may connect and may not read is a state, too.
func TestMissingPermission(t *testing.T) {
	node, r := rabbitmqtest.Shared(t), newRig(t)
	queue := names(t)("q")
	onChannel(t, r.conn, func(ch *amqp.Channel) error {
		_, err := ch.QueueDeclare(queue, true, false, false, false, nil)
		return err
	})
	s := r.run(Options{Queue: queue}, as(t, node.Address, rabbitmqtest.Mallory, rabbitmqtest.MalloryPassword))
	r.eventually(func() bool { return len(r.troubles()) == 1 && s.Inspection() != nil })
	require.Equal(t, source.TroubleCredentials, r.troubles()[0])
	require.Contains(t, s.Inspection().Findings[0].String(), "cannot be verified")
	require.Empty(t, s.Inspection().Problems())
}

// A source connects again after its connection was cut, and receives the unacknowledged messages
// again.
func TestReconnects(t *testing.T) {
	node, r := rabbitmqtest.Shared(t), newRig(t)
	proxy := nettest.NewProxy(t, node.Address)
	s := r.run(Options{Queue: names(t)("q"), Declare: true},
		as(t, proxy.Address, rabbitmqtest.Alice, rabbitmqtest.AlicePassword))
	for i := range 3 {
		r.eventually(func() bool { return s.Inspection() != nil })
		r.publish(s.queue, order(string(rune('a'+i))))
		r.eventually(func() bool { return len(r.all()) == i+1 && len(r.troubles()) == 0 })
		proxy.Cut()
		r.eventually(func() bool { return slices.Contains(r.troubles(), source.TroubleConnection) })
		proxy.Restore()
	}
	r.eventually(func() bool { return r.messages(s.queue) == 0 })
	require.Len(t, r.all(), 3)
}
