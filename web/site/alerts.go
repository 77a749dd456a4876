package site

import (
	"cmp"
	"encoding/binary"
	"hash/fnv"
	"iter"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/sloengine/sloengine/alerts/incident"
	"github.com/sloengine/sloengine/alerts/state"
	"github.com/sloengine/sloengine/internal/order"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
	"github.com/sloengine/sloengine/web/format"
)

// AlertStates are the states, worst first.
var AlertStates = []state.State{state.Firing, state.Pending, state.Resolved}

// AlertKey orders alerts: firing, pending, resolved; within them the urgent first,
// then those that have lasted longest, and the resolved ones newest first.
type AlertKey struct {
	Rank        int    `json:"rank"`
	At          int64  `json:"at"`
	Fingerprint string `json:"fingerprint"`
}

func NewAlertKey(a *state.Alert) AlertKey {
	k := AlertKey{Rank: 2 * slices.Index(AlertStates, a.State), At: a.ActiveSince.UnixNano(), Fingerprint: a.Fingerprint}
	if !a.Urgent && a.State != state.Resolved {
		k.Rank++
	}
	if a.State == state.Resolved {
		k.At = -a.ResolvedAt.UnixNano()
	}
	return k
}

// Before reports whether a key lies before an alert.
func (k AlertKey) Before(a *state.Alert) bool { return k.compare(NewAlertKey(a)) < 0 }

func (k AlertKey) compare(o AlertKey) int {
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

// The page of an alert, by the parameter id, which is its fingerprint, and that of all alerts.
const (
	AlertPath     = state.PagePath
	AlertListPath = "/alerts"
)

// AlertHref is the address of the page of an alert.
func (site *Site) AlertHref(fingerprint string) string {
	return site.Href(AlertPath, state.PageQuery(fingerprint))
}

// Runbook is the address of the runbook of an alert; "" if it has none.
func Runbook(a *state.Alert) string { return WebLink(a.Annotation("runbook_url")) }

// WebLink is a link that people may follow; "" if it is none.
func WebLink(s string) string {
	if u, err := url.Parse(s); err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
		return ""
	}
	return s
}

// AddLink adds a link of an SLO, unless its address is none of the web.
func AddLink(to []Link, name, address string) []Link {
	if address = WebLink(address); address == "" {
		return to
	}
	return append(to, Link{Text: format.Safe(name, format.MaxName), Href: address})
}

// AlertFilter picks alerts. Empty fields pick all.
type AlertFilter struct {
	Active            bool // pending and firing only
	State             state.State
	Service, Severity string
	SLO               slo.ID
	Group             map[string]string // of the group
	Search            string            // lower case; a part of the name, the SLO, the agreement or a group value
}

// NewAlertFilter reads the parameters that the page and the API share.
func NewAlertFilter(q url.Values) AlertFilter {
	return AlertFilter{State: state.State(q.Get("state")), Service: q.Get("service"), Severity: q.Get("severity"),
		SLO: slo.ID(q.Get("slo")), Group: Prefixed(q, GroupParam), Search: strings.ToLower(strings.TrimSpace(q.Get("q")))}
}

func (f *AlertFilter) match(a *state.Alert) bool {
	if f.Active && a.State == state.Resolved || f.State != "" && a.State != f.State ||
		f.Service != "" && a.Service != f.Service || f.Severity != "" && a.Severity != f.Severity ||
		f.SLO != "" && a.SLO != f.SLO || !GroupHas(a.GroupBy, a.Group, f.Group) {
		return false
	}
	has := func(s string) bool { return strings.Contains(strings.ToLower(s), f.Search) }
	return f.Search == "" || has(a.Name) || has(string(a.SLO)) || has(a.Service+"/"+a.Agreement) ||
		slices.ContainsFunc(a.Group, has)
}

// FindAlert finds an alert that is active or was resolved recently; nil if there is none.
func (site *Site) FindAlert(fingerprint string) (found *state.Alert) {
	if site.Opt.Alerts == nil {
		return nil
	}
	for a := range eachAlert(site.Opt.Alerts()) {
		if a.Fingerprint == fingerprint && (found == nil || NewAlertKey(a).compare(NewAlertKey(found)) < 0) {
			found = a
		}
	}
	return found
}

// Alerts lists the alerts that a filter picks, worst first, and a digest of them and of the silences that hold.
func (site *Site) Alerts(f AlertFilter) (list []*state.Alert, digest string) {
	if site.Opt.Alerts == nil {
		return nil, ""
	}
	type entry struct {
		key   AlertKey
		alert *state.Alert
	}
	var picked []entry
	for a := range eachAlert(site.Opt.Alerts()) {
		if f.match(a) {
			picked = append(picked, entry{NewAlertKey(a), a})
		}
	}
	order.By(picked, func(a, b *entry) int { return a.key.compare(b.key) })
	h := fnv.New64a()
	h.Write([]byte(site.silenceDigest()))
	var buf []byte
	for _, e := range picked {
		list = append(list, e.alert)
		buf = append(binary.AppendVarint(binary.AppendVarint(buf[:0], int64(e.key.Rank)), e.key.At), e.key.Fingerprint...)
		h.Write(binary.BigEndian.AppendUint64(buf, math.Float64bits(e.alert.Value)))
	}
	return list, strconv.FormatUint(h.Sum64(), 36)
}

// Held lists the alerts that are held back and pass a filter, in the order of the
// report.
func (site *Site) Held(f AlertFilter) []*state.Held {
	if site.Opt.Alerts == nil {
		return nil
	}
	var out []*state.Held
	all := site.Opt.Alerts().Held
	for i := range all {
		h := &all[i]
		if (f.Service == "" || h.Service == f.Service) && (f.Severity == "" || h.Severity == f.Severity) &&
			(f.SLO == "" || h.SLO == f.SLO) && GroupHas(h.GroupBy, h.Group, f.Group) {
			out = append(out, h)
		}
	}
	return out
}

// AlertStep tells views of the alerts apart.
func (site *Site) AlertStep() string {
	if site.Opt.Alerts == nil {
		return ""
	}
	return strconv.FormatUint(site.Opt.Alerts().Step, 36)
}

// AlertCount is how many alerts are active.
type AlertCount struct {
	Pending, Firing int
	Pages           int // of those that fire
}

// ActiveAlerts are the pending and firing alerts by the group of an SLO, and under the SLO alone those about all of its
// groups.
type ActiveAlerts struct {
	by    map[string]AlertCount
	pages map[slo.ID]bool // SLOs with a paging alert that fires, so that most lists need not look
}

// ActiveAlerts counts the present alerts.
func (site *Site) ActiveAlerts() (c ActiveAlerts) {
	if site.Opt.Alerts == nil {
		return c
	}
	c.by, c.pages = map[string]AlertCount{}, map[slo.ID]bool{}
	active := site.Opt.Alerts().Active
	for i := range active {
		a := &active[i]
		if a.SLO == "" || a.State == state.Resolved {
			continue
		}
		key := groupKey(a.SLO, a.Group)
		n := c.by[key]
		switch {
		case a.State != state.Firing:
			n.Pending++
		case a.Urgent:
			n.Firing, n.Pages, c.pages[a.SLO] = n.Firing+1, n.Pages+1, true
		default:
			n.Firing++
		}
		c.by[key] = n
	}
	return c
}

func groupKey(id slo.ID, g slo.Group) string {
	if len(g) == 0 {
		return string(id)
	}
	return string(id) + "\x00" + strings.Join(g, "\x00")
}

// Own counts the alerts that are about the group itself.
func (c ActiveAlerts) Own(r *sla.SLOReport) AlertCount {
	if len(c.by) == 0 {
		return AlertCount{}
	}
	return c.by[groupKey(r.SLO.ID, r.Group)]
}

// Of counts the alerts that are about a group, those about all groups among them.
func (c ActiveAlerts) Of(r *sla.SLOReport) AlertCount {
	n := c.Own(r)
	if len(c.by) > 0 && len(r.Group) > 0 {
		all := c.by[string(r.SLO.ID)]
		n.Pending, n.Firing, n.Pages = n.Pending+all.Pending, n.Firing+all.Firing, n.Pages+all.Pages
	}
	return n
}

// Paging reports whether a paging alert fires on a group.
func (c ActiveAlerts) Paging(r *sla.SLOReport) bool { return c.pages[r.SLO.ID] && c.Of(r).Pages > 0 }

// OwnPaging is Paging without the alerts about all groups of the SLO.
func (c ActiveAlerts) OwnPaging(r *sla.SLOReport) bool {
	return c.pages[r.SLO.ID] && c.Own(r).Pages > 0
}

// OfEngine reports whether an alert is about the engine itself.
func OfEngine(a *state.Alert) bool { return a.Engine || a.Service == incident.EngineService }
