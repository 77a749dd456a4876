package rabbitmq

import (
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"
)

func TestAdvice(t *testing.T) {
	typical := func(typ string) time.Duration { return map[string]time.Duration{"report": 4 * time.Minute}[typ] }
	advice := func(change func(*HandlerOptions)) string {
		o := HandlerOptions{Queue: "dlq", Exchange: "dlx", Retention: DefaultRetention,
			WorkQueues: []WorkQueue{{Name: "work", TTL: DefaultTTL}}}
		o.ApplyDefaults()
		change(&o)
		require.NoError(t, o.Validate())
		var out []string
		for _, a := range o.Advice(typical, time.Duration.String) {
			out = append(out, a.Key+": "+a.Text+" ("+a.Hint+")")
		}
		return strings.Join(out, "\n")
	}
	work := func(w WorkQueue) func(*HandlerOptions) {
		w.Name = "work"
		return func(o *HandlerOptions) { o.WorkQueues[0] = w }
	}
	require.Empty(t, advice(func(*HandlerOptions) {}))
	require.Empty(t, advice(work(WorkQueue{TTL: DefaultTTL, TypicalDuration: time.Minute})))
	require.Empty(t, advice(work(WorkQueue{TTL: 8 * time.Minute, Type: "report"})))
	require.Empty(t, advice(work(WorkQueue{TTL: 2 * time.Minute, TypicalDuration: time.Second})),
		"no TTL is both at least 2m and at most 5s")
	for want, change := range map[string]func(*HandlerOptions){
		"messages of work expire after 1m59s": work(WorkQueue{TTL: 119 * time.Second}),
		"5m0s is less than twice the typical duration of 3m0s": work(
			WorkQueue{TTL: DefaultTTL, TypicalDuration: 3 * time.Minute}),
		"5m0s is less than twice the latency threshold of report, 4m0s": work(WorkQueue{TTL: DefaultTTL, Type: "report"}),
		"(set 8m0s to 20m0s)": work(WorkQueue{TTL: DefaultTTL, Type: "report"}),
		"5m0s is more than five times the typical duration of 30s": work(
			WorkQueue{TTL: DefaultTTL, TypicalDuration: 30 * time.Second}),
		"(set 2m0s to 2m30s)": work(
			WorkQueue{TTL: DefaultTTL, TypicalDuration: 30 * time.Second}),
		"(set 2m0s)": work(
			WorkQueue{TTL: DefaultTTL, TypicalDuration: 3 * time.Second}),
		"messages of work never expire": work(WorkQueue{}),
		"retention: messages that are not handled within 12h0m0s": func(o *HandlerOptions) {
			o.Retention = 12 * time.Hour
		},
		"retention: 72h0m0s keeps messages": func(o *HandlerOptions) {
			o.Retention = 72 * time.Hour
		},
		"retention: messages stay in the dead-letter queue for ever": func(o *HandlerOptions) { o.Retention = 0 },
		"work_queues: no work queues are listed":                     func(o *HandlerOptions) { o.WorkQueues = nil },
	} {
		got := advice(change)
		require.Contains(t, got, want)
		require.NotContains(t, got, "\n", "one finding")
	}
	o := Options{Queue: "q", TTL: time.Hour}
	require.Len(t, o.Advice(time.Duration.String), 1)
	o.TTL = 0
	require.Empty(t, o.Advice(time.Duration.String))
}

func TestInvalidOptions(t *testing.T) {
	handler := func() HandlerOptions {
		o := HandlerOptions{Queue: "dlq", Exchange: "dlx", WorkQueues: []WorkQueue{{Name: "work"}}}
		o.ApplyDefaults()
		return o
	}
	o := handler()
	require.NoError(t, o.Validate())
	for want, change := range map[string]func(*HandlerOptions){
		"queue: must not be empty": func(o *HandlerOptions) { o.Queue = "" },
		"exchange: 300 bytes (at most 255)": func(o *HandlerOptions) {
			o.Exchange = strings.Repeat("x", 300)
		},
		"exchange_type: direct does not work":   func(o *HandlerOptions) { o.ExchangeType = "direct" },
		`exchange_type: invalid type "headers"`: func(o *HandlerOptions) { o.ExchangeType = "headers" },
		"queue_type: invalid type":              func(o *HandlerOptions) { o.QueueType = "stream" },
		"prefetch: invalid count 65536":         func(o *HandlerOptions) { o.Prefetch = 65536 },
		"retention: must not be negative":       func(o *HandlerOptions) { o.Retention = -1 },
		"work_queues[0].ttl: 1200h0m0s is longer": func(o *HandlerOptions) {
			o.WorkQueues[0].TTL = 1200 * time.Hour
		},
		"work_queues[0].ttl: must be at least 1ms": func(o *HandlerOptions) { o.WorkQueues[0].TTL = 1 },
		"work_queues[0].typical_duration: must not": func(o *HandlerOptions) {
			o.WorkQueues[0].TypicalDuration = -1
		},
		`work_queues[0].name: "dlq" is used twice`: func(o *HandlerOptions) { o.WorkQueues[0].Name = "dlq" },
		"work_queues[0].delivery_limit: requires queue_type": func(o *HandlerOptions) {
			o.WorkQueues[0].DeliveryLimit, o.QueueType = 3, Classic
		},
		"retry[0].max_deaths: must be at least 1": func(o *HandlerOptions) { o.Retry = []RetryRule{{}} },
		`retry[0].reason: invalid reason "late" (want expired`: func(o *HandlerOptions) {
			o.Retry = []RetryRule{{Reason: "late", MaxDeaths: 1}}
		},
	} {
		o := handler()
		change(&o)
		require.ErrorContains(t, o.Validate(), want)
	}
	require.ErrorContains(t, (&Options{}).Validate(), "queue: must not be empty")
}

// Arguments of a work queue are those of the settings.
func TestArgumentsOfWorkQueue(t *testing.T) {
	o := HandlerOptions{Queue: "dlq", Exchange: "dlx", Retention: time.Hour,
		WorkQueues: []WorkQueue{{Name: "work", TTL: time.Minute, DeliveryLimit: 3}}}
	o.ApplyDefaults()
	top := o.topology()
	require.Equal(t, amqp.Table{argQueueType: Quorum, argTTL: int64(3_600_000)}, top.entities[1].args,
		"no dead-letter exchange, or messages would go round")
	require.Equal(t, amqp.Table{
		argQueueType: Quorum, argTTL: int64(60_000), argDeliveryMax: int64(3), argExchange: "dlx",
		argStrategy: "at-least-once", argOverflow: "reject-publish",
	}, top.entities[2].args)
	s := Options{Queue: "q", TTL: time.Minute, DeadLetterExchange: "dlx", QueueType: Classic}
	require.Equal(t, amqp.Table{argTTL: int64(60_000), argExchange: "dlx"}, s.topology().entities[0].args)
}
