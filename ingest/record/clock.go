package record

import (
	"fmt"
	"sync/atomic"
	"time"
)

var processStart = time.Now()

// Clock gives records their receive times. They never go backwards, and they do not follow a clock that was set far
// ahead: records with a wrong time could not be corrected later. Its methods are for one goroutine, the one that writes
// the log; only Jumped may be called by any.
type Clock struct {
	now     func() time.Time
	uptime  func() time.Duration
	maxJump time.Duration

	last   int64         // Unix ns of the last durable record; 0 if there is none
	ahead  time.Duration // of last, at the last Next
	at     time.Duration // uptime at that record
	jumped atomic.Bool   // set by Next, read by the health of the engine
}

// NewClock returns a Clock that refuses jumps of more than maxJump. The uptime distinguishes a machine that slept from
// a clock that was set ahead.
func NewClock(now func() time.Time, uptime func() time.Duration, maxJump time.Duration) *Clock {
	return &Clock{now: now, uptime: uptime, maxJump: maxJump}
}

// Start continues from the time of the log's last record. The process did not observe the time since then, so the
// present time is trusted.
func (c *Clock) Start(last int64) {
	c.last = max(last, c.now().UnixNano())
	c.at = c.uptime()
}

// Next returns the receive time for the next records, in Unix nanoseconds, or false while the clock is not trusted.
func (c *Clock) Next() (int64, bool) {
	now := c.now().UnixNano()
	c.ahead = time.Duration(now - c.last)
	jumped := c.ahead > c.maxJump && c.ahead-(c.uptime()-c.at) > c.maxJump
	c.jumped.Store(jumped)
	return max(now, c.last), !jumped
}

// Wrote notes that a record with that time is durable.
func (c *Clock) Wrote(at int64) {
	c.last = at
	c.at = c.uptime()
}

// maxBehind is how far a clock may be behind the log unnoticed. Clocks that are corrected often go back a little.
const maxBehind = time.Minute

// ClockError says that the clock disagrees with the log.
type ClockError struct{ Ahead time.Duration } // of the last record; negative if the clock is behind it

func (e *ClockError) Error() string {
	if e.Ahead < 0 {
		return fmt.Sprintf("the clock is %s behind the log", (-e.Ahead).Round(time.Second))
	}
	return fmt.Sprintf("the clock is %s ahead of the log", e.Ahead.Round(time.Second))
}

// Check returns a *ClockError if the last Next found the clock ahead, so that nothing is accepted, or behind the log,
// so that the last receive time is reused.
func (c *Clock) Check() error {
	if c.Jumped() || c.ahead < -maxBehind {
		return &ClockError{c.ahead}
	}
	return nil
}

// Jumped reports whether the clock is not trusted now.
func (c *Clock) Jumped() bool { return c.jumped.Load() }
