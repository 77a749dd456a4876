package main

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// buildWithCrashPoints builds the program with the tag that lets an environment variable
// kill it, and with the race detector if the test has it.
func buildWithCrashPoints(t testing.TB) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "sloengine")
	args := []string{"build", "-tags", "nomsgpack,crashpoints", "-o", program}
	if raceDetector {
		args = append(args, "-race")
	}
	out, err := exec.Command("go", append(args, ".")...).CombinedOutput()
	require.NoError(t, err, string(out))
	return program
}

// A binary that is built as it is released ignores the variable of the crash tests. Each
// start passes this place, and the one with the tag dies there.
func TestReleasedBinaryHasNoCrashPoints(t *testing.T) {
	t.Parallel()
	const kill = "SLOENGINE_CRASH=start.before:1"
	dir := t.TempDir()
	specFile := writeFile(t, dir, "spec.yaml", crashSpec)
	p, ok := serveIn(t, dir, specFile, crashSettings, kill)
	require.True(t, ok, p.log.String())
	require.True(t, p.waitReady(t), p.log.String())
	p.stop(t)

	p, ok = startCommand(t, exec.Command(buildWithCrashPoints(t), serveArgs(t, dir, specFile, crashSettings)...), kill)
	require.False(t, ok && p.waitReady(t), "the binary with the tag goes on")
	requireKilled(t, p)
}
