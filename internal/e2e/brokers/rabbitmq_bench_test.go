package brokers

import (
	"fmt"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/ingest/source/rabbitmq/rabbitmqtest"
	"github.com/sloengine/sloengine/internal/e2e/e2etest"
	"github.com/sloengine/sloengine/internal/testkit"
)

// BenchmarkRabbitMQSource compares a queue of durable, counted events with a loop that only consumes and acknowledges,
// both with a prefetch of 1000 and on the same node.
func BenchmarkRabbitMQSource(b *testing.B) {
	const n = 60_000
	node := rabbitmqtest.Start(b, rabbitmqtest.Options{})
	fill := func(queue string, round int) *amqp.Channel {
		ch := node.Channel(b, "/")
		require.NoError(b, ch.Confirm(false))
		_, err := ch.QueueDeclare(queue, true, false, false, false, amqp.Table{"x-queue-type": "quorum"})
		require.NoError(b, err)
		var last *amqp.DeferredConfirmation
		for i := range n {
			body := fmt.Sprintf(
				`{"id":"%s-%d-%07d","service":"crash","type":"t","outcome":"success","duration_ms":812,"attributes":{"uid":"u",`+
					`"padding":%q}}`, queue, round, i, strings.Repeat("x", 120))
			last, err = ch.PublishWithDeferredConfirm("", queue, true, false,
				amqp.Publishing{DeliveryMode: amqp.Persistent, Body: []byte(body)})
			require.NoError(b, err)
		}
		require.True(b, last.Wait())
		return ch
	}
	dir := b.TempDir()
	specFile := e2etest.WriteFile(b, dir, "spec.yaml", e2etest.CrashSpec)
	settings := fmt.Sprintf("sources: [{name: queue, rabbitmq: {%s, queue: events, prefetch: 1000}}]\n",
		rabbitConnection(b, dir, node.Address))
	bare, counted := 0.0, 0.0
	round := 0
	for b.Loop() {
		round++
		ch := fill("bare", round)
		require.NoError(b, ch.Qos(1000, 0, false))
		list, err := ch.Consume("bare", "", false, false, false, false, nil)
		require.NoError(b, err)
		first := <-list
		require.NoError(b, first.Ack(false))
		began := time.Now()
		for range n - 1 {
			d := <-list
			require.NoError(b, d.Ack(false))
		}
		bare += (n - 1) / time.Since(began).Seconds()
		require.NoError(b, ch.Close())

		fill("events", round)
		p := e2etest.Serve(b, dir, specFile, settings)
		read := func() float64 { return rabbitMetric(b, p, "sloengine_source_events_total", "result", "accepted") }
		var from float64
		for from == 0 {
			testkit.Pause(5 * time.Millisecond)
			from = read()
		}
		began = time.Now()
		now := from
		for now < n {
			testkit.Pause(20 * time.Millisecond)
			now = read()
		}
		counted += (n - from) / time.Since(began).Seconds()
		p.Stop(b)
	}
	b.ReportMetric(bare/float64(round), "bare/s")
	b.ReportMetric(counted/float64(round), "counted/s")
	b.ReportMetric(counted/bare, "share")
	b.ReportMetric(0, "ns/op")
}
