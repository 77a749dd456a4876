package backtest

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/alerts/backtest"
	"github.com/sloengine/sloengine/alerts/incident"
	"github.com/sloengine/sloengine/cmd/sloengine/cli"
	"github.com/sloengine/sloengine/ingest/checkpoint"
	"github.com/sloengine/sloengine/ingest/dedup"
	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/ingest/record"
	"github.com/sloengine/sloengine/internal/testkit/pastlog"
	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/slo/spec"
	"github.com/sloengine/sloengine/web/api"
)

// outages writes two days of an order a second, all of which fail in two spans: at 10:00 of the first day for 20
// minutes, and at 23:00 for five.
func outages(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.start(began)
	at := func(h, m int) time.Time { return began.Add(time.Duration(60*h+m) * time.Minute) }
	for now := began.Add(10 * time.Second); now.Before(at(48, 0)); now = now.Add(10 * time.Second) {
		e := &event.Event{Service: "shop", Type: "order", Time: now.Add(-time.Second), Count: 10}
		if !now.Before(at(10, 0)) && now.Before(at(10, 20)) || !now.Before(at(23, 0)) && now.Before(at(23, 5)) {
			e.Outcome = event.Failure
		}
		e.Set("bank", "b")
		w.Event(e)
		w.Flush(now.Add(-time.Millisecond))
	}
	w.Beat(at(48, 0), record.BeatStop)
	require.NoError(t, w.Save())
	return w
}

var began = time.Date(2026, 11, 2, 0, 0, 0, 0, time.UTC)

// shop is the spec in force.
var shop = func() string {
	text, err := os.ReadFile("../../../alerts/backtest/testdata/shop.yaml")
	if err != nil {
		panic(err)
	}
	return string(text)
}()

// world is the log of an engine.
type world struct {
	*pastlog.Log
	t   *testing.T
	dir string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir()}
	var err error
	w.Log, err = pastlog.New(w.dir)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, w.Close()) })
	return w
}

func (w *world) start(at time.Time) {
	w.t.Helper()
	sp, problems := spec.Load([]spec.File{{Name: "spec.yaml", Data: []byte(shop)}})
	require.NoError(w.t, problems.Err())
	require.NoError(w.t, w.Start(at, sp))
}

func run(t *testing.T, args ...string) (out string, err error) {
	t.Helper()
	return runAsking(t, nil, args...)
}

func runAsking(t *testing.T, ask Ask, args ...string) (out string, err error) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	c := New(cli.Streams{In: strings.NewReader(""), Out: &stdout, Err: &stderr}, ask)
	c.SilenceErrors, c.SilenceUsage = true, true
	c.SetArgs(args)
	err = c.ExecuteContext(t.Context())
	return stdout.String(), err
}

func file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestBeforeAndAfter(t *testing.T) {
	w := outages(t)
	spec := file(t, "new.yaml", strings.Replace(shop, "objective: 99.5", "objective: 60", 1))
	incidents := file(t, "incidents.json", `[{"id":"one","service":"shop","slos":["shop/checkout"],`+
		`"onset":"2026-11-02T10:00:00Z","end":"2026-11-02T10:20:00Z"}]`)
	args := []string{"-f", spec, "--data-dir", w.dir, "--from", began.Add(6 * time.Hour).Format(time.RFC3339), "--to",
		began.Add(48 * time.Hour).Format(time.RFC3339), "--incidents", incidents}
	out, err := run(t, append(args, "-o", "json")...)
	require.NoError(t, err)
	var r backtest.Result
	require.NoError(t, json.Unmarshal([]byte(out), &r))
	require.Equal(t, "shop/checkout", r.Subjects[0].ID)
	before, after := r.Subjects[0].Before, r.Subjects[0].After
	require.Equal(t, []string{"99.5", "60"}, []string{before.Objective, after.Objective})

	require.Equal(t, 1.0, *before.Score.Recall)
	require.GreaterOrEqual(t, before.Score.Pages, 2)
	require.Equal(t, 1, before.Score.Incidents)
	require.Less(t, *before.Score.Precision, 1.0, "the page at 23:00 has no incident")
	require.Positive(t, before.Score.NightPages)
	require.Less(t, *before.Score.Detection, 300.0)
	require.Positive(t, *before.Score.Detection)
	require.Zero(t, after.Score.Pages, "2.5 budgets at most cannot page")
	require.Zero(t, *after.Score.Recall)
	require.Nil(t, after.Score.Precision)

	require.Len(t, before.Days, 2)
	require.InDelta(t, 1-1500.0/172800/0.005, *before.Days[1].Remaining, 0.01, "25 of 2,880 minutes failed")
	require.InDelta(t, 2.0/7, before.Days[1].Coverage, 0.01, "of seven days two are in the log")
	require.Contains(t, strings.Join(r.Notes, "\n"), "The log begins at 2026-11-02T00:00:00Z")
	require.Empty(t, r.Missing)
	require.Equal(t, []backtest.Proposal{
		{Objective: "60", Why: "less than a week was observed"}, {Objective: "80", Why: "less than a week was observed"},
	}, after.Proposals, "two days tell too little of a quarter, and nothing is offered below 80%")

	for format, want := range map[string]string{
		"table": "shop/checkout: error budget left", "markdown": "### shop/checkout: alerts",
		"html": "<h2>shop/checkout</h2>",
	} {
		out, err := run(t, append(args, "-o", format)...)
		require.NoError(t, err)
		require.Contains(t, out, want)
	}
}

// TestRunning: a running engine gets the whole spec, and its answer is printed as any other.
func TestRunning(t *testing.T) {
	incidents := file(t, "incidents.json", `[{"service":"shop","onset":"2026-11-02T10:00:00Z"}]`)
	two := file(t, "two.yaml", strings.ReplaceAll(shop, "service: shop", "service: bank"))
	var asked *api.BacktestRequest
	out, err := runAsking(t, func(_ context.Context, e cli.Engine, q *api.BacktestRequest, show func(float64, string)) (
		*backtest.Result, error) {
		u, err := e.URL()
		require.NoError(t, err)
		require.Equal(t, "http://engine:8080", u.String())
		asked = q
		show(0.5, "replayed")
		return &backtest.Result{Ticks: 7, Notes: []string{"a note"}}, nil
	}, "-f", file(t, "one.yaml", shop), "-f", two, "--running", "http://engine:8080", "--from", "7d", "--zone",
		"Europe/Moscow", "--incidents", incidents)
	require.NoError(t, err)
	require.Contains(t, out, "7 evaluations of each spec.")
	require.Contains(t, out, "a note")
	require.Equal(t, []string{"7d", "Europe/Moscow", "1"}, []string{asked.Last, asked.Zone, asked.Incidents[0].ID})
	sp, problems := spec.Load([]spec.File{{Name: "sent", Data: []byte(asked.Spec)}})
	require.NoError(t, problems.Err())
	require.Len(t, sp.Services, 2)
	require.Len(t, sp.SLOs, 6)
}

// TestIncidentsOfTheEngine: pages are rated against the incidents that the engine has now: those of its checkpoint, by
// their numbers, with what records behind it say. Records before it are not applied again.
func TestIncidentsOfTheEngine(t *testing.T) {
	w := newWorld(t)
	w.start(began)
	at := func(h int) time.Time { return began.Add(time.Duration(h) * time.Hour) }
	engine := incident.NewBook()
	apply := func(when time.Time, logged bool, o incident.Operation) {
		t.Helper()
		payload, err := (&incident.Batch{Operations: []incident.Operation{o}}).Encode()
		require.NoError(t, err)
		require.NoError(t, engine.Apply(when, payload))
		if logged {
			w.Write(record.TypeIncident, when, payload)
		}
	}
	opens := func(key string, when time.Time) incident.Operation {
		return incident.Operation{Kind: incident.OpenByHand, Key: key, Service: "shop", Severity: incident.Critical,
			Title: key, Onset: when, By: "ann"}
	}
	apply(at(1), false, opens("no record of it is retained", at(1)))
	apply(at(7), true, opens("both have it", at(7)))
	w.Beat(at(7).Add(time.Second), record.BeatTick)
	require.NoError(t, w.Save())
	parts := checkpoint.State{Seq: w.NextSeq() - 1, At: at(7).UnixNano()}
	for _, p := range engine.Parts() {
		parts.Parts = append(parts.Parts, checkpoint.Part{Name: p.Name, Changed: true, Data: p.Encode(nil)})
	}
	parts.Parts = append(parts.Parts, checkpoint.Part{Name: "meta", Changed: true, Data: []byte("of the fold")})
	ids := dedup.Options{Bytes: 1 << 20, MaxAge: time.Hour}
	files := checkpoint.New(checkpoint.Options{FS: fsys.OS(), DataDir: w.dir, IDs: ids,
		Logger: slog.New(slog.DiscardHandler), Step: func(string) {}})
	require.NoError(t, os.Mkdir(filepath.Join(w.dir, checkpoint.Dir), 0o700))
	_, err := files.Write(&parts, dedup.New(ids).Capture(parts.Seq, parts.At))
	require.NoError(t, err)
	require.NoError(t, files.Close())

	apply(at(8), true, opens("behind the checkpoint", at(8)))
	apply(at(9), true, incident.Operation{Kind: incident.ResolveIt, ID: "INC-2026-11-0001", By: "ann"})
	w.Beat(at(9).Add(time.Second), record.BeatTick)
	// After the range, but known now.
	apply(at(12), true, incident.Operation{Kind: incident.ResolveIt, ID: "INC-2026-11-0002", By: "ann"})
	w.Beat(at(12).Add(time.Second), record.BeatStop)
	require.NoError(t, w.Save())

	out, err := run(t, "-f", file(t, "new.yaml", shop), "--data-dir", w.dir, "--from", at(6).Format(time.RFC3339), "--to",
		at(10).Format(time.RFC3339), "-o", "json")
	require.NoError(t, err)
	var r backtest.Result
	require.NoError(t, json.Unmarshal([]byte(out), &r))
	require.Empty(t, r.Missing)
	got := map[string][]any{}
	for _, i := range r.Incidents {
		got[i.ID] = []any{i.Onset, i.End}
	}
	first, second := at(9), at(12)
	require.Equal(t, map[string][]any{
		"INC-2026-11-0001": {at(1), &first}, "INC-2026-11-0002": {at(7), &second},
		"INC-2026-11-0003": {at(8), (*time.Time)(nil)},
	}, got)

	require.NoError(t, os.RemoveAll(filepath.Join(w.dir, checkpoint.Dir, "pack-0000000000000001")))
	_, err = run(t, "-f", file(t, "new.yaml", shop), "--data-dir", w.dir, "--from", at(6).Format(time.RFC3339))
	require.ErrorContains(t, err, "(name others with --incidents)")
}

// TestVerify: a log without ticks, and what a check takes.
func TestVerify(t *testing.T) {
	w := outages(t)
	_, err := run(t, "--verify", "--data-dir", w.dir)
	require.ErrorContains(t, err, "has no ticks")
	_, err = run(t, "--verify", "-f", "x.yaml", "--data-dir", w.dir)
	require.ErrorContains(t, err, "takes no -f")

	for i := range 3 {
		now := w.Last.Add(10 * time.Second)
		tick := record.Tick{Time: now.UnixNano(), Folded: w.NextSeq() - 1, States: uint32(i), Started: i == 0}
		w.Write(record.TypeTicks, now.Add(time.Millisecond), tick.Append(nil))
		require.NoError(t, w.Save())
	}
	out, err := run(t, "--verify", "--data-dir", w.dir)
	require.ErrorIs(t, err, cli.ErrFindings)
	require.Contains(t, out, "3 ticks compared, ")
}

func TestBadInput(t *testing.T) {
	w := outages(t)
	good := file(t, "spec.yaml", shop)
	other := file(t, "other.yaml", strings.ReplaceAll(shop, "service: shop", "service: bank"))
	none := file(t, "none.yaml", strings.ReplaceAll(shop, `type="order"`, `type="odrer"`))
	broken := file(t, "incidents.json", `{"id":"one"}`)
	timeless := file(t, "incidents.json", `[{"id":"one"}]`)
	from, to := "2026-11-02T09:00:00Z", "2026-11-02T11:00:00Z"
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-f", good}, "set --data-dir"},
		{[]string{"-f", good, "--data-dir", w.dir, "--running", "http://x"}, "exclude each other"},
		{[]string{"-f", good, "--running", "http://x", "--to", to}, "takes no --to"},
		{[]string{"-f", good, "--running", "http://x", "--verify"}, "takes no"},
		{[]string{"-f", good, "--data-dir", t.TempDir()}, "not the data directory"},
		{[]string{"-f", good, "--data-dir", w.dir, "--from", to, "--to", from}, "is empty"},
		{[]string{"-f", good, "--data-dir", w.dir, "--from", "soon"}, "want an age such as 30d"},
		{[]string{"-f", good, "--data-dir", w.dir, "--zone", "Mars"}, "--zone"},
		{[]string{"-f", good, "--data-dir", w.dir, "--from", "2026-01-02T00:00:00Z", "--to", "2026-01-03T00:00:00Z"},
			"has no record from"},
		{[]string{"-f", good, "--data-dir", w.dir, "--from", "2026-11-05T00:00:00Z", "--to", "2026-11-06T00:00:00Z"},
			"did not run from"},
		{[]string{"-f", good, "--data-dir", w.dir, "--incidents", broken}, "want a JSON array"},
		{[]string{"-f", good, "--data-dir", w.dir, "--incidents", timeless}, "has no onset"},
	} {
		_, err := run(t, c.args...)
		require.ErrorContains(t, err, c.want, "%s", c.args)
	}
	for spec, want := range map[string]string{
		other: "The log has no event of service bank. It has events of: shop.",
		none:  "shop/checkout matched none of the",
	} {
		out, err := run(t, "-f", spec, "--data-dir", w.dir, "--from", from, "--to", to)
		require.NoError(t, err)
		require.Contains(t, out, want)
	}
}
