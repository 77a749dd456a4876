package brokers

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/cmd/sloengine/cli"
	"github.com/sloengine/sloengine/ingest/source/kafka/kafkatest"
	"github.com/sloengine/sloengine/internal/e2e/e2etest"
	"github.com/sloengine/sloengine/reliability/kafkaclient/topics"
)

// TestKafkaTopics creates the topics of a configuration in a cluster of one broker, and finds what is wrong about them.
func TestKafkaTopics(t *testing.T) {
	t.Parallel()
	brokers := kafkatest.Shared(t).Brokers()[0]
	dir := t.TempDir()
	settings := e2etest.WriteFile(t, dir, "engine.yaml", fmt.Sprintf(`
sources: [{name: in, kafka: {brokers: [%q], topics: [orders, payments], engines: 5, ordinal: 0}, max_message: 1MiB}]
sinks: [{name: out, kafka: {brokers: [%q], topic: archive, acks: leader, idempotent: false}}]
`, brokers, brokers))
	spec := e2etest.WriteFile(t, dir, "spec.yaml", strings.ReplaceAll(e2etest.CrashSpec, "window: 1d", "window: 30d"))
	command := func(args ...string) (out, errs string, code int) {
		return e2etest.Command(t, append([]string{"kafka", "topics"}, args...)...)
	}
	checked := func(args ...string) (found []string) {
		t.Helper()
		out, errs, code := command(append([]string{"--check", "-o", "json"}, args...)...)
		require.Contains(t, []int{cli.ExitOK, cli.ExitFindings}, code, errs)
		var r struct{ Findings []topics.Finding }
		require.NoError(t, json.Unmarshal([]byte(out), &r), out)
		require.Equal(t, code == cli.ExitFindings, len(r.Findings) > 0)
		for _, f := range r.Findings {
			require.NotEmpty(t, f.Fix)
			found = append(found, f.Topic+", "+f.By+": "+f.Text)
		}
		return found
	}
	require.Equal(t, []string{
		"orders, source in: the topic does not exist", "payments, source in: the topic does not exist",
		"archive, sink out: the topic does not exist",
	}, checked("-c", settings))

	_, errs, code := command("--create", "-c", settings)
	require.Equal(t, cli.ExitFailure, code)
	require.Contains(t, errs, "the cluster has fewer than 3 brokers (set --replication-factor)")
	out, errs, code := command("--create", "-c", settings, "--replication-factor", "1", "--min-insync", "1",
		"--dead-letter-topic", "orders-dlq")
	require.Equal(t, cli.ExitOK, code, errs)
	require.Equal(t, "created orders\ncreated payments\ncreated orders-dlq\ncreated archive\n", out)
	out, errs, code = command("--create", "-c", settings, "--replication-factor", "1", "--min-insync", "1")
	require.Equal(t, cli.ExitOK, code, errs)
	require.Equal(t, "all topics exist; nothing was changed\n", out)

	inSync := "min.insync.replicas is 1: even with acks=all, a message that one broker confirmed is lost with that broker"
	large := "max.message.bytes is 10485760, and the source makes dead letters of messages above 1048576"
	short :=
		"the topic retains 7d, less than the longest window of the specs (30d): an engine with an empty disk cannot count " +
			"again what is older"
	uneven := "12 partitions for 5 engines: some engines read more than others"
	source := func(topic string) (all []string) {
		for _, text := range []string{inSync, large, short, uneven} {
			all = append(all, topic+", source in: "+text)
		}
		return all
	}
	require.Equal(t, append(append(source("orders"), source("payments")...),
		"archive, sink out: "+inSync,
		"archive, sink out: the producer waits for the leader only, so a message that it confirmed is lost with it"),
		checked("-c", settings, "-f", spec))
	out, _, code = command("--check", "--brokers", brokers, "--dead-letter-topic", "orders-dlq")
	require.Equal(t, cli.ExitFindings, code)
	require.Contains(t, out,
		"orders-dlq: 3 partitions, 1 replica, min.insync.replicas 1, retained 720h0m0s, messages up to 10485760 bytes\n")
	require.Contains(t, out, "\n1 finding\n")

	for want, args := range map[string][]string{
		"set either --create or --check":            {"-c", settings},
		"set either -c engine.yaml":                 {"--check"},
		"--brokers requires --topic":                {"--check", "--brokers", brokers},
		"--topic is for --brokers":                  {"--check", "-c", settings, "--topic", "x"},
		"--min-insync at most --replication-factor": {"--create", "-c", settings, "--replication-factor", "1"},
		"invalid --retention":                       {"--create", "-c", settings, "--retention", "soon"},
	} {
		_, errs, code := command(args...)
		require.Equal(t, cli.ExitUsage, code, want)
		require.Contains(t, errs, want)
	}
	_, errs, code = command("--check", "-c", e2etest.WriteFile(t, dir, "none.yaml", "{}"))
	require.Equal(t, cli.ExitFailure, code)
	require.Contains(t, errs, filepath.Join(dir, "none.yaml")+" has no source and no sink of Kafka")
}
