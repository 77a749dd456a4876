package engine

import (
	"sync/atomic"
	"time"
)

var processStart = time.Now()

// recordClock gives receive times that never go backwards, and refuses to
// follow a clock that was set far ahead: times of records can't be taken back.
type recordClock struct {
	now     func() time.Time
	uptime  func() time.Duration
	maxJump time.Duration

	last   atomic.Int64  // Unix ns of the last durable record; 0 if there is none
	at     time.Duration // uptime at that record
	jumped atomic.Bool   // the clock is ahead now
}

// start takes up the time of the log's last record. Whatever passed since then
// passed while nobody looked, so the present clock is believed.
func (c *recordClock) start(last int64) {
	c.last.Store(last)
	c.at = c.uptime()
	if now := c.now().UnixNano(); now > last {
		c.last.Store(now)
	}
}

// next returns the receive time for the next records, in Unix nanoseconds, or
// false while the clock is not believed.
func (c *recordClock) next() (int64, bool) {
	now, last := c.now().UnixNano(), c.last.Load()
	ahead := time.Duration(now - last)
	if ahead > c.maxJump && ahead-(c.uptime()-c.at) > c.maxJump {
		c.jumped.Store(true)
		return 0, false
	}
	c.jumped.Store(false)
	return max(now, last), true
}

// wrote says that a record with that time is durable.
func (c *recordClock) wrote(at int64) {
	c.last.Store(at)
	c.at = c.uptime()
}
