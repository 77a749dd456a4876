package web

import (
	"slices"
	"strconv"
	"strings"

	"github.com/sloengine/sloengine/alerts/state"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/web/format"
)

// alertCounts are the active alerts of each SLO's group, and of all groups of
// an SLO under the SLO alone.
type alertCounts map[string]struct{ firing, pending int }

func countAlerts(list func() *state.View) alertCounts {
	if list == nil {
		return nil
	}
	out := alertCounts{}
	active := list().Active
	for i := range active {
		a := &active[i]
		if a.SLO == "" || a.State == state.Resolved {
			continue
		}
		key := string(a.SLO)
		if len(a.Group) > 0 {
			key += "\x00" + strings.Join(a.Group, "\x00")
		}
		n := out[key]
		if a.State == state.Firing {
			n.firing++
		} else {
			n.pending++
		}
		out[key] = n
	}
	return out
}

func (c alertCounts) of(r *sla.SLOReport) (firing, pending int) {
	if len(c) == 0 {
		return 0, 0
	}
	all := c[string(r.SLO.ID)]
	if len(r.Group) == 0 {
		return all.firing, all.pending
	}
	own := c[string(r.SLO.ID)+"\x00"+strings.Join(r.Group, "\x00")]
	return own.firing + all.firing, own.pending + all.pending
}

func (c alertCounts) text(r *sla.SLOReport) (text, class string) {
	switch firing, pending := c.of(r); {
	case firing > 0:
		return strconv.Itoa(firing) + " firing", "hot"
	case pending > 0:
		return strconv.Itoa(pending) + " pending", "dim"
	}
	return format.NoValue, "dim"
}

// orderByAlerts puts the reports with most firing alerts first, then those with
// most pending ones.
func orderByAlerts(rs []*sla.SLOReport, c alertCounts, reverse bool) {
	slices.SortStableFunc(rs, func(a, b *sla.SLOReport) int {
		fa, pa := c.of(a)
		fb, pb := c.of(b)
		d := 1000*(fb-fa) + pb - pa
		if reverse {
			return -d
		}
		return d
	})
}
