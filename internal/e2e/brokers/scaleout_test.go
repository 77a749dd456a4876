package brokers

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/sloengine/sloengine/ingest/source/kafka/kafkatest"
	"github.com/sloengine/sloengine/internal/e2e/e2etest"
	"github.com/sloengine/sloengine/internal/testkit"
)

const scaleOutSpec = `version: sloengine/v1
service: shop
slos:
  - name: orders
    objective: 99
    window: 7d
    group_by: [batch]
    indicator:
      events: {valid: '{type="order"}', bad: '{outcome="failure"}'}
`

// scaleOut is a topic with 12 partitions, several engines that share them, and an oracle that knows how many events of
// each batch the topic holds. The events have no ids, so only positions keep them from being counted twice.
type scaleOut struct {
	t        *testing.T
	brokers  string
	client   *kgo.Client
	dir      string
	engines  []*e2etest.Process
	produced map[string]int
}

func newScaleOut(t *testing.T) *scaleOut {
	cluster := kafkatest.Shared(t)
	s := &scaleOut{t: t, brokers: strings.Join(cluster.Brokers(), `", "`), client: cluster.Client(t), dir: t.TempDir(),
		produced: map[string]int{}}
	_, err := kadm.NewClient(s.client).CreateTopic(t.Context(), 12, 1, nil, "scaled")
	require.NoError(t, err)
	e2etest.WriteFile(t, s.dir, "spec.yaml", scaleOutSpec)
	return s
}

// produce sends n events of a batch, to all partitions.
func (s *scaleOut) produce(batch string, n int) {
	s.t.Helper()
	for i := range n {
		outcome := "success"
		if i%10 == 0 {
			outcome = "failure"
		}
		value := fmt.Sprintf(`{"service":"shop","type":"order","outcome":%q,"attributes":{"batch":%q}}`, outcome, batch)
		s.client.Produce(s.t.Context(), &kgo.Record{Topic: "scaled", Key: []byte(strconv.Itoa(i)), Value: []byte(value)}, nil)
	}
	require.NoError(s.t, s.client.Flush(s.t.Context()))
	s.produced[batch] += n
}

func (s *scaleOut) data(ordinal int) string { return filepath.Join(s.dir, fmt.Sprint(ordinal), "data") }

// start starts an engine, in place of the one that was there before.
func (s *scaleOut) start(ordinal, engines int) {
	s.t.Helper()
	dir := filepath.Join(s.dir, fmt.Sprint(ordinal))
	require.NoError(s.t, os.MkdirAll(dir, 0o750))
	p := e2etest.Serve(s.t, dir, filepath.Join(s.dir, "spec.yaml"), fmt.Sprintf(`evaluator: {interval: 500ms}
sources:
  - name: orders
    kafka: {brokers: ["%s"], topics: [scaled], engines: %d, ordinal: %d, refresh: 1s}
`, s.brokers, engines, ordinal))
	for len(s.engines) <= ordinal {
		s.engines = append(s.engines, nil)
	}
	s.engines[ordinal] = p
}

// counts are the events of each batch that all engines counted.
func (s *scaleOut) counts() map[string]int {
	s.t.Helper()
	counts := map[string]int{}
	for _, p := range s.engines {
		families := e2etest.Scrape(s.t, p)
		for _, name := range []string{"slo_events_total", "slo_backfilled_events_total"} {
			for _, m := range families[name].GetMetric() {
				for _, l := range m.GetLabel() {
					if l.GetName() == "batch" {
						counts[l.GetValue()] += int(m.GetCounter().GetValue())
					}
				}
			}
		}
	}
	return counts
}

// exported is a counter of an engine for a batch, good and bad events together.
func (s *scaleOut) exported(ordinal int, name, batch string) int {
	s.t.Helper()
	return int(rabbitMetric(s.t, s.engines[ordinal], name, "batch", batch))
}

// coverageOf is the coverage of what an engine counted, that of its first group.
func coverageOf(t testing.TB, p *e2etest.Process) float64 {
	t.Helper()
	var list struct{ Items []struct{ Coverage float64 } }
	require.NoError(t, json.Unmarshal(e2etest.Get(t, p.Base+"/api/v1/slos"), &list))
	return list.Items[0].Coverage
}

// countsAll waits until every event is counted, and then a little longer: none may be counted twice.
func (s *scaleOut) countsAll(when string) {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		return maps.Equal(s.counts(), s.produced)
	}, testkit.Patience, 200*time.Millisecond,
		"%s: produced %v, counted %v", when, s.produced, s.counts())
	s.produce("tail", 24)
	require.Eventually(s.t, func() bool {
		return maps.Equal(s.counts(), s.produced)
	}, testkit.Patience, 200*time.Millisecond,
		"%s: produced %v, counted %v", when, s.produced, s.counts())
}

// TestThreeEnginesOnOneTopic kills one of three engines while events arrive, gives another one an empty disk, and then
// goes from three engines to four and back to two. Every event is counted once, by some engine.
func TestThreeEnginesOnOneTopic(t *testing.T) {
	t.Parallel()
	s := newScaleOut(t)
	s.produce("before", 600) // there before any engine: a backfill
	for i := range 3 {
		s.start(i, 3)
	}
	s.countsAll("three engines")
	for _, p := range s.engines {
		require.NotZero(t, len(e2etest.Scrape(t, p)["slo_events_total"].GetMetric()), "each engine has its part")
		require.Positive(t, e2etest.Sum(e2etest.Scrape(t, p)["sloengine_source_busy_seconds_total"]))
	}

	for round := range 5 {
		s.produce(fmt.Sprint("kill", round), 300)
		s.engines[1].Kill()
		s.produce(fmt.Sprint("kill", round), 300)
		s.start(1, 3)
	}
	s.countsAll("an engine was killed")

	s.engines[2].Kill()
	require.NoError(t, os.RemoveAll(s.data(2)))
	s.produce("empty disk", 600)
	s.start(2, 3)
	s.countsAll("an engine got an empty disk")
	require.Zero(t, s.exported(2, "slo_events_total", "before")+s.exported(2, "slo_events_total", "kill0"),
		"or rules would see all of it within minutes")
	require.Positive(t, s.exported(2, "slo_backfilled_events_total", "before"))
	// What it read again covers the time from the first event on, and the gap until its start, which is less than five
	// minutes.
	require.Eventually(t, func() bool {
		return coverageOf(t, s.engines[2]) > 0.8*coverageOf(t, s.engines[0])
	}, testkit.Patience, 100*time.Millisecond)

	s.resize(3, 4)
	s.produce("four", 600)
	s.countsAll("four engines")

	s.resize(4, 2) // the engines 2 and 3 keep what they counted, and read nothing
	s.produce("two", 600)
	s.countsAll("two engines")
	s.viewAgrees()
	for _, p := range s.engines {
		p.Stop(t)
	}
}

// viewAgrees compares what `sloengine view` shows for all engines, those included that read nothing any more.
func (s *scaleOut) viewAgrees() {
	s.t.Helper()
	var urls []string
	for _, p := range s.engines {
		urls = append(urls, p.Base)
	}
	view := e2etest.Ready(s.t, "view", "-f", filepath.Join(s.dir, "spec.yaml"), "--engines", strings.Join(urls, ","),
		"--web.listen-address", "127.0.0.1:0")
	require.Eventually(s.t, func() bool {
		var list struct {
			Items []struct {
				Group  map[string]string
				Budget struct{ Counts struct{ Valid int } }
			}
		}
		require.NoError(s.t, json.Unmarshal(e2etest.Get(s.t, view.Base+"/api/v1/slos"), &list))
		shown := map[string]int{}
		for _, one := range list.Items {
			shown[one.Group["batch"]] = one.Budget.Counts.Valid
		}
		return maps.Equal(shown, s.produced)
	}, testkit.Patience, 200*time.Millisecond)
	view.Stop(s.t)
}

// resize changes the number of engines that read, as docs/scaling.md says.
func (s *scaleOut) resize(from, to int) {
	s.t.Helper()
	var files []string
	for i := range s.engines {
		s.engines[i].Stop(s.t)
		out, errs, code := e2etest.Command(s.t, "positions", "export", "--data-dir", s.data(i))
		require.Zero(s.t, code, errs)
		files = append(files, e2etest.WriteFile(s.t, s.dir, fmt.Sprintf("positions-%d.json", i), out))
	}
	for i := range max(from, to) {
		_, stderr, code := e2etest.Command(s.t, append([]string{"positions", "import", "--data-dir", s.data(i)}, files...)...)
		require.Zero(s.t, code, stderr)
		if i < to {
			s.start(i, to)
			continue
		}
		dir := filepath.Join(s.dir, fmt.Sprint(i))
		p := e2etest.Serve(s.t, dir, filepath.Join(s.dir, "spec.yaml"), "evaluator: {interval: 500ms}")
		s.engines[i] = p
	}
}
