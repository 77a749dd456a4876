package state

import (
	"encoding/binary"
	"hash/crc32"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sloengine/sloengine/alerts"
	"github.com/sloengine/sloengine/internal/binread"
	"github.com/sloengine/sloengine/sla"
	"github.com/sloengine/sloengine/slo"
)

// Machine holds the states of all alerts. All methods may be called from any goroutine. View never waits.
type Machine struct {
	opt Options

	mu       sync.Mutex
	plan     *plan
	last     time.Time // of the last report; zero before the first
	engineAt time.Time // of the last engine report
	rows     [scopes]rows
	quiet    quiet
	breaches breaches
	kept     map[keptKey]*alert    // from a snapshot, until their rows turn up
	marks    map[string]marksJSON  // likewise, by rowKey
	resolved []Alert               // oldest first
	held     []Held                // as of the last report
	seen     map[string]*RulesSeen // by source
	sentBy   map[slo.ID]SentBy     // replaced, never changed
	turns    map[slo.ID]turn
	active   int    // pending and firing
	hashed   []byte // scratch of Hash

	current atomic.Pointer[View]
}

// View is a state of affairs that does not change any more.
type View struct {
	Step     uint64    // counts the views of a process
	Time     time.Time // of the report; zero before the first
	Active   []Alert   // pending and firing, in the order of the report, then those on the engine
	Resolved []Alert   // oldest first
	Held     []Held    // what would start if more were known, in the order of the report
	// SentBy says who sends the alerts of the SLOs that a source of counters reads.
	SentBy map[slo.ID]SentBy
}

// OnEngine are the alerts of a view that are about the engine itself.
func (v *View) OnEngine() *View {
	other := func(a Alert) bool { return !a.Engine }
	return &View{
		Step: v.Step, Time: v.Time, Active: slices.DeleteFunc(slices.Clone(v.Active), other),
		Resolved: slices.DeleteFunc(slices.Clone(v.Resolved), other),
	}
}

// Held is an alert in one group that does not start although what was observed is
// over its threshold.
type Held struct {
	Name      string
	Severity  string
	Tier      string // of a burn-rate alert
	Service   string
	SLO       slo.ID // "" if it is about no single one
	Agreement string // that chose it; "" if none
	GroupBy   []string
	Group     slo.Group
	Value     float64 // what is compared, of what was observed
	Why       []alerts.Hold
}

// New makes a machine without alerts.
func New(opt Options) (*Machine, error) {
	if err := opt.fill(); err != nil {
		return nil, err
	}
	m := &Machine{opt: opt, kept: map[keptKey]*alert{}, seen: map[string]*RulesSeen{}, turns: map[slo.ID]turn{}}
	m.current.Store(&View{})
	return m, nil
}

// SetLinks changes what annotations link to and how alerts are sent, from the next step on. Both are as in Options.
func (m *Machine) SetLinks(o alerts.Options, s Sending) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.opt.Alerts, m.opt.Sending, m.plan = o, s, nil
}

// View returns the alerts as of the last step.
func (m *Machine) View() *View { return m.current.Load() }

// Step takes the next report and returns what changed, in the order of the
// report. A report that is no newer than the last is ignored, unless it is older
// by more than the grace: then the clock was set right in between.
func (m *Machine) Step(r *sla.Report) []Transition {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r == nil || !r.Time.After(m.last) && m.last.Sub(r.Time) <= m.opt.Grace {
		return nil
	}
	st := step{Machine: m, r: r, now: r.Time, recent: make(map[slo.ID]float64)}
	st.gap = m.last.IsZero() || r.Time.Sub(m.last).Abs() > m.opt.Grace
	if st.gap && !m.last.IsZero() {
		m.opt.Metrics.gaps.Inc()
	}
	fresh := !m.plan.fits(r)
	if fresh {
		m.plan = newPlan(r, m.opt)
	}
	m.quiet.observe(&st)
	m.breaches.observe(&st)
	st.effects()
	st.over()
	st.slos()
	st.slas()
	st.services()
	st.dropKept()
	st.decide()
	if fresh {
		m.resolved = m.plan.define(m.resolved)
	}
	m.last = r.Time
	m.prune(r.Time)
	m.held = st.held
	m.publish()
	return st.out
}

// Hash tells apart the states of the alerts, as of the last step, that follow from the events of a log: not of those on
// the engine itself or on a forecast. It does not depend on the values of alerts, which processors round differently.
func (m *Machine) Hash() uint32 {
	m.mu.Lock()
	defer m.mu.Unlock()
	b := m.hashed[:0]
	for sc := range m.rows {
		if scope(sc) == scopeEngine {
			continue
		}
		for _, row := range m.rows[sc].list {
			for k, a := range row.active {
				if a == nil || row.plan[k].Kind == alerts.LiveSoon {
					continue
				}
				b = append(b, byte(sc))
				for _, text := range []string{row.id, row.group.Key(), row.plan[k].key, string(a.State)} {
					b = binread.AppendText(b, text)
				}
				for _, at := range []time.Time{a.ActiveSince, a.FirstBad, a.FiredAt, a.falseSince} {
					b = binary.LittleEndian.AppendUint64(b, uint64(at.UnixNano()))
				}
			}
		}
	}
	m.hashed = b
	return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli))
}

// prune forgets resolved alerts that are too old or too many.
func (m *Machine) prune(now time.Time) {
	n := max(0, len(m.resolved)-m.opt.MaxResolved)
	for n < len(m.resolved) && now.Sub(m.resolved[n].ResolvedAt) >= m.opt.KeepResolved {
		n++
	}
	m.resolved = m.resolved[n:]
}

// publish makes the view that readers see.
func (m *Machine) publish() {
	v := &View{Time: m.last, Held: m.held, SentBy: m.sentBy, Resolved: m.resolved[:len(m.resolved):len(m.resolved)]}
	var firing int
	if n := m.active + len(m.kept); n > 0 {
		v.Active = make([]Alert, 0, n)
		for s := range m.rows {
			for _, row := range m.rows[s].list {
				for _, a := range row.active {
					if a != nil {
						if a.State == Firing {
							m.explain(&a.Alert)
							firing++
						}
						v.Active = append(v.Active, a.Alert)
					}
				}
			}
		}
		for _, a := range m.kept { // of a snapshot, as long as there was no report
			v.Active = append(v.Active, a.Alert)
			if a.State == Firing {
				firing++
			}
		}
	}
	v.Step = m.current.Load().Step + 1
	m.current.Store(v)
	g := m.opt.Metrics.alerts
	g[Firing].Set(float64(firing))
	g[Pending].Set(float64(len(v.Active) - firing))
	g[Resolved].Set(float64(len(v.Resolved)))
}

// explain gives an alert that needs a person now the links to the failing traces of its SLO, and what is different
// about its bad events. An alert keeps those that it had last, also when it has resolved.
func (m *Machine) explain(a *Alert) {
	if !a.Urgent || a.SLO == "" {
		return
	}
	if m.opt.Traces != nil {
		if links := m.opt.Traces(a.SLO, a.Group); len(links) > 0 {
			a.Traces = links
		}
	}
	if m.opt.Why != nil {
		if why := m.opt.Why(a.SLO, a.Group); why != "" {
			a.Why = why
		}
	}
}

// alert is an alert that is pending or firing.
type alert struct {
	Alert
	falseSince time.Time // firing on only because of keep_firing_for; zero while the condition holds
}

// scope is what an alert is about.
type scope int

const (
	scopeSLO     scope = iota // one group of an SLO
	scopeWhole                // an SLO in all its groups
	scopeSLA                  // one group of an agreement
	scopeService              // one type of a service's events
	scopeEngine               // the engine itself: one result of a rule
	scopes
)

// row holds the alerts of one thing in one group.
type row struct {
	id     string
	group  slo.Group
	plan   []condition  // that active and begun belong to
	active []*alert     // by condition; nil as long as none was active
	begun  []int64      // by condition: when its short window began to burn, Unix ns; 0 if it does not
	met    []alerts.Met // by condition, of pages; nil as long as none was met
}

// lastMet is when a page's conditions were last met.
func (r *row) lastMet(k int) alerts.Met {
	if r.met == nil {
		return alerts.Met{}
	}
	return r.met[k]
}

// meet notes when a page's conditions were last met.
func (r *row) meet(k int, m alerts.Met) {
	if r.met == nil {
		if m == (alerts.Met{}) {
			return
		}
		r.met = make([]alerts.Met, len(r.plan))
	}
	r.met[k] = m
	if m == (alerts.Met{}) && !slices.ContainsFunc(r.met, func(m alerts.Met) bool { return m != alerts.Met{} }) {
		r.met = nil
	}
}

// rows finds the row of each entry of a report. Reports mostly list the same
// things in the same order, so the next row is tried first.
type rows struct {
	list  []*row
	next  []*row         // of the step under way
	index map[string]int // into list; nil unless the order has changed
	taken []bool         // with index
}

func sameGroup(a, b slo.Group) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// find gives the row of the next entry; fresh is true if it is new.
func (rs *rows) find(id string, group slo.Group) (r *row, fresh bool) {
	i := len(rs.next)
	if rs.index == nil {
		if i < len(rs.list) && rs.list[i].id == id && sameGroup(rs.list[i].group, group) {
			r = rs.list[i]
			rs.next = append(rs.next, r)
			return r, false
		}
		rs.index = make(map[string]int, len(rs.list))
		rs.taken = make([]bool, len(rs.list))
		for j, old := range rs.list {
			rs.index[rowKey(old.id, old.group)] = j
			rs.taken[j] = j < i
		}
	}
	if j, ok := rs.index[rowKey(id, group)]; ok && !rs.taken[j] {
		rs.taken[j] = true
		r = rs.list[j]
	} else {
		r, fresh = &row{id: id, group: group}, true
	}
	rs.next = append(rs.next, r)
	return r, fresh
}

// finish ends a step and calls gone for the rows that were not found.
func (rs *rows) finish(gone func(*row)) {
	switch {
	case rs.index != nil:
		for j, r := range rs.list {
			if !rs.taken[j] {
				gone(r)
			}
		}
	default:
		for _, r := range rs.list[min(len(rs.next), len(rs.list)):] {
			gone(r)
		}
	}
	rs.list, rs.next = rs.next, rs.list[:0]
	rs.index, rs.taken = nil, nil
}

func rowKey(id string, group slo.Group) string { return id + "\xff\xff" + group.Key() }
