package series

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/sloengine/sloengine/ingest/counter"
)

// HA names the labels by which replicas of a Prometheus that scrape the same say who they are. One of each cluster is
// elected, whose samples count.
type HA struct {
	Cluster string `yaml:"cluster" is:"required"`
	Replica string `yaml:"replica" is:"required"`
}

const (
	// failover is how long the elected replica sends nothing until another one is elected.
	failover = 30 * time.Second
	// clocksApart is how far apart the clocks of replicas may be: a counter that falls so soon after a sample of another
	// one did not begin again.
	clocksApart = 5 * time.Second
	maxClusters = 1000
)

// election is that of a cluster.
type election struct {
	replica string
	since   int64     // time of its first sample since another one was elected; 0: it was the first
	seen    time.Time // when it sent something
	logged  bool      // a record has it
}

// elections are those of a source. They are in the log: after a kill the same replica goes on.
type elections struct {
	class counter.Key
	by    map[string]*election // by cluster
	log   *slog.Logger
	name  string
}

func newElections(source string, counters *counter.Table, now time.Time, log *slog.Logger) *elections {
	e := &elections{xxh3.HashString128("elections " + source), map[string]*election{}, log, source}
	counters.Notes(e.class, func(_ counter.Key, text string) {
		var cluster string
		one := election{seen: now, logged: true}
		if _, err := fmt.Sscanf(text, "%q %q %d", &cluster, &one.replica, &one.since); err == nil {
			e.by[cluster] = &one
		}
	})
	return e
}

// allow reports whether a sample of a replica counts, and how much a counter may fall that did not begin again.
func (e *elections) allow(cluster, replica string, now time.Time, at int64) (ok bool, lenient time.Duration) {
	one := e.by[cluster]
	switch {
	case one == nil && len(e.by) >= maxClusters:
		return false, 0
	case one == nil:
		one = &election{replica: replica}
		e.by[cluster] = one
		e.log.Info("elected a replica", "source", e.name, "cluster", cluster, "replica", replica)
	case one.replica != replica:
		if now.Sub(one.seen) < failover {
			return false, 0
		}
		e.log.Warn("another replica is elected: the one before sends nothing", "source", e.name, "cluster", cluster,
			"replica", replica, "before", one.replica, "silent_for", now.Sub(one.seen))
		*one = election{replica: replica, since: at}
	}
	one.seen = now
	if one.since != 0 && at < one.since+2*int64(clocksApart) {
		lenient = clocksApart
	}
	return true, lenient
}

// note records the elections that no record has.
func (e *elections) note(b *counter.Batch) {
	for cluster, one := range e.by {
		if !one.logged {
			b.Note(e.class, xxh3.HashString128(cluster), fmt.Sprintf("%q %q %d", cluster, one.replica, one.since))
		}
	}
}

// stored says that the last batch is in the log.
func (e *elections) stored() {
	for _, one := range e.by {
		one.logged = true
	}
}
