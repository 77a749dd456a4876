package engine

import (
	"context"
	"fmt"
	"hash/crc32"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/ingest/checkpoint"
	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/reliability/fsys/fsystest"
	"github.com/sloengine/sloengine/reliability/wal"
)

// checkpointFiles returns the files of the checkpoints, by name.
func checkpointFiles(t testing.TB, disk *fsystest.Mem) map[string][]byte {
	files := map[string][]byte{}
	names, err := disk.List("/data/checkpoints")
	require.NoError(t, err)
	for _, name := range names {
		files[name], err = disk.ReadFile(filepath.Join("/data/checkpoints", name))
		require.NoError(t, err)
	}
	return files
}

// twoCheckpoints makes a disk with two checkpoints and some log after them, of
// 90 ids. The log begins late only if small segments let it.
func twoCheckpoints(t testing.TB, opt Options) *fsystest.Mem {
	disk := fsystest.New()
	opt.FS = disk
	r := start(t, opt)
	for i := range 3 {
		for j := range 10 {
			r.commit(numbered("x", 30*i+3*j, 30*i+3*j+3)...)
		}
		if i < 2 {
			r.checkpointNow()
		}
	}
	r.counts()
	clone := disk.CrashClone(0, 1)
	r.kill()
	return clone
}

func TestRecoverFromCheckpoint(t *testing.T) {
	opt := testOptions(nil)
	opt.FS = twoCheckpoints(t, opt)
	r := start(t, opt)
	h := r.Health()
	require.EqualValues(t, 21, h.StartedAt)
	require.EqualValues(t, 10, h.Recovered)
	require.Zero(t, h.Checkpoint.Fallbacks)
	requireOnce(t, r.counts(), numbered("x", 0, 90))
	require.Equal(t, 90, r.commit(numbered("x", 0, 90)...).Duplicates)
	r.shutdown()
}

// Replay from zero, and from each of two checkpoints, gives the same bytes.
func TestDeterminism(t *testing.T) {
	opt := testOptions(nil)
	opt.SegmentBytes = 1 << 20 // the log keeps its beginning
	disk := twoCheckpoints(t, opt)
	var states [][]byte
	for _, without := range []int{0, 1, 2} { // manifests
		clone := disk.CrashClone(100, 1)
		names, err := clone.List("/data/checkpoints")
		require.NoError(t, err)
		removed := 0
		for i := len(names) - 1; i >= 0; i-- {
			if strings.HasPrefix(names[i], "manifest") && removed < without {
				require.NoError(t, clone.Remove("/data/checkpoints/"+names[i]))
				removed++
			}
		}
		opt.FS = clone
		r := start(t, opt)
		require.EqualValues(t, []uint64{10, 20, 31}[without], r.Health().Recovered)
		requireOnce(t, r.counts(), numbered("x", 0, 90))
		states = append(states, r.shutdown().bytes())
		again := start(t, opt) // the ids of the last checkpoint
		require.Equal(t, 90, again.Health().IDs.Count)
		again.shutdown()
	}
	require.Equal(t, states[0], states[1])
	require.Equal(t, states[0], states[2])
}

// A checkpoint writes changed parts, not the whole state.
func TestCheckpointIsIncremental(t *testing.T) {
	r := start(t, testOptions(fsystest.New()))
	r.commit(numbered("x", 0, 2000)...)
	r.checkpointNow()
	first := r.Health().Checkpoint
	var encoded int
	require.NoError(t, r.Do(context.Background(), func() { encoded = r.state.encoded }))
	require.Equal(t, testParts, encoded)
	one := "y"
	r.commit(one)
	r.checkpointNow()
	second := r.Health().Checkpoint
	require.NoError(t, r.Do(context.Background(), func() { encoded = r.state.encoded }))
	require.LessOrEqual(t, encoded, testParts+2, "the part of the id, and that of the record count")
	require.Less(t, second.Written, first.Written/3)
	require.Greater(t, second.State, first.State)
	r.shutdown()
}

func TestPacksAreRewritten(t *testing.T) {
	disk := fsystest.New()
	r := start(t, testOptions(disk))
	for i := range 60 {
		r.commit(numbered(fmt.Sprint(i, "-"), 0, 5)...)
		r.checkpointNow()
	}
	files := checkpointFiles(t, disk)
	size, packs := 0, 0
	for name, data := range files {
		size += len(data)
		if strings.HasPrefix(name, "pack") {
			packs++
		}
	}
	require.Less(t, packs, 10)
	require.Less(t, size, 5*int(r.Health().Checkpoint.State))
	r.shutdown()
}

// The log goes only below the older of two checkpoints.
func TestLogIsTruncated(t *testing.T) {
	r := start(t, testOptions(fsystest.New()))
	for i := range 40 {
		r.commit(numbered(fmt.Sprint(i, "-"), 0, 20)...)
	}
	before := r.Health().Log.Segments
	r.checkpointNow()
	require.Equal(t, before, r.Health().Log.Segments, "one checkpoint is not enough")
	r.commit("a")
	r.checkpointNow()
	require.Eventually(t, func() bool { return r.Health().Log.Segments < 3 }, testkit.Patience, time.Millisecond)
	r.shutdown()
}

// If any byte of any file of a checkpoint is broken: the counts are right, or the start is refused;
// nothing is reset. By name, bugs of the field: bad metadata that wipes the folder, and restart
// from now.
func TestEveryByteOfACheckpoint(t *testing.T) {
	for _, test := range []struct {
		name    string
		segment int64
		refused bool // may be, since the log is gone
	}{
		{"whole log", 1 << 20, false},
		{"truncated log", 600, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			opt := testOptions(nil)
			opt.SegmentBytes = test.segment
			disk := twoCheckpoints(t, opt)
			fallbacks, refused := 0, 0
			for name, data := range checkpointFiles(t, disk) {
				for at := 0; at <= len(data); at += 1 + len(data)/40 {
					broken := append([]byte{}, data...)
					if at < len(data) {
						broken[at] ^= 0x55
					} else {
						broken = broken[:len(data)/2]
					}
					clone := disk.CrashClone(100, 1)
					require.NoError(t, clone.WriteFile("/data/checkpoints/"+name, broken))
					opt.FS = clone
					r := launch(t, opt)
					select {
					case <-r.Ready():
						requireOnce(t, r.counts(), numbered("x", 0, 90))
						require.Equal(t, 90, r.commit(numbered("x", 0, 90)...).Duplicates)
						fallbacks += r.Health().Checkpoint.Fallbacks
						r.shutdown()
					case err := <-r.end:
						var loss *checkpoint.LossError
						require.ErrorAs(t, err, &loss, "%s at %d", name, at)
						require.True(t, test.refused, "%s at %d: %v", name, at, err)
						require.Equal(t, StatusPoisoned, r.Health().Status)
						require.Equal(t, broken, checkpointFiles(t, clone)[name], "left as it was")
						refused++
					}
				}
			}
			require.Positive(t, fallbacks)
			require.Equal(t, test.refused, refused > 0)
		})
	}
}

func TestNewerCheckpointIsRefused(t *testing.T) {
	opt := testOptions(nil)
	disk := twoCheckpoints(t, opt)
	for name, data := range checkpointFiles(t, disk) {
		if strings.HasPrefix(name, "manifest") {
			data[8] = 9
			data = data[:len(data)-4]
			sum := crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli))
			data = append(data, byte(sum), byte(sum>>8), byte(sum>>16), byte(sum>>24))
			require.NoError(t, disk.WriteFile("/data/checkpoints/"+name, data))
		}
	}
	opt.FS = disk
	r := launch(t, opt)
	require.ErrorContains(t, <-r.end, "version 9, and this program reads 3")
}

func breakFile(t *testing.T, disk *fsystest.Mem, name string) {
	data, err := disk.ReadFile(name)
	require.NoError(t, err)
	data[len(data)/2] ^= 1
	require.NoError(t, disk.WriteFile(name, data))
}

// Where no checkpoint is valid and the log is not whole, the start is refused
// until the loss is accepted, and then nothing is deleted.
func TestLossIsRefusedUntilAccepted(t *testing.T) {
	opt := testOptions(nil)
	opt.SegmentBytes = 600
	intact := twoCheckpoints(t, opt)
	for _, test := range []struct {
		name   string
		damage func(disk *fsystest.Mem)
		reason string
		kept   func(n int) bool
	}{
		{"no checkpoint is valid", func(disk *fsystest.Mem) {
			for name := range checkpointFiles(t, disk) {
				if strings.HasPrefix(name, "manifest") {
					breakFile(t, disk, "/data/checkpoints/"+name)
				}
			}
		},
			`no checkpoint is valid, and the log begins with record \d+: records 1 to \d+ are lost, \d+ in all; manifest-0+2: ` +
				`.+; manifest-0+1: `, func(n int) bool {
				return n >= 30 && n < 90
			}},
		{"no checkpoint is there", func(disk *fsystest.Mem) {
			for name := range checkpointFiles(t, disk) {
				require.NoError(t, disk.Remove("/data/checkpoints/"+name))
			}
		}, `there is no checkpoint, and the log begins with record \d+: records 1 to \d+ are lost, \d+ in all; restore`,
			func(n int) bool {
				return n >= 30 && n < 90
			}},
		{"no log is there", func(disk *fsystest.Mem) {
			names, err := disk.List("/data/wal")
			require.NoError(t, err)
			for _, name := range names {
				require.NoError(t, disk.Remove("/data/wal/"+name))
			}
		}, "but the log ends with record 0", func(n int) bool { return n == 60 }},
	} {
		t.Run(test.name, func(t *testing.T) {
			disk := intact.CrashClone(100, 1)
			test.damage(disk)
			opt := opt
			opt.FS = disk
			r := launch(t, opt)
			err := <-r.end
			var loss *checkpoint.LossError
			require.ErrorAs(t, err, &loss)
			require.Regexp(t, test.reason, err.Error())
			require.ErrorContains(t, err, "accept-loss")

			opt.AcceptLoss = true
			r = start(t, opt)
			counts := r.counts()
			require.True(t, test.kept(len(counts)), "%d ids are left", len(counts))
			before := len(counts)
			r.commit("new")
			r.shutdown()
			opt.AcceptLoss = false // once is enough
			r = start(t, opt)
			require.Len(t, r.counts(), before+1)
			require.Equal(t, 1, r.commit("new").Duplicates)
			r.shutdown()
		})
	}
}

// logFiles are the names of the log's segments.
func logFiles(t testing.TB, disk *fsystest.Mem) []string {
	names, err := disk.List("/data/wal")
	require.NoError(t, err)
	return slices.DeleteFunc(names, func(name string) bool { return filepath.Ext(name) != ".wal" })
}

// Damage to the log that the checkpoint holds costs nothing, also not the records behind
// it; other damage costs the records that it hit, and those only with the override.
func TestDamagedLog(t *testing.T) {
	opt := testOptions(nil)
	opt.SegmentBytes = 1 << 20
	intact := twoCheckpoints(t, opt)
	name := "/data/wal/" + logFiles(t, intact)[0]
	data, err := intact.ReadFile(name)
	require.NoError(t, err)
	covered, refused := 0, 0
	// The last record became durable after the marker was last synced.
	for at := 60; at < len(strings.TrimRight(string(data), "\x00"))-200; at += 41 {
		broken := append([]byte{}, data...)
		broken[at] ^= 0x11
		disk := intact.CrashClone(100, 1)
		require.NoError(t, disk.WriteFile(name, broken))
		opt := opt
		opt.FS = disk
		r := launch(t, opt)
		select {
		case <-r.Ready():
			requireOnce(t, r.counts(), numbered("x", 0, 90))
			require.Equal(t, 90, r.commit(numbered("x", 0, 90)...).Duplicates)
			r.shutdown()
			covered++
			continue
		case err := <-r.end:
			var corrupt *wal.CorruptError
			require.ErrorAs(t, err, &corrupt, "byte %d", at)
			require.Equal(t, name, corrupt.Segment)
			require.ErrorContains(t, err, "accept-loss")
			require.Greater(t, corrupt.Last(), uint64(21), "byte %d", at)
			left, err := disk.ReadFile(name)
			require.NoError(t, err)
			require.Equal(t, broken, left, "left as it was")
		}
		refused++
		opt.AcceptLoss = true
		r = start(t, opt)
		require.Len(t, r.counts(), 87, "a record has three events")
		require.Equal(t, 3, r.commit(numbered("x", 0, 90)...).Accepted, "what is lost can be sent again")
		r.shutdown()
		opt.AcceptLoss = false
		r = start(t, opt)
		requireOnce(t, r.counts(), numbered("x", 0, 90))
		r.shutdown()
	}
	require.Greater(t, covered, 10)
	require.Greater(t, refused, 10)
}

// A log whose end is gone is refused if the checkpoint does not hold it, and else starts.
func TestEndOfTheLogIsGone(t *testing.T) {
	for _, held := range []bool{true, false} {
		disk := fsystest.New()
		opt := testOptions(disk)
		opt.SegmentBytes = 1 << 20
		r := start(t, opt)
		for from := 0; from < 90; from += 3 {
			r.commit(numbered("x", from, from+3)...)
		}
		if held {
			r.checkpointNow()
		}
		clone := disk.CrashClone(100, 1)
		r.kill()
		name := "/data/wal/" + logFiles(t, clone)[0]
		data, err := clone.ReadFile(name)
		require.NoError(t, err)
		clear(data[len(strings.TrimRight(string(data), "\x00"))-60:])
		require.NoError(t, clone.WriteFile(name, data))
		opt.FS = clone
		if held {
			for range 2 {
				r = start(t, opt)
				requireOnce(t, r.counts(), numbered("x", 0, 90))
				r.kill()
			}
			continue
		}
		r = launch(t, opt)
		err = <-r.end
		var corrupt *wal.CorruptError
		require.ErrorAs(t, err, &corrupt)
		require.EqualValues(t, []uint64{31, 31}, []uint64{corrupt.Seq, corrupt.LastSeq})
		opt.AcceptLoss = true
		r = start(t, opt)
		requireOnce(t, r.counts(), numbered("x", 0, 87))
		r.kill()
		opt.AcceptLoss = false
		r = start(t, opt)
		require.Equal(t, 3, r.commit(numbered("x", 0, 90)...).Accepted)
		r.shutdown()
	}
}

// One flipped byte in a file that both checkpoints share costs the ids or the part that it
// hit, never a checkpoint, and only with the override.
func TestDamageToSharedFiles(t *testing.T) {
	opt := testOptions(nil)
	opt.SegmentBytes = 600 // the log begins late
	intact := fsystest.New()
	opt.FS = intact
	r := start(t, opt)
	for _, end := range []int{60, 61, 62} { // the second has nearly all from the first
		for from := max(0, end-60) / 60 * (end - 1); from < end; from += 3 {
			r.commit(numbered("x", from, min(end, from+3))...)
		}
		r.checkpointNow()
	}
	r.commit(numbered("x", 62, 90)...)
	r.counts()
	live := intact
	intact = live.CrashClone(0, 1)
	r.kill()
	idsLost, partsLost := 0, 0
	for name, data := range checkpointFiles(t, intact) {
		for at := 0; at < len(data); at += 1 + len(data)/60 {
			broken := append([]byte{}, data...)
			broken[at] ^= 0x55
			disk := intact.CrashClone(100, 1)
			require.NoError(t, disk.WriteFile("/data/checkpoints/"+name, broken))
			opt := opt
			opt.FS = disk
			r := launch(t, opt)
			select {
			case <-r.Ready():
				requireOnce(t, r.counts(), numbered("x", 0, 90))
				require.Equal(t, 90, r.commit(numbered("x", 0, 90)...).Duplicates)
				r.shutdown()
				continue
			case err := <-r.end:
				var loss *checkpoint.LossError
				require.ErrorAs(t, err, &loss, "%s at %d", name, at)
				require.ErrorContains(t, err, name)
				require.ErrorContains(t, err, "lost: ")
			}
			opt.AcceptLoss = true
			r = start(t, opt)
			counts := r.counts()
			lost := r.opt.Metrics.idsLost.Get()
			again := r.commit(numbered("x", 0, 90)...)
			if strings.HasPrefix(name, "ids") {
				idsLost++
				requireOnce(t, counts, numbered("x", 0, 90))
				require.Positive(t, lost)
				require.EqualValues(t, lost, again.Accepted, "ids that are lost are not known, all others are")
				require.Empty(t, r.state.lost)
			} else {
				partsLost++
				require.Len(t, r.state.lost, 1)
				require.Equal(t, 90, again.Duplicates)
				require.Greater(t, len(counts), 90-90/testParts*3)
			}
			r.shutdown()
			require.Contains(t, checkpointFiles(t, disk), name+".broken", "it is moved aside")
			opt.AcceptLoss = false // once is enough
			r = start(t, opt)
			require.Zero(t, r.Health().Checkpoint.Fallbacks)
			require.Equal(t, 90, r.commit(numbered("x", 0, 90)...).Duplicates)
			r.shutdown()
		}
	}
	require.Positive(t, idsLost)
	require.Positive(t, partsLost)
}

// A checkpoint that cannot be read back where it has to be copied is made again
// from the state.
func TestBrokenPackIsReplacedWhileRunning(t *testing.T) {
	disk := fsystest.New()
	opt := testOptions(disk)
	r := start(t, opt)
	r.commit(numbered("x", 0, 100)...)
	r.checkpointNow()
	for name := range checkpointFiles(t, disk) {
		if strings.HasPrefix(name, "pack") {
			breakFile(t, disk, "/data/checkpoints/"+name)
		}
	}
	for i := range 10 {
		r.commit(numbered(fmt.Sprint("y", i, "-"), 0, 6)...)
		r.checkpointNow()
	}
	counts := r.counts()
	r.shutdown()
	again := start(t, opt)
	require.Zero(t, again.Health().Checkpoint.Fallbacks)
	require.Equal(t, counts, again.counts())
	again.shutdown()
}
