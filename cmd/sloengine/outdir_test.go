package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWriteOut(t *testing.T) {
	dir := t.TempDir()
	var log bytes.Buffer
	write := func(prune bool, files ...outFile) string {
		t.Helper()
		log.Reset()
		require.NoError(t, writeAll(dir, files, []string{"rules"}, prune, &log))
		return log.String()
	}
	a, b := outFile{"rules/a.yaml", []byte("a")}, outFile{"rules/b.yaml", []byte("b")}
	exists := func(name string) bool { _, err := os.Stat(filepath.Join(dir, name)); return err == nil }

	require.Contains(t, write(false, a, b), "2 files written, 0 unchanged")
	require.Contains(t, write(false, a, b), "0 files written, 2 unchanged")

	require.Contains(t, write(false, a), "stale: ", "named, not removed")
	require.True(t, exists("rules/b.yaml"))
	require.Contains(t, write(true, a), "1 removed")
	require.False(t, exists("rules/b.yaml"))

	// What somebody changed is kept.
	write(false, a, b)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "rules/b.yaml"), []byte("mine"), 0o644))
	require.Contains(t, write(true, a), "was changed since")
	require.True(t, exists("rules/b.yaml"))

	// What another command generated into the same folder is not stale here.
	require.NoError(t, writeAll(dir, []outFile{{"dashboards/x.json", []byte("{}")}}, []string{"dashboards"}, true, &log))
	require.True(t, exists("rules/a.yaml"))
	require.Contains(t, write(true, a), "0 removed")
	require.True(t, exists("dashboards/x.json"))

	// A file of its own is never touched.
	require.NoError(t, os.WriteFile(filepath.Join(dir, "rules/own.yaml"), nil, 0o644))
	write(true, a)
	require.True(t, exists("rules/own.yaml"))

	// A list that points outside is refused.
	require.NoError(t, os.WriteFile(filepath.Join(dir, outManifest), []byte(`{"../../etc/passwd":"x"}`), 0o644))
	require.ErrorContains(t, writeAll(dir, nil, nil, true, &log), "leaves the folder")
}

func writeAll(dir string, files []outFile, scope []string, prune bool, log *bytes.Buffer) error {
	o, err := openOut(dir, log)
	if err != nil {
		return err
	}
	for _, f := range files {
		if err := o.add(f); err != nil {
			return err
		}
	}
	return o.close(scope, prune)
}

// One file of two services would be that of the last.
func TestWriteOutTwice(t *testing.T) {
	var log bytes.Buffer
	file := outFile{"k8s/slo-a-b-alerts.yaml", []byte("a.b")}
	require.ErrorContains(t, writeAll(t.TempDir(), []outFile{file, file}, nil, false, &log),
		"two services generate this file")
}

// A folder below the output folder that is a link, or a link in place of a temporary file, leads elsewhere.
func TestWriteOutFollowsNoLinks(t *testing.T) {
	dir, elsewhere := t.TempDir(), t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(elsewhere, "a.yaml"), []byte("theirs"), 0o600))
	require.NoError(t, os.Symlink(elsewhere, filepath.Join(dir, "rules")))
	require.NoError(t, os.Symlink(filepath.Join(elsewhere, "a.yaml"), filepath.Join(dir, "b.yaml.tmp")))
	for _, path := range []string{"rules/a.yaml", "rules/deep/a.yaml", "b.yaml"} {
		var log bytes.Buffer
		require.ErrorContains(t, writeAll(dir, []outFile{{path, []byte("ours")}}, nil, true, &log),
			"is a link, which generate does not follow")
	}
	data, err := os.ReadFile(filepath.Join(elsewhere, "a.yaml"))
	require.NoError(t, err)
	require.Equal(t, "theirs", string(data))
	require.NoDirExists(t, filepath.Join(elsewhere, "deep"))
}
