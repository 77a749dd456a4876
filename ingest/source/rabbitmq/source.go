package rabbitmq

import (
	"context"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"
	"golang.org/x/time/rate"
)

// Source takes events from a queue.
type Source struct{ consumer }

// NewSource makes a source. It starts nothing.
func NewSource(o Options, p Parts) (*Source, error) {
	o.ApplyDefaults()
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("rabbitmq source %s: %w", p.Name, err)
	}
	p.applyDefaults()
	s := &Source{consumer{Parts: p, queue: o.Queue, prefetch: o.Prefetch, topology: o.topology(),
		series: p.Metrics.sources.Of(p.Name), answerWithin: answerWithin, cut: rate.Sometimes{First: 10, Interval: cutEvery}}}
	s.take = s.submit
	p.Metrics.expect(p.Name, s.topology)
	return s, nil
}

// submit makes the events of messages durable and acknowledges the messages.
func (s *Source) submit(ctx context.Context, in *session, list []amqp.Delivery) error {
	for len(list) > 0 {
		m := in.message(&list[0], s.queue)
		backfill := s.Intake.Backfills(&m)
		b := s.Intake.Batch(backfill)
		b.Add(&m)
		n := 1
		for ; n < len(list) && !b.Full(); n++ {
			m = in.message(&list[n], s.queue)
			if s.Intake.Backfills(&m) != backfill {
				break
			}
			b.Add(&m)
		}
		err := s.Intake.Submit(ctx, b, nil)
		b.Release()
		if err != nil {
			return err
		}
		// Messages are taken in their order, so this acknowledges all up to here.
		if err := in.ch.Ack(list[n-1].DeliveryTag, true); err != nil {
			return err
		}
		list = list[n:]
	}
	return nil
}
