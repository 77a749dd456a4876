package otlp

import (
	"encoding/json"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/internal/e2e/e2etest"
	"github.com/sloengine/sloengine/internal/testkit"
)

// TestParquetSink: an engine that is killed again and again, and whose folder vanishes for a while, writes each event
// into one file, and DuckDB reads the same rows of them as of an export.
func TestParquetSink(t *testing.T) {
	t.Parallel()
	python := filepath.Join(fetched(t, "python", "python/requirements.txt"), "bin/python")
	dir := t.TempDir()
	lake, away := filepath.Join(dir, "lake"), filepath.Join(dir, "away")
	specFile := e2etest.WriteFile(t, dir, "spec.yaml", e2etest.CrashSpec)
	settings := e2etest.CrashSettings + "sinks: [{name: lake, parquet: {dir: " + lake +
		", roll: 1s}, batch: {items: 20}}]\n"
	settings = strings.Replace(settings, "log: {", "log: {retain: 2d, ", 1)
	oracle := &e2etest.Oracle{Rnd: rand.New(rand.NewPCG(29, 1)), Acked: map[string]bool{}}
	client := &http.Client{Timeout: 10 * time.Second}
	const kills = 4
	saves := func() (n int) {
		data, err := os.ReadFile(filepath.Join(lake, ".sloengine.json"))
		if err != nil {
			return 0
		}
		var state struct{ Save int }
		require.NoError(t, json.Unmarshal(data, &state))
		return state.Save
	}
	for range kills {
		p := e2etest.Serve(t, dir, specFile, settings)
		before := saves()
		done := make(chan struct{})
		go func() { defer close(done); oracle.LoadPaced(p, client) }()
		testkit.Eventually(t, "files are written", func() bool { return saves() > before })
		// The kill hits any step of the next files.
		time.AfterFunc(time.Duration(oracle.Random(1200))*time.Millisecond, p.Kill)
		<-done
		e2etest.RequireKilled(t, p)
	}

	p := e2etest.Serve(t, dir, specFile, settings)
	send := func(id string) {
		status, answer := e2etest.Post(t, p.Base+"/api/v1/events", "",
			`{"id":"`+id+`","service":"crash","type":"t","attributes":{"uid":"`+id+`"}}`)
		require.Equal(t, http.StatusAccepted, status, answer)
		oracle.Acked[id] = true
	}
	before := saves()
	send("early")
	testkit.Eventually(t, "the sink is open", func() bool { return saves() > before })
	require.NoError(t, os.Rename(lake, away))
	testkit.Eventually(t, "readiness names the sink", func() bool {
		return strings.Contains(string(e2etest.Get(t, p.Base+"/-/ready")), "degraded") && len(p.LinesWith("sink failing")) > 0
	})
	require.Contains(t, p.LinesWith("sink failing")[0], "is missing (create or mount it")
	send("late")
	testkit.Eventually(t, "a metric counts it", func() bool {
		return e2etest.Counter(t, p, "sloengine_sink_flush_errors_total") > 0
	})
	require.NoError(t, os.Rename(away, lake))
	testkit.Eventually(t, "the log says that it works", func() bool { return len(p.LinesWith("sink recovered")) > 0 })
	require.Len(t, p.LinesWith("sink failing"), 1)
	testkit.Eventually(t, "the sink has everything", func() bool {
		return e2etest.Counter(t, p, "sloengine_sink_lag_records") == 0
	})
	p.Stop(t)

	require.NoError(t, filepath.WalkDir(lake, func(name string, d fs.DirEntry, err error) error {
		require.NotContains(t, name, ".tmp")
		require.NotContains(t, name, ".staged/")
		return err
	}))
	export := filepath.Join(dir, "export")
	_, stderr, code := e2etest.Command(t, "export", "--format", "parquet", "--data-dir", filepath.Join(dir, "data"),
		"--out", export)
	require.Zero(t, code, stderr)
	duck := exec.CommandContext(t.Context(), python, "-c", `
import duckdb, json, sys
lake, export = ("read_parquet('%s/**/*.parquet', hive_partitioning = true)" % d for d in sys.argv[1:])
one = lambda q: duckdb.sql(q).fetchall()[0][0]
print(json.dumps({
  "Rows": one("SELECT count(*) FROM " + lake), "Files": one("SELECT count(*) FROM glob('%s/**/*.parquet')" % `+
		`sys.argv[1]),
  "Places": one("SELECT count(DISTINCT (record, index)) FROM " + lake),
  "Columns": one("SELECT (SELECT list((column_name, column_type)) FROM (DESCRIBE FROM %s)) = (SELECT `+
		`list((column_name, column_type)) FROM (DESCRIBE FROM %s))" % (lake, export)),
  "More": one("SELECT count(*) FROM (FROM %s EXCEPT FROM %s)" % (lake, export)),
  "Less": one("SELECT count(*) FROM (FROM %s EXCEPT FROM %s)" % (export, lake)),
  "IDs": [r[0] for r in duckdb.sql("SELECT id FROM " + lake).fetchall()]}))`, lake, export)
	var problem strings.Builder
	duck.Stderr = &problem
	text, err := duck.Output()
	require.NoError(t, err, problem.String())
	var got struct {
		Rows, Files, Places, More, Less int
		Columns                         bool
		IDs                             []string
	}
	require.NoError(t, json.Unmarshal(text, &got))
	ids := map[string]bool{}
	for _, id := range got.IDs {
		require.False(t, ids[id], id)
		ids[id] = true
	}
	for id := range oracle.Acked {
		require.True(t, ids[id], id)
	}
	require.True(t, got.Columns)
	require.Equal(t, []int{got.Rows, 0, 0}, []int{got.Places, got.More, got.Less})
	t.Logf("%d kills: %d events, each once, in %d files", kills, got.Rows, got.Files)
}
