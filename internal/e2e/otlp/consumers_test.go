package otlp

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/ingest/source/kafka/kafkatest"
	"github.com/sloengine/sloengine/internal/e2e/e2etest"
	"github.com/sloengine/sloengine/internal/testkit"
)

const workerSpec = `version: sloengine/v1
service: %s
slos:
  - name: records
    objective: 99
    window: 1d
    group_by: [messaging_destination_name, messaging_kafka_offset]
    indicator: {events: {valid: '{type="consumer"}', bad: '{outcome="failure"}'}}
  - {name: all, objective: 99, window: 1d, indicator: {events: {valid: '{}', bad: '{outcome="failure"}'}}}
`

// TestConsumers: an application reads a topic of Kafka. Each record that it has processed counts once, whatever the
// names of its attributes, and where its span belongs to the trace of the one that has received it.
func TestConsumers(t *testing.T) {
	t.Parallel()
	const records, receive = 100, "OTEL_INSTRUMENTATION_MESSAGING_EXPERIMENTAL_RECEIVE_TELEMETRY_ENABLED=true"
	envs := map[string][]string{
		"earlier": {receive},
		"latest":  {receive, "OTEL_SEMCONV_STABILITY_OPT_IN=messaging"},
	}
	var specs []string
	for name := range envs {
		specs = append(specs, fmt.Sprintf(workerSpec, name))
	}
	broker := kafkatest.Start(t, kafkatest.Options{})
	e := startEngine(t, "", specs...)
	e.WaitReady(t)
	var workers []*shop
	for name, env := range envs {
		broker.CreateTopic(t, name, 1, nil)
		workers = append(workers, start(t, name, java(t, "Worker", broker.Brokers()[0], name, fmt.Sprint(records)), protobuf,
			e.endpoint(protobuf), env...))
	}
	for _, w := range workers {
		want := w.stop(t)
		require.Equal(t, map[string]int{w.service: records}, add(want, func(r request) string { return r.route }))
		offset := func(l map[string]string) string {
			return l["messaging_destination_name"] + " " + l["messaging_kafka_offset"]
		}
		counted := map[string]int{}
		testkit.Eventually(t, "all records of "+w.service+" count", func() bool {
			counted = e.counted(t, w.service, "records", offset)
			return len(counted) >= records
		}, func() string { return fmt.Sprint(len(counted)) })
		for i := range records {
			require.Equal(t, 1, counted[fmt.Sprintf("%s %d", w.service, i)], "record %d of %s", i, w.service)
		}
		require.Len(t, counted, records)
		require.Equal(t, map[string]int{"": records},
			e.counted(t, w.service, "all", func(map[string]string) string { return "" }))
		require.Equal(t, add(want, request.result), e.minutes(t, w.service))
	}
	ignored := e2etest.Scrape(t, e.Process)["sloengine_otlp_ignored_total"]
	require.Positive(t, e2etest.Sum(ignored, "reason", "operation"), "spans of kind CONSUMER that receive")
	require.Zero(t, e2etest.Sum(ignored, "reason", "local_parent"))
	e.Stop(t)
}
