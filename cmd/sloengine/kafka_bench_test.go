package main

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
)

// BenchmarkIngestKafka compares a topic with one event of about 255 bytes in each message with HTTP bodies of 1000 of them:
// b.N thousand events each way, in one run, by the CPU time of the engine until they are durable and counted. Run it with
// -benchtime 500x.
func BenchmarkIngestKafka(b *testing.B) {
	events := b.N * 1000
	cluster := kafkatest.Start(b, kafkatest.Options{})
	cluster.CreateTopic(b, "bench", 4, nil)
	producer := cluster.Client(b, kgo.DefaultProduceTopic("bench"), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()), kgo.ProducerLinger(5*time.Millisecond), kgo.MaxBufferedRecords(50_000))
	body := benchBody(1000)
	for n := range b.N {
		number(body, uint64(n+1))
		for line := range bytes.Lines(body) {
			producer.Produce(b.Context(), &kgo.Record{Value: bytes.Clone(bytes.TrimSpace(line))}, nil)
		}
	}
	require.NoError(b, producer.Flush(b.Context()))
	producer.Close()

	profile := os.Getenv("SLOENGINE_BENCH_PROFILE") // a file, for the CPU profile of the engine that reads Kafka
	pprof := ""
	if profile != "" {
		pprof = "web: {pprof: true}\n"
	}
	b.ResetTimer()
	p := benchEngine(b, b.TempDir(), "")
	httpCPU, httpWall := cpuUntilCounted(b, p, events, func() { loadHTTP(b, p) })
	p.kill()

	// The engine starts without the source, so that its start is not in the figure.
	dir := b.TempDir()
	p = benchEngine(b, dir, pprof)
	var profiled sync.WaitGroup
	if profile != "" {
		profiled.Go(func() {
			require.NoError(b, os.WriteFile(profile, get(b, p.base+"/debug/pprof/profile?seconds=5"), 0o600))
		})
	}
	kafkaCPU, kafkaWall := cpuUntilCounted(b, p, events, func() {
		reloadWith(b, p, dir, fmt.Sprintf("disk: {low_water: 64MiB}\n%ssources: [{name: bench, backfill: never, kafka: {brokers: [%q], topics: [bench]}}]\n", pprof, cluster.Brokers()[0]))
	})
	b.StopTimer()
	profiled.Wait()
	p.kill()
	b.ReportMetric(float64(events)/httpCPU, "http-events/cpu-s")
	b.ReportMetric(float64(events)/kafkaCPU, "kafka-events/cpu-s")
	b.ReportMetric(httpCPU/kafkaCPU, "kafka/http")
	b.ReportMetric(float64(events)/httpWall, "http-events/s")
	b.ReportMetric(float64(events)/kafkaWall, "kafka-events/s")
}

// benchCounts is what the engine's status says of events.
type benchCounts struct {
	Ingest  struct{ Accepted int }
	Fold    struct{ Lag int }
	Sources []struct{ Accepted int }
}

// cpuUntilCounted is the CPU time and the time that an engine takes from the load until so many events are counted.
func cpuUntilCounted(b *testing.B, p *process, events int, load func()) (cpu, wall float64) {
	before, begin := cpuSeconds(b, p.cmd.Process.Pid), time.Now()
	load()
	for counted := (benchCounts{}); ; time.Sleep(50 * time.Millisecond) {
		require.NoError(b, json.Unmarshal(get(b, p.base+"/api/v1/engine"), &counted))
		n := counted.Ingest.Accepted
		for _, s := range counted.Sources {
			n += s.Accepted
		}
		if n >= events && counted.Fold.Lag == 0 {
			break
		}
		require.Less(b, time.Since(begin), 5*time.Minute, p.log.String())
	}
	return cpuSeconds(b, p.cmd.Process.Pid) - before, time.Since(begin).Seconds()
}

// loadHTTP sends b.N bodies of 1000 events over four connections.
func loadHTTP(b *testing.B, p *process) {
	var seq atomic.Uint64
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			c := dialRaw(b, p.base, benchBody(1000))
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
func reloadWith(b *testing.B, p *process, dir, settings string) {
	writeFile(b, dir, "engine.yaml", settings)
	res, err := http.Post(p.base+"/-/reload", "", nil)
	require.NoError(b, err)
	require.Equal(b, http.StatusOK, res.StatusCode, p.log.String())
	res.Body.Close()
}
