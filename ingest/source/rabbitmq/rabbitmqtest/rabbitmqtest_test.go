package rabbitmqtest

import (
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(Main(m)) }

func TestUsersAndListeners(t *testing.T) {
	began := time.Now()
	n := Shared(t)
	t.Logf("ready after %s", time.Since(began))
	ask := func(url string, config amqp.Config) error {
		config.Dial = amqp.DefaultDial(5 * time.Second)
		c, err := amqp.DialConfig(url, config)
		if err != nil {
			return err
		}
		defer c.Close()
		ch, err := c.Channel()
		require.NoError(t, err)
		_, err = ch.QueueDeclare(Name("q"), false, true, true, false, nil)
		return err
	}
	require.NoError(t, ask(n.URL("/"), amqp.Config{}))
	require.NoError(t, ask(n.URL("other"), amqp.Config{}))
	tls := strings.Replace(n.URLOf(n.TLSAddress, Alice, AlicePassword, "/"), "amqp:", "amqps:", 1)
	require.NoError(t, ask(tls, amqp.Config{TLSClientConfig: n.TLSConfig()}))
	require.ErrorIs(t, ask(n.URLOf(n.Address, Alice, "wrong", "/"), amqp.Config{}), amqp.ErrCredentials)
	require.ErrorContains(t, ask(n.URLOf(n.Address, Mallory, MalloryPassword, "/"), amqp.Config{}), "ACCESS_REFUSED")
	require.Error(t, ask(n.URL("missing"), amqp.Config{}))
}

func TestANodeThatIsKilledHasItsDataAgain(t *testing.T) {
	if testing.Short() {
		t.Skip("other packages run the helpers under the race detector")
	}
	n := Start(t, Options{Proxied: true})
	write := func(body string) {
		c, err := amqp.Dial(n.ProxiedURL("/"))
		require.NoError(t, err)
		defer c.Close()
		ch, err := c.Channel()
		require.NoError(t, err)
		_, err = ch.QueueDeclare("q", true, false, false, false, nil)
		require.NoError(t, err)
		require.NoError(t, ch.Confirm(false))
		confirmed, err := ch.PublishWithDeferredConfirmWithContext(t.Context(), "", "q", true, false,
			amqp.Publishing{Body: []byte(body), DeliveryMode: amqp.Persistent})
		require.NoError(t, err)
		ok, err := confirmed.WaitContext(t.Context())
		require.NoError(t, err)
		require.True(t, ok, n.Log())
	}
	write("before")
	n.Kill()
	began := time.Now()
	n.Restart(t)
	t.Logf("ready again after %s", time.Since(began))
	write("after")
	n.Proxy.Cut()
	_, err := amqp.Dial(n.ProxiedURL("/"))
	require.Error(t, err)
	n.Proxy.Restore()
	n.Stop()
	n.Restart(t)
	ch := n.Channel(t, "/")
	for _, want := range []string{"before", "after"} {
		d, ok, err := ch.Get("q", true)
		require.NoError(t, err)
		require.True(t, ok, n.Log())
		require.Equal(t, want, string(d.Body))
	}
	require.Contains(t, n.Ctl(t, "list_queues", "name"), "q")
}
