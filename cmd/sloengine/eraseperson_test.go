package main

import (
	"encoding/json"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestErasePerson: what the engine holds of one person goes, in memory and on disk. Counts, and what is held of others, stay.
func TestErasePerson(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	spec := writeFile(t, dir, "spec.yaml", "version: sloengine/v1\nservice: shop\nslos:\n  - name: checkout\n    objective: 99\n    window: 1d\n    indicator:\n      events: {valid: '{type=\"order\"}', bad: '{outcome=\"failure\"}'}\n")
	p, ok := serveIn(t, dir, spec, "limits:\n  types: [{match: order, limit: 1, window: 1d, on_exceeded: drop}]\ndead_letters: {filter: {always_save: [order]}}\nevaluator: {interval: 100ms}\n")
	require.True(t, ok, p.log.String())
	p.waitReady(t)
	post := func(path, body string, want int) {
		res, err := http.Post(p.base+path, "application/json", strings.NewReader(body))
		require.NoError(t, err)
		defer res.Body.Close()
		answer, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		require.Equal(t, want, res.StatusCode, string(answer))
	}
	send := func(id, customer string) {
		post("/api/v1/events", `{"id":"`+id+`","service":"shop","type":"order","attributes":{"customer":"`+customer+`"}}`, 202)
	}
	send("first", "Zebra-42") // counted, and in no dead letter
	for _, id := range []string{"a", "b", "c"} {
		send("gone-"+id, "Zebra-42")
	}
	send("kept", "Zebra-420")
	post("/api/v1/events", `{"service":"shop","type":"order","color":"x","attributes":{"customer":"Zebra-42"}}`, 422)
	require.Contains(t, string(get(t, p.base+"/api/v1/rejects")), "Zebra-42")
	forget := func(args ...string) (done struct {
		DryRun                        bool `json:"dry_run"`
		DeadLetters                   int  `json:"dead_letters"`
		Unreadable, Incidents, Ranges int
	}) {
		out, errOut, code := sloengine(t, append([]string{"forget", "--url", p.base, "--attribute", "customer=Zebra-42", "-o", "json"}, args...)...)
		require.Zero(t, code, errOut)
		require.NoError(t, json.Unmarshal([]byte(out), &done))
		return done
	}
	post("/api/v1/incidents", `{"title":"customer Zebra-42 cannot pay","by":"Ann"}`, 201)
	post("/api/v1/incidents", `{"title":"Zebra-420 cannot pay","by":"Ann"}`, 201)

	dry := forget("--dry-run")
	require.Equal(t, []int{3, 0, 1}, []int{dry.DeadLetters, dry.Unreadable, dry.Incidents})
	require.Equal(t, 4, strings.Count(string(get(t, p.base+"/api/v1/dlq")), `"customer"`), "a dry run changes nothing")

	done := forget()
	require.False(t, done.DryRun)
	require.Equal(t, []int{3, 0, 1}, []int{done.DeadLetters, done.Unreadable, done.Incidents})
	left := string(get(t, p.base+"/api/v1/dlq"))
	require.Equal(t, 1, strings.Count(left, `"customer"`))
	require.Contains(t, left, "Zebra-420")
	require.NotContains(t, string(get(t, p.base+"/api/v1/rejects")), "Zebra-42")
	incidents := string(get(t, p.base+"/api/v1/incidents"))
	require.Contains(t, incidents, `"title":"(removed)"`)
	require.Contains(t, incidents, "Zebra-420 cannot pay")
	require.Eventually(t, func() bool { return strings.Contains(string(get(t, p.base+"/api/v1/slos")), `"good":1`) }, time.Minute, 50*time.Millisecond)
	files := 0
	require.NoError(t, filepath.WalkDir(filepath.Join(dir, "data", "dead-letters"), func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		files++
		data, err := os.ReadFile(name)
		require.NotContains(t, string(data), `Zebra-42"`, name)
		return err
	}))
	require.Positive(t, files)

	again := forget()
	require.Zero(t, again.DeadLetters+again.Incidents)
	out, errOut, code := sloengine(t, "audit", "--url", p.base, "--action", "erase")
	require.Zero(t, code, errOut)
	require.Contains(t, out, `attribute="customer" dead_letters=3 unreadable=0 samples=1 incidents=1`)
	require.NotContains(t, out, "Zebra", "the audit log does not hold who it was")
	_, errOut, code = sloengine(t, "forget", "--attribute", "customer")
	require.Equal(t, 2, code)
	require.Contains(t, errOut, "want NAME=VALUE")
	_, _, code = sloengine(t, "forget", "shop", "--dry-run")
	require.Equal(t, 2, code)
	p.stop(t)
}
