package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/sloengine/sloengine/ingest/source"
)

// This file begins to consume a queue that may not answer. A quorum queue without a leader leaves a consumer unanswered
// for about a minute, until the broker closes the connection.

// answerWithin is how long the broker may take to answer before the state says that the queue does not.
const answerWithin = 10 * time.Second

// closeWithin bounds the farewell on a connection that waits for an answer.
const closeWithin = 500 * time.Millisecond

// errUnanswered is for a queue that did not answer until the broker gave up. The state says so already.
var errUnanswered = errors.New("the queue does not answer")

// subscribe asks for deliveries. The end of ctx closes the connection, because nothing else ends the wait.
func (c *consumer) subscribe(ctx context.Context, conn *amqp.Connection,
	ch *amqp.Channel) (deliveries <-chan amqp.Delivery, err error) {
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		deliveries, err = ch.Consume(c.queue, "", false, false, false, false, nil)
	}()
	late := time.NewTimer(c.answerWithin)
	defer late.Stop()
	ended := ctx.Done()
	for {
		select {
		case <-late.C:
			c.unanswered()
		case <-ended:
			_ = conn.CloseDeadline(time.Now().Add(closeWithin))
			ended = nil // the answer is an error now
		case <-answered:
			var e *amqp.Error
			if errors.As(err, &e) && e.Code == amqp.InternalError {
				c.unanswered()
				return nil, errUnanswered
			}
			if err != nil {
				return nil, fmt.Errorf("consume queue %s: %w", c.queue, err)
			}
			return deliveries, nil
		}
	}
}

func (c *consumer) unanswered() {
	c.Intake.Fails(source.TroubleTopic, c.queue,
		"queue "+c.queue+" does not answer (does the quorum queue have a leader?)", "no answer to basic.consume")
}
