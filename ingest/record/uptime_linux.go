package record

import (
	"time"

	"golang.org/x/sys/unix"
)

// Uptime is the time since the machine started, including sleep.
func Uptime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return time.Since(processStart)
	}
	return time.Duration(ts.Nano())
}
