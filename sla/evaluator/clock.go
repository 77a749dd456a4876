package evaluator

import (
	"fmt"
	"time"
)

// Bounds of what the wall clock may do between two ticks.
const (
	// maxJump is how far the wall clock may run ahead of the time that passed.
	maxJump = time.Hour
	// clockPatience is how long a clock that jumped must run on steadily before it
	// is believed: a machine that slept is right to have jumped, and an engine that
	// refused for ever would need a restart.
	clockPatience = 5 * time.Minute
)

// clockGuard decides whether a tick's wall-clock time can be believed, by
// comparing it with a clock that only ever runs forward.
type clockGuard struct {
	ok       bool // whether the two below are set
	wall     time.Time
	mono     time.Duration
	doubting time.Duration // mono at which the present doubt began; -1 if none
	last     time.Time     // wall at the last check, believed or not
	lastMono time.Duration
}

// check takes the wall clock, the time since some fixed moment, and whether others refuse the clock. It returns
// why the tick must not be made, or "" to go on.
func (c *clockGuard) check(wall time.Time, mono time.Duration, refused bool) string {
	wall = wall.Round(0) // compare what the clock shows
	if !c.ok {
		c.believe(wall, mono)
		return ""
	}
	var why string
	switch passed, shown := mono-c.mono, wall.Sub(c.wall); {
	case shown <= 0:
		why = fmt.Sprintf("the clock went back from %s to %s", c.wall.Format(time.RFC3339), wall.Format(time.RFC3339))
	case shown-passed >= maxJump:
		why = fmt.Sprintf("the clock shows %s, %s more than the time that passed", wall.Format(time.RFC3339),
			(shown - passed).Round(time.Second))
	default:
		c.believe(wall, mono)
		return ""
	}
	// Doubt begins again whenever the doubted clock itself jumps.
	drift := wall.Sub(c.last) - (mono - c.lastMono)
	if c.doubting < 0 || drift.Abs() > time.Minute {
		c.doubting = mono
	}
	c.last, c.lastMono = wall, mono
	if mono-c.doubting >= clockPatience && !refused {
		c.believe(wall, mono)
		return ""
	}
	return why
}

func (c *clockGuard) believe(wall time.Time, mono time.Duration) {
	*c = clockGuard{ok: true, wall: wall, mono: mono, doubting: -1, last: wall, lastMono: mono}
}
