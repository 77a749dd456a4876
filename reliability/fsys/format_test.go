package fsys

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFormat(t *testing.T) {
	one, two := Format{"data directory", 1}, Format{"data directory", 2}
	dir, system := t.TempDir(), OS()
	read := func() string {
		data, err := os.ReadFile(filepath.Join(dir, FormatFile))
		require.NoError(t, err)
		return string(data)
	}
	require.NoError(t, one.Check(system, dir), "a folder from before there was a number")
	require.NoFileExists(t, filepath.Join(dir, FormatFile))
	require.NoError(t, one.Mark(system, dir))
	require.Equal(t, "sloengine data directory format 1\n", read())
	require.NoError(t, two.Check(system, dir))
	require.NoError(t, two.Mark(system, dir))
	for _, use := range []func(FS, string) error{one.Check, one.Mark} {
		require.ErrorIs(t, use(system, dir), ErrNewer)
		require.Equal(t, "sloengine data directory format 2\n", read())
	}
	require.ErrorContains(t, Format{"client spool", 2}.Check(system, dir), "is "+dir+" the right folder?")
	require.NoError(t, os.WriteFile(filepath.Join(dir, FormatFile), nil, 0o600))
	require.ErrorContains(t, two.Check(system, dir), "does not hold the format")
}

func TestCheckVersion(t *testing.T) {
	name := filepath.Join(t.TempDir(), "states.json")
	check := func(name string) error {
		s := StateFile[struct{}]{Files: OS(), Name: name, What: "states", Newest: 2}
		return s.CheckVersion()
	}
	require.NoError(t, check(name), "there is no file")
	require.NoError(t, check(filepath.Dir(name)), "cannot be read")
	for text, want := range map[string]string{
		`{"version":1}`: "", `{"version":2,"more":[]}`: "", `{"version":"3"}`: "", `{"version":3`: "", `[3]`: "", ``: "",
		`{"version":3,"more":[]}`: "states: " + name + " has format 3, and this program reads formats up to 2: " + Newer,
	} {
		require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
		if err := check(name); want == "" {
			require.NoError(t, err, text)
		} else {
			require.ErrorIs(t, err, ErrNewer)
			require.EqualError(t, err, want)
		}
	}
}
