package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestBuildSaysHowFarItIs: scripts/build counts what is compiled, is silent if everything is cached, and fails as the
// compiler does.
func TestBuildSaysHowFarItIs(t *testing.T) {
	t.Parallel()
	run := func(compiler string) (out, messages string, err error) {
		fake := filepath.Join(t.TempDir(), "go")
		require.NoError(t, os.WriteFile(fake,
			[]byte("#!/bin/sh\nif [ $1 = list ]; then echo a; echo b; echo c; exit; fi\n"+compiler), 0o755))
		var stdout, stderr bytes.Buffer
		c := exec.Command("../../scripts/build", "-o", "bin/x", "./cmd/x")
		c.Env, c.Stdout, c.Stderr = append(os.Environ(), "GO="+fake), &stdout, &stderr
		err = c.Run()
		return stdout.String(), stderr.String(), err
	}
	out, _, err := run("echo a >&2; echo b >&2\n")
	require.NoError(t, err)
	require.Regexp(t, `^compiling sloengine: 3 packages at most, .*\n(  .*\n)*compiled 2 packages in \d+s\n$`, out)

	out, messages, err := run("")
	require.NoError(t, err)
	require.Empty(t, out+messages, "everything is cached")

	_, messages, err = run("echo a >&2; echo 'x.go:1:2: undefined: y' >&2; exit 1\n")
	require.Error(t, err)
	require.Equal(t, "x.go:1:2: undefined: y\n", messages)
}
