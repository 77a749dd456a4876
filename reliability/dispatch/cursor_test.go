package dispatch

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/reliability/fsys"
)

// TestOldestCursor: the sink that is behind decides which part of the log is needed, and one that is damaged may
// need any record.
func TestOldestCursor(t *testing.T) {
	dir := t.TempDir()
	c := cursors{fsys.OS(), dir}
	oldest := func() uint64 {
		seq, err := OldestCursor(fsys.OS(), dir)
		require.NoError(t, err)
		return seq
	}
	require.EqualValues(t, uint64(math.MaxUint64), oldest())
	for sink, seq := range map[string]uint64{"a": 9, "b": 3, "c": 7} {
		require.NoError(t, c.save(sink, Cursor{Seq: seq}))
	}
	require.EqualValues(t, 3, oldest())

	text, err := os.ReadFile(c.path("a"))
	require.NoError(t, err)
	text[len(text)-2] ^= 1 // of the sum
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a"+cursorSuffix), text, 0o600))
	_, err = OldestCursor(fsys.OS(), dir)
	require.ErrorContains(t, err, "damaged cursor")
}
