package amqpclient

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/sloengine/sloengine/reliability/remote"
	"github.com/sloengine/sloengine/reliability/retry"
)

// window is how many messages are published on a channel before their confirmations are awaited. The Go channel for
// returned messages has as much room, so the library never waits for its reader.
const window = 256

const (
	// closeWithin bounds the farewell of a connection that is of no more use.
	closeWithin = 500 * time.Millisecond
	// answerWithin bounds the answer of a broker that has not confirmed a message in time.
	answerWithin = time.Second
)

// link is a connection. It belongs to one call at a time, which publishes to several exchanges at once.
type link struct {
	p       *Publisher
	conn    *amqp.Connection
	blocked *atomic.Bool
	given   atomic.Bool // given up: it may be closing still

	mu   sync.Mutex
	idle []*lane // guarded by mu
}

func (l *link) close() {
	l.given.Store(true)
	_ = l.conn.CloseDeadline(time.Now().Add(closeWithin))
}

// ended reports whether the link is of no more use.
func (l *link) ended() bool { return l.given.Load() || l.conn.IsClosed() }

// lane is a channel in confirm mode. The broker closes it at the first mistake, so it is for one exchange at a time.
type lane struct {
	ch       *amqp.Channel
	closed   chan *amqp.Error
	returned chan amqp.Return
}

// open takes an idle lane or makes one.
func (l *link) open() (c *lane, err error) {
	l.mu.Lock()
	for n := len(l.idle); n > 0 && c == nil; n = len(l.idle) {
		if c = l.idle[n-1]; c.ch.IsClosed() {
			c = nil
		}
		l.idle = l.idle[:n-1]
	}
	l.mu.Unlock()
	if c != nil {
		return c, nil
	}
	c = &lane{}
	if c.ch, err = l.conn.Channel(); err != nil {
		return nil, err
	}
	c.closed = c.ch.NotifyClose(make(chan *amqp.Error, 1))
	c.returned = c.ch.NotifyReturn(make(chan amqp.Return, window))
	return c, c.ch.Confirm(false)
}

func (l *link) release(c *lane) {
	if !c.ch.IsClosed() {
		l.mu.Lock()
		l.idle = append(l.idle, c)
		l.mu.Unlock()
	}
}

// publish publishes the messages for an exchange.
func (l *link) publish(ctx context.Context, g *part) {
	for from := 0; from < len(g.messages); from += window {
		to := min(from+window, len(g.messages))
		if broken := l.publishWindow(ctx, g.slice(from, to)); broken != nil {
			g.slice(to, len(g.messages)).fail(Outcome{broken, true})
			return
		}
	}
}

// publishWindow publishes messages and waits for their confirmations. The result is why the connection is of no more
// use.
func (l *link) publishWindow(ctx context.Context, g *part) (broken error) {
	c, err := l.open()
	if err != nil {
		broken = l.reason(ctx, err)
		l.close()
		g.fail(Outcome{broken, true})
		return broken
	}
	defer l.release(c)
	confirms := make([]*amqp.DeferredConfirmation, len(g.messages))
	for i, m := range g.messages {
		if !Fits(l.conn, &m.Publishing) {
			err := fmt.Errorf("they have up to %d bytes, more than the broker takes (frame_max, %d)", headerBytes(&m.Publishing),
				l.conn.Config.FrameSize)
			g.outcomes[i].Err = messageError("the headers are too large", retry.ClassPermanent, err)
			continue
		}
		if confirms[i], err = c.ch.PublishWithDeferredConfirm(m.Exchange, m.Key, m.Mandatory, false,
			m.Publishing); err != nil {
			break
		}
	}
	how := laneEnded
	if err == nil {
		how = l.await(ctx, c, confirms, g.outcomes)
	}
	c.takeReturned(g)
	open := &part{}
	for i, o := range g.outcomes {
		if o.Err == nil && (confirms[i] == nil || !confirms[i].Acked()) {
			open.messages, open.outcomes = append(open.messages, g.messages[i]), append(open.outcomes, o)
		}
	}
	switch how {
	case late:
		return l.late(c, open)
	case cut:
		broken = l.reason(ctx, nil)
	case laneEnded:
		said := c.why(ctx)
		if said != nil && ofChannel(said.Code) {
			return l.refused(ctx, said, open)
		}
		if said != nil {
			err = said
		}
		broken = l.reason(ctx, cmp.Or(err, error(amqp.ErrClosed)))
	case decided:
		return nil
	}
	l.close()
	open.fail(Outcome{broken, true})
	return broken
}

// How the wait for confirmations ended.
const (
	decided   = iota // about each message
	laneEnded        // the broker closed the channel, or the connection broke
	late             // some confirmations did not come in time
	cut              // the context ended
)

// await waits for confirmations.
func (l *link) await(ctx context.Context, c *lane, confirms []*amqp.DeferredConfirmation, outcomes []*Outcome) int {
	var timeout <-chan time.Time
	if l.p.confirm > 0 {
		t := time.NewTimer(l.p.confirm)
		defer t.Stop()
		timeout = t.C
	}
	for i, d := range confirms {
		if d == nil {
			continue
		}
		select {
		case <-d.Done():
		case <-timeout:
			return late
		case <-ctx.Done():
			return cut
		}
		if d.Acked() {
			continue
		}
		if c.ch.IsClosed() {
			return laneEnded
		}
		outcomes[i].Err = messageError("the broker did not take the message", retry.ClassOverload, errNack)
	}
	return decided
}

var errNack = errors.New("nack: a queue is full or not available")

// takeReturned fails the messages that came back. A broker returns a message before it confirms it. Messages with the
// same routing key and id need no distinction: they are returned in order.
func (c *lane) takeReturned(g *part) {
	for {
		select {
		case r, ok := <-c.returned:
			if !ok {
				return
			}
			for i, m := range g.messages {
				if g.outcomes[i].Err == nil && m.Key == r.RoutingKey && m.MessageId == r.MessageId {
					text := fmt.Sprintf("exchange %q has no queue for the routing key %q (bind one, or set mandatory: false)",
						m.Exchange, m.Key)
					g.outcomes[i].Err = &remote.BrokerError{
						Broker: "rabbitmq", Kind: remote.KindTopology, Class: retry.ClassBlocked, Text: text,
						Err: fmt.Errorf("%w: %s", ErrUnroutable, r.ReplyText),
					}
					break
				}
			}
		default:
			return
		}
	}
}

// why is the reason that the broker gave when it closed the channel or connection; nil if it gave
// no reason.
func (c *lane) why(ctx context.Context) *amqp.Error {
	select {
	case said := <-c.closed:
		return said
	case <-ctx.Done():
	case <-time.After(closeWithin): // a write failed, and the library has not noticed yet
	}
	return nil
}

// ofChannel reports whether an error has closed the channel alone.
func ofChannel(code int) bool {
	switch code {
	case amqp.ContentTooLarge, amqp.NoConsumers, amqp.AccessRefused, amqp.NotFound, amqp.ResourceLocked,
		amqp.PreconditionFailed:
		return true
	}
	return false
}

// refused finds the messages for which the broker closed the channel: all, if it is about the exchange. Otherwise each
// is published alone. Some may have been taken before, so that they are delivered twice.
func (l *link) refused(ctx context.Context, said *amqp.Error, open *part) (broken error) {
	about := said.Code == amqp.NotFound || strings.Contains(said.Reason, "access to exchange")
	if about || len(open.messages) == 1 {
		err := Explain(said)
		if b := (*remote.BrokerError)(nil); said.Code == amqp.PreconditionFailed && errors.As(err, &b) &&
			b.Kind != remote.KindMessage {
			err = messageError("the broker refuses the message", retry.ClassPermanent, said)
		}
		open.fail(Outcome{Err: err})
		return nil
	}
	for i := range open.messages {
		if broken = l.publishWindow(ctx, open.slice(i, i+1)); broken != nil {
			open.slice(i+1, len(open.messages)).fail(Outcome{broken, true})
			return broken
		}
	}
	return nil
}

// late decides about messages that were not confirmed in time: a broker that still answers has no queue for them that
// works.
func (l *link) late(c *lane, open *part) (broken error) {
	err := l.timeout(notConfirmed, fmt.Errorf("waited %s", l.p.confirm))
	if !l.answers() {
		err = l.timeout(notConfirmed, err.Err) // it may have said why meanwhile
		l.close()
		open.fail(Outcome{err, true})
		return err
	}
	err.Kind, err.Text = remote.KindTopology,
		"the broker works, but did not confirm the message in time (a queue may lack a majority of its members), it may be "+
			"delivered twice"
	_ = c.ch.Close()
	open.fail(Outcome{Err: err})
	return nil
}

// answers asks the broker for an answer. It ends the link if there is none.
func (l *link) answers() bool {
	stop := time.AfterFunc(answerWithin, l.close)
	ch, err := l.conn.Channel()
	if err == nil {
		err = ch.Close()
	}
	return stop.Stop() && err == nil
}

func (l *link) noAnswer() error {
	return l.timeout("the broker does not answer", errors.New("no answer in time"))
}

// timeout is the error of a broker that is too late.
func (l *link) timeout(text string, err error) *remote.BrokerError {
	if l.blocked.Load() {
		text = "the broker takes no messages because it lacks memory or disk space"
	}
	return &remote.BrokerError{Broker: "rabbitmq", Kind: remote.KindConnection, Class: retry.ClassTimeout,
		Text: text, Err: err}
}

const notConfirmed = "the broker did not confirm the message in time, it may be delivered twice"

// reason is why a link broke.
func (l *link) reason(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return l.timeout(notConfirmed, context.Cause(ctx))
	}
	return Explain(err)
}
