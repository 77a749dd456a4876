package rabbitmq

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"
)

func TestOverdueDeadLetters(t *testing.T) {
	const ttl = 5 * time.Minute
	full, empty, worked := QueueState{Name: "w", Messages: 3}, QueueState{Name: "w"},
		QueueState{Name: "w", Messages: 3, Consumers: 1}
	quiet := QueueState{Name: "dlq", Consumers: 1}
	type measurement struct {
		work, dead QueueState
		waiting    bool
		arrived    bool          // before it
		after      time.Duration // 30s
	}
	for name, c := range map[string]struct {
		between measurement // in the middle of messages without a consumer
		overdue bool
	}{
		"nothing arrives":    {measurement{work: full, dead: quiet}, true},
		"one arrives":        {measurement{work: full, dead: quiet, arrived: true}, false},
		"the queue is empty": {measurement{work: empty, dead: quiet}, false},
		"a worker comes":     {measurement{work: worked, dead: quiet}, false},
		"dead letters wait": {
			measurement{work: full, dead: QueueState{Name: "dlq", Consumers: 1, Messages: 1}}, false},
		"the handler has some":       {measurement{work: full, dead: quiet, waiting: true}, false},
		"another consumer has them":  {measurement{work: full, dead: QueueState{Name: "dlq", Consumers: 2}}, false},
		"the broker was not reached": {measurement{work: full, dead: quiet, after: 2 * time.Minute}, false},
	} {
		t.Run(name, func(t *testing.T) {
			set := metrics.NewSet()
			parts := Parts{Name: "test", Metrics: NewMetrics(set)}
			parts.Metrics.handlers.Of(parts.Name)
			a := newArrivals(
				&HandlerOptions{Queue: "dlq", WorkQueues: []WorkQueue{{Name: "w", TTL: ttl}, {Name: "endless"}}}, &parts)
			require.Len(t, a.queues, 1)
			now := time.Unix(1_700_000_000, 0)
			measure := func(m measurement) float64 {
				if m.arrived {
					a.arrived("w")
				}
				if m.after == 0 {
					m.after = 30 * time.Second
				}
				now = now.Add(m.after)
				a.measured(&Inspection{Queues: []QueueState{m.work, m.dead}}, m.waiting, now)
				return a.queues["w"].overdue.Get()
			}
			for range 11 {
				require.Zero(t, measure(measurement{work: full, dead: quiet}))
			}
			measure(c.between)
			got := measure(measurement{work: full, dead: quiet})
			measure(measurement{work: full, dead: quiet})
			require.Equal(t, c.overdue, measure(measurement{work: full, dead: quiet}) > 0, got)
			for range 11 {
				measure(measurement{work: full, dead: quiet})
			}
			require.Positive(t, a.queues["w"].overdue.Get(), "it goes on like that")
			a.arrived("w")
			require.Zero(t, a.queues["w"].overdue.Get())
		})
	}
}

// A removed binding is detected, and the next dead letter ends that.
func TestRemovedBindingIsNoticed(t *testing.T) {
	r, o := newRig(t), handlerOptions(t)
	o.QueueType, o.WorkQueues[0].TTL = Classic, time.Second
	_, err := o.topology().inspect(r.conn, time.Now())
	require.NoError(t, err)
	o.Declare = false // or the engine would bind the queue again
	var ahead atomic.Int64
	r.parts.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	h := r.handler(o)
	work := o.WorkQueues[0].Name
	bind := func(f func(ch *amqp.Channel) error) { onChannel(t, r.conn, f) }
	bind(func(ch *amqp.Channel) error { return ch.QueueUnbind(o.Queue, "#", o.Exchange, nil) })
	overdue := func() float64 { return h.arrivals.queues[work].overdue.Get() }
	r.eventually(func() bool {
		r.publish(work, execution("lost", "echo"))
		ahead.Add(int64(20 * time.Second))
		h.measure(r.conn)
		return overdue() > 0
	})
	require.Empty(t, r.all())
	bind(func(ch *amqp.Channel) error { return ch.QueueBind(o.Queue, "#", o.Exchange, false, nil) })
	r.publish(work, execution("seen", "echo"))
	r.eventually(func() bool { return len(r.all()) > 0 && overdue() == 0 })
}
