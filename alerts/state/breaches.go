package state

import (
	"time"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
)

// breaches remembers the counts of limits for a few minutes: a report has them
// over a day and longer only.
type breaches map[string]*breachCount

type breachCount struct {
	samples []breachSample // oldest first
}

type breachSample struct {
	at       time.Time
	critical uint64
}

// breachMemory is the longest window over which breaches can be counted, and a
// little more.
const breachMemory = 6 * time.Minute

// observe takes the counts of the limits that some alert is about.
func (b *breaches) observe(st *step) {
	if *b == nil {
		*b = breaches{}
	}
	if len(st.plan.limits) == 0 {
		clear(*b)
		return
	}
	for i := range st.r.Thresholds {
		l := &st.r.Thresholds[i]
		if !st.plan.limits[l.Threshold] {
			continue
		}
		id := sla.ThresholdID(l.Threshold.Service, l.Threshold.Name)
		c := (*b)[id]
		if c == nil {
			c = &breachCount{}
			(*b)[id] = c
		}
		n := len(c.samples)
		if n > 0 && (st.gap || l.Total.Critical < c.samples[n-1].critical) {
			c.samples = c.samples[:0] // counted again, or not watched in between
		}
		drop := 0
		for drop+1 < len(c.samples) && st.now.Sub(c.samples[drop+1].at) >= breachMemory {
			drop++
		}
		c.samples = append(c.samples[:0], c.samples[drop:]...)
		c.samples = append(c.samples, breachSample{st.now, l.Total.Critical})
	}
}

// recent counts the critical breaches of the last w; whole is false until the
// limit was watched for so long, and then those are counted that were seen.
func (b breaches) recent(l *slo.Threshold, now time.Time, w time.Duration) (n uint64, whole bool) {
	c := b[sla.ThresholdID(l.Service, l.Name)]
	if c == nil {
		return 0, false
	}
	newest := c.samples[len(c.samples)-1].critical
	for i := len(c.samples) - 1; i >= 0; i-- {
		if now.Sub(c.samples[i].at) >= w {
			return newest - c.samples[i].critical, true
		}
	}
	return newest - c.samples[0].critical, false
}
