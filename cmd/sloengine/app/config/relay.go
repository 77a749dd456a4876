package config

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/sloengine/sloengine/reliability/breaker"
	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/reliability/outbox"
	"github.com/sloengine/sloengine/reliability/outbox/relay"
	"github.com/sloengine/sloengine/reliability/postgres"
	"github.com/sloengine/sloengine/reliability/retry"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/slo/yamldoc"
)

// Relay is relay.yaml: the settings of a process that publishes the rows of an outbox table. Where to is in
// relaydestination.go.
type Relay struct {
	Database postgres.Options `yaml:"database"`
	Listen   *relayListen     `yaml:"listen"` // without it, the relay polls
	Table    outbox.Options   `yaml:"table"`

	relay.Options `yaml:",inline"`

	Retry      relayRetry                  `yaml:"retry"`
	DeadLetter relayDeadLetter             `yaml:"dead_letter"`
	Breaker    Disableable[breakerConfig]  `yaml:"breaker"`
	Retention  Disableable[relayRetention] `yaml:"retention"`

	Kafka    *relayKafka    `yaml:"kafka"` // exactly one of these
	RabbitMQ *relayRabbitMQ `yaml:"rabbitmq"`
	HTTP     *relayHTTP     `yaml:"http"`

	Web struct {
		ConfigFile     string `yaml:"config_file" is:"file"` // TLS and basic auth
		MaxConnections int    `yaml:"max_connections" above:"0"`
	} `yaml:"web"`
}

// relayListen is a session of its own, which is told of new rows.
type relayListen struct {
	postgres.Options `yaml:",inline"`
	Channel          string `yaml:"channel"` // of NOTIFY
}

func (l *relayListen) prefill(*Config) {
	l.ConnectTimeout, l.ApplicationName, l.Channel = postgres.DefaultConnectTimeout, "sloengine relay", outbox.DefaultName
}

// relayRetry are the waits between attempts to publish a row.
type relayRetry struct {
	Base   time.Duration `yaml:"base" min:"1ms" max:"1d"`
	Cap    time.Duration `yaml:"cap" min:"1ms" max:"1d"`
	Jitter retry.Jitter  `yaml:"jitter" one:"full equal plusminus none"`
}

// relayRetention says which rows the relay deletes, and which partitions it makes.
type relayRetention struct {
	Age    time.Duration `yaml:"age" min:"1m"`
	Ahead  int           `yaml:"ahead" min:"1" max:"366"`     // days after today that get a partition
	Source string        `yaml:"source" one:"none claim xid"` // how an engine reads the table
}

// relayConnections is the default of database.max_connections.
const relayConnections = 8

// DefaultRelay is what a relay.yaml with nothing but a database and a broker means.
func DefaultRelay() Relay {
	var c Relay
	c.Database.MaxConnections, c.Database.ConnectTimeout = relayConnections, postgres.DefaultConnectTimeout
	c.Database.ApplicationName = "sloengine relay"
	c.Claim = relay.Lease
	c.Batch, c.Workers, c.Memory = relay.DefaultBatch, relay.DefaultWorkers, relay.DefaultMemory
	c.Lease, c.SendTimeout, c.Poll = relay.DefaultLease, relay.DefaultSendTimeout, relay.DefaultPoll
	r := relay.DefaultRetry(retry.Options{})
	c.Retry = relayRetry{r.Base, r.Cap, r.Jitter}
	c.MaxAttempts, c.OnFailed = relay.DefaultMaxAttempts, relay.Continue
	b := &c.Breaker.V
	b.Consecutive.V = breaker.Consecutive{Failures: 3, Open: 10 * time.Second, Probes: 1}
	b.Rate.V = breaker.Rate{Threshold: 0.5, MinCalls: 10, Window: time.Minute, Open: 10 * time.Second,
		Probes: 2, Successes: 1}
	b.ProbeTimeout, b.HealthInterval = 10*time.Second, 2*time.Second
	c.Retention.V = relayRetention{Age: outbox.DefaultRetention, Ahead: outbox.DefaultAhead, Source: "none"}
	c.Web.MaxConnections = 256
	return c
}

// LoadRelay reads relay.yaml. The error names the place of everything that is wrong, and what is allowed there.
func LoadRelay(name string) (Relay, error) {
	data, err := fsys.ReadFile(name, yamldoc.MaxFileBytes)
	if err != nil {
		return DefaultRelay(), fmt.Errorf("read settings: %w", err)
	}
	return ReadRelay(name, data)
}

// ReadRelay reads the content of relay.yaml.
func ReadRelay(name string, data []byte) (Relay, error) {
	c := DefaultRelay()
	var r yamldoc.Reader
	root := r.Document(name, data)
	if root == nil {
		if err := r.Problems().Err(); err != nil {
			return c, err
		}
		return c, fmt.Errorf("%s: empty (set database, and kafka, rabbitmq or http)", name)
	}
	f := &yamldoc.Decoder{
		Dir: filepath.Dir(name), Duration: slo.ParseDuration,
		Prefill: func(into any) {
			if p, ok := into.(prefilled); ok {
				p.prefill(nil)
			}
		},
	}
	f.Decode(root, &c)
	c.check(f)
	return c, r.Problems().Err()
}

func (c *Relay) check(f *yamldoc.Decoder) {
	part := func(path string, err error) {
		if !f.Broken(path) {
			problems(f, path, "", err)
		}
	}
	part("database", c.Database.Validate())
	if c.Listen != nil {
		part("listen", c.Listen.Validate())
		if c.Listen.TransactionPooling {
			f.Errorf("listen.transaction_pooling", "connect to PostgreSQL itself, or remove listen",
				"a pooler does not pass on notifications")
		}
	}
	table, err := outbox.New(c.Table)
	part("table", err)
	if err == nil && c.Claim == relay.Optimistic {
		if lacks := outbox.Unmapped(table, outbox.NeedOptimistic); len(lacks) > 0 {
			f.Errorf("claim", "set table.preset: outbox_events, or map them in table.columns, or remove claim",
				"optimistic needs columns that table does not name: %s", strings.Join(lacks, ", "))
		}
	}
	if c.Retry.Cap < c.Retry.Base {
		f.Errorf("retry.cap", "raise it, or lower base", "must be at least retry.base (%s)", c.Retry.Base)
	}
	if b := &c.Breaker.V; b.Consecutive.Off && b.Rate.Off && !c.Breaker.Off {
		f.Errorf("breaker", "set breaker: off, or enable one of the rules",
			"both rules are off, so the breaker would never open")
	}
	if c.SendTimeout > c.Lease/2 {
		f.Errorf("send_timeout", "lower it, or raise lease",
			"must be at most half of lease (%s), or rows could be sent under a lease that has ended", c.Lease)
	}
	_, err = ReadWebConfig(c.Web.ConfigFile)
	part("web.config_file", err)
	c.checkDestination(f)
}

// Notes are what the settings mean that may surprise.
func (c *Relay) Notes() (notes []string) {
	if c.Claim == relay.Optimistic {
		notes = append(notes, "claim: optimistic publishes rows in no particular order")
	}
	return notes
}

// Settings are the options of the relay, without what a process opens.
func (c *Relay) Settings() (o relay.Options, err error) {
	o = c.Options
	if o.Table, err = outbox.New(c.Table); err != nil {
		return o, err
	}
	o.Retry = retry.Options{Base: c.Retry.Base, Cap: c.Retry.Cap, Jitter: c.Retry.Jitter}
	o.DeadLetterTopic, o.DeadLetterKey = c.deadLetterTopic(), c.DeadLetter.Key
	if !c.Retention.Off {
		v := c.Retention.V
		o.Retention = &outbox.Retention{Age: v.Age, Ahead: v.Ahead}
		if v.Source != "none" {
			o.Retention.Source = outbox.Source(v.Source)
		}
	}
	o.Breaker = c.Breaker.V.options(c.Breaker.Off)
	return o, nil
}
