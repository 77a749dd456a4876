package state

import (
	"fmt"
	"maps"
	"time"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
)

// limitBy is an event threshold with the attributes of its groups that an alert tells apart.
type limitBy struct {
	key string // names both
	by  []int  // places of the attributes in the threshold's GroupBy; nil = all groups together
}

func newLimitBy(l *slo.Threshold, by []int) limitBy {
	return limitBy{key: fmt.Sprint(sla.ThresholdID(l.Service, l.Name), by), by: by}
}

// breaches remembers the counts of limits for a few minutes: a report has them
// over a day and longer only.
type breaches map[string]*breachCounts // by key of limitBy

// breachCounts are those of one limit.
type breachCounts struct {
	since  time.Time // watched without a gap
	seen   time.Time // of the last report that has the limit
	groups map[string]*breachCount
	buf    []byte // for the key of a group
}

type breachCount struct {
	now     uint64         // of the report that is being observed
	seen    time.Time      // of the last report that has the group
	samples []breachSample // when the count grew, oldest first
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
		for _, by := range st.plan.limits[l.Threshold] {
			c := (*b)[by.key]
			if c == nil || st.gap {
				c = &breachCounts{since: st.now, groups: map[string]*breachCount{}} // not watched in between
				(*b)[by.key] = c
			}
			c.seen = st.now
			c.observe(l, by, st.now, st.last)
		}
	}
	maps.DeleteFunc(*b, func(_ string, c *breachCounts) bool { return !c.seen.Equal(st.now) }) // no alert is about it
}

func (c *breachCounts) observe(l *sla.ThresholdReport, by limitBy, now, last time.Time) {
	if by.by == nil {
		c.count(nil, nil, now, l.Total.Critical)
	}
	for i := range l.Groups {
		if by.by != nil && !l.Groups[i].Group.IsOther() {
			c.count(l.Groups[i].Group, by.by, now, l.Groups[i].Total.Critical)
		}
	}
	for key, g := range c.groups {
		if !g.seen.Equal(now) {
			delete(c.groups, key) // evicted
			continue
		}
		n := len(g.samples)
		if n > 0 && g.now < g.samples[n-1].critical {
			g.samples, c.since = g.samples[:0], now // counted again
		}
		if n == 0 && now.After(c.since) {
			g.samples = append(g.samples, breachSample{at: last}) // a group that the last report did not have
		}
		drop := 0
		for drop+1 < len(g.samples) && now.Sub(g.samples[drop+1].at) >= breachMemory {
			drop++
		}
		g.samples = append(g.samples[:0], g.samples[drop:]...)
		if n := len(g.samples); n == 0 || g.now > g.samples[n-1].critical { // the last one says it until then
			g.samples = append(g.samples, breachSample{now, g.now})
		}
	}
}

// count adds to the group that the attributes at the given places name.
func (c *breachCounts) count(values slo.Group, by []int, now time.Time, critical uint64) {
	c.buf = c.buf[:0]
	for _, at := range by {
		c.buf = appendGroupKey(c.buf, values[at])
	}
	g := c.groups[string(c.buf)]
	if g == nil {
		g = &breachCount{}
		c.groups[string(c.buf)] = g
	}
	if !g.seen.Equal(now) {
		g.now, g.seen = 0, now
	}
	g.now += critical
}

func appendGroupKey(buf []byte, value string) []byte {
	return append(append(buf, value...), 0xff) // no byte of UTF-8
}

// recent counts the critical breaches of the last w in a group of an SLO; whole is false until the
// limit was watched for so long, and then those are counted that were seen.
func (b breaches) recent(l limitBy, group slo.Group, now time.Time, w time.Duration) (n uint64, whole bool) {
	c := b[l.key]
	if c == nil {
		return 0, false
	}
	whole = now.Sub(c.since) >= w
	c.buf = c.buf[:0]
	for _, value := range group {
		c.buf = appendGroupKey(c.buf, value)
	}
	g := c.groups[string(c.buf)]
	if g == nil {
		return 0, whole
	}
	newest := g.samples[len(g.samples)-1].critical
	for i := len(g.samples) - 1; i >= 0; i-- {
		if now.Sub(g.samples[i].at) >= w {
			return newest - g.samples[i].critical, true
		}
	}
	return newest - g.samples[0].critical, whole
}
