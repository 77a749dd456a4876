package brokers

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/sloengine/sloengine/cmd/sloengine/cli"
	"github.com/sloengine/sloengine/ingest/source/kafka/kafkatest"
	"github.com/sloengine/sloengine/internal/e2e/e2etest"
	"github.com/sloengine/sloengine/internal/testkit"
)

// Messages that cannot be taken become dead letters. Once `map` and the spec are corrected, `sloengine dlq replay`
// counts each of them once, also after a kill, and an unreadable one stays.
func TestDeadLettersOfASourceAreReplayed(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.Shared(t)
	cluster.CreateTopic(t, "mapped", 2, nil)
	cluster.CreateTopic(t, "plain", 2, nil)
	source := func(name, more string) string {
		return fmt.Sprintf(
			"  - {name: %s, backfill: never, %skafka: {brokers: [%q], topics: [%s], refresh: 200ms, fetch: {min_bytes: 1, "+
				"max_wait: 20ms}}}\n",
			name, more, cluster.Brokers()[0], name)
	}
	mapping := func(kind string) string {
		return e2etest.CrashSettings + "dead_letters: {replay: {stop_after: 1000}}\nsources:\n" + source("mapped",
			fmt.Sprintf("map: {service: crash, type: %s, attributes: {uid: .who}}, ", kind)) + source("plain", "")
	}
	dir := t.TempDir()
	spec := e2etest.WriteFile(t, dir, "spec.yaml", strings.Replace(e2etest.CrashSpec, `type="t"`, `type="other"`, 1))
	p := e2etest.Serve(t, dir, spec, mapping(".kind"))

	uids := map[string]bool{}
	var records []*kgo.Record
	for i := range 3 {
		// No id: the place of the message is what makes it count once.
		records = append(records, &kgo.Record{
			Topic: "mapped", Value: fmt.Appendf(nil, `[{"what":"t","who":"m-%d"},{"what":"t","who":"n-%d"}]`, i, i)},
			&kgo.Record{Topic: "plain", Value: fmt.Appendf(nil,
				`{"id":"p-%d","service":"crash","type":"t","attributes":{"uid":"p-%d"}}`, i, i)})
		for _, kind := range []string{"m", "n", "p"} {
			uids[fmt.Sprintf("%s-%d", kind, i)] = true
		}
	}
	records = append(records, &kgo.Record{Topic: "plain", Value: []byte("\x00garbage")})
	cluster.Produce(t, records...)
	all := len(uids) + 1
	require.Eventually(t, func() bool {
		return e2etest.DeadLetterCount(t, p) == all
	}, testkit.Patience, 50*time.Millisecond, "%s", p.Log)

	replay := func() string {
		t.Helper()
		_, stderr, code := e2etest.Command(t, "dlq", "replay", "--all", "--url", p.Base)
		require.Equal(t, cli.ExitFindings, code, stderr)
		return stderr
	}
	stderr := replay()
	require.Contains(t, stderr, `Field "type" is required.`)
	require.Contains(t, stderr, `the spec still has no service "crash" with the type "t"`)
	require.Equal(t, all, e2etest.DeadLetterCount(t, p), "nothing is corrected yet")

	e2etest.WriteFile(t, dir, "spec.yaml", e2etest.CrashSpec)
	e2etest.WriteFile(t, dir, "engine.yaml", mapping(".what"))
	status, answer := e2etest.Post(t, p.Base+"/-/reload", "", "")
	require.Equal(t, 200, status, answer)
	stderr = replay()
	require.Contains(t, stderr, "decode the message again")
	require.Equal(t, 1, e2etest.DeadLetterCount(t, p), "the unreadable one\n%s", stderr)
	once := func() {
		t.Helper()
		var counts map[string]float64
		require.Eventually(t, func() bool {
			counts = e2etest.CountsByID(t, p)
			return len(counts) == len(uids)
		}, testkit.Patience, 50*time.Millisecond, "%s", p.Log)
		e2etest.CountedOnce(t, counts, uids)
	}
	once()
	replay()
	p.Kill()
	e2etest.RequireKilled(t, p)
	p = e2etest.Serve(t, dir, spec, mapping(".what"))
	replay()
	once()
	require.Equal(t, 1, e2etest.DeadLetterCount(t, p))
	p.Stop(t)
}
