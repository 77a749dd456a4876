package faults

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/cmd/sloengine/cli"
	"github.com/sloengine/sloengine/ingest/engine"
	"github.com/sloengine/sloengine/internal/e2e/e2etest"
	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/reliability/backup"
)

// taken is a backup, and what was acknowledged before it began.
type taken struct {
	dir   string
	acked []string
}

// TestBackupUnderLoad backs up an engine that counts, makes a checkpoint every 60 ms and deletes log
// all the time, and kills it during the last backups. Each backup that succeeded holds every id that
// was acknowledged before it began, once, and nothing that was never sent. Sent again, every id counts
// exactly once.
func TestBackupUnderLoad(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	o := &e2etest.Oracle{Rnd: rand.New(rand.NewPCG(seed, 3)), Acked: map[string]bool{}}
	client := &http.Client{Timeout: 10 * time.Second}
	dir := t.TempDir()
	specFile := e2etest.WriteFile(t, dir, "spec.yaml", e2etest.CrashSpec)
	var good []taken
	broken := 0
	for cycle := range 4 {
		p := e2etest.Serve(t, dir, specFile, e2etest.CrashSettings)
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() { o.Load(p, client) })
		}
		testkit.Pause(time.Duration(50+o.Random(150)) * time.Millisecond)
		for n := range 2 {
			o.Mu.Lock()
			acked := slices.Collect(maps.Keys(o.Acked))
			o.Mu.Unlock()
			b := taken{filepath.Join(dir, fmt.Sprintf("backup-%d-%d", cycle, n)), acked}
			if cycle > 0 && n > 0 { // killed meanwhile
				delay := time.Duration(o.Random(6000)) * time.Microsecond
				time.AfterFunc(delay, p.Kill)
			}
			_, stderr, code := e2etest.Command(t, "backup", "--url", p.Base, "--out", b.dir)
			if code == 0 {
				good = append(good, b)
				continue
			}
			require.NotZero(t, n, stderr)
			broken++
			require.NoFileExists(t, filepath.Join(b.dir, backup.ManifestName))
			_, _, code = e2etest.Command(t, "restore", "--from", b.dir, "--data-dir", b.dir+"-restored")
			require.NotZero(t, code)
			require.NoDirExists(t, b.dir+"-restored")
		}
		p.Kill()
		e2etest.RequireKilled(t, p)
		wg.Wait()
	}
	t.Logf("%d backups, %d broken off by a kill, %d ids acknowledged", len(good), broken, len(o.Acked))
	sent := maps.Clone(o.Acked)
	for _, id := range o.Unknown {
		sent[id] = true
	}
	for _, b := range []taken{good[0], good[len(good)-1]} {
		restored := t.TempDir()
		_, stderr, code := e2etest.Command(t, "restore", "--from", b.dir, "--data-dir", filepath.Join(restored, "data"))
		require.Zero(t, code, stderr)
		p := e2etest.Serve(t, restored, specFile, e2etest.CrashSettings)
		counts := e2etest.CountsByID(t, p)
		for _, id := range b.acked {
			if counts[id] != 1 {
				t.Fatalf("%s was acknowledged before the backup began, and is counted %v times", id, counts[id])
			}
		}
		e2etest.CountedOnce(t, counts, sent)
		ids := slices.Sorted(maps.Keys(sent))
		for part := range slices.Chunk(ids, 5000) {
			var body strings.Builder
			for _, id := range part {
				fmt.Fprintf(&body, `{"id":%q,"service":"crash","type":"t","attributes":{"uid":%q}}`+"\n", id, id)
			}
			status, answer := e2etest.Post(t, p.Base+"/api/v1/events", "", body.String())
			require.Equal(t, http.StatusAccepted, status, answer)
		}
		require.Eventually(t, func() bool {
			return len(e2etest.CountsByID(t, p)) == len(ids)
		}, testkit.Patience, 100*time.Millisecond)
		e2etest.CountedOnce(t, e2etest.CountsByID(t, p), sent)
		p.Stop(t)
	}
}

// TestBackupHoldsEverything backs up and restores the frozen folder, which has every kind of file.
func TestBackupHoldsEverything(t *testing.T) {
	t.Parallel()
	from, dir, data, p := serveFrozen(t)
	tar := filepath.Join(dir, "backup.tar")
	out, err := os.Create(tar)
	require.NoError(t, err)
	var errs bytes.Buffer
	require.Zero(
		t, e2etest.Run(t.Context(), []string{"backup", "--url", p.Base, "--out", "-"}, nil, out, &errs), errs.String())
	require.NoError(t, out.Close())
	p.Stop(t)
	restored := filepath.Join(dir, "restored")
	_, stderr, code := e2etest.Command(t, "restore", "--from", tar, "--data-dir", restored)
	require.Zero(t, code, stderr)

	before, after := &frozenFacts{DeadLetters: map[string]frozenDeadLetter{}},
		&frozenFacts{DeadLetters: map[string]frozenDeadLetter{}}
	before.readDeadLetters(t, data)
	after.readDeadLetters(t, restored)
	require.NotEmpty(t, after.DeadLetters)
	require.Equal(t, before.DeadLetters, after.DeadLetters)
	before.readAlerts(t, data)
	after.readAlerts(t, restored)
	require.NotEmpty(t, after.Firing)
	require.Equal(t, before.Firing, after.Firing)
	for _, name := range []string{"sinks/hook.cursor", "sinks/slow.cursor", engine.InstanceFile, "FORMAT"} {
		want, err := os.ReadFile(filepath.Join(data, name))
		require.NoError(t, err)
		got, err := os.ReadFile(filepath.Join(restored, name))
		require.NoError(t, err)
		require.Equal(t, string(want), string(got), name)
	}
	now := time.Now()
	before.readCounts(t, data, filepath.Join(from, "spec.yaml"), now)
	after.readCounts(t, restored, filepath.Join(from, "spec.yaml"), now)
	require.Equal(t, before.Counts, after.Counts)
	require.Equal(t, before.Violations, after.Violations)
	require.Equal(t, before.Parked, after.Parked)
	require.Equal(t, before.IDs, after.IDs)
	require.NotEmpty(t, after.Counts)
}

// A backup holds everything, so it takes the permission operate, and one runs at a time.
func TestBackupIsAuthorised(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	specFile := e2etest.WriteFile(t, dir, "spec.yaml", e2etest.CrashSpec)
	tokens := ""
	for _, permission := range []string{"read", "operate"} {
		sum := sha256.Sum256([]byte(secretOf(permission)))
		tokens += fmt.Sprintf("- {name: %s, sha256: %x, services: ['*'], allow: [%[1]s]}\n", permission, sum)
	}
	e2etest.WriteFile(t, dir, "tokens.yaml", tokens)
	p := e2etest.Serve(t, dir, specFile, e2etest.CrashSettings+"auth: {tokens_file: tokens.yaml}\n")
	for token, want := range map[string]string{"": "401", "read": "403", "operate": ""} {
		out := filepath.Join(dir, "backup-"+token)
		args := []string{"backup", "--url", p.Base, "--out", out}
		if token != "" {
			args = append(args, "--token-file", e2etest.WriteFile(t, dir, "token", secretOf(token)))
		}
		_, stderr, code := e2etest.Command(t, args...)
		if want == "" {
			require.Zero(t, code, stderr)
			continue
		}
		require.Equal(t, cli.ExitFailure, code)
		require.Contains(t, stderr, want)
		require.NoDirExists(t, out)
	}
	testkit.Eventually(t, "the log names the backup", func() bool { return len(p.LinesWith("action=backup")) > 0 })
	p.Stop(t)
}

func secretOf(permission string) string { return "secret-of-the-tests-that-may-" + permission }
