//go:build !linux

package engine

import "time"

// uptime is the time since the process was started. Some systems leave out the
// time for which the machine slept; a long sleep then looks like a clock that
// was set ahead.
func uptime() time.Duration { return time.Since(processStart) }
