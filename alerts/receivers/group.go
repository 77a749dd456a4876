package receivers

import (
	"maps"
	"slices"
	"time"

	"github.com/prometheus/alertmanager/notify"
	"github.com/prometheus/common/model"
)

// group is the alerts that one notification tells of. The Dispatcher's mutex guards it.
type group struct {
	key string
	route
	labels model.LabelSet

	due     time.Time // when it is looked at next
	flushed bool      // its group_wait is over
	members map[string]time.Time
	sent    map[string]*sent // by target
	waiting int              // targets whose queue it is in
}

// route is where the alerts of a group go, and when.
type route struct {
	receiver               string // "" until an alert of a group that was restored shows up
	wait, interval, repeat time.Duration
	mutes                  []string // names of time intervals
}

// sent is the last notification of a group to a target, as Alertmanager's notification log has it.
type sent struct {
	Firing   []string  `json:"firing"` // fingerprints, sorted
	Resolved []string  `json:"resolved,omitempty"`
	At       time.Time `json:"at"`
}

func newGroup(key string, now time.Time) *group {
	return &group{key: key, due: now, members: map[string]time.Time{}, sent: map[string]*sent{}}
}

// reason says whether a target is to be notified of a group whose alerts have these states, and why. It is
// Alertmanager's rule, and quiet leaves out what only repeats.
func (s *sent) reason(firing, resolved []string, tellResolved, quiet bool, repeat time.Duration,
	now time.Time) notify.NotifyReason {
	switch {
	case s == nil || len(s.Firing) == 0:
		if len(firing) > 0 {
			return notify.ReasonFirstNotification
		}
		return notify.ReasonDoNotNotify
	case !subset(firing, s.Firing):
		return notify.ReasonNewAlertsInGroup
	case len(firing) == 0:
		return notify.ReasonAllAlertsResolved
	case tellResolved && !subset(resolved, s.Resolved):
		return notify.ReasonNewResolvedAlerts
	case !quiet && s.At.Before(now.Add(-repeat)):
		return notify.ReasonRepeatIntervalElapsed
	}
	return notify.ReasonDoNotNotify
}

// subset reports whether all of a are in b, which is sorted.
func subset(a, b []string) bool {
	for _, x := range a {
		if _, ok := slices.BinarySearch(b, x); !ok {
			return false
		}
	}
	return true
}

// firing reports whether a target was notified that an alert fires, and not that it has resolved.
func (s *sent) firing(fingerprint string) bool {
	if s == nil {
		return false
	}
	_, ok := slices.BinarySearch(s.Firing, fingerprint)
	return ok
}

// resolvedOf reports whether a target was notified that an alert has resolved.
func (s *sent) resolvedOf(fingerprint string) bool {
	if s == nil {
		return false
	}
	_, ok := slices.BinarySearch(s.Resolved, fingerprint)
	return ok
}

// leave takes an alert out of the group that has resolved, or went elsewhere. If it fires again, it is new.
func (g *group) leave(fingerprint string) {
	delete(g.members, fingerprint)
	for _, s := range g.sent {
		if i, ok := slices.BinarySearch(s.Firing, fingerprint); ok {
			s.Firing = slices.Delete(slices.Clone(s.Firing), i, i+1)
		}
		if i, ok := slices.BinarySearch(s.Resolved, fingerprint); ok {
			s.Resolved = slices.Delete(slices.Clone(s.Resolved), i, i+1)
		}
	}
}

// list is the members in a fixed order.
func (g *group) list() []string { return slices.Sorted(maps.Keys(g.members)) }
