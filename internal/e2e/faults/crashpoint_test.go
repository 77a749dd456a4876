package faults

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/internal/e2e/e2etest"
)

// A binary that is built as it is released ignores the variable of the crash tests. Each
// start passes this place, and the one with the tag dies there.
func TestReleasedBinaryHasNoCrashPoints(t *testing.T) {
	t.Parallel()
	const kill = "SLOENGINE_CRASH=start.before:1"
	dir := t.TempDir()
	specFile := e2etest.WriteFile(t, dir, "spec.yaml", e2etest.CrashSpec)
	p := e2etest.Serve(t, dir, specFile, e2etest.CrashSettings, kill)
	p.Stop(t)

	p, ok := e2etest.StartCommand(
		t, exec.Command(e2etest.Program("crashpoints"), e2etest.ServeArgs(t, dir, specFile, e2etest.CrashSettings)...), kill)
	require.False(t, ok && p.WaitReady(t), "the binary with the tag goes on")
	e2etest.RequireKilled(t, p)
}
