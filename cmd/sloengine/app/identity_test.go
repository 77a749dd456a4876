package app

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/ingest/engine"
	"github.com/sloengine/sloengine/reliability/fsys"
)

// The name is made once, and a file that holds no whole name is refused.
func TestInstance(t *testing.T) {
	dir := t.TempDir()
	name, err := instanceName(fsys.OS(), dir)
	require.NoError(t, err)
	require.Regexp(t, `^[0-9a-f]{12}$`, name)
	again, err := instanceName(fsys.OS(), dir)
	require.NoError(t, err)
	require.Equal(t, name, again)
	file := filepath.Join(dir, engine.InstanceFile)
	for _, text := range []string{"", name[:11], name + "0", name[:11] + "x",
		name[:5] + "-" + name[6:], name[:11] + "\n"} {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		_, err = instanceName(fsys.OS(), dir)
		require.EqualError(
			t, err, file+" contains no instance name of 12 hexadecimal digits (remove the file; dead letters of this "+
				"engine that a crash interrupted may then be stored twice)", "%q", text)
	}
}
