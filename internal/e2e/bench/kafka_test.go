package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/sloengine/sloengine/ingest/source/kafka/kafkatest"
	"github.com/sloengine/sloengine/internal/e2e/e2etest"
	"github.com/sloengine/sloengine/internal/testkit"
)

// BenchmarkIngestKafka compares a topic with one event of about 255 bytes in each message with HTTP bodies of 1000 of
// them: b.N thousand events each way, in one run, by the CPU time of the engine until they are durable and counted. Run
// it with -benchtime 500x.
func BenchmarkIngestKafka(b *testing.B) {
	events := b.N * 1000
	brokers := benchTopic(b, 4)
	profile := os.Getenv("SLOENGINE_BENCH_PROFILE") // a file, for the CPU profile of the engine that reads Kafka
	pprof := ""
	if profile != "" {
		pprof = "web: {pprof: true}\n"
	}
	b.ResetTimer()
	p := benchEngine(b, b.TempDir(), "")
	httpCPU, httpWall := cpuUntilCounted(b, []*e2etest.Process{p}, func() { loadHTTP(b, p) })
	p.Kill()

	dir := b.TempDir()
	p = benchEngine(b, dir, pprof)
	var profiled sync.WaitGroup
	if profile != "" {
		profiled.Go(func() {
			require.NoError(b, os.WriteFile(profile, e2etest.Get(b, p.Base+"/debug/pprof/profile?seconds=5"), 0o600))
		})
	}
	kafkaCPU, kafkaWall := cpuUntilCounted(b, []*e2etest.Process{p}, func() { takeTopic(b, p, dir, pprof, brokers, 1, 0) })
	b.StopTimer()
	profiled.Wait()
	p.Kill()
	b.ReportMetric(float64(events)/httpCPU, "http-events/cpu-s")
	b.ReportMetric(float64(events)/kafkaCPU, "kafka-events/cpu-s")
	b.ReportMetric(httpCPU/kafkaCPU, "kafka/http")
	b.ReportMetric(float64(events)/httpWall, "http-events/s")
	b.ReportMetric(float64(events)/kafkaWall, "kafka-events/s")
}

// BenchmarkThreeEngines compares three engines that share a topic with 12 partitions with one that reads all of it: b.N
// thousand events each way, on one machine, by the CPU time of all engines until all events are durable and counted.
// Run it with -benchtime 1500x.
func BenchmarkThreeEngines(b *testing.B) {
	brokers := benchTopic(b, 12)
	b.ResetTimer()
	cpu := map[int]float64{}
	for _, n := range []int{1, 3} {
		dirs, engines := make([]string, n), make([]*e2etest.Process, n)
		for i := range n {
			dirs[i] = b.TempDir()
			engines[i] = benchEngine(b, dirs[i], "")
		}
		cpu[n], _ = cpuUntilCounted(b, engines, func() {
			for i, p := range engines {
				takeTopic(b, p, dirs[i], "", brokers, n, i)
			}
		})
		for _, p := range engines {
			p.Kill()
		}
	}
	b.StopTimer()
	b.ReportMetric(1e6*cpu[1]/(1000*float64(b.N)), "one-cpu-us/event")
	b.ReportMetric(1e6*cpu[3]/(1000*float64(b.N)), "three-cpu-us/event")
	b.ReportMetric(cpu[3]/cpu[1], "three/one")
}

// benchTopic fills the topic bench with b.N thousand messages of one event each.
func benchTopic(b *testing.B, partitions int) (brokers []string) {
	cluster := kafkatest.Start(b, kafkatest.Options{})
	cluster.CreateTopic(b, "bench", partitions, nil)
	producer := cluster.Client(b, kgo.DefaultProduceTopic("bench"), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()),
		kgo.ProducerLinger(5*time.Millisecond), kgo.MaxBufferedRecords(50_000))
	body := benchBody(1000)
	for n := range b.N {
		number(body, uint64(n+1))
		for line := range bytes.Lines(body) {
			producer.Produce(b.Context(), &kgo.Record{Value: bytes.Clone(bytes.TrimSpace(line))}, nil)
		}
	}
	require.NoError(b, producer.Flush(b.Context()))
	producer.Close()
	return cluster.Brokers()
}

// takeTopic adds the topic to the settings of an engine, which runs without a source until then, so that its start is
// not in the figures.
func takeTopic(b *testing.B, p *e2etest.Process, dir, settings string, brokers []string, engines, ordinal int) {
	reloadWith(b, p, dir,
		fmt.Sprintf(
			"disk: {low_water: 64MiB}\n%ssources: [{name: bench, backfill: never, kafka: {brokers: [%q], topics: [bench], "+
				"engines: %d, ordinal: %d}}]\n",
			settings, brokers[0], engines, ordinal))
}

// benchCounts is what the engine's status says of events.
type benchCounts struct {
	Ingest  struct{ Accepted int }
	Fold    struct{ Lag int }
	Sources []struct{ Accepted int }
}

// cpuUntilCounted is the CPU time of engines from a load until all b.N thousand events are counted.
func cpuUntilCounted(b *testing.B, engines []*e2etest.Process, load func()) (cpu, wall float64) {
	for _, p := range engines {
		cpu -= e2etest.CPUSeconds(b, p.Cmd.Process.Pid)
	}
	begin := time.Now()
	load()
	for ; ; testkit.Pause(time.Duration(len(engines)) * 50 * time.Millisecond) { // asking costs CPU, too
		n, lag := 0, 0
		for _, p := range engines {
			var counted benchCounts
			require.NoError(b, json.Unmarshal(e2etest.Get(b, p.Base+"/api/v1/engine"), &counted))
			n += counted.Ingest.Accepted
			lag += counted.Fold.Lag
			for _, s := range counted.Sources {
				n += s.Accepted
			}
		}
		if n >= b.N*1000 && lag == 0 {
			break
		}
		require.Less(b, time.Since(begin), 5*time.Minute, engines[0].Log.String())
	}
	wall = time.Since(begin).Seconds()
	for _, p := range engines {
		cpu += e2etest.CPUSeconds(b, p.Cmd.Process.Pid)
	}
	return cpu, wall
}

// loadHTTP sends b.N bodies of 1000 events over four connections.
func loadHTTP(b *testing.B, p *e2etest.Process) {
	var seq atomic.Uint64
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			c := dialRaw(b, p.Base, benchBody(1000))
			defer c.conn.Close()
			for k := seq.Add(1); k <= uint64(b.N); k = seq.Add(1) {
				if status, err := c.post(k); err != nil || status != http.StatusAccepted {
					b.Errorf("request %d: status %d, %v", k, status, err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// reloadWith puts other settings in force.
func reloadWith(b *testing.B, p *e2etest.Process, dir, settings string) {
	e2etest.WriteFile(b, dir, "engine.yaml", settings)
	res, err := http.Post(p.Base+"/-/reload", "", nil)
	require.NoError(b, err)
	require.Equal(b, http.StatusOK, res.StatusCode, p.Log.String())
	res.Body.Close()
}
