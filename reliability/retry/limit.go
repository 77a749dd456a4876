package retry

import (
	"cmp"
	"fmt"
	"math"
	"sync"
	"time"
)

// Exceed is the treatment of a retry beyond the rate limit.
type Exceed string

const (
	// Delay makes it wait for its turn. The default.
	Delay Exceed = "delay"
	// Drop gives the call up, and its items with it. They must be counted.
	Drop Exceed = "drop"
	// DeadLetter gives the call up and stores its items as dead letters.
	DeadLetter Exceed = "dead_letter"
)

// LimitOptions of a Limit.
type LimitOptions struct {
	// PerInterval is how many units may pass within any span of Interval. Default 100.
	PerInterval int `yaml:"limit" min:"1" max:"1000000"`
	// Interval defaults to 1 s.
	Interval time.Duration `yaml:"interval" min:"1ms" max:"1d"`
	// OnExceed is the treatment of the rest. Default Delay.
	OnExceed Exceed `yaml:"on_exceeded" one:"delay drop dead_letter"`
}

func (o *LimitOptions) applyDefaults() {
	o.PerInterval = cmp.Or(o.PerInterval, 100)
	o.Interval = cmp.Or(o.Interval, time.Second)
	o.OnExceed = cmp.Or(o.OnExceed, Delay)
}

func (o *LimitOptions) validate() error {
	switch {
	case o.PerInterval < 1 || o.PerInterval > 1_000_000:
		return fmt.Errorf("retry: invalid limit of %d per interval (1 to 1,000,000)", o.PerInterval)
	case o.Interval < time.Millisecond:
		return fmt.Errorf("retry: invalid limit interval %s (at least 1ms)", o.Interval)
	case o.OnExceed != Delay && o.OnExceed != Drop && o.OnExceed != DeadLetter:
		return fmt.Errorf("retry: unknown reaction %q to an exceeded limit", o.OnExceed)
	}
	return nil
}

// Limit is a rate limit for retries alone; first attempts don't pass through it. It
// holds strictly: no span of Interval, wherever it begins, sees more than PerInterval
// units. A token bucket would let twice that through after a quiet time, which is
// exactly when a target has just come back. Safe for concurrent use.
//
// It remembers one entry per grant of the last interval.
type Limit struct {
	o       LimitOptions
	mu      sync.Mutex
	grants  []grant // ascending; those before head are forgotten
	head    int
	inUse   int
	allowed uint64
	limited uint64
}

type grant struct {
	at time.Time
	n  int
}

// NewLimit checks the options and fills in the defaults.
func NewLimit(o LimitOptions) (*Limit, error) {
	o.applyDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	return &Limit{o: o}, nil
}

// OnExceed returns the option of that name.
func (l *Limit) OnExceed() Exceed { return l.o.OnExceed }

// Take asks for want units at the time now and gets between 0 and all of them. With 0, wait says
// when to ask again.
func (l *Limit) Take(now time.Time, want int) (granted int, wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forget(now)
	granted = min(want, l.o.PerInterval-l.inUse)
	if granted <= 0 {
		l.limited++
		return 0, l.wait(now)
	}
	l.grants = append(l.grants, grant{now, granted})
	l.inUse += granted
	l.allowed += uint64(granted)
	return granted, 0
}

// Free returns the result that Take would, without taking anything.
func (l *Limit) Free(now time.Time, want int) (granted int, wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forget(now)
	if granted = min(want, l.o.PerInterval-l.inUse); granted > 0 {
		return granted, 0
	}
	return 0, l.wait(now)
}

func (l *Limit) wait(now time.Time) time.Duration {
	if l.head == len(l.grants) { // nothing was asked for
		return l.o.Interval
	}
	return max(l.grants[l.head].at.Add(l.o.Interval).Sub(now), time.Millisecond)
}

// Shrink lowers the limit to n units, if it is higher.
func (l *Limit) Shrink(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.o.PerInterval = min(l.o.PerInterval, max(n, 1))
}

// Grow multiplies the limit by factor, up to most units.
func (l *Limit) Grow(factor float64, most int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.o.PerInterval = int(math.Min(math.Ceil(float64(l.o.PerInterval)*factor), float64(most)))
}

func (l *Limit) forget(now time.Time) {
	for l.head < len(l.grants) && now.Sub(l.grants[l.head].at) >= l.o.Interval {
		l.inUse -= l.grants[l.head].n
		l.head++
	}
	if l.head == len(l.grants) {
		l.grants, l.head = l.grants[:0], 0
	} else if l.head > 64 && l.head > len(l.grants)/2 {
		l.grants = append(l.grants[:0], l.grants[l.head:]...)
		l.head = 0
	}
}

// LimitStatus holds the figures of a Limit since it was made.
type LimitStatus struct {
	PerInterval int
	Allowed     uint64 // units let through
	Limited     uint64 // requests that got no unit
}

// Status returns the current state.
func (l *Limit) Status() LimitStatus {
	l.mu.Lock()
	defer l.mu.Unlock()
	return LimitStatus{l.o.PerInterval, l.allowed, l.limited}
}
