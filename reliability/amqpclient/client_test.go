package amqpclient

import (
	"context"
	"crypto/tls"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sloengine/sloengine/ingest/source/rabbitmq/rabbitmqtest"
	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/reliability/nettest"
	"github.com/sloengine/sloengine/reliability/remote"
	"github.com/sloengine/sloengine/reliability/retry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(rabbitmqtest.Main(m)) }

func TestWrongOptions(t *testing.T) {
	for text, o := range map[string]Options{
		"url: missing":                   {},
		"url: not a URL":                 {URL: "amqp://a:se%zzcret@h"},
		"url: must begin with amqp://":   {URL: "http://h"},
		"url: contains credentials":      {URL: "amqp://user:secret@h"},
		"url: has a query":               {URL: "amqp://h?heartbeat=3"},
		"tls: requires a url":            {URL: "amqp://h", TLS: &tls.Config{}},
		"password_file: stat /nowhere":   {URL: "amqp://h", PasswordFile: "/nowhere"},
		"password: the file is empty":    {URL: "amqp://h", PasswordFile: nettest.PasswordFile(t, " \n")},
		"heartbeat and connect_timeout ": {URL: "amqp://h", Heartbeat: -1},
	} {
		_, err := New(o)
		require.ErrorContains(t, err, text)
		require.NotContains(t, err.Error(), "secret")
	}
	c, err := New(Options{URL: "amqps://rabbit.example.org/shop%2Feu"})
	require.NoError(t, err)
	require.Equal(t, "amqps://rabbit.example.org:5671", c.Address())
	require.Equal(t, "shop/eu", c.VHost())
	c, err = New(Options{URL: "amqp://[::1]:5673"})
	require.NoError(t, err)
	require.Equal(t, "amqp://[::1]:5673", c.Address())
	require.Equal(t, "/", c.VHost())
}

// TestWhatAnOperatorReads makes each mistake with a real broker.
func TestWhatAnOperatorReads(t *testing.T) {
	n := rabbitmqtest.Shared(t)
	alice := Options{URL: "amqp://" + n.Address, Username: rabbitmqtest.Alice,
		PasswordFile: nettest.PasswordFile(t, rabbitmqtest.AlicePassword)}
	with := func(change func(o *Options)) Options { o := alice; change(&o); return o }
	queue := rabbitmqtest.Name("q")
	for name, x := range map[string]struct {
		o     Options
		use   func(ch *amqp.Channel) error
		kind  remote.Kind
		class retry.Class
		text  string
	}{
		"plain":        {o: alice},
		"virtual host": {o: with(func(o *Options) { o.URL += "/other" })},
		"TLS":          {o: with(func(o *Options) { o.URL, o.TLS = "amqps://"+n.TLSAddress, n.TLSConfig() })},
		"wrong password": {o: with(func(o *Options) {
			o.PasswordFile = nettest.PasswordFile(t, "no")
		}), kind: remote.KindCredentials, class: retry.ClassBlocked, text: "user name or password"},
		"no host access": {o: with(func(o *Options) {
			o.URL += "/missing"
		}), kind: remote.KindTopology, class: retry.ClassBlocked, text: "virtual host"},
		"no rights": {o: with(func(o *Options) {
			o.Username, o.PasswordFile = rabbitmqtest.Mallory, nettest.PasswordFile(t, rabbitmqtest.MalloryPassword)
		}), use: func(ch *amqp.Channel) error {
			_, err := ch.QueueDeclare(queue, false, true, true, false, nil)
			return err
		},
			kind: remote.KindCredentials, class: retry.ClassBlocked, text: "not authorized"},
		"foreign CA": {o: with(func(o *Options) {
			o.URL, o.TLS = "amqps://"+n.TLSAddress, &tls.Config{ServerName: "localhost"}
		}), kind: remote.KindTLS, class: retry.ClassBlocked, text: "unknown authority"},
		"wrong name": {o: with(func(o *Options) {
			o.URL, o.TLS = "amqps://"+n.TLSAddress, n.TLSConfig()
			o.TLS.ServerName = "other.example.org"
		}), kind: remote.KindTLS, class: retry.ClassBlocked, text: "another host"},
		"TLS where not": {o: with(func(o *Options) {
			o.URL, o.TLS = "amqps://"+n.Address, n.TLSConfig()
		}), kind: remote.KindTLS, class: retry.ClassBlocked, text: "does not speak TLS"},
		"missing queue": {o: alice, use: func(ch *amqp.Channel) error {
			_, err := ch.QueueDeclarePassive(rabbitmqtest.Name("missing"), true, false, false, false, nil)
			return err
		}, kind: remote.KindTopology, class: retry.ClassBlocked, text: "does not exist"},
		"other arguments": {o: alice, use: func(ch *amqp.Channel) error {
			_, err := ch.QueueDeclare(queue, false, true, false, false, nil)
			return errors.Join(err, func() error {
				_, err := ch.QueueDeclare(queue, false, true, false, false, amqp.Table{"x-message-ttl": 1000})
				return err
			}())
		}, kind: remote.KindTopology, class: retry.ClassBlocked, text: "other arguments"},
		"no listener": {o: with(func(o *Options) {
			o.URL = "amqp://127.0.0.1:1"
		}), kind: remote.KindConnection, class: retry.ClassTransient, text: "refused"},
	} {
		t.Run(name, func(t *testing.T) {
			client, err := New(x.o)
			require.NoError(t, err)
			conn, err := client.Dial(t.Context())
			if err == nil && x.use != nil {
				ch, cerr := conn.Channel()
				require.NoError(t, cerr)
				err = Explain(x.use(ch))
			}
			if conn != nil {
				require.NoError(t, conn.Close())
			}
			if x.text == "" {
				require.NoError(t, err)
				return
			}
			var e *remote.BrokerError
			require.ErrorAs(t, err, &e)
			require.ErrorContains(t, err, x.text)
			require.Equal(t, x.kind, e.Kind, err)
			require.Equal(t, x.class, retry.ClassOf(err), err)
			require.NotContains(t, err.Error(), "secret")
		})
	}
}

// TestRunConnectsAgain breaks the network under a connection that is in use.
func TestRunConnectsAgain(t *testing.T) {
	n := rabbitmqtest.Shared(t)
	proxy := nettest.NewProxy(t, n.Address)
	set := metrics.NewSet()
	client, err := New(Options{
		URL: "amqp://" + proxy.Address, Username: rabbitmqtest.Alice,
		PasswordFile: nettest.PasswordFile(t, rabbitmqtest.AlicePassword),
		Name:         "source:r", Metrics: NewMetrics(set),
	})
	require.NoError(t, err)
	text := func() string {
		var b strings.Builder
		set.WritePrometheus(&b)
		return b.String()
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	used, failed := make(chan struct{}, 100), make(chan error, 100)
	wg.Go(func() {
		client.Run(ctx, func(ctx context.Context, conn *amqp.Connection) error {
			closed := conn.NotifyClose(make(chan *amqp.Error, 1))
			used <- struct{}{}
			select {
			case <-ctx.Done():
				return nil
			case err := <-closed:
				return err
			}
		}, func(err error) {
			if err != nil {
				failed <- err
			}
		})
	})
	await := func(what string, c <-chan struct{}) {
		select {
		case <-c:
		case <-time.After(testkit.Patience):
			t.Fatal(what)
		}
	}
	await("no connection", used)
	require.Contains(t, text(), `sloengine_rabbitmq_connected{client="source:r"} 1`+"\n")
	proxy.Cut()
	require.Error(t, <-failed)
	require.Eventually(t, func() bool {
		return strings.Contains(text(), `sloengine_rabbitmq_connected{client="source:r"} 0`+"\n")
	}, testkit.Patience, 5*time.Millisecond)
	require.Error(t, <-failed, "an attempt to connect while the network is down")
	proxy.Restore()
	await("no second connection", used)
	cancel()
	wg.Wait()
	require.Eventually(t, func() bool {
		return strings.Contains(text(), `sloengine_rabbitmq_disconnects_total{client="source:r"} 2`+"\n")
	}, testkit.Patience, 5*time.Millisecond, "%s", text())
}
