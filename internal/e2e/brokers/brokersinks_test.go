package brokers

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/ingest/source/kafka/kafkatest"
	"github.com/sloengine/sloengine/ingest/source/rabbitmq/rabbitmqtest"
	"github.com/sloengine/sloengine/internal/e2e/e2etest"
	"github.com/sloengine/sloengine/internal/testkit"
)

// TestBrokerSinksSetChecker kills the engine, Kafka and RabbitMQ again and again under load, and cuts the network
// between them. Then it looks at every id: what was acknowledged is in the topic and in the queue at least once.
func TestBrokerSinksSetChecker(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts brokers and kills them")
	}
	const cycles = 4 // one for each fault
	kafka := kafkatest.Start(t, kafkatest.Options{Proxied: true})
	rabbit := rabbitmqtest.Start(t, rabbitmqtest.Options{Proxied: true})
	kafka.CreateTopic(t, "events", 3, nil)
	ch := rabbit.Channel(t, "/")
	require.NoError(t, ch.ExchangeDeclare("events", amqp.ExchangeTopic, true, false, false, false, nil))
	_, err := ch.QueueDeclare("events", true, false, false, false, nil)
	require.NoError(t, err)
	require.NoError(t, ch.QueueBind("events", "#", "events", false, nil))

	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 2))
	o := &e2etest.Oracle{Rnd: rand.New(rand.NewPCG(seed, 1)), Acked: map[string]bool{}}
	dir := t.TempDir()
	specFile := e2etest.WriteFile(t, dir, "spec.yaml", e2etest.CrashSpec)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "password"), []byte(rabbitmqtest.AlicePassword), 0o600))
	settings := e2etest.CrashSettings +
		fmt.Sprintf(`retry: {base: 10ms, cap: 200ms, max_retries: unlimited, rate_limit: {limit: 100000}, staged: off}
breaker: {consecutive: {open: 300ms}, health_interval: 100ms}
sinks:
  - {name: stream, kafka: {brokers: [%q], topic: events, backoff: 50ms}, batch: {wait: 10ms, items: 100}}
  - {name: bus, rabbitmq: {url: "amqp://%s", username: %s, password_file: password, exchange: events},
      batch: {wait: 10ms, items: 100}}
`, kafka.ProxiedBrokers()[0], rabbit.Proxy.Address, rabbitmqtest.Alice)
	client := &http.Client{Timeout: 10 * time.Second}
	for cycle := range cycles {
		p, listens := e2etest.ServeIn(t, dir, specFile, settings)
		if !listens || !p.WaitReady(t) {
			t.Fatal(p.Log.String())
		}
		var wg sync.WaitGroup
		wg.Go(func() { o.LoadPaced(p, client) })
		testkit.Pause(time.Duration(200+rnd.IntN(300)) * time.Millisecond)
		switch cycle { // each fault is there while the engine is killed, or shortly before
		case 0:
			kafka.Proxies[0].Cut()
			rabbit.Proxy.Cut()
		case 1:
			kafka.Kill(0)
		case 2:
			rabbit.Kill()
		case 3:
			kafka.Proxies[0].Stall()
			rabbit.Proxy.Stall()
		}
		testkit.Pause(time.Duration(100+rnd.IntN(300)) * time.Millisecond)
		p.Kill()
		e2etest.RequireKilled(t, p)
		wg.Wait()
		switch cycle {
		case 1:
			kafka.Restart(t, 0)
		case 2:
			rabbit.Restart(t)
		}
		kafka.Proxies[0].Restore()
		rabbit.Proxy.Restore()
	}
	p := e2etest.Serve(t, dir, specFile, settings)
	require.Eventually(t, func() bool {
		return delivered(t, p, "stream") && delivered(t, p, "bus")
	}, testkit.Patience, 100*time.Millisecond, "%s", p.Log)
	p.Stop(t)

	topic, queue := map[string]int{}, map[string]int{}
	for _, r := range kafka.Records(t, "events") {
		var e struct{ ID string }
		require.NoError(t, json.Unmarshal(r.Value, &e))
		topic[e.ID]++
	}
	for _, d := range rabbit.Drain(t, "events") {
		queue[d.MessageId]++
	}
	lost, twice, most := map[string]int{}, map[string]int{}, 0
	for name, got := range map[string]map[string]int{"kafka": topic, "rabbitmq": queue} {
		for id := range o.Acked {
			if got[id] == 0 {
				lost[name]++
			}
		}
		for _, n := range got {
			twice[name] += n - 1
			most = max(most, n)
		}
	}
	t.Logf(
		"| kills of the engine %d, of Kafka 1, of RabbitMQ 1 | acknowledged %d | in the topic %d, lost %d, duplicates %d | "+
			"in the queue %d, lost %d, duplicates %d | most of one id %d |",
		cycles, len(o.Acked), len(topic), lost["kafka"], twice["kafka"], len(queue), lost["rabbitmq"],
		twice["rabbitmq"], most)
	require.NotEmpty(t, o.Acked)
	require.Zero(t, lost["kafka"]+lost["rabbitmq"])
	// A cursor is saved each second, so a start may send everything again that is not older than that.
	require.LessOrEqual(t, most, 2*(cycles+1))
}

// delivered reports whether a sink has everything that is in the log.
func delivered(t *testing.T, p *e2etest.Process, sink string) bool {
	t.Helper()
	var answer struct {
		Sinks []struct {
			Name       string
			LagRecords int64 `json:"lag_records"`
		}
	}
	require.NoError(t, json.Unmarshal(e2etest.Get(t, p.Base+"/api/v1/engine"), &answer))
	for _, s := range answer.Sinks {
		if s.Name == sink {
			return s.LagRecords == 0
		}
	}
	t.Fatalf("no sink %s", sink)
	return false
}
