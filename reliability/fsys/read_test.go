package fsys

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// A file that is named in settings is read whole, within bounds, and nothing else is read at all.
func TestReadFile(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	require.NoError(t, os.WriteFile(at("ten"), []byte("0123456789"), 0o600))
	require.NoError(t, os.WriteFile(at("empty"), nil, 0o600))
	require.NoError(t, os.Symlink("ten", at("link")))
	require.NoError(t, syscall.Mkfifo(at("fifo"), 0o600))
	for _, name := range []string{"ten", "link"} {
		data, err := ReadFile(at(name), 10)
		require.NoError(t, err)
		require.Equal(t, "0123456789", string(data))
	}
	data, err := ReadFile(at("empty"), 10)
	require.NoError(t, err)
	require.Empty(t, data)
	for name, want := range map[string]string{
		at("ten"):     "read DIR/ten: larger than 9 bytes",
		at("nowhere"): "open DIR/nowhere: no such file or directory",
		at("fifo"):    "read DIR/fifo: not a regular file",
		dir:           "read DIR: not a regular file",
		"/dev/zero":   "read /dev/zero: not a regular file",
	} {
		_, err := ReadFile(name, 9)
		require.EqualError(t, err, strings.ReplaceAll(want, "DIR", dir))
		require.EqualError(t, CheckFile(name, 9), err.Error())
	}
	// Files of /proc have no size.
	data, err = ReadFile("/proc/self/stat", 1<<20)
	if os.IsNotExist(err) {
		return // not Linux
	}
	require.NoError(t, err)
	require.NotEmpty(t, data)
	_, err = ReadFile("/proc/self/stat", int64(len(data)/2))
	require.ErrorContains(t, err, "larger than")
}
