package faults

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/client"
	"github.com/sloengine/sloengine/cmd/sloengine/cli"
	"github.com/sloengine/sloengine/ingest/engine"
	"github.com/sloengine/sloengine/internal/e2e/e2etest"
	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/reliability/fsys"
)

// raised returns a file with a format number that is one higher, with the checksum that fits.
type raised func(t *testing.T, data []byte) []byte

// replaced raises a number that is text.
func replaced(old, new string) raised {
	return func(t *testing.T, data []byte) []byte {
		require.Contains(t, string(data), old)
		return bytes.Replace(data, []byte(old), []byte(new), 1)
	}
}

// raisedAt raises the 4 bytes at an offset and writes the CRC-32C of all before sum, or of all but
// the last four bytes.
func raisedAt(offset, sum int) raised {
	return func(_ *testing.T, data []byte) []byte {
		data = bytes.Clone(data)
		end := sum
		if end == 0 {
			end = len(data) - 4
		}
		binary.LittleEndian.PutUint32(data[offset:], binary.LittleEndian.Uint32(data[offset:])+1)
		binary.LittleEndian.PutUint32(data[end:], crc32.Checksum(data[:end], crc32.MakeTable(crc32.Castagnoli)))
		return data
	}
}

// raisedDeadLetters is a segment of dead letters of format 3.
func raisedDeadLetters(t *testing.T, data []byte) []byte {
	head := bytes.Replace(data[:bytes.IndexByte(data, '\n')+1], []byte("SLODLQ2"), []byte("SLODLQ3"), 1)
	var number uint64
	_, err := fmt.Sscanf(string(head[8:24]), "%x", &number)
	require.NoError(t, err)
	body := head[:len(head)-9]
	sum := crc32.Update(uint32(number*0x9E3779B97F4A7C15>>32), crc32.MakeTable(crc32.Castagnoli), body)
	return append(fmt.Appendf(bytes.Clone(body), "%08x\n", sum), data[len(head):]...)
}

// TestNewerFormats raises the format number of each kind of file, as a newer version would. The start
// is refused with a message that says what to do, and nothing on the disk changes, also not with
// --accept-loss.
func TestNewerFormats(t *testing.T) {
	t.Parallel()
	// Once with this version, so that all of its files are there.
	from, dir, data, p := serveFrozen(t)
	p.Stop(t)
	// without receivers there is none
	e2etest.WriteFile(t, data, "notifications.json", `{"version":2,"groups":[],"silences":[]}`)

	// there is one once engine.yaml has reports
	e2etest.WriteFile(t, data, "reports.json", `{"version": 1, "targets": {}}`)

	e2etest.WriteFile(t, data, "forecasts.json", `{"version":1,"records":{}}`) // there is one once forecasts were made

	e2etest.WriteFile(t, data, "annotations.json", `{"version":1,"annotations":[]}`)

	e2etest.WriteFile(t, data, "rejects.json", `{"version":1}`) // there is one once events were rejected

	for pattern, raise := range map[string]raised{
		fsys.FormatFile:           replaced("format 5", "format 6"),
		"checkpoints/manifest-*":  raisedAt(8, 0),
		"wal/*.wal":               raisedAt(8, 36),
		"wal/durable":             raisedAt(8, 36),
		"dead-letters/*/*.ndjson": raisedDeadLetters,
		"sinks/hook.cursor":       replaced("cursor 1:", "cursor 2:"),
		"alerts.json": func(_ *testing.T, data []byte) []byte { // the frozen one, if there was no need to write it again
			return regexp.MustCompile(`"version":[235]`).ReplaceAll(data, []byte(`"version":6`))
		},
		"annotations.json":   replaced(`"version":1`, `"version":2`),
		"forecasts.json":     replaced(`"version":1`, `"version":2`),
		"rejects.json":       replaced(`"version":1`, `"version":2`),
		"reports.json":       replaced(`"version": 1`, `"version": 2`),
		"notifications.json": replaced(`"version":2`, `"version":3`),
	} {
		files, err := filepath.Glob(filepath.Join(data, pattern))
		require.NoError(t, err)
		require.NotEmpty(t, files, pattern)
		name := files[len(files)-1] // the newest
		original, err := os.ReadFile(name)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(name, raise(t, original), 0o640))
		before := filesBelow(t, data)
		for _, more := range [][]string{nil, {"--accept-loss"}} {
			code, stderr := runServe(t, dir, from, more...)
			require.Equal(t, cli.ExitFailure, code, "%s: %s", pattern, stderr)
			require.Contains(t, stderr, fsys.Newer, pattern)
		}
		if filepath.Dir(pattern) != "sinks" { // read when the log is open already
			require.Equal(t, before, filesBelow(t, data), "%s: the folder changed", pattern)
		}
		require.NoError(t, os.WriteFile(name, original, 0o640))
	}
	_, stderr, code := e2etest.Command(t, "restore", "--from", data, "--data-dir", data)
	require.Equal(t, cli.ExitFailure, code)
	require.Contains(t, stderr, "is not empty")
}

// runServe starts the engine on the folder, which it must refuse.
func runServe(t *testing.T, dir, from string, more ...string) (code int, stderr string) {
	t.Helper()
	p, _ := e2etest.Start(t, nil, append([]string{
		"serve", "-f", filepath.Join(from, "spec.yaml"), "-c", filepath.Join(dir, "engine.yaml"),
		"--data-dir", filepath.Join(dir, "data"), "--web.listen-address", "127.0.0.1:0",
	}, more...)...)
	select {
	case <-p.Done:
	case <-time.After(testkit.Patience):
		t.Fatalf("it runs:\n%s", p.Log)
	}
	return p.Cmd.ProcessState.ExitCode(), p.Log.String()
}

// filesBelow reads all files of a folder, but for the lock and the reserve, which hold nothing.
func filesBelow(t *testing.T, dir string) map[string]string {
	t.Helper()
	got := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(name string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == engine.LockFile || d.Name() == "RESERVE" {
			return err
		}
		data, err := os.ReadFile(name)
		got[name] = string(data)
		return err
	}))
	return got
}

// TestNewerSpool: a client does not open the spool of a newer one, says so, and changes nothing.
func TestNewerSpool(t *testing.T) {
	t.Parallel()
	versions := frozenVersions(t)
	dir := t.TempDir()
	unpackFolder(t, filepath.Join(frozenDir, versions[len(versions)-1], "spool.tar.gz"), dir)
	e2etest.WriteFile(t, dir, fsys.FormatFile, "sloengine client spool format 2\n")
	before := filesBelow(t, dir)
	var log testkit.Buffer
	c, err := client.New(client.Options{
		URL: "http://127.0.0.1:1", Logger: slog.New(slog.NewTextHandler(&log, nil)), Spool: client.SpoolOptions{Dir: dir},
	})
	require.NoError(t, err, "the application starts without it")
	require.ErrorIs(t, c.Status().SpoolError, fsys.ErrNewer)
	require.NoError(t, c.Close(t.Context()))
	require.Contains(t, log.String(), fsys.Newer)
	require.Equal(t, before, filesBelow(t, dir))
}
