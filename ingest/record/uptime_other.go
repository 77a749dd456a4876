//go:build !linux

package record

import "time"

// Uptime is the time since the process started. Some systems do not count the time for which the machine slept. There,
// a long sleep looks like a clock that was set ahead.
func Uptime() time.Duration { return time.Since(processStart) }
