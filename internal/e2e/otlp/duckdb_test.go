package otlp

import (
	"encoding/json"
	"fmt"
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

// DuckDB counts the same in an export as the engine, by service, day, outcome and attribute, its durations, and what
// counts for an SLO.
func TestDuckDB(t *testing.T) {
	t.Parallel()
	python := filepath.Join(fetched(t, "python", "python/requirements.txt"), "bin/python")
	dir := t.TempDir()
	e := e2etest.Serve(t, dir, e2etest.WriteFile(t, dir, "spec.yaml", e2etest.CrashSpec+`---
version: sloengine/v1
service: shop
slos: [{name: up, objective: 99, window: 1d, indicator: {events: {valid: '{type="sold"}', bad: '{outcome="failure"}'}}}]
`), "log: {retain: 2d}\ndisk: {low_water: 1MiB}\n")
	type cell struct {
		Service, Day, Outcome, Bank string
		N                           int
		Millis                      float64
	}
	want := map[string]cell{}
	now := time.Now().UTC()
	for i := range 20 {
		var body strings.Builder
		for n := range 500 {
			c := cell{Service: []string{"shop", "crash"}[n%2], Outcome: []string{"success", "failure"}[(n+i)/2%2],
				Bank: []string{"", `O'Hara "&" Söhne`, "b"}[n%3]}
			at := now.Add(-time.Duration(n*i) * time.Second)
			c.Day = at.Format(time.DateOnly)
			attribute := ""
			if c.Bank != "" {
				bank, err := json.Marshal(c.Bank)
				require.NoError(t, err)
				attribute = fmt.Sprintf(`,"attributes":{"bank":%s}`, bank)
			}
			fmt.Fprintf(&body, `{"service":%q,"type":%q,"id":"%d.%d","time":%q,"outcome":%q,"count":%d,"durations":[[2.5,`+
				`%d]]%s}`+
				"\n", c.Service, map[string]string{"shop": "sold", "crash": "t"}[c.Service], i, n,
				at.Format(time.RFC3339Nano), c.Outcome, 1+n%4, 1+n%4, attribute)
			key := fmt.Sprint(c)
			c.N, c.Millis = want[key].N+1+n%4, want[key].Millis+2.5*float64(1+n%4)
			want[key] = c
		}
		status, answer := e2etest.Post(t, e.Base+"/api/v1/events", "", body.String())
		require.Equal(t, http.StatusAccepted, status, answer)
	}
	out := filepath.Join(dir, "events")
	export := func(args ...string) (string, int) {
		stdout, stderr, code := e2etest.Command(t, append([]string{"export", "--format", "parquet", "--data-dir",
			filepath.Join(dir, "data"), "--out", out}, args...)...)
		require.Empty(t, stdout)
		return stderr, code
	}
	message, code := export()
	require.Zero(t, code, message)
	require.Contains(t, message, "10000 events in ")
	query := func(script string, args ...string) []byte {
		duck := exec.CommandContext(t.Context(), python,
			append([]string{"-c", "import duckdb, json, sys" + script}, args...)...)
		var problem strings.Builder
		duck.Stderr = &problem
		text, err := duck.Output()
		require.NoError(t, err, problem.String())
		return text
	}
	text := query(`
rows = duckdb.sql("""SELECT service, day, outcome, coalesce(attributes['bank'], '') bank, `+
		`sum("count" * weight)::BIGINT n,
  sum(list_sum(list_transform(durations, lambda d: d."count" * d.duration_ns / 1e6))) millis,
  count(DISTINCT ("record", "index")) = count(*) AND count(good) = 0 AND count(bad) = 0
  FROM read_parquet('%s/**/*.parquet' , hive_partitioning = true) GROUP BY ALL""" % sys.argv[1]).fetchall()
print(json.dumps([{"Service": r[0], "Day": str(r[1]), "Outcome": r[2], "Bank": r[3], "N": r[4],
 "Millis": r[5]} for r in rows
  if r[6]]))`, out)
	var rows []cell
	require.NoError(t, json.Unmarshal(text, &rows))
	got := map[string]cell{}
	for _, c := range rows {
		key := c
		key.N, key.Millis = 0, 0
		got[fmt.Sprint(key)] = c
	}
	require.Equal(t, want, got)

	all := out
	out = filepath.Join(dir, "counted")
	message, code = export("--slo", "shop/up")
	require.Zero(t, code, message)
	var counted struct{ Good, Bad, Others int }
	require.NoError(t, json.Unmarshal(query(`
row = duckdb.sql("""SELECT sum(good)::BIGINT, sum(bad)::BIGINT, count(*) FILTER (type <> 'sold' OR good + bad <> `+
		`"count" * weight)
  FROM read_parquet('%s/**/*.parquet')""" % sys.argv[1]).fetchall()[0]
print(json.dumps({"Good": row[0], "Bad": row[1], "Others": row[2]}))`, out), &counted))
	require.Zero(t, counted.Others)
	testkit.Eventually(t, "the engine counts as the export", func() bool {
		return strings.Contains(string(e2etest.Get(t, e.Base+"/api/v1/slos")),
			fmt.Sprintf(`"counts":{"good":%d,"bad":%d`, counted.Good, counted.Bad))
	})
	message, code = export("--slo", "shop/up", "--service", "crash")
	require.Equal(t, 2, code)
	require.Contains(t, message, "are of service shop")
	message, code = export("--slo", "shop/down")
	require.Equal(t, 1, code)
	require.Contains(t, message, "no such SLO in the last spec of the log: shop/down")
	out = all
	message, code = export()
	require.Equal(t, 1, code)
	require.Contains(t, message, "is not empty: give another folder, or remove it")
	out = filepath.Join(dir, "second")
	require.NoError(t, os.Mkdir(out+".partial", 0o700))
	message, code = export()
	require.Equal(t, 1, code)
	require.Contains(t, message, "second.partial is of an export that did not end: remove it")
	require.NoError(t, os.Remove(out+".partial"))
	message, code = export("--service", "shop", "--from", now.Add(time.Hour).Format(time.RFC3339))
	require.Zero(t, code, message)
	require.Contains(t, message, "0 events in 0 files")
	message, code = export("--format", "csv")
	require.Equal(t, 2, code)
	require.Contains(t, message, "--format csv: want ndjson or parquet")
	e.Stop(t)
}
