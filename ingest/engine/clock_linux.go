package engine

import (
	"time"

	"golang.org/x/sys/unix"
)

// uptime is the time since the machine was started, sleep included.
func uptime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return time.Since(processStart)
	}
	return time.Duration(ts.Nano())
}
