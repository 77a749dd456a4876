package web

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"iter"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/sloengine/sloengine/alerts/state"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/web/format"
	"github.com/sloengine/sloengine/web/respond"
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
func (w *Web) alerts(f alertFilter) (list []*state.Alert, digest string) {
	if w.opt.Alerts == nil {
		return nil, ""
	}
	type entry struct {
		key   alertKey
		alert *state.Alert
	}
	var picked []entry
	for a := range eachAlert(w.opt.Alerts()) {
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

type alertJSON struct {
	Fingerprint string            `json:"fingerprint"`
	Name        string            `json:"name"`
	State       state.State       `json:"state"`
	Severity    string            `json:"severity"`
	Urgent      bool              `json:"urgent"`
	Service     string            `json:"service"`
	SLO         *slo.ID           `json:"slo_id"`
	Agreement   *string           `json:"agreement"`
	Group       map[string]string `json:"group"`
	Labels      map[string]string `json:"labels"`
	Value       *float64          `json:"value"`
	ActiveSince *time.Time        `json:"active_since"`
	FirstBad    *time.Time        `json:"first_bad"`
	FiredAt     *time.Time        `json:"fired_at"`
	ResolvedAt  *time.Time        `json:"resolved_at"`
	Detection   *float64          `json:"detection_seconds"` // from the first bad event to firing
	Removed     bool              `json:"removed"`
}

func newAlert(a *state.Alert) alertJSON {
	out := alertJSON{
		Fingerprint: a.Fingerprint, Name: a.Name, State: a.State, Severity: a.Severity, Urgent: a.Urgent, Service: a.Service,
		Group: groupJSON(a.GroupBy, a.Group), Labels: map[string]string{}, Value: number(a.Value, true), Removed: a.Removed,
		ActiveSince: timeOrNil(a.ActiveSince), FirstBad: timeOrNil(a.FirstBad), FiredAt: timeOrNil(a.FiredAt), ResolvedAt: timeOrNil(a.ResolvedAt),
		Detection: number(a.Detection().Seconds(), !a.FiredAt.IsZero()),
	}
	if a.SLO != "" {
		out.SLO = &a.SLO
	}
	if a.Agreement != "" {
		out.Agreement = &a.Agreement
	}
	for _, l := range a.Labels {
		out.Labels[l.Name] = l.Value
	}
	return out
}

type alertList struct {
	Report reportJSON  `json:"report"`
	Total  int         `json:"total"`
	Items  []alertJSON `json:"items"`
	Next   string      `json:"next_cursor,omitempty"` // absent on the last page

	Held      []heldJSON `json:"held"` // as many as a page has rows
	HeldTotal int        `json:"held_total"`
}

func (w *Web) apiAlerts(c *gin.Context) {
	q := c.Request.URL.Query()
	f := alertFilter{state: state.State(q.Get("state")), service: q.Get("service"), severity: q.Get("severity"), slo: slo.ID(q.Get("slo"))}
	v := w.view()
	all, digest := w.alerts(f)
	if respond.NotModified(c, v.reportTag("api", c.Request.URL.Path, c.Request.URL.RawQuery, digest)) {
		return
	}
	if f.state != "" && !slices.Contains(alertStates, f.state) {
		respond.Problem(c, http.StatusBadRequest, fmt.Sprintf("state %q: want pending, firing or resolved", format.Safe(string(f.state), format.MaxName)), nil)
		return
	}
	limit, ok := w.limit(c, defaultPage, maxPageSize)
	if !ok {
		return
	}
	page := all
	if s := q.Get("cursor"); s != "" {
		var after alertKey
		if err := readCursor(s, &after); err != nil {
			respond.Problem(c, http.StatusBadRequest, err.Error(), nil)
			return
		}
		i := slices.IndexFunc(all, func(a *state.Alert) bool { return after.compare(newAlertKey(a)) < 0 })
		if i < 0 {
			i = len(all)
		}
		page = all[i:]
	}
	out := alertList{Report: newReportJSON(v), Total: len(all), Items: []alertJSON{}}
	for i, a := range page {
		if i == limit {
			out.Next = newCursor(newAlertKey(page[i-1]))
			break
		}
		out.Items = append(out.Items, newAlert(a))
	}
	held := w.held(f)
	out.Held, out.HeldTotal = []heldJSON{}, len(held)
	for _, h := range held[:min(limit, len(held))] {
		out.Held = append(out.Held, newHeld(h))
	}
	respond.JSON(c, http.StatusOK, "application/json", out)
}
