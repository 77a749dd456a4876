package engine

import (
	"context"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/ingest/trace"
	"github.com/sloengine/sloengine/reliability/fsys/fsystest"
)

// TestTraceIDsWaitForTheReader: the trace ids of a batch can be found by the number of its record, and after a failed
// write by no other.
func TestTraceIDsWaitForTheReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opt, disk, table := guardedOptions(nil), fsystest.New(), new(trace.Table)
		opt.FS = disk
		r := start(t, opt, Parts{Traces: table})
		commit := func(first byte, ids ...string) (uint64, error) {
			b := testBatch(ids...)
			b.Traces = trace.OfRequest(trace.ID{first})
			result, err := r.Commit(context.Background(), b)
			return result.Seq, err
		}
		at, err := commit(1, "a", "b")
		require.NoError(t, err)
		without := r.commit("c").Seq
		same, err := commit(2, "a")
		require.NoError(t, err)
		require.Zero(t, same, "a duplicate has no record")
		id, ok := table.Take(at).Of(nil)
		require.True(t, ok)
		require.Equal(t, trace.ID{1}, id)
		require.Nil(t, table.Take(without))

		disk.FailAlways(fsystest.OpWrite, syscall.ENOSPC)
		_, err = commit(3, "d")
		require.Error(t, err)
		disk.ClearFaults()
		time.Sleep(10 * time.Second)
		require.Nil(t, table.Take(r.commit("e").Seq), "it is of another request")
		r.shutdown()
	})
}
