package web

import (
	"cmp"
	"encoding/binary"
	"hash/fnv"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/sloengine/sloengine/alerts/state"
	"github.com/sloengine/sloengine/slo"
)

// alertStates are the states, worst first.
var alertStates = []state.State{state.Firing, state.Pending, state.Resolved}

// alertKey orders alerts: firing, pending, resolved; within them the urgent first,
// then those that have lasted longest, and the resolved ones newest first.
type alertKey struct {
	Rank        int    `json:"rank"`
	At          int64  `json:"at"`
	Fingerprint string `json:"fingerprint"`
}

func newAlertKey(a *state.Alert) alertKey {
	k := alertKey{Rank: 2 * slices.Index(alertStates, a.State), At: a.ActiveSince.UnixNano(), Fingerprint: a.Fingerprint}
	if !a.Urgent && a.State != state.Resolved {
		k.Rank++
	}
	if a.State == state.Resolved {
		k.At = -a.ResolvedAt.UnixNano()
	}
	return k
}

func (k alertKey) compare(o alertKey) int {
	return cmp.Or(cmp.Compare(k.Rank, o.Rank), cmp.Compare(k.At, o.At), strings.Compare(k.Fingerprint, o.Fingerprint))
}

// eachAlert yields the alerts of a view, in no order.
func eachAlert(v *state.View) iter.Seq[*state.Alert] {
	return func(yield func(*state.Alert) bool) {
		for _, list := range [][]state.Alert{v.Active, v.Resolved} {
			for i := range list {
				if !yield(&list[i]) {
					return
				}
			}
		}
	}
}

// alertFilter picks alerts. Empty fields pick all.
type alertFilter struct {
	active            bool // pending and firing only
	state             state.State
	service, severity string
	slo               slo.ID
}

// alerts lists the alerts that a filter picks, worst first, and a digest of them.
func (site *Site) alerts(f alertFilter) (list []*state.Alert, digest string) {
	if site.opt.Alerts == nil {
		return nil, ""
	}
	type entry struct {
		key   alertKey
		alert *state.Alert
	}
	var picked []entry
	for a := range eachAlert(site.opt.Alerts()) {
		if f.active && a.State == state.Resolved || f.state != "" && a.State != f.state || f.service != "" && a.Service != f.service ||
			f.severity != "" && a.Severity != f.severity || f.slo != "" && a.SLO != f.slo {
			continue
		}
		picked = append(picked, entry{newAlertKey(a), a})
	}
	slices.SortFunc(picked, func(a, b entry) int { return a.key.compare(b.key) })
	h := fnv.New64a()
	var buf []byte
	for _, e := range picked {
		list = append(list, e.alert)
		buf = append(binary.AppendVarint(binary.AppendVarint(buf[:0], int64(e.key.Rank)), e.key.At), e.key.Fingerprint...)
		h.Write(binary.BigEndian.AppendUint64(buf, math.Float64bits(e.alert.Value)))
	}
	return list, strconv.FormatUint(h.Sum64(), 36)
}

// held lists the alerts that are held back and pass a filter, in the order of the
// report.
func (site *Site) held(f alertFilter) []*state.Held {
	if site.opt.Alerts == nil {
		return nil
	}
	var out []*state.Held
	all := site.opt.Alerts().Held
	for i := range all {
		h := &all[i]
		if (f.service == "" || h.Service == f.service) && (f.severity == "" || h.Severity == f.severity) && (f.slo == "" || h.SLO == f.slo) {
			out = append(out, h)
		}
	}
	return out
}
