package retained

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/reliability/fsys/fsystest"
)

var freeze = flag.Bool("freeze", false, "write the file of the present format")

// TestFrozenFile reads what the first build of format 1 wrote. If it fails, change the code and not the file.
func TestFrozenFile(t *testing.T) {
	const frozen, first, next = "../../testdata/frozen/history-1.hist", 1, 54
	name := fileName(first)
	if *freeze {
		w := newWorld(t, fsystest.New())
		w.write(t, 1000)
		w.work(t)
		data, err := w.disk.ReadFile(filepath.Join(testDir, name))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(frozen, data, 0o600))
	}
	data, err := os.ReadFile(frozen)
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), data, 0o600))
	files := readIndexes(fsys.OS(), dir, []string{name})
	require.NoError(t, files[0].err)
	sum := files[0].Summary
	sum.blocks, sum.tableCRC, sum.tableAt, sum.end = 0, 0, 0, 0 // places in the file
	require.Equal(t, Summary{First: first, Next: next, Records: next - first, Raw: 2637, From: at(first), To: at(next - 1),
		Events: 51, EventFrom: at(2) - int64(time.Minute), EventTo: at(next-1) - int64(time.Minute),
		Tags: []Tag{{Service: "shop0", Type: "order", Events: 51}}, Rules: []uint64{1, 51}}, sum)
	seqs, r := read(t, OpenFolders(fsys.OS(), dir, filepath.Join(dir, "wal"), Form{}), Query{From: first})
	gaps, _ := r.Gaps()
	require.Empty(t, gaps)
	require.Equal(t, span(first, next), seqs)
}
