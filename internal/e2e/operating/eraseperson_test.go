package operating

import (
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/internal/e2e/e2etest"
	"github.com/sloengine/sloengine/internal/testkit"
)

// TestErasePerson: what the engine holds of one person goes, in memory and on disk. Counts, and what is held of others,
// stay.
func TestErasePerson(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	spec := e2etest.WriteFile(t, dir, "spec.yaml",
		"version: sloengine/v1\nservice: shop\nslos:\n  - name: checkout\n    objective: 99\n    window: 1d\n    "+
			"indicator:\n      events: {valid: '{type=\"order\"}', bad: '{outcome=\"failure\"}'}\n")
	p := e2etest.Serve(t, dir, spec,
		"limits:\n  types: [{match: order, limit: 1, window: 1d, on_exceeded: drop}]\ndead_letters: {filter: {always_save: "+
			"[order]}}\nevaluator: {interval: 100ms}\ncheckpoint: {interval: 100ms}\nlog: {retain: 1d}\n")
	post := func(path, body string, want int) {
		res, err := http.Post(p.Base+path, "application/json", strings.NewReader(body))
		require.NoError(t, err)
		defer res.Body.Close()
		answer, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		require.Equal(t, want, res.StatusCode, string(answer))
	}
	send := func(id, customer string) {
		post(
			"/api/v1/events", `{"id":"`+id+`","service":"shop","type":"order","attributes":{"customer":"`+customer+`"}}`, 202)
	}
	send("first", "Zebra-42") // counted, and in no dead letter
	for _, id := range []string{"a", "b", "c"} {
		send("gone-"+id, "Zebra-42")
	}
	send("kept", "Zebra-420")
	post("/api/v1/events", `{"service":"shop","type":"order","color":"x","attributes":{"customer":"Zebra-42"}}`, 422)
	require.Contains(t, string(e2etest.Get(t, p.Base+"/api/v1/rejects")), "Zebra-42")
	forget := func(args ...string) (done struct {
		DryRun                        bool `json:"dry_run"`
		DeadLetters                   int  `json:"dead_letters"`
		Unreadable, Incidents, Ranges int
	}) {
		out, errOut, code := e2etest.Command(
			t, append([]string{"forget", "--url", p.Base, "--attribute", "customer=Zebra-42", "-o", "json"}, args...)...)
		require.Zero(t, code, errOut)
		require.NoError(t, json.Unmarshal([]byte(out), &done))
		return done
	}
	post("/api/v1/incidents", `{"title":"customer Zebra-42 cannot pay","by":"Ann"}`, 201)
	post("/api/v1/incidents", `{"title":"Zebra-420 cannot pay","by":"Ann"}`, 201)

	dry := forget("--dry-run")
	require.Equal(t, []int{3, 0, 1}, []int{dry.DeadLetters, dry.Unreadable, dry.Incidents})
	require.Equal(t, 4, strings.Count(string(e2etest.Get(t, p.Base+"/api/v1/dlq")), `"customer"`),
		"a dry run changes nothing")

	done := forget()
	require.False(t, done.DryRun)
	require.Equal(t, []int{3, 0, 1}, []int{done.DeadLetters, done.Unreadable, done.Incidents})
	left := string(e2etest.Get(t, p.Base+"/api/v1/dlq"))
	require.Equal(t, 1, strings.Count(left, `"customer"`))
	require.Contains(t, left, "Zebra-420")
	require.NotContains(t, string(e2etest.Get(t, p.Base+"/api/v1/rejects")), "Zebra-42")
	incidents := string(e2etest.Get(t, p.Base+"/api/v1/incidents"))
	require.Contains(t, incidents, `"title":"(removed)"`)
	require.Contains(t, incidents, "Zebra-420 cannot pay")
	require.Eventually(t, func() bool {
		return strings.Contains(string(e2etest.Get(t, p.Base+"/api/v1/slos")), `"good":1`)
	}, testkit.Patience, 50*time.Millisecond)
	files := 0
	require.NoError(
		t, filepath.WalkDir(filepath.Join(dir, "data", "dead-letters"), func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			files++
			data, err := os.ReadFile(name)
			require.NotContains(t, string(data), `Zebra-42"`, name)
			return err
		}))
	require.Positive(t, files)

	// What is still in the log is erased on its way to the history.
	out, errOut, code := e2etest.Command(t, "forget", "--url", p.Base, "--attribute", "customer=Zebra-42", "--dry-run")
	require.Zero(t, code, errOut)
	require.Regexp(t, `would search \d+ files? of history, and `, out)
	require.Contains(t, out, "sinks, brokers, backups and exports may hold the value")
	require.Eventually(t, func() bool {
		send("later", "Yak-7")
		out, errOut, code = e2etest.Command(t, "export", "--data-dir", filepath.Join(dir, "data"))
		require.Zero(t, code, errOut)
		require.Equal(t, 1, strings.Count(out, `"customer":"Zebra-42"`)+strings.Count(out, `"customer":"erased-`))
		return !strings.Contains(out, "Zebra-42\"")
	}, testkit.Patience, 100*time.Millisecond, p.Log)

	again := forget()
	require.Zero(t, again.DeadLetters+again.Incidents)
	out, errOut, code = e2etest.Command(t, "audit", "--url", p.Base, "--action", "erase")
	require.Zero(t, code, errOut)
	require.Contains(t, out, `attribute="customer" dead_letters=3 unreadable=0 samples=1 incidents=1 in_flight=0`)
	require.NotContains(t, out, "Zebra", "the audit log does not hold who it was")
	_, errOut, code = e2etest.Command(t, "forget", "--attribute", "customer")
	require.Equal(t, 2, code)
	require.Contains(t, errOut, "want NAME=VALUE")
	_, _, code = e2etest.Command(t, "forget", "shop", "--dry-run")
	require.Equal(t, 2, code)
	p.Stop(t)
}

// TestEraseKeysOfWorkInFlight: a key can no longer be read, at once, after a crash before the next checkpoint, and in
// the checkpoints that follow. The work ends as it would have, and keys of others stay.
func TestEraseKeysOfWorkInFlight(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	spec := e2etest.WriteFile(t, dir, "spec.yaml", completionSpec)
	const gone, stays = "Zebra-42-has-a-key-that-is-longer-than-what-is-shown", "Yak-7"
	serve := func(checkpoints string) *e2etest.Process {
		return e2etest.Serve(t, dir, spec, "checkpoint: {interval: "+checkpoints+"}\nevaluator: {interval: 100ms}\n")
	}
	p := serve("1h")
	send := func(typ, key string) {
		status, answer := e2etest.Post(t, p.Base+"/api/v1/events", "",
			fmt.Sprintf(`{"id":"%s-%s","service":"shop","type":%q,"attributes":{"order_id":%q,"product":"A"}}`,
				typ, key, typ, key))
		require.Equal(t, http.StatusAccepted, status, answer)
	}
	shown := func(want, never string) {
		t.Helper()
		require.Eventually(t, func() bool {
			text := string(e2etest.Get(t, p.Base+"/api/v1/slos/shop/orders?group.product=A"))
			return strings.Contains(text, want) && strings.Contains(text, stays) && !strings.Contains(text, never)
		}, testkit.Patience, 50*time.Millisecond, p.Log)
	}
	// held reports whether a checkpoint holds a text.
	held := func(text string) bool {
		names, err := filepath.Glob(filepath.Join(dir, "data", "checkpoints", "*"))
		require.NoError(t, err)
		for _, name := range names {
			if data, err := os.ReadFile(name); err == nil && strings.Contains(string(data), text) { // it may have been deleted
				return true
			}
		}
		return false
	}
	send("created", gone)
	send("created", stays)
	shown(gone[:31], "(removed)")
	p.Stop(t) // writes a checkpoint with both
	require.True(t, held("Zebra-42"))

	p = serve("1h")
	erase := func(args ...string) (string, string) {
		out, errOut, code := e2etest.Command(
			t, append([]string{"forget", "--url", p.Base, "--attribute", "order_id=" + gone}, args...)...)
		require.Zero(t, code, errOut)
		return out, string(e2etest.Get(t, p.Base+"/api/v1/slos/shop/orders?group.product=A"))
	}
	out, after := erase("--dry-run")
	require.Contains(t, out, "and 1 key of work in flight")
	require.Contains(t, after, "Zebra-42")
	refused, errOut, code := e2etest.Command(t, "forget", "--url", p.Base, "--attribute", "product=A")
	require.Zero(t, code, errOut)
	require.Contains(t, refused, "because counts would differ: shop/orders groups by it")
	out, _ = erase()
	require.Contains(t, out, "and 1 key of work in flight")
	shown("(removed)", "Zebra-42")
	p.Kill() // only the log knows of it

	p = serve("50ms")
	shown("(removed)", "Zebra-42")
	require.Eventually(t, func() bool { // two checkpoints are retained
		send("created", fmt.Sprint("other-", time.Now().UnixNano()))
		return !held("Zebra-42")
	}, testkit.Patience, 50*time.Millisecond, p.Log)
	require.True(t, held(stays))
	out, _ = erase()
	require.Contains(t, out, "and 0 keys of work in flight")
	require.NotContains(t, string(e2etest.Get(t, p.Base+"/api/v1/slos/shop/orders?group.product=A")), `"good":1`)
	send("shipped", gone)
	require.Eventually(t, func() bool {
		return strings.Contains(string(e2etest.Get(t, p.Base+"/api/v1/slos/shop/orders?group.product=A")), `"good":1`)
	}, testkit.Patience, 50*time.Millisecond, p.Log)
	p.Stop(t)
}

// TestRedactRetained: rules of redact reach events that are retained already, by a command, and only attributes by
// which nothing is counted.
func TestRedactRetained(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	spec := e2etest.WriteFile(t, dir, "spec.yaml", completionSpec)
	const settings = "checkpoint: {interval: 100ms}\nlog: {retain: 1d}\n"
	p := e2etest.Serve(t, dir, spec, settings)
	send := func(p *e2etest.Process, id string) {
		status, answer := e2etest.Post(t, p.Base+"/api/v1/events", "", `{"id":"`+id+
			`","service":"shop","type":"created","attributes":{"order_id":"`+id+`","product":"A","email":"jane@example.org"}}`)
		require.Equal(t, http.StatusAccepted, status, answer)
	}
	send(p, "one")
	redact := func(p *e2etest.Process) string {
		out, errOut, code := e2etest.Command(t, "redact", "--url", p.Base, "--retained")
		require.Zero(t, code, errOut)
		return out
	}
	require.Contains(t, redact(p), "engine.yaml has no rules of redact")
	p.Stop(t)
	p = e2etest.Serve(t, dir, spec, settings+"redact: [{attributes: [pro*], action: remove}]\n")
	require.Contains(t, redact(p), "a rule of redact is about product, by which the spec counts")
	p.Stop(t)
	p = e2etest.Serve(t, dir, spec, settings+"redact: [{attributes: [email], action: mask}]\n")
	require.Contains(t, redact(p), "repeat the command to see how far it is")
	require.Eventually(t, func() bool {
		send(p, fmt.Sprint("other-", time.Now().UnixNano()))
		out, errOut, code := e2etest.Command(t, "export", "--data-dir", filepath.Join(dir, "data"))
		require.Zero(t, code, errOut)
		require.Contains(t, out, `"id":"one"`)
		return !strings.Contains(out, "jane")
	}, testkit.Patience, 100*time.Millisecond, p.Log)
	_, errOut, code := e2etest.Command(t, "redact", "--url", p.Base)
	require.Equal(t, 2, code)
	require.Contains(t, errOut, "--retained")
	p.Stop(t)
}
