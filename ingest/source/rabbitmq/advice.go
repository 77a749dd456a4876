package rabbitmq

import (
	"fmt"
	"time"
)

// Bounds of settings that work well for most: executions take a while, and an operator has to inspect the
// dead-letter queue.
const (
	minTTL          = 2 * time.Minute
	leastTypical    = 2 // times the typical duration
	mostTypical     = 5
	leastRetention  = 24 * time.Hour
	mostRetention   = 48 * time.Hour
	expectedDefault = "the default is 5m"
)

// Advice is a setting that is allowed and probably not meant.
type Advice struct {
	Key  string // of the options, such as work_queues[0].ttl
	Text string
	Hint string
}

// Advice lists settings that are valid but probably unintended. typical is the typical duration of an event type by
// the spec; 0 if it has none. format prints a duration as settings have it.
func (o *HandlerOptions) Advice(typical func(typ string) time.Duration,
	format func(time.Duration) string) (out []Advice) {
	add := func(key, hint, text string, args ...any) {
		out = append(out, Advice{key, fmt.Sprintf(text, args...), hint})
	}
	switch {
	case o.Retention == 0:
		add("retention", "set 24h to 48h", "messages stay in the dead-letter queue for ever while no engine handles them")
	case o.Retention < leastRetention:
		add("retention", "set 24h to 48h", "messages that are not handled within %s are lost", format(o.Retention))
	case o.Retention > mostRetention:
		add("retention", "set 24h to 48h", "%s keeps messages longer than their executions are known", format(o.Retention))
	}
	if len(o.WorkQueues) == 0 {
		add("work_queues", "list the queues that dead-letter to the exchange",
			"no work queues are listed, so nothing verifies that their messages are dead-lettered")
	}
	for i, w := range o.WorkQueues {
		key := fmt.Sprintf("work_queues[%d].ttl", i)
		usual, source := w.TypicalDuration, "the typical duration of "
		if usual == 0 && w.Type != "" {
			usual, source = typical(w.Type), "the latency threshold of "+w.Type+", "
		}
		switch {
		case w.TTL == 0:
			add(key, expectedDefault, "messages of %s never expire, so those for a stopped worker are never counted as failures",
				w.Name)
		case w.TTL < minTTL:
			add(key, "raise it to at least 2m",
				"messages of %s expire after %s, so slow workers lose executions that they would finish", w.Name, format(w.TTL))
		case usual == 0:
		case w.TTL < leastTypical*usual:
			add(key, between(leastTypical*usual, mostTypical*usual, format),
				"%s is less than twice %s%s: slow workers lose executions that they would finish", format(w.TTL),
				source, format(usual))
		case w.TTL > max(mostTypical*usual, minTTL):
			add(key, between(max(leastTypical*usual, minTTL), max(mostTypical*usual, minTTL), format),
				"%s is more than five times %s%s: failures are noticed late", format(w.TTL), source, format(usual))
		}
	}
	return out
}

func between(low, high time.Duration, format func(time.Duration) string) string {
	if low == high {
		return "set " + format(low)
	}
	return "set " + format(low) + " to " + format(high)
}

// Advice lists settings that are valid but probably unintended.
func (o *Options) Advice(format func(time.Duration) string) (out []Advice) {
	if o.TTL > 0 {
		text := fmt.Sprintf("events that wait longer than %s are not counted", format(o.TTL))
		out = append(out, Advice{"ttl", text, "remove it: an engine that is down for a while loses no events then"})
	}
	return out
}
