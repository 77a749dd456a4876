package engine

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/ingest/record"
	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/reliability/fsys/fsystest"
	"github.com/sloengine/sloengine/reliability/retained"
	"github.com/sloengine/sloengine/reliability/wal"
)

func guardedOptions(disk *fsystest.Mem) Options {
	opt := testOptions(disk)
	opt.Disk = DiskOptions{LowWater: 1000, ReserveBytes: 500}
	return opt
}

func (r *running) refusal(ids ...string) error {
	_, err := r.Commit(context.Background(), testBatch(ids...))
	return err
}

// With a full disk, new events are refused and their ids forgotten again, duplicates are answered,
// and everything is accepted once there is space.
func TestDiskFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := fsystest.New()
		r := start(t, guardedOptions(disk))
		r.commit("a", "b")
		require.True(t, r.Health().Disk.Reserved)

		disk.FailAlways(fsystest.OpWrite, syscall.ENOSPC)
		disk.SetFree(0)
		require.ErrorIs(t, r.refusal("c", "a"), ErrDiskFull)
		require.ErrorIs(t, r.refusal("c"), ErrDiskFull)
		require.Equal(t, 2, r.commit("b", "a").Duplicates)
		require.Equal(t, StatusDiskLow, r.Health().Status)
		synctest.Wait()
		require.False(t, r.Health().Disk.Reserved, "given up")
		requireOnce(t, r.counts(), []string{"a", "b"})

		disk.ClearFaults()
		time.Sleep(3 * time.Second)
		require.ErrorIs(t, r.refusal("c"), ErrDiskFull, "no room for the reserve yet")
		disk.SetFree(1200)
		time.Sleep(3 * time.Second)
		require.ErrorIs(t, r.refusal("c"), ErrDiskFull, "no room for the reserve yet")
		disk.SetFree(1500)
		time.Sleep(3 * time.Second)
		require.Equal(t, StatusReady, r.Health().Status)
		require.Equal(t, Result{Accepted: 1, Duplicates: 1, DupIndexes: []int{1}, Seq: 3}, r.commit("c", "a"))
		require.True(t, r.Health().Disk.Reserved)
		requireOnce(t, r.shutdown().all(), []string{"a", "b", "c"})
	})
}

func TestLowWater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := fsystest.New()
		r := start(t, guardedOptions(disk))
		r.commit("a")
		disk.SetFree(999)
		time.Sleep(2 * time.Second)
		require.ErrorIs(t, r.refusal("b"), ErrDiskFull)
		require.Equal(t, 1, r.commit("a").Duplicates)
		require.NoError(t, r.SetConfig(context.Background(), []byte("small")), "reading and settings go on")
		r.checkpointNow()
		require.Zero(t, r.Health().Checkpoint.Failures)
		disk.SetFree(1000)
		time.Sleep(2 * time.Second)
		r.commit("b")
		r.shutdown()

		disk.SetFree(10)
		again := start(t, guardedOptions(disk))
		require.Equal(t, StatusDiskLow, again.Health().Status)
		require.ErrorIs(t, again.refusal("c"), ErrDiskFull)
		requireOnce(t, again.counts(), []string{"a", "b"})
		again.shutdown()
	})
}

// The counts are shown even if the disk is full at the start.
func TestDiskFullAtStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opt := guardedOptions(nil)
		disk := twoCheckpoints(t, testOptions(nil))
		opt.FS = disk
		opt.Config = func() []byte { return []byte("later") }
		disk.SetFree(0)
		disk.FailAlways(fsystest.OpWrite, syscall.ENOSPC)
		disk.FailAlways(fsystest.OpPreallocate, syscall.ENOSPC)
		r := start(t, opt)
		require.Equal(t, StatusDiskLow, r.Health().Status)
		requireOnce(t, r.counts(), numbered("x", 0, 90))
		require.ErrorIs(t, r.refusal("a"), ErrDiskFull)
		disk.ClearFaults()
		disk.SetFree(1 << 30)
		time.Sleep(3 * time.Second)
		r.commit("a")
		require.EqualValues(t, 1, r.counts()["a"])
		require.NoError(t, r.Do(context.Background(), func() { require.Equal(t, "later", r.state.config) }))
		r.shutdown()
	})
}

// A checkpoint that finds no room is tried again, and loses nothing.
func TestDiskFullDuringCheckpoint(t *testing.T) {
	for _, file := range []string{"pack-", "ids-", "manifest-", "dead-letters/"} {
		t.Run(file, func(t *testing.T) {
			disk := fsystest.New()
			opt := testOptions(disk)
			r := start(t, opt)
			r.commit(numbered("x", 0, 50)...)
			r.commit("refuse-1")
			r.checkpointNow()
			r.commit(numbered("y", 0, 50)...)
			r.commit("refuse-2")
			disk.FailNamed(fsystest.OpWrite, file, -1, syscall.ENOSPC)
			r.checkpointNow()
			disk.ClearFaults()
			require.EqualValues(t, 1, r.Health().Checkpoint.Failures)
			r.commit("z")
			r.checkpointNow()
			require.EqualValues(t, 1, r.Health().Checkpoint.Failures)
			clone := disk.CrashClone(0, 1)
			r.shutdown()
			opt.FS = clone
			again := start(t, opt)
			require.Zero(t, again.Health().Checkpoint.Fallbacks)
			require.Zero(t, again.Health().Recovered)
			require.Len(t, again.counts(), 101)
			require.Equal(t, 101, again.commit(append(numbered("x", 0, 50), append(numbered("y", 0, 50), "z")...)...).Duplicates)
			require.Len(t, again.deadLetters(t), 2)
			again.shutdown()
		})
	}
}

// A failed sync ends the engine: no event is acknowledged, and nothing is tried twice.
func TestFailedSync(t *testing.T) {
	for _, file := range []string{"/wal/", "/pack-", "/ids-", "/dead-letters/"} {
		t.Run(strings.Trim(file, "/-"), func(t *testing.T) {
			disk := fsystest.New()
			opt := testOptions(disk)
			r := start(t, opt)
			r.commit("before", "refuse-1")
			disk.FailNamed(fsystest.OpSync, file, 1, syscall.EIO)
			if file == "/wal/" {
				var wg sync.WaitGroup
				for i := range 20 {
					wg.Go(func() {
						if _, err := r.Commit(context.Background(), testBatch(fmt.Sprint(i))); err == nil {
							t.Error("told that it is safe")
						}
					})
				}
				wg.Wait()
			} else {
				require.NoError(t, r.Do(context.Background(), r.read.checkpoint))
			}
			err := <-r.end
			require.ErrorIs(t, err, syscall.EIO)
			require.Equal(t, StatusPoisoned, r.Health().Status)
			require.Contains(t, r.Health().Reason, "input/output error")
			require.ErrorIs(t, r.refusal("after"), ErrPoisoned)
			if file == "/wal/" {
				require.ErrorIs(t, err, wal.ErrPoisoned)
			}
			opt.FS = disk.CrashClone(100, 1)
			again := start(t, opt)
			require.EqualValues(t, 1, again.counts()["before"])
			again.shutdown()
		})
	}
}

// A write that fails for another reason than space leaves the log usable.
func TestFailedWrite(t *testing.T) {
	disk := fsystest.New()
	r := start(t, testOptions(disk))
	disk.FailNext(fsystest.OpWrite, syscall.EIO)
	require.ErrorIs(t, r.refusal("a"), ErrWriteFailed)
	require.Equal(t, 1, r.commit("a").Accepted)
	requireOnce(t, r.shutdown().all(), []string{"a"})
}

func TestHeartbeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, testOptions(fsystest.New()))
		time.Sleep(65 * time.Second)
		r.commit("a") // puts the next one off
		time.Sleep(9 * time.Second)
		state := r.shutdown()
		require.Equal(t, []record.Beat{record.BeatStart, record.BeatTick, record.BeatTick, record.BeatTick, record.BeatTick,
			record.BeatTick, record.BeatTick, record.BeatStop}, state.beats)
	})
}

// settableClock is a wall clock that can be set, and an uptime that cannot.
type settableClock struct {
	mu    sync.Mutex
	ahead time.Duration
	slept time.Duration
	began time.Time
}

func (c *settableClock) set(ahead, slept time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ahead, c.slept = ahead, slept
}

func (c *settableClock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.ahead)
}

func (c *settableClock) uptime() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Since(c.began) + c.slept
}

func TestClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk, clock := fsystest.New(), &settableClock{began: time.Now()}
		opt := testOptions(disk)
		opt.Now, opt.Uptime = clock.now, clock.uptime
		r := start(t, opt)
		r.commit("a")
		mark := r.Health().Watermark

		clock.set(-time.Minute, 0)
		r.commit("b")
		require.Equal(t, mark, r.Health().Watermark, "receive times never go backwards")

		clock.set(59*time.Minute, 0)
		r.commit("c")
		require.Equal(t, mark.Add(59*time.Minute), r.Health().Watermark)

		clock.set(3*time.Hour, 0)
		require.ErrorIs(t, r.refusal("d"), ErrClockJump)
		require.Equal(t, 1, r.commit("a").Duplicates)
		require.Equal(t, StatusClockJump, r.Health().Status)
		require.ErrorIs(t, r.SetConfig(context.Background(), []byte("x")), ErrClockJump)
		time.Sleep(time.Minute) // the heartbeats keep silent
		require.Equal(t, mark.Add(59*time.Minute), r.Health().Watermark)

		clock.set(time.Hour, 0)
		r.commit("d")
		require.Equal(t, StatusReady, r.Health().Status)

		// The machine slept for a day: that is no jump.
		clock.set(25*time.Hour, 24*time.Hour)
		r.commit("e")

		clock.set(100*time.Hour, 24*time.Hour)
		require.ErrorIs(t, r.refusal("f"), ErrClockJump)
		state := r.shutdown()
		require.NotContains(t, state.beats, record.BeatStop)

		again := start(t, opt) // a restart confirms the clock
		again.commit("f")
		requireOnce(t, again.counts(), []string{"a", "b", "c", "d", "e", "f"})
		again.shutdown()
	})
}

// What is retained is deleted for its age by the receive times of the log. A clock that is set far ahead for a while,
// or back, deletes nothing.
func TestClockJumpsKeepTheHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := &settableClock{began: time.Now()}
		opt := testOptions(fsystest.New())
		opt.Now, opt.Uptime = clock.now, clock.uptime
		opt.Checkpoint = CheckpointOptions{Interval: 10 * time.Second, LogBytes: 1000}
		r := start(t, opt, Parts{History: retained.Bounds{Age: 24 * time.Hour, Bytes: 1 << 30}})
		for i := range 300 {
			r.commit(strconv.Itoa(i))
		}
		time.Sleep(5 * time.Minute)
		before := r.History().Stats()
		require.Greater(t, before.Files, 2)

		clock.set(30*24*time.Hour, 0)
		require.ErrorIs(t, r.refusal("x"), ErrClockJump)
		time.Sleep(5 * time.Minute)
		require.Equal(t, before, r.History().Stats())

		clock.set(-time.Hour, 0)
		for i := range 300 {
			r.commit("back" + strconv.Itoa(i))
		}
		time.Sleep(5 * time.Minute)
		after := r.History().Stats()
		require.Greater(t, after.Files, before.Files)
		require.Equal(t, before.First, after.First)
		require.Equal(t, before.From, after.From)

		clock.set(23*time.Hour, 23*time.Hour) // asleep for so long
		r.commit("late")
		time.Sleep(2 * time.Hour) // heartbeats come
		require.Greater(t, r.History().Stats().First, after.First, "a day has really passed")
		r.shutdown()
	})
}

// A clock that is set by an hour or a day is named once when that is found and once when it is over, and nothing that
// was accepted counts twice or not at all.
func TestClockIsNamed(t *testing.T) {
	for _, c := range []struct {
		by      time.Duration
		message string
	}{
		{time.Hour + time.Second, "the clock is 1h0m11s ahead of the log"},
		{24 * time.Hour, "the clock is 24h0m10s ahead of the log"},
		{-time.Hour, "the clock is 59m50s behind the log"},
		{-24 * time.Hour, "the clock is 23h59m50s behind the log"},
		{-30 * time.Second, ""}, // a small correction
	} {
		synctest.Test(t, func(t *testing.T) {
			disk, clock, log := fsystest.New(), &settableClock{began: time.Now()}, &testkit.Buffer{}
			opt := testOptions(disk)
			opt.Now, opt.Uptime, opt.Logger = clock.now, clock.uptime, slog.New(slog.NewTextHandler(log, nil))
			opt.Metrics = NewMetrics(metrics.NewSet())
			gauge := func() string {
				var b strings.Builder
				opt.Metrics.set.WritePrometheus(&b)
				return b.String()
			}
			r := start(t, opt)
			r.commit("a")
			mark := r.Health().Watermark
			clock.set(c.by, 0)
			time.Sleep(time.Minute - time.Second) // without a sender
			if c.message == "" {
				require.Empty(t, r.Health().Troubles)
				require.NotContains(t, log.String(), "part=clock")
				r.shutdown()
				return
			}
			require.Equal(t, "clock", r.Health().Troubles[0].Part)
			require.Contains(t, gauge(), `sloengine_ingest_trouble{part="clock"} 1`)
			require.Equal(t, 1, strings.Count(log.String(), "part of the engine fails"), log)
			require.Contains(t, log.String(), c.message)
			require.Equal(t, mark, r.Health().Watermark)
			require.Equal(t, c.by > 0, r.ClockJumped())
			if c.by > 0 {
				require.ErrorIs(t, r.refusal("b"), ErrClockJump)
			} else {
				require.Equal(t, 1, r.commit("b").Accepted)
			}
			require.Equal(t, 1, r.commit("a").Duplicates)

			clock.set(0, 0)
			time.Sleep(11 * time.Second)
			require.Empty(t, r.Health().Troubles)
			require.False(t, r.ClockJumped())
			require.Contains(t, gauge(), `sloengine_ingest_trouble{part="clock"} 0`)
			require.Equal(t, 1, strings.Count(log.String(), "part of the engine works again"), log)
			require.Equal(t, 1, strings.Count(log.String(), "part=clock err"), log)
			r.commit("b")

			// A restart behind the log says so, too, and knows all ids.
			clock.set(-c.by.Abs(), 0)
			r.shutdown()
			opt.Metrics, opt.State = NewMetrics(metrics.NewSet()), nil
			again := start(t, opt)
			require.Equal(t, "clock", again.Health().Troubles[0].Part)
			require.Equal(t, 2, again.commit("a", "b").Duplicates)
			again.commit("c")
			requireOnce(t, again.counts(), []string{"a", "b", "c"})
			again.shutdown()
		})
	}
}

// slowState holds up the fold until it is let go.
type slowState struct {
	*tally
	gate chan struct{}
}

func (s *slowState) Apply(rec wal.Record, refuse Refuse) error {
	<-s.gate
	return s.tally.Apply(rec, refuse)
}

// While the log is read after a start nothing is accepted, and it can be seen
// how far that got.
func TestRecovering(t *testing.T) {
	opt := testOptions(twoCheckpoints(t, testOptions(nil)))
	state := &slowState{newTally(), make(chan struct{})}
	opt.State = state
	r := launch(t, opt)
	for range 5 {
		state.gate <- struct{}{}
	}
	require.Eventually(t, func() bool { return r.Health().Progress >= 0.75 }, testkit.Patience, time.Millisecond)
	require.Equal(t, StatusRecovering, r.Health().Status)
	require.Less(t, r.Health().Progress, 1.)
	require.ErrorIs(t, r.refusal("a"), ErrNotReady)
	require.ErrorIs(t, r.Do(context.Background(), func() {}), ErrNotReady)
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	require.ErrorIs(t, r.SetConfig(ctx, nil), context.DeadlineExceeded)
	close(state.gate)
	<-r.Ready()
	require.EqualValues(t, 10, r.Health().Recovered)
	require.EqualValues(t, 1, r.Health().Progress)
	r.state = state.tally
	requireOnce(t, r.counts(), numbered("x", 0, 90))
	r.shutdown()
}

func TestStopWhileRecovering(t *testing.T) {
	opt := testOptions(twoCheckpoints(t, testOptions(nil)))
	state := &slowState{newTally(), make(chan struct{})}
	opt.State = state
	r := launch(t, opt)
	state.gate <- struct{}{}
	r.stop()
	close(state.gate)
	require.NoError(t, <-r.end)
	require.Equal(t, StatusStopped, r.Health().Status)
}

// Nothing short of a failed sync ends the engine: it refuses, logs that once, and continues when it
// can.
func TestPassingFaults(t *testing.T) {
	for name, c := range map[string]struct {
		op    fsystest.Op
		fault error
		part  string
		want  error // of a commit that needs a new segment; nil: it is stored
	}{
		"no descriptor for a segment":     {fsystest.OpCreate, syscall.EMFILE, "log", ErrNoFiles},
		"no descriptor for the folder":    {fsystest.OpOpenDir, syscall.ENFILE, "log", ErrNoFiles},
		"a segment cannot be opened":      {fsystest.OpCreate, syscall.EIO, "log", ErrWriteFailed},
		"no descriptor to read a segment": {fsystest.OpOpen, syscall.EMFILE, "fold", nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				disk := fsystest.New()
				opt := testOptions(disk)
				opt.SegmentBytes = 512
				r := start(t, opt)
				first, second, third := numbered("a", 0, 60), numbered("b", 0, 60), numbered("c", 0, 60)
				r.commit(first...)
				r.counts()
				disk.FailAlways(c.op, c.fault)
				for range 3 {
					_, err := r.Commit(context.Background(), testBatch(second...))
					if c.want == nil {
						require.NoError(t, err)
					} else {
						require.ErrorIs(t, err, c.want)
					}
				}
				time.Sleep(time.Second)
				health := r.Health()
				require.Equal(t, StatusReady, health.Status)
				require.Len(t, health.Troubles, 1)
				require.Equal(t, c.part, health.Troubles[0].Part)
				disk.ClearFaults()
				r.commit(second...)
				r.commit(third...)
				time.Sleep(2 * time.Second)
				require.Empty(t, r.Health().Troubles)
				requireOnce(t, r.shutdown().all(), append(append(first, second...), third...))
			})
		})
	}
}

// A checkpoint for which a file cannot be opened is made later.
func TestPassingFaultsOfCheckpoints(t *testing.T) {
	for _, fault := range []error{syscall.EMFILE, syscall.EIO, syscall.EINTR} {
		for _, op := range []fsystest.Op{fsystest.OpCreate, fsystest.OpOpenDir, fsystest.OpRename} {
			t.Run(fmt.Sprintf("%v at %s", fault, op), func(t *testing.T) {
				disk := fsystest.New()
				opt := testOptions(disk)
				r := start(t, opt)
				r.commit("a", "refuse-1")
				r.counts()
				disk.FailAlways(op, fault)
				require.NoError(t, r.Do(context.Background(), r.read.checkpoint))
				require.Eventually(t, func() bool { return r.Health().Checkpoint.Failures > 0 },
					testkit.Patience, time.Millisecond)
				require.Eventually(t, func() bool { return len(r.Health().Troubles) > 0 },
					testkit.Patience, time.Millisecond)
				require.Equal(t, StatusReady, r.Health().Status)
				disk.ClearFaults()
				require.Eventually(t, func() bool {
					r.checkpointNow()
					return !r.Health().Checkpoint.At.IsZero() && len(r.Health().Troubles) == 0
				}, testkit.Patience, time.Millisecond)
				opt.FS = disk.CrashClone(0, 1)
				r.shutdown()
				again := start(t, opt)
				require.EqualValues(t, 1, again.counts()["a"])
				require.Len(t, again.deadLetters(t), 1)
				again.shutdown()
			})
		}
	}
}

// A checkpoint that cannot be opened for lack of descriptors is not a broken one.
func TestNoDescriptorForACheckpoint(t *testing.T) {
	disk := twoCheckpoints(t, testOptions(nil))
	opt := testOptions(nil)
	opt.FS = disk
	disk.Before(nil)
	names, err := disk.List("/data/checkpoints")
	require.NoError(t, err)
	failing := &manifestFS{Mem: disk, fail: true}
	opt.FS = failing
	r := launch(t, opt)
	require.ErrorIs(t, <-r.end, syscall.EMFILE)
	after, err := disk.List("/data/checkpoints")
	require.NoError(t, err)
	require.Equal(t, names, after)
	failing.fail = false
	again := start(t, opt)
	require.Zero(t, again.Health().Checkpoint.Fallbacks)
	requireOnce(t, again.counts(), numbered("x", 0, 90))
	again.shutdown()
}

// manifestFS has no descriptor for manifests.
type manifestFS struct {
	*fsystest.Mem
	fail bool
}

func (f *manifestFS) Open(name string) (fsys.File, error) {
	if f.fail && strings.Contains(name, "manifest-") {
		return nil, syscall.EMFILE
	}
	return f.Mem.Open(name)
}
