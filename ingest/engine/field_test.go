package engine

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/reliability/fsys/fsystest"
)

// These are faults that other programs had in the field, one test each. More of
// them: TestCorruptLogIsRefused and TestEveryByteOfACheckpoint (one bad length
// that drops what follows it, bad metadata that wipes the folder, a repair that
// deletes everything after a corruption), TestLossIsRefusedUntilAccepted
// (restart from now).

// Vector acknowledged before the sync.
func TestFieldAcknowledgedBeforeSync(t *testing.T) {
	disk := fsystest.New()
	opt := testOptions(disk)
	r := start(t, opt)
	for i := range 20 {
		r.commit(fmt.Sprint(i))
		opt.FS = disk.CrashClone(0, int64(i))
		after := start(t, opt)
		requireOnce(t, after.counts(), numbered("", 0, i+1))
		after.shutdown()
	}
	r.shutdown()
}

// Vector did not sync the folder in which it made a file.
func TestFieldFolderNotSynced(t *testing.T) {
	disk := fsystest.New()
	opt := testOptions(disk)
	opt.SegmentBytes = 512 // a new file for every few records
	r := start(t, opt)
	for i := range 30 {
		r.commit(numbered(fmt.Sprint(i, "-"), 0, 5)...)
		opt.FS = disk.CrashClone(0, int64(i))
		after := start(t, opt)
		require.Len(t, after.counts(), 5*(i+1))
		after.shutdown()
	}
	r.shutdown()
}

// Vector unlinked data before the position behind it was durable.
func TestFieldUnlinkedBeforePositionDurable(t *testing.T) {
	disk := fsystest.New()
	opt := testOptions(disk)
	opt.SegmentBytes = 600
	r := start(t, opt)
	var mu sync.Mutex
	var clones []*fsystest.Mem
	disk.Before(func(op fsystest.Op, name string) {
		if op == fsystest.OpRemove && strings.Contains(name, "/wal/") {
			mu.Lock()
			defer mu.Unlock()
			clones = append(clones, disk.CrashClone(0, 1))
		}
	})
	for i := range 3 {
		for j := range 10 {
			r.commit(numbered(fmt.Sprint(i, "-", j, "-"), 0, 5)...)
		}
		r.counts()
		r.checkpointNow()
	}
	r.shutdown()
	require.NotEmpty(t, clones)
	for _, clone := range clones {
		opt.FS = clone
		after := start(t, opt)
		require.Zero(t, after.Health().Checkpoint.Fallbacks)
		require.GreaterOrEqual(t, len(after.counts()), 100)
		require.NotZero(t, after.Health().StartedAt)
		after.shutdown()
	}
}

// The OTel collector deadlocked at the start when its queue was full, and
// deleted items in flight before they were added again.
func TestFieldFullQueueAtStart(t *testing.T) {
	opt := testOptions(nil)
	opt.SegmentBytes = 1 << 20
	disk := twoCheckpoints(t, opt)
	for _, name := range []string{"manifest-0000000000000001", "manifest-0000000000000002"} {
		require.NoError(t, disk.Remove("/data/checkpoints/"+name))
	}
	opt.FS = disk
	opt.QueueBytes, opt.GroupRequests, opt.GroupBytes = 1, 1, 1
	for range 3 { // records to be read again stay in the log until a checkpoint holds them
		opt.FS = disk.CrashClone(0, 1)
		r := start(t, opt)
		requireOnce(t, r.counts(), numbered("x", 0, 90))
		r.commit("new")
		r.kill()
	}
}
