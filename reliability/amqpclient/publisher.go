package amqpclient

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/sloengine/sloengine/reliability/remote"
	"github.com/sloengine/sloengine/reliability/retry"
)

// PublisherOptions of a Publisher.
type PublisherOptions struct {
	Options `yaml:",inline"`
	// ConfirmTimeout bounds the wait for the confirmation of a message while the context allows for more; 0: it does not.
	ConfirmTimeout time.Duration `yaml:"confirm_timeout" min:"1s" max:"10m"`
}

// MaxName is how long an exchange, a routing key, the name of a header and each property may be, in bytes: the
// protocol's limit.
const MaxName = 255

// Message is one message to publish. Without Mandatory, the broker drops it if it reaches no queue.
type Message struct {
	Exchange, Key string // "" is the default exchange, whose routing keys are names of queues
	Mandatory     bool
	amqp.Publishing
}

// Outcome of a message: the zero value is that the broker has confirmed it.
type Outcome struct {
	Err error // a *remote.BrokerError
	// Away says that the broker could not be reached or used, so that the error says nothing about the message. The
	// broker may have taken it all the same.
	Away bool
}

// ErrUnroutable is the cause of the error of a message that reached no queue.
var ErrUnroutable = errors.New("the message is unroutable")

// Publisher publishes messages and waits until the broker has confirmed them. It is safe for concurrent use: each call
// has a connection of its own, so that one that is stuck does not hold up the others.
type Publisher struct {
	client  *Client
	confirm time.Duration

	// doubted says that the broker has not confirmed messages in time, and no message since: that it lets this client
	// log in does not mean that it takes messages.
	doubted atomic.Bool

	mu     sync.Mutex // guards the fields below
	idle   []*link
	closed bool
}

// NewPublisher checks the options and reads the password. It connects to nothing.
func NewPublisher(o PublisherOptions) (*Publisher, error) {
	c, err := New(o.Options)
	if o.ConfirmTimeout < 0 {
		err = errors.Join(err, errors.New("confirm_timeout: must not be negative"))
	}
	if err != nil {
		return nil, err
	}
	return &Publisher{client: c, confirm: o.ConfirmTimeout}, nil
}

// Close ends the idle connections. Those in use end when their call does.
func (p *Publisher) Close() error {
	p.mu.Lock()
	idle := p.idle
	p.idle, p.closed = nil, true
	p.mu.Unlock()
	var group sync.WaitGroup
	for _, l := range idle {
		group.Go(l.close) // a broker that hangs must not hold up the process once for each connection
	}
	group.Wait()
	return nil
}

// connect takes an idle connection or makes one.
func (p *Publisher) connect(ctx context.Context) (*link, error) {
	p.mu.Lock()
	for n := len(p.idle); n > 0; n = len(p.idle) {
		l := p.idle[n-1]
		p.idle = p.idle[:n-1]
		if l.ended() {
			defer l.close()
			continue
		}
		p.mu.Unlock()
		return l, nil
	}
	p.mu.Unlock()
	conn, blocked, err := p.client.connect(ctx)
	if err != nil {
		return nil, err
	}
	return &link{p: p, conn: conn, blocked: blocked}, nil
}

// release gives a connection back, unless it has ended.
func (p *Publisher) release(l *link) {
	p.mu.Lock()
	if !p.closed && !l.ended() {
		p.idle = append(p.idle, l)
		l = nil
	}
	p.mu.Unlock()
	if l != nil {
		l.close()
	}
}

// sides is how many exchanges a call publishes to at the same time.
const sides = 8

// Publish publishes messages, those that are not nil, and returns the outcome of each. It returns soon after ctx has
// ended. Messages for the same exchange are published in order, without waiting for each other. A message that fails
// by itself does not keep the others from being published, and neither does an exchange that is missing or that the
// user may not write to.
func (p *Publisher) Publish(ctx context.Context, batch []*Message) []Outcome {
	outcomes := make([]Outcome, len(batch))
	groups := byExchange(batch, outcomes)
	if len(groups) == 0 {
		return outcomes
	}
	err := p.use(ctx, func(l *link) {
		if len(groups) == 1 {
			l.publish(ctx, groups[0])
			return
		}
		var group sync.WaitGroup
		turns := make(chan struct{}, sides)
		for _, g := range groups {
			turns <- struct{}{}
			group.Go(func() { l.publish(ctx, g); <-turns })
		}
		group.Wait()
	})
	if err != nil {
		for _, g := range groups {
			g.fail(Outcome{err, true})
		}
	}
	p.doubt(outcomes)
	return outcomes
}

// doubt notes whether the broker takes messages.
func (p *Publisher) doubt(outcomes []Outcome) {
	late := false
	for i := range outcomes {
		if !outcomes[i].Away {
			p.doubted.Store(false)
			return
		}
		late = late || retry.ClassOf(outcomes[i].Err) == retry.ClassTimeout
	}
	if late {
		p.doubted.Store(true)
	}
}

// part is some messages for one exchange, with the places of their outcomes.
type part struct {
	messages []*Message
	outcomes []*Outcome
}

func (p *part) fail(o Outcome) {
	for _, to := range p.outcomes {
		*to = o
	}
}

func (p *part) slice(from, to int) *part { return &part{p.messages[from:to], p.outcomes[from:to]} }

// byExchange sorts messages by exchange. Those that the protocol cannot express have failed.
func byExchange(batch []*Message, outcomes []Outcome) (groups []*part) {
	index := map[string]*part{}
	for i, m := range batch {
		if m == nil {
			continue
		}
		if err := m.check(); err != nil {
			outcomes[i].Err = messageError("the message cannot be sent", retry.ClassPermanent, err)
			continue
		}
		g := index[m.Exchange]
		if g == nil {
			g = &part{}
			index[m.Exchange] = g
			groups = append(groups, g)
		}
		g.messages, g.outcomes = append(g.messages, m), append(g.outcomes, &outcomes[i])
	}
	return groups
}

func messageError(text string, class retry.Class, err error) error {
	return &remote.BrokerError{Broker: "rabbitmq", Kind: remote.KindMessage, Class: class, Text: text, Err: err}
}

// check refuses names that the library would not write, which would break the connection.
func (m *Message) check() error {
	for _, s := range []struct{ name, value string }{
		{"exchange", m.Exchange}, {"routing key", m.Key}, {"message id", m.MessageId}, {"type", m.Type},
		{"content type", m.ContentType},
		{"content encoding", m.ContentEncoding}, {"correlation id", m.CorrelationId}, {"app id", m.AppId},
	} {
		if len(s.value) > MaxName {
			return fmt.Errorf("the %s has %d bytes, more than %d", s.name, len(s.value), MaxName)
		}
	}
	for name := range m.Headers {
		if len(name) > MaxName {
			return fmt.Errorf("the name of a header has %d bytes, more than %d", len(name), MaxName)
		}
	}
	return nil
}

// CheckExchange connects and looks whether an exchange exists; "" always does.
func (p *Publisher) CheckExchange(ctx context.Context, name string) error {
	return p.check(ctx, func(ch *amqp.Channel) error {
		if name == "" {
			return nil
		}
		// The kind is not compared by a passive declaration.
		return ch.ExchangeDeclarePassive(name, amqp.ExchangeTopic, true, false, false, false, nil)
	})
}

// Check connects, and looks whether the broker answers. If it has not confirmed messages recently, it also has to
// answer after a message, which comes back since it reaches no queue.
func (p *Publisher) Check(ctx context.Context) error {
	if !p.doubted.Load() {
		return p.check(ctx, func(*amqp.Channel) error { return nil })
	}
	var err error
	said := p.use(ctx, func(l *link) {
		g := &part{[]*Message{{Key: "sloengine-check-" + rand.Text(), Mandatory: true}}, []*Outcome{{}}}
		// a broker that lacks memory may take the first message
		if err = l.publishWindow(ctx, g); err == nil && !l.answers() {
			err = l.noAnswer()
		}
	})
	if said != nil {
		return said
	}
	if err == nil {
		p.doubted.Store(false)
	}
	return err
}

// check opens a channel to ask the broker something.
func (p *Publisher) check(ctx context.Context, ask func(*amqp.Channel) error) error {
	var err error
	said := p.use(ctx, func(l *link) {
		var ch *amqp.Channel
		if ch, err = l.conn.Channel(); err == nil {
			if err = ask(ch); err == nil {
				err = ch.Close()
			}
		}
		if err != nil && ctx.Err() != nil {
			err = l.noAnswer()
		}
	})
	if said != nil {
		return said
	}
	return Explain(err)
}

// use calls f with a connection, which is closed when ctx ends: a broker that lacks memory stops reading, and a write
// then blocks until the connection is closed. The error is that of connecting.
func (p *Publisher) use(ctx context.Context, f func(*link)) error {
	l, err := p.connect(ctx)
	if err != nil {
		return err
	}
	defer p.release(l)
	defer context.AfterFunc(ctx, l.close)()
	f(l)
	return nil
}
