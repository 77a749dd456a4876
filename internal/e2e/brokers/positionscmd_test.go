package brokers

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sloengine/sloengine/cmd/sloengine/cli"
	"github.com/sloengine/sloengine/internal/e2e/e2etest"
	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/stretchr/testify/require"
)

// TestPositions moves positions from one data directory to another. They are the same as long as they wait for the next
// start, after a kill, when only the log has them, and in a checkpoint.
func TestPositions(t *testing.T) {
	t.Parallel()
	const positions = `{
  "version": 2,
  "positions": [
    {"source": "orders", "topic": "orders", "topic_id": "000102030405060708090a0b0c0d0e0f", "partition": 0,
     "counted": [[0, 812], [900, 1000]]},
    {"source": "orders", "topic": "orders", "partition": 1, "leader_epoch": 3, "counted": [[7, 9]],
     "partial": [{"offset": 9, "events": [0, 2]}]},
    {"source": "payments", "topic": "paid", "partition": 0, "counted": [[0, 1]]}
  ]
}`
	dir := t.TempDir()
	specFile := e2etest.WriteFile(t, dir, "spec.yaml", e2etest.CrashSpec)
	file := e2etest.WriteFile(t, dir, "positions.json", positions)
	data := filepath.Join(dir, "data")
	export := func(from string, more ...string) string {
		t.Helper()
		out, errs, code := e2etest.Command(t, append([]string{"positions", "export", "--data-dir", from}, more...)...)
		require.Equal(t, cli.ExitOK, code, errs)
		return out
	}
	_, stderr, code := e2etest.Command(t, "positions", "import", "--data-dir", data, file, file)
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Contains(t, stderr, "wrote positions of 3 streams")

	p := e2etest.Serve(t, dir, specFile, "")
	require.Eventually(t, func() bool {
		return strings.Contains(p.Log.String(), "took over positions")
	}, testkit.Patience, 10*time.Millisecond)
	require.NoFileExists(t, filepath.Join(data, "positions-import.json"))
	for _, args := range [][]string{{"export", "--data-dir", data}, {"import", "--data-dir", data, file}} {
		_, stderr, code = e2etest.Command(t, append([]string{"positions"}, args...)...)
		require.Equal(t, cli.ExitFailure, code)
		require.Contains(t, stderr, "the engine must be stopped")
		require.Contains(t, stderr, "locked by another process")
	}
	p.Kill()
	inLog := export(data)
	require.JSONEq(t, positions, inLog)
	require.Equal(t, inLog, export(data), "an export changes nothing")

	p = e2etest.Serve(t, dir, specFile, "")
	p.Stop(t) // with a checkpoint
	require.Equal(t, inLog, export(data))
	require.NotContains(t, export(data, "--source", "payments"), "orders")

	other := filepath.Join(dir, "other")
	_, stderr, code = e2etest.Command(t, "positions", "import", "--data-dir", other,
		e2etest.WriteFile(t, dir, "exported.json", inLog))
	require.Equal(t, cli.ExitOK, code, stderr)
	for _, test := range []struct{ file, want string }{
		{`{"version": 3}`, "positions have format 3"},
		{
			`{"version": 1, "positions": [{"source": "orders", "topic": "orders", "topic_id": ` +
				`"ff0102030405060708090a0b0c0d0e0f", "partition": 0, "counted": [[0, 1]]}]}`,
			"the topic was created again"},
	} {
		_, stderr, code = e2etest.Command(t, "positions", "import", "--data-dir", other, file,
			e2etest.WriteFile(t, dir, "wrong.json", test.file))
		require.Equal(t, cli.ExitFailure, code)
		require.Contains(t, stderr, "wrong.json: ")
		require.Contains(t, stderr, test.want)
	}
	// A file that was changed by hand stops the start before anything is read.
	e2etest.WriteFile(t, other, "positions-import.json", `{"version": 1, "positions": [{}]}`)
	_, stderr, code = e2etest.Command(t, "serve", "-f", specFile, "--data-dir", other,
		"--web.listen-address", "127.0.0.1:0")
	require.Equal(t, cli.ExitFailure, code)
	require.Contains(t, stderr, "source, topic and partition are required")
	_, stderr, code = e2etest.Command(t, "positions", "export", "--data-dir", filepath.Join(dir, "nothing"))
	require.Equal(t, cli.ExitFailure, code)
	require.Contains(t, stderr, "holds no data of an engine")
}
