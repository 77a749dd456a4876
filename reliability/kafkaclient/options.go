// Package kafkaclient connects to a Kafka cluster, for sinks and sources: addresses, credentials and TLS as options
// of twmb/franz-go, errors in plain English with advice, the state of the connection, and metrics.
//
// It does not know the produced or consumed records.
package kafkaclient

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kversion"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/sloengine/sloengine/reliability/secretfile"
)

// Options say where a cluster is and who connects to it. A zero field takes the default given with it.
type Options struct {
	// Brokers are host:port of some brokers. The client learns the others from them.
	Brokers []string `yaml:"brokers"`
	// ClientID names the client in the brokers' logs and quotas; sloengine.
	ClientID string `yaml:"client_id"`
	// Version is the newest version of Kafka whose requests are made, such as 2.8. By default the client uses the
	// version that the brokers offer, which some proxies report incorrectly.
	Version string       `yaml:"version"`
	SASL    *SASLOptions `yaml:"sasl"`
	// TLS is nil for plain text.
	TLS *tls.Config
	// RequestTimeout bounds one request, and the time that a broker may take to write a batch; 30 s.
	RequestTimeout time.Duration `yaml:"request_timeout" min:"100ms" max:"10m"`
	// Backoff is the wait between tries of a request; 1 s.
	Backoff time.Duration `yaml:"backoff" min:"10ms" max:"1m"`

	// Name distinguishes the series of this client from others; without it, nothing is exported.
	Name    string
	Metrics *Metrics
}

// SASLOptions are credentials.
type SASLOptions struct {
	Mechanism string `yaml:"mechanism" one:"PLAIN SCRAM-SHA-256 SCRAM-SHA-512"` // SCRAM-SHA-512
	Username  string `yaml:"username"`
	// PasswordFile holds the password. A changed file counts for connections made 10 s later at the latest.
	PasswordFile string `yaml:"password_file" is:"file"`
}

// Defaults of Options.
const (
	DefaultClientID       = "sloengine"
	DefaultRequestTimeout = 30 * time.Second
	DefaultBackoff        = time.Second
	DefaultMechanism      = "SCRAM-SHA-512"
)

// dialTimeout bounds the making of a connection, so that a host that swallows packets does not hold a client up.
const dialTimeout = 10 * time.Second

func (o *Options) applyDefaults() {
	o.ClientID = cmp.Or(o.ClientID, DefaultClientID)
	o.RequestTimeout = cmp.Or(o.RequestTimeout, DefaultRequestTimeout)
	o.Backoff = cmp.Or(o.Backoff, DefaultBackoff)
}

// Validate reports everything that is wrong, and reads the password. It connects to nothing.
func (o Options) Validate() error {
	o.applyDefaults()
	_, err := o.settings()
	return err
}

func (o *Options) settings() ([]kgo.Opt, error) {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if len(o.Brokers) == 0 {
		bad("brokers: missing (give host:port of at least one broker)")
	}
	for _, b := range o.Brokers {
		host, port, err := net.SplitHostPort(b)
		if n, perr := strconv.Atoi(port); err != nil || perr != nil || n < 1 || n > 65535 || host == "" {
			bad("brokers: invalid address %q (want host:port, such as kafka-1.example.org:9092)", b)
		}
	}
	if o.RequestTimeout < 0 || o.Backoff < 0 {
		bad("request_timeout and backoff must not be negative")
	}
	settings := []kgo.Opt{
		kgo.SeedBrokers(o.Brokers...), kgo.ClientID(o.ClientID), kgo.SoftwareNameAndVersion("sloengine", "1"),
		kgo.DialTimeout(dialTimeout), kgo.RequestTimeoutOverhead(o.RequestTimeout),
		kgo.RetryBackoffFn(func(int) time.Duration { return o.Backoff }),
		// A topic that is created, or a leader that moves, is noticed this soon.
		kgo.MetadataMinAge(min(o.Backoff, time.Second)), kgo.MetadataMaxAge(time.Minute),
		kgo.DisableClientMetrics(),
		kgo.AlwaysRetryEOF(), // a broker that is killed ends connections like one that wants TLS
	}
	if o.Version != "" {
		if v := kversion.FromString(o.Version); v == nil {
			bad("version: unknown Kafka version %q (want one such as 2.8 or 3.7)", o.Version)
		} else {
			settings = append(settings, kgo.MaxVersions(v))
		}
	}
	if o.TLS != nil {
		settings = append(settings, kgo.DialTLSConfig(o.TLS))
	}
	if o.SASL != nil {
		mechanism, err := o.SASL.mechanism()
		if err != nil {
			bad("sasl: %w", err)
		} else {
			settings = append(settings, kgo.SASL(mechanism))
		}
	}
	return settings, errors.Join(errs...)
}

func (s *SASLOptions) mechanism() (sasl.Mechanism, error) {
	if s.Username == "" || s.PasswordFile == "" {
		return nil, errors.New("username and password_file are required")
	}
	file, err := secretfile.Open(s.PasswordFile, nil)
	if err != nil {
		return nil, fmt.Errorf("password_file: %w", err)
	}
	// Each connection asks again, so a password can be replaced without a restart.
	switch cmp.Or(s.Mechanism, DefaultMechanism) {
	case "PLAIN":
		return plain.Plain(func(context.Context) (plain.Auth, error) {
			return plain.Auth{User: s.Username, Pass: string(file.Value(false))}, nil
		}), nil
	case "SCRAM-SHA-256":
		return scram.Sha256(func(context.Context) (scram.Auth, error) {
			return scram.Auth{User: s.Username, Pass: string(file.Value(false))}, nil
		}), nil
	case "SCRAM-SHA-512":
		return scram.Sha512(func(context.Context) (scram.Auth, error) {
			return scram.Auth{User: s.Username, Pass: string(file.Value(false))}, nil
		}), nil
	}
	return nil, fmt.Errorf("unknown mechanism %q (want PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512)", s.Mechanism)
}

// Client is a franz-go client and the state of its connections.
type Client struct {
	*kgo.Client
	watch *watch
}

// New makes a client, which connects when it is first used. more are options for producing or consuming.
func New(o Options, more ...kgo.Opt) (*Client, error) {
	o.applyDefaults()
	settings, err := o.settings()
	if err != nil {
		return nil, err
	}
	w := &watch{changed: make(chan struct{})}
	if o.Metrics != nil && o.Name != "" {
		w.series = o.Metrics.clients.Of(o.Name)
	}
	client, err := kgo.NewClient(append(append(settings, kgo.WithHooks(w)), more...)...)
	if err != nil {
		return nil, err
	}
	return &Client{client, w}, nil
}
