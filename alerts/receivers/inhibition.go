package receivers

import (
	"slices"
	"time"
)

type sourceKey struct {
	rule  int
	equal string
}

// sourceCount counts firing alerts. both are targets of the same rule, too, and keep no such alert quiet.
type sourceCount struct{ all, both int }

// quiet reports whether an alert is muted now.
func (d *Dispatcher) quiet(it *item, now time.Time) bool {
	return d.inhibited(it) || d.silences.match(it.labels, now)
}

// inhibited reports whether another alert says more than this one.
func (d *Dispatcher) inhibited(it *item) bool {
	return slices.ContainsFunc(it.roles, func(r role) bool {
		if !r.target {
			return false
		}
		c := d.sources[sourceKey{r.rule, r.equal}]
		if r.source {
			return c.all > c.both
		}
		return c.all > 0
	})
}
