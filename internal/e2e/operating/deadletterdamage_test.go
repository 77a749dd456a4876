package operating

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/internal/e2e/e2etest"
	"github.com/sloengine/sloengine/internal/testkit"
)

// One flipped byte in the last batch of dead letters costs one of them, and everybody is
// told: log, readiness, page, metrics, `dlq stats`.
func TestDamagedDeadLettersAreTold(t *testing.T) {
	t.Parallel()
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
	}))
	defer hook.Close()
	dir := t.TempDir()
	spec := e2etest.WriteFile(t, dir, "spec.yaml", troubleSpec)
	settings := troublePolicies + "sinks: [{name: hook, http: {url: \"" + hook.URL +
		"\"}, batch: {items: 2000, wait: 1s}}]\n"
	p := e2etest.Serve(t, dir, spec, settings)
	sendOrders(t, p, "e", 2000)
	require.Eventually(t, func() bool {
		return e2etest.Counter(t, p, "sloengine_dlq_entries") == 2000
	}, testkit.Patience, 50*time.Millisecond)
	p.Stop(t)

	segments, err := filepath.Glob(filepath.Join(dir, "data", "*", "*", "*.ndjson"))
	require.NoError(t, err)
	require.Len(t, segments, 1)
	data, err := os.ReadFile(segments[0])
	require.NoError(t, err)
	data[2000] ^= 1 // in one of the first entries of the only batch
	require.NoError(t, os.WriteFile(segments[0], data, 0o600))

	p = e2etest.Serve(t, dir, spec, settings)
	require.EqualValues(t, 1999, e2etest.Counter(t, p, "sloengine_dlq_entries"))
	require.EqualValues(t, 1, e2etest.Counter(t, p, "sloengine_dlq_damaged_entries_total"))
	require.Positive(t, e2etest.Counter(t, p, "sloengine_dlq_damaged_bytes_total"))
	line := p.LinesWith("dead letters damaged")
	require.Len(t, line, 1)
	require.Contains(t, line[0], filepath.Base(segments[0]))
	require.Contains(t, line[0], "lost_at_most=1")
	require.Contains(t, degraded(t, p, "dead_letters"), "at most 1 dead letter lost")
	require.Contains(t, string(e2etest.Get(t, p.Base+"/engine")), "at most 1 dead letter lost")
	var stats struct {
		Count, Damaged int
		Lost           struct{ Entries, Bytes int }
		Newest         time.Time
	}
	require.NoError(t, json.Unmarshal(e2etest.Get(t, p.Base+"/api/v1/dlq/stats"), &stats))
	require.Equal(t, 1999, stats.Count)
	require.Equal(t, 1, stats.Lost.Entries)
	require.False(t, stats.Newest.IsZero())
	kept, err := os.ReadFile(segments[0])
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(string(kept), string(data)), "nothing is cut off")
	p.Stop(t)
}
