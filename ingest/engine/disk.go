package engine

import (
	"log/slog"
	"math"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/sloengine/sloengine/reliability/fsys"
)

// The guard keeps a full disk from stopping anything but the intake of events: below the low-water mark they are
// refused, and a reserve is freed when the disk is full after all, so that a checkpoint fits and log can be
// deleted.
const diskInterval = time.Second

// diskGuard watches the free space. Below the low-water mark no events are accepted. When the disk is full, a reserve
// file is deleted, so that the accepted events can be checkpointed. It is created again when there is space.
//
// Sizes are bytes. The committer reads low before each group: it is a hint that comes up to a second late, and
// the write that finds no space is the authority.
type diskGuard struct {
	fs       fsys.FS
	dir      string
	lowWater int64 // negative: no guard, no reserve
	reserve  int64
	log      *slog.Logger

	// Written by the goroutine of run, read by the committer and Health. Only low and hit are also set by full, which any
	// goroutine that finds the disk full may call.
	free     atomic.Uint64
	low      atomic.Bool
	reserved atomic.Bool
	hit      atomic.Bool // the disk was full since the last check
	warned   bool        // that there is no reserve; only run's goroutine uses it
	poke     chan struct{}
}

func newDiskGuard(opt *Options) *diskGuard {
	return &diskGuard{
		fs: opt.FS, dir: opt.Dir, lowWater: opt.Disk.LowWater, reserve: opt.Disk.ReserveBytes, log: opt.Logger,
		poke: make(chan struct{}, 1),
	}
}

// name is the path of the reserve file. Its content means nothing.
func (d *diskGuard) name() string { return filepath.Join(d.dir, reserveName) }

// start checks once, before anything is written. A reserve that an earlier process left may be incomplete, so it is
// created again.
func (d *diskGuard) start() {
	if d.lowWater < 0 {
		return
	}
	d.checkSpace()
}

// run checks every second, and immediately after a write found the disk full.
func (d *diskGuard) run(stop <-chan struct{}) {
	ticker := time.NewTicker(diskInterval)
	defer ticker.Stop()
	for {
		select {
		case <-stop:
			return
		case <-ticker.C:
		case <-d.poke:
		}
		if d.lowWater >= 0 {
			d.checkSpace()
		}
	}
}

// missing is how many bytes of what is retained must give way, so that events are not refused: up to twice the
// low-water mark.
func (d *diskGuard) missing() int64 {
	if d.lowWater < 0 {
		return 0
	}
	free, err := d.fs.Free(d.dir) // not that of the last check: files may have been deleted since
	if err != nil {
		return 0
	}
	return max(0, 2*d.lowWater-int64(min(free, math.MaxInt64)))
}

// full notes that a write found no space. Events are refused from now on, before the next check.
func (d *diskGuard) full() {
	if d.lowWater < 0 {
		return
	}
	d.low.Store(true)
	d.hit.Store(true)
	select {
	case d.poke <- struct{}{}:
	default:
	}
}

// checkSpace sets low and keeps the reserve. Only the goroutine of run calls it, and start before that goroutine
// exists.
func (d *diskGuard) checkSpace() {
	if d.hit.Swap(false) {
		d.release()
		return // the next check finds out whether there is space again
	}
	free, err := d.fs.Free(d.dir)
	if err != nil {
		d.log.Error("free disk space unknown", "err", err)
		return
	}
	d.free.Store(free)
	// A deleted reserve must fit in again above the mark, or events would be accepted and refused in turns.
	need := uint64(d.lowWater)
	if !d.reserved.Load() && d.low.Load() {
		need += uint64(d.reserve)
	}
	low := free < need
	if d.low.Swap(low) != low {
		if low {
			d.log.Error("disk nearly full, refusing events", "free_bytes", free, "low_water_bytes", d.lowWater)
		} else {
			d.log.Info("disk has space again, accepting events", "free_bytes", free)
		}
	}
	if !low && !d.reserved.Load() {
		d.makeReserve()
	}
}

// makeReserve creates the reserve. It needs no sync: after a crash it is created again.
//
// The engine also runs without a reserve. The next check tries again, and the first failure in a row is
// logged.
func (d *diskGuard) makeReserve() {
	file, err := d.fs.Create(d.name())
	if err == nil {
		err = file.Preallocate(0, d.reserve)
		if cerr := file.Close(); err == nil {
			err = cerr
		}
		if err != nil {
			_ = d.fs.Remove(d.name())
		}
	}
	if err != nil && !d.warned {
		d.log.Warn("disk reserve not created", "err", err)
	}
	d.warned = err != nil
	d.reserved.Store(err == nil)
}

// release deletes the reserve. Called again, it only logs.
func (d *diskGuard) release() {
	d.log.Error("disk full, refusing events", "reserve_released", d.reserved.Load())
	if d.reserved.Swap(false) {
		if err := d.fs.Remove(d.name()); err != nil {
			d.log.Error("disk reserve not released", "err", err)
		}
	}
}
