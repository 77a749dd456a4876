// Package amqpclient connects to RabbitMQ, for sinks and sources: address, credentials and TLS, errors in plain
// English with advice, a loop that connects again, a publisher that waits for confirmations, and metrics.
//
// It does not know the published or consumed messages.
package amqpclient

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/sloengine/sloengine/reliability/retry"
	"github.com/sloengine/sloengine/reliability/secretfile"
)

// Options say where a broker is and who connects to it. A zero field takes the default given with it.
type Options struct {
	// URL is amqp://host:port/vhost, or amqps:// for TLS, without credentials. The virtual host "/" is that of a URL
	// without a path; a slash in another one is written %2F.
	URL      string `yaml:"url"`
	Username string `yaml:"username"` // guest
	// PasswordFile holds the password. A changed file counts for connections made 10 s later at the latest. Without it,
	// the password is "guest", which RabbitMQ accepts from its own machine only.
	PasswordFile string `yaml:"password_file" is:"file"`
	TLS          *tls.Config
	// Heartbeat is the interval in which both sides look whether the other is alive; 10 s.
	Heartbeat time.Duration `yaml:"heartbeat" min:"1s" max:"10m"`
	// ConnectTimeout bounds connecting and logging in; 10 s.
	ConnectTimeout time.Duration `yaml:"connect_timeout" min:"100ms" max:"2m"`
	// ClientName is shown by the broker's tools; sloengine.
	ClientName string `yaml:"client_name"`

	// Name distinguishes the series of this client from others; without it, nothing is exported.
	Name    string
	Metrics *Metrics
}

// Defaults of Options.
const (
	DefaultHeartbeat      = 10 * time.Second
	DefaultConnectTimeout = 10 * time.Second
	DefaultClientName     = "sloengine"
	DefaultUsername       = "guest"
)

// Client makes connections. It is safe for concurrent use.
type Client struct {
	o        Options
	address  string           // the URL without a path, credentials and query
	host     string           // of the address
	vhost    string           // "/" unless the URL has a path
	password *secretfile.File // nil: guest
	series   *series          // nil: not exported
}

// New checks the options and reads the password. It connects to nothing.
func New(o Options) (*Client, error) {
	o.Username = cmp.Or(o.Username, DefaultUsername)
	o.Heartbeat = cmp.Or(o.Heartbeat, DefaultHeartbeat)
	o.ConnectTimeout = cmp.Or(o.ConnectTimeout, DefaultConnectTimeout)
	o.ClientName = cmp.Or(o.ClientName, DefaultClientName)
	c := &Client{o: o}
	var errs []error
	u, err := url.Parse(o.URL)
	switch {
	case o.URL == "":
		errs = append(errs, errors.New("url: missing (want one such as amqps://rabbitmq.example.org/shop)"))
	case err != nil:
		errs = append(errs, errors.New("url: not a URL")) // its text may hold a password
	case u.Scheme != "amqp" && u.Scheme != "amqps" || u.Hostname() == "":
		errs = append(errs, errors.New("url: must begin with amqp:// or amqps:// and have a host"))
	case u.User != nil:
		errs = append(errs, errors.New("url: contains credentials (set username and password_file)"))
	case u.RawQuery != "" || u.Fragment != "":
		errs = append(errs, errors.New("url: has a query or a fragment, which is not supported"))
	case o.TLS != nil && u.Scheme == "amqp":
		errs = append(errs, errors.New("tls: requires a url that begins with amqps://"))
	default:
		parsed, perr := amqp.ParseURI(o.URL)
		if perr != nil {
			errs = append(errs, fmt.Errorf("url: %w", perr))
		}
		c.host, c.vhost = parsed.Host, parsed.Vhost
		c.address = u.Scheme + "://" + net.JoinHostPort(parsed.Host, fmt.Sprint(parsed.Port))
	}
	if o.Heartbeat < 0 || o.ConnectTimeout < 0 {
		errs = append(errs, errors.New("heartbeat and connect_timeout must not be negative"))
	}
	if o.PasswordFile != "" {
		c.password, err = secretfile.Open(o.PasswordFile, nil)
		if err != nil {
			errs = append(errs, fmt.Errorf("password_file: %w", err))
		}
	}
	if o.Metrics != nil && o.Name != "" {
		c.series = o.Metrics.clients.Of(o.Name)
	}
	return c, errors.Join(errs...)
}

// Address is where the broker is, for people: the URL without virtual host and credentials.
func (c *Client) Address() string { return c.address }

// VHost is the virtual host.
func (c *Client) VHost() string { return c.vhost }

// Dial makes a connection, which the caller closes. The error is a *remote.BrokerError.
func (c *Client) Dial(ctx context.Context) (*amqp.Connection, error) {
	conn, _, err := c.connect(ctx)
	return conn, err
}

// connect is Dial. blocked says whether the broker takes no messages from the connection.
func (c *Client) connect(ctx context.Context) (conn *amqp.Connection, blocked *atomic.Bool, err error) {
	conn, err = c.dial(ctx)
	if s := c.series; s != nil {
		if err != nil {
			s.connectsFailed.Inc()
		} else {
			s.connects.Inc()
			s.connected.Add(1)
		}
	}
	if err != nil {
		return nil, nil, Explain(err)
	}
	return conn, c.follow(conn), nil
}

func (c *Client) dial(ctx context.Context) (*amqp.Connection, error) {
	password := "guest"
	if c.password != nil {
		password = string(c.password.Value(false))
	}
	properties := amqp.NewConnectionProperties()
	properties.SetClientConnectionName(c.o.ClientName)
	deadline := time.Now().Add(c.o.ConnectTimeout)
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	// TLS is made here, in front of the filter that makes headers readable.
	var readable *readableConn
	address, secure := strings.CutPrefix(c.address, "amqps")
	dialed, err := amqp.DialConfig("amqp"+strings.TrimPrefix(address, "amqp"), amqp.Config{
		SASL: []amqp.Authentication{&amqp.PlainAuth{Username: c.o.Username, Password: password}}, Vhost: c.vhost,
		Heartbeat: c.o.Heartbeat, Properties: properties, Locale: "en_US",
		Dial: func(network, address string) (net.Conn, error) {
			d := net.Dialer{Deadline: deadline}
			conn, err := d.DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			if err = conn.SetDeadline(deadline); err == nil && secure { // of the login; the library ends it
				conn, err = c.secure(ctx, conn)
			}
			if err != nil {
				_ = conn.Close()
				return nil, err
			}
			readable = &readableConn{Conn: conn, in: bufio.NewReaderSize(conn, readBuffer)}
			return readable, nil
		},
	})
	if err == nil {
		readable.most.Store(int64(dialed.Config.FrameSize))
	}
	return dialed, err
}

// secure makes a connection one of TLS. It returns a connection also with an error.
func (c *Client) secure(ctx context.Context, conn net.Conn) (net.Conn, error) {
	config := &tls.Config{}
	if c.o.TLS != nil {
		config = c.o.TLS.Clone()
	}
	if config.ServerName == "" {
		config.ServerName = c.host
	}
	secured := tls.Client(conn, config)
	return secured, secured.HandshakeContext(ctx)
}

// follow updates the gauges of a connection until it ends, and its result, which says whether the broker blocks it or
// did in the end. The library closes both channels then, and blocks on an unread one.
func (c *Client) follow(conn *amqp.Connection) *atomic.Bool {
	closed := conn.NotifyClose(make(chan *amqp.Error, 1))
	blocked := conn.NotifyBlocked(make(chan amqp.Blocking, 1))
	now := &atomic.Bool{}
	go func() {
		for b := range blocked {
			if now.Swap(b.Active) != b.Active && c.series != nil {
				c.series.blocked.Add(map[bool]float64{true: 1, false: -1}[b.Active])
			}
		}
		for range closed {
		}
		if c.series == nil {
			return
		}
		if now.Load() {
			c.series.blocked.Add(-1)
		}
		c.series.connected.Add(-1)
		c.series.disconnects.Inc()
	}()
	return now
}

// Waits between attempts to connect.
const (
	minWait = 200 * time.Millisecond
	maxWait = 30 * time.Second
)

// Run connects and calls use with the connection, again and again until ctx ends. use returns when the connection has
// ended or is of no more use, and Run closes it. report is called with each failure to connect and each error of use,
// as a *remote.BrokerError, and with nil once a connection is made; after a failure Run waits, longer each time up to
// 30 s.
func (c *Client) Run(ctx context.Context, use func(ctx context.Context, conn *amqp.Connection) error,
	report func(error)) {
	backoff := retry.Options{Base: minWait, Cap: maxWait}
	policy, err := retry.New(backoff)
	if err != nil {
		panic(err) // the options above are constants
	}
	var delay time.Duration
	for round := 0; ctx.Err() == nil; {
		conn, err := c.Dial(ctx)
		if err == nil {
			report(nil)
			began := time.Now()
			err = use(ctx, conn)
			_ = conn.Close()
			if time.Since(began) > maxWait { // it was good for a while
				round = 0
			}
		}
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			report(Explain(err))
		}
		delay = policy.Delay(round, delay)
		round++
		retry.Sleep(ctx, delay)
	}
}
