package brokers

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/sloengine/sloengine/ingest/source/kafka/kafkatest"
	"github.com/sloengine/sloengine/internal/e2e/e2etest"
	"github.com/sloengine/sloengine/internal/testkit"
)

// Sources come, go and change by a reload, while messages arrive. One that did not change goes on, one that changed is
// started again at its position, and so is one that was removed and comes back: each message counts once, also without
// an id. The groups of the SLO are the messages.
func TestSourcesChangeByReload(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.Shared(t)
	topics := []string{"kept", "changed", "added"}
	for _, topic := range topics {
		cluster.CreateTopic(t, topic, 3, nil)
	}
	client := cluster.Client(t)
	defer client.Close()
	written := 0
	put := func(topic string, n int) {
		t.Helper()
		for range n {
			value := fmt.Sprintf(`{"service":"crash","type":"t","attributes":{"uid":"u-%d"}}`, written)
			client.Produce(t.Context(), &kgo.Record{Topic: topic, Value: []byte(value)}, nil)
			written++
		}
		require.NoError(t, client.Flush(t.Context()))
	}
	source := func(topic, more string) string {
		return fmt.Sprintf(
			"  - {name: %s, backfill: never, %skafka: {brokers: [%q], topics: [%s], refresh: 200ms, fetch: {min_bytes: 1, "+
				"max_wait: 20ms}}}\n",
			topic, more, cluster.Brokers()[0], topic)
	}
	dir := t.TempDir()
	spec := e2etest.WriteFile(t, dir, "spec.yaml", e2etest.CrashSpec)
	p := e2etest.Serve(t, dir, spec, e2etest.CrashSettings+"sources:\n"+source("kept", "")+source("changed", ""))
	reload := func(want int, sources ...string) string {
		t.Helper()
		e2etest.WriteFile(t, dir, "engine.yaml", e2etest.CrashSettings+"sources:\n"+strings.Join(sources, ""))
		status, answer := e2etest.Post(t, p.Base+"/-/reload", "", "")
		require.Equal(t, want, status, answer)
		return answer
	}
	counted := func() {
		t.Helper()
		var counts map[string]float64
		require.Eventually(t, func() bool {
			counts = e2etest.CountsByID(t, p)
			return len(counts) == written
		}, testkit.Patience, 100*time.Millisecond, "%s", p.Log)
		for uid, n := range counts {
			require.Equal(t, 1.0, n, uid)
		}
	}
	// The lines of the log arrive a moment after the answer to the reload.
	logged := func(want int, line string) {
		t.Helper()
		require.Eventually(t, func() bool {
			return len(p.LinesWith(line)) == want
		}, testkit.Patience, 10*time.Millisecond, "%s\n%s", line, p.Log)
	}
	started := func(want int, name string) { t.Helper(); logged(want, `"source started" source=`+name+" ") }

	put("kept", 100)
	put("changed", 100)
	counted()
	const changes = 10
	for i := range changes {
		put("kept", 100)
		put("changed", 200)
		reload(200, source("kept", ""), source("changed", fmt.Sprintf("headers: {h: X-%d}, ", i)))
	}
	counted()
	started(1, "kept")
	started(1+changes, "changed")

	// A mistake changes nothing.
	require.Contains(
		t, reload(422, source("kept", ""), strings.Replace(source("changed", ""), "topics", "topcis", 1)), "topcis")
	put("changed", 10)
	counted()

	put("added", 100)
	put("changed", 200)
	reload(200, source("kept", ""), source("added", ""))
	logged(1, `"source removed" source=changed`)
	require.NotContains(t, string(e2etest.Get(t, p.Base+"/metrics")), `source="changed"`)
	require.NotContains(t, string(e2etest.Get(t, p.Base+"/api/v1/engine")), `"changed"`)
	put("changed", 100)
	reload(200, source("kept", ""), source("changed", ""), source("added", ""))
	counted()
	started(1, "kept")
	require.Contains(t, string(e2etest.Get(t, p.Base+"/metrics")), `source="changed"`)

	// The log says the same.
	p.Kill()
	e2etest.RequireKilled(t, p)
	p = e2etest.Serve(
		t, dir, spec, e2etest.CrashSettings+"sources:\n"+source("kept", "")+source("changed", "")+source("added", ""))
	put("changed", 10)
	counted()
	p.Stop(t)
}
