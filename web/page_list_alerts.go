package web

import (
	"slices"
	"strconv"
	"strings"

	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/web/format"
)

// alertCounts are the active alerts of each SLO's group, and of all groups of
// an SLO under the SLO alone.
type alertCounts map[string]struct{ firing, pending int }

func countAlerts(list func() []Alert) alertCounts {
	if list == nil {
		return nil
	}
	out := alertCounts{}
	all := list()
	for i := range all {
		a := &all[i]
		if a.SLO == "" || a.State == AlertResolved {
			continue
		}
		key := string(a.SLO)
		for _, l := range a.Group {
			key += "\x00" + l.Value
		}
		n := out[key]
		if a.State == AlertFiring {
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
