package backup

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/reliability/fsys"
)

var format = fsys.Format{Kind: "data directory", Number: 1}

// content is the data that the tests back up; the engine's files only have other names.
var content = map[string]string{
	"FORMAT": "sloengine data directory format 1\n", "wal/1.wal": strings.Repeat("records", 1000),
	"checkpoints/manifest-1": "m", "sinks/hook.cursor": "c", "empty": "",
}

// stream is a backup of content.
func stream(t *testing.T) []byte {
	dir, f := t.TempDir(), fsys.OS()
	set := NewSet()
	defer func() { require.NoError(t, set.Close()) }()
	for _, name := range slices.Sorted(maps.Keys(content)) {
		path := filepath.Join(dir, filepath.Base(name))
		require.NoError(t, os.WriteFile(path, []byte(content[name]+"not durable"), 0o600))
		file, err := f.Open(path)
		require.NoError(t, err)
		set.Below(filepath.Dir(name))(filepath.Base(name), int64(len(content[name])), file)
		require.NoError(t, os.Remove(path), "an open file can be deleted")
	}
	var out bytes.Buffer
	require.NoError(t, set.Write(&out, "1.2.3", func() error { return nil }))
	return out.Bytes()
}

func holds(name string) bool { return content[name] != "" || name == "empty" || name == "more" }

func filesIn(t *testing.T, dir string) map[string]string {
	got := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(name string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(name)
		rel, _ := filepath.Rel(dir, name)
		got[filepath.ToSlash(rel)] = string(data)
		return err
	}))
	return got
}

// restoreStream restores from a tar file.
func restoreStream(t *testing.T, data []byte) (dir string, m *Manifest, err error) {
	from := filepath.Join(t.TempDir(), "backup.tar")
	require.NoError(t, os.WriteFile(from, data, 0o600))
	dir = filepath.Join(t.TempDir(), "data")
	m, err = Restore(from, dir, format, holds)
	return dir, m, err
}

func TestRoundTrip(t *testing.T) {
	data := stream(t)
	dir, m, err := restoreStream(t, data)
	require.NoError(t, err)
	require.Equal(t, content, filesIn(t, dir))
	require.Equal(t, "1.2.3", m.Version)
	require.NoError(t, format.Check(fsys.OS(), dir))

	// By way of a folder, and of a pipe.
	var piped bytes.Buffer
	_, err = Check(bytes.NewReader(data), &piped)
	require.NoError(t, err)
	require.Equal(t, data, piped.Bytes())
	folder := filepath.Join(t.TempDir(), "backup")
	_, err = Unpack(&piped, folder)
	require.NoError(t, err)
	again := filepath.Join(t.TempDir(), "data")
	require.NoError(t, os.Mkdir(again, 0o700))
	_, err = Restore(folder, again, format, holds)
	require.NoError(t, err)
	require.Equal(t, content, filesIn(t, again))

	_, err = Restore(folder, again, format, holds)
	require.ErrorContains(t, err, "is not empty")
	_, err = Unpack(bytes.NewReader(data), again)
	require.ErrorContains(t, err, "is not empty")
	require.Equal(t, content, filesIn(t, again))
}

// Files that are opened later are behind all others. One that is gone by then is left out, and one that cannot be read
// breaks the backup.
func TestLaterFiles(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"c", "b", "a"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("content of "+name), 0o600))
	}
	set := NewSet()
	set.Later("history", dir, []string{"c", "b", "a"})
	require.NoError(t, os.Remove(filepath.Join(dir, "a")))
	var out bytes.Buffer
	require.NoError(t, set.Write(&out, "1.2.3", func() error { return nil }))
	folder := filepath.Join(t.TempDir(), "backup")
	m, err := Unpack(&out, folder)
	require.NoError(t, err)
	require.Equal(t, []string{"history/c", "history/b"}, []string{m.Files[0].Name, m.Files[1].Name})
	require.Len(t, m.Files, 2)
	require.Equal(t, "content of b", filesIn(t, folder)["history/b"])

	require.NoError(t, os.Remove(filepath.Join(dir, "b")))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "b"), 0o700))
	require.ErrorContains(t, set.Write(io.Discard, "1.2.3", func() error { return nil }), "history/b")
}

// A stream that breaks off anywhere, and one in which any byte of a file changed, is refused, and
// nothing is written.
func TestBrokenStreams(t *testing.T) {
	data := stream(t)
	end := bytes.Index(data, []byte(`"format"`))
	require.Positive(t, end)
	for cut := 0; cut < end; cut += 97 {
		dir, _, err := restoreStream(t, data[:cut])
		require.Error(t, err, "cut at %d", cut)
		require.NoDirExists(t, dir)
		_, err = Unpack(bytes.NewReader(data[:cut]), filepath.Join(t.TempDir(), "backup"))
		require.Error(t, err, "cut at %d", cut)
	}
	at := bytes.Index(data, []byte("records"))
	for _, flip := range []int{at, at + 3500, at + 6999} {
		bad := slices.Clone(data)
		bad[flip] ^= 1
		dir, _, err := restoreStream(t, bad)
		require.ErrorContains(t, err, "wal/1.wal is damaged")
		require.NoDirExists(t, dir)
	}
}

func TestBrokenFolders(t *testing.T) {
	for name, c := range map[string]struct {
		change func(dir string) error
		want   string
	}{
		"changed": {func(dir string) error {
			return os.WriteFile(dir+"/sinks/hook.cursor", []byte("d"), 0o600)
		}, "sinks/hook.cursor is damaged"},
		"missing": {func(dir string) error { return os.Remove(dir + "/empty") }, "empty is missing"},
		"more":    {func(dir string) error { return os.WriteFile(dir+"/more", nil, 0o600) }, "more is not in the manifest"},
		"no end":  {func(dir string) error { return os.Remove(dir + "/" + ManifestName) }, "incomplete"},
		"newer": {func(dir string) error {
			data, err := os.ReadFile(dir + "/" + ManifestName)
			if err != nil {
				return err
			}
			return os.WriteFile(
				dir+"/"+ManifestName, bytes.Replace(data, []byte(`"format": 1`), []byte(`"format": 2`), 1), 0o600)
		}, "newer version"},
	} {
		t.Run(name, func(t *testing.T) {
			folder := filepath.Join(t.TempDir(), "backup")
			_, err := Unpack(bytes.NewReader(stream(t)), folder)
			require.NoError(t, err)
			require.NoError(t, c.change(folder))
			dir := filepath.Join(t.TempDir(), "data")
			_, err = Restore(folder, dir, format, holds)
			require.ErrorContains(t, err, c.want)
			require.NoDirExists(t, dir)
		})
	}
}

// No engine opens a folder in which a restore was cut short.
func TestInterruptedRestore(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, format.BeginRestore(fsys.OS(), dir))
	require.ErrorContains(t, format.Check(fsys.OS(), dir), "the restore was interrupted")
	require.Error(t, format.Mark(fsys.OS(), dir))
	require.NoError(t, format.EndRestore(fsys.OS(), dir, ""), "a backup of a version without a format number")
	require.NoError(t, format.Check(fsys.OS(), dir))
}

// A name that leads out of the folder is refused.
func TestHostileNames(t *testing.T) {
	set := NewSet()
	path := filepath.Join(t.TempDir(), "x")
	require.NoError(t, os.WriteFile(path, []byte("x"), 0o600))
	file, err := fsys.OS().Open(path)
	require.NoError(t, err)
	set.Below("..")("x", 1, file)
	var out bytes.Buffer
	require.NoError(t, set.Write(&out, "", func() error { return nil }))
	require.NoError(t, set.Close())
	_, _, err = restoreStream(t, out.Bytes())
	require.ErrorContains(t, err, "not a file that a backup holds")
}

// A file that no engine has put into a backup, such as a key that its author knows, is refused, though the manifest has
// it.
func TestForeignFiles(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "backup")
	_, err := Unpack(bytes.NewReader(stream(t)), folder)
	require.NoError(t, err)
	key := func(name string) bool { return holds(name) && name != "empty" }
	for _, from := range []string{folder, filepath.Join(t.TempDir(), "backup.tar")} {
		if from != folder {
			require.NoError(t, os.WriteFile(from, stream(t), 0o600))
		}
		dir := filepath.Join(t.TempDir(), "data")
		_, err = Restore(from, dir, format, key)
		require.ErrorContains(t, err, `"empty" is not a file that a backup holds`)
		require.NoDirExists(t, dir)
	}
	require.NoError(t, syscall.Mkfifo(filepath.Join(folder, "fifo"), 0o600))
	for _, from := range []string{folder, filepath.Join(folder, "fifo"), "/dev/zero"} {
		_, err = Restore(from, filepath.Join(t.TempDir(), "data"), format, holds)
		require.ErrorContains(t, err, "regular file")
	}
}

// The receiver that takes nothing ends the backup.
func TestStall(t *testing.T) {
	set := NewSet()
	path := filepath.Join(t.TempDir(), "x")
	require.NoError(t, os.WriteFile(path, []byte("x"), 0o600))
	file, err := fsys.OS().Open(path)
	require.NoError(t, err)
	set.Below("")("x", 1, file)
	require.ErrorContains(t, set.Write(io.Discard, "", func() error { return fmt.Errorf("stalled") }), "stalled")
	require.NoError(t, set.Close())
}
