package engine

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sloengine/sloengine/ingest/dedup"
	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/ingest/record"
	"github.com/sloengine/sloengine/ingest/trace"
	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/reliability/retained"
)

// This file holds the settings of a caller, with defaults and bounds. Options are fixed once Open has
// returned. Parts come later, with Run, because sinks and dead letters need the open log.

// Options configure an Engine. A zero field takes the default in its comment.
//
// Sizes are in bytes. The functions (Now, Critical, Whole, MergeBy, MergeWindow) are called by the committer, and Now
// also by others, so they must be quick and safe for concurrent use.
type Options struct {
	FS    fsys.FS // the operating system's
	Dir   string  // the data folder, created if missing; required
	State State   // required, and empty

	// Config is written to the log at every start, before the first event is accepted. It is called once the State holds
	// the log, by the goroutine that owns the State. nil writes no configuration.
	Config func() []byte

	Metrics *Metrics         // one of its own
	Logger  *slog.Logger     // slog.Default
	Now     func() time.Time // time.Now
	// Uptime is a clock that cannot be set and that runs while the machine sleeps. It distinguishes sleep from a clock
	// that was set ahead.
	Uptime func() time.Duration

	// AcceptLoss starts with a damaged or incomplete data folder, which is refused otherwise. Damaged files are moved
	// aside, never deleted. Their contents are lost.
	AcceptLoss bool
	// Locked says that the caller holds the lock of the folder, and releases it after Close.
	Locked bool

	SegmentBytes  int64 // of the log; 64 MiB
	QueueBytes    int64 // of requests in the queue; 64 MiB
	GroupBytes    int   // written with one sync; 8 MB
	GroupRequests int   // answered with one sync; 4096

	IDs        IDOptions
	Checkpoint CheckpointOptions
	Disk       DiskOptions

	Heartbeat    time.Duration // of silence, after which a heartbeat is written; 10s
	MaxClockJump time.Duration // ahead of the last record while running; 1h

	DeadLetterSegmentBytes int64 // of the files that the engine opens itself; 10 MB

	// Limiter decides which events exceed their rate limit. nil admits all. See Admit.
	Limiter Limiter
	// Critical reports whether an event over its rate limit must not be dropped or sampled. The caller of Admit gets it
	// back in Result.Critical. nil: no event is critical.
	Critical func(v *event.View) bool
	// Whole reports whether an event must be neither sampled nor merged: it passes unless the Limiter throttles or drops
	// it. nil: no event is exempt.
	Whole func(v *event.View) bool
	// MergeBy names the attributes, ascending, and the step of time by which events of a service must agree to be merged
	// into one when the Limiter says so. nil: such events pass unmerged.
	MergeBy func(service []byte) (attrs []string, step time.Duration)
	// MergeWindow is how long a request with an event to be merged may wait for others like it, at most until 10 ms
	// before its deadline. The committer asks once per group. nil or 0: events are merged only with those of the same
	// group.
	MergeWindow func() time.Duration

	// CrashPoint, if set, is called at every CrashPoint. Crash tests stop there.
	CrashPoint func(CrashPoint)
}

// Parts are the components that are added to an engine once its log is open.
type Parts struct {
	DeadLetters DeadLetters // nil: files in the data folder
	// Retain is the oldest record of the log that a sink still needs. ok is false if no record is needed. nil: no
	// record is.
	Retain func() (seq uint64, ok bool)
	// Instance begins the IDs of the fold's dead letters when several engines share one storage. Without it, places in
	// two logs could give the same ID.
	Instance string
	// Traces takes the trace ids of batches whose events do not carry them, by record, for the State. nil: they are lost.
	Traces *trace.Table
	// History says how much of the log behind the last checkpoint is retained; zero: nothing. Its SetBounds changes it.
	History retained.Bounds
}

// IDOptions bound the deduplication table.
type IDOptions = dedup.Options

// CheckpointOptions say how often a checkpoint is made: whichever is reached first.
type CheckpointOptions struct {
	Interval time.Duration `yaml:"interval" above:"0"`      // 30s
	LogBytes int64         `yaml:"log" above:"0" is:"size"` // folded since the last one; 64 MiB
}

// DiskOptions say when the disk counts as full, so that checkpoints still fit when events no longer do.
type DiskOptions struct {
	// LowWater is the number of free bytes below which nothing is accepted.
	// 0 is 256 MiB. A negative number disables the guard and the reserve.
	LowWater int64 `yaml:"low_water" is:"size"`
	// ReserveBytes is the size of a file that is deleted when the disk is full, so that a checkpoint can still be
	// written. 0 is 16 MiB.
	ReserveBytes int64
}

func (o *Options) applyDefaults() {
	if o.FS == nil {
		o.FS = fsys.OS()
	}
	if o.Metrics == nil {
		o.Metrics = NewMetrics(metrics.NewSet())
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Uptime == nil {
		o.Uptime = record.Uptime
	}
	if o.CrashPoint == nil {
		o.CrashPoint = func(CrashPoint) {}
	}
	o.SegmentBytes = cmp.Or(o.SegmentBytes, 64<<20)
	o.QueueBytes = cmp.Or(o.QueueBytes, 64<<20)
	o.GroupBytes = cmp.Or(o.GroupBytes, 8e6)
	o.GroupRequests = cmp.Or(o.GroupRequests, 4096)
	o.IDs.Bytes = cmp.Or(o.IDs.Bytes, 512<<20)
	o.IDs.MaxAge = cmp.Or(o.IDs.MaxAge, 7*24*time.Hour)
	o.Checkpoint.Interval = cmp.Or(o.Checkpoint.Interval, 30*time.Second)
	o.Checkpoint.LogBytes = cmp.Or(o.Checkpoint.LogBytes, 64<<20)
	o.Disk.LowWater = cmp.Or(o.Disk.LowWater, 256<<20)
	o.Disk.ReserveBytes = cmp.Or(o.Disk.ReserveBytes, 16<<20)
	o.Heartbeat = cmp.Or(o.Heartbeat, 10*time.Second)
	o.MaxClockJump = cmp.Or(o.MaxClockJump, time.Hour)
	o.DeadLetterSegmentBytes = cmp.Or(o.DeadLetterSegmentBytes, 10e6)
}

// validate refuses values that no default can repair. A zero was replaced by its default before, so only negative
// values are left to refuse.
func (o *Options) validate() error {
	if o.Dir == "" {
		return errors.New("engine: Options.Dir is required")
	}
	if o.State == nil {
		return errors.New("engine: Options.State is required")
	}
	for name, value := range map[string]int64{
		"SegmentBytes": o.SegmentBytes, "QueueBytes": o.QueueBytes, "GroupBytes": int64(o.GroupBytes),
		"GroupRequests": int64(o.GroupRequests), "IDs.Bytes": o.IDs.Bytes, "IDs.MaxAge": int64(o.IDs.MaxAge),
		"Checkpoint.Interval": int64(o.Checkpoint.Interval), "Checkpoint.LogBytes": o.Checkpoint.LogBytes,
		"Disk.ReserveBytes": o.Disk.ReserveBytes, "Heartbeat": int64(o.Heartbeat),
		"MaxClockJump": int64(o.MaxClockJump), "DeadLetterSegmentBytes": o.DeadLetterSegmentBytes,
	} {
		if value < 0 {
			return fmt.Errorf("engine: Options.%s must not be negative", name)
		}
	}
	return nil
}
