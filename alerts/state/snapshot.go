package state

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/sloengine/sloengine/alerts"
	"github.com/sloengine/sloengine/internal/order"
	"github.com/sloengine/sloengine/rules/series"
	"github.com/sloengine/sloengine/slo"
)

// SnapshotVersion grows with every change that an older reader would get wrong.
// 2: alerts on the engine; 3: labels slo_tier, slo_long and so on; 4: who sends them; 5: what conditions remember
const SnapshotVersion = 5

// ErrSnapshot is wrapped by Restore for data that is no snapshot, or one of
// another version.
var ErrSnapshot = errors.New("not a snapshot of alert states")

type snapshotJSON struct {
	Version  int          `json:"version"`
	Time     time.Time    `json:"time"`                 // of the last report
	EngineAt time.Time    `json:"engine_time,omitzero"` // of the last engine report
	Active   []activeJSON `json:"active"`
	Resolved []Alert      `json:"resolved"`
	Senders  []senderJSON `json:"senders"`

	SentBy map[slo.ID]SentBy `json:"sent_by,omitempty"`

	Marks    []marksJSON             `json:"marks,omitempty"`
	Breaches map[string]breachesJSON `json:"breaches,omitempty"`     // by key of limitBy
	Watched  time.Time               `json:"watched_since,omitzero"` // senders, without a gap
}

// marksJSON is what the conditions of a group of an SLO remember, by their key, whether or not an alert is active.
type marksJSON struct {
	ID    string          `json:"id"`
	Group slo.Group       `json:"group,omitempty"`
	Of    map[string]mark `json:"of"`
}

// mark is what a condition remembers, in Unix ns; 0: nothing.
type mark struct {
	Begun int64 `json:"begun,omitempty"`
	Proof int64 `json:"proof,omitempty"`
	Short int64 `json:"short,omitempty"`
}

type breachesJSON struct {
	Since  time.Time         `json:"since"`
	Groups []breachGroupJSON `json:"groups"` // by key
}

type breachGroupJSON struct {
	Key     []byte      `json:"key"`     // not UTF-8
	Samples [][2]uint64 `json:"samples"` // Unix ns and count, oldest first
}

type activeJSON struct {
	Scope      string    `json:"scope"`
	ID         string    `json:"id"`
	Key        string    `json:"key"` // of the condition
	FalseSince time.Time `json:"false_since,omitzero"`
	Alert
}

type senderJSON struct {
	Service string    `json:"service"`
	Type    string    `json:"type"`
	Total   uint64    `json:"total"`
	Changed time.Time `json:"changed"`
	Slot    int64     `json:"slot"`
	Slots   []uint32  `json:"slots"` // those that were watched and the newest, oldest first
}

var scopeNames = [scopes]string{scopeSLO: "slo", scopeWhole: "slo_whole", scopeSLA: "sla", scopeService: "service",
	scopeEngine: "engine"}

// keptKey finds the place of an alert from a snapshot.
type keptKey struct {
	scope     scope
	id, group string
	condition string
}

// savedAlert is an alert as a snapshot can hold it: with a value that is a number.
func savedAlert(a Alert) Alert {
	if math.IsNaN(a.Value) || math.IsInf(a.Value, 0) {
		a.Value = 0
	}
	return a
}

// Snapshot encodes everything that has to outlive a restart, as of the last step.
func (m *Machine) Snapshot() []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := snapshotJSON{Version: SnapshotVersion, Time: m.last, EngineAt: m.engineAt, Active: []activeJSON{},
		Resolved: []Alert{}, Senders: []senderJSON{}, SentBy: m.sentBy, Marks: m.saveMarks(), Breaches: m.breaches.save(),
		Watched: m.quiet.since}
	for sc := range m.rows {
		for _, row := range m.rows[sc].list {
			for k, a := range row.active {
				if a != nil {
					s.Active = append(
						s.Active, activeJSON{scopeNames[sc], row.id, row.plan[k].key, a.falseSince, savedAlert(a.Alert)})
				}
			}
		}
	}
	for key, a := range m.kept { // restored, and no step since
		s.Active = append(
			s.Active, activeJSON{scopeNames[key.scope], key.id, key.condition, a.falseSince, savedAlert(a.Alert)})
	}
	if len(m.kept) > 0 {
		order.By(s.Active, func(a, b *activeJSON) int {
			return strings.Compare(a.Scope+a.ID+a.Key+a.Group.Key(), b.Scope+b.ID+b.Key+b.Group.Key())
		})
	}
	for i := range m.resolved {
		s.Resolved = append(s.Resolved, savedAlert(m.resolved[i]))
	}
	for _, q := range m.quiet.list {
		j := senderJSON{Service: q.service, Type: q.typ, Total: q.total, Changed: q.changed, Slot: q.slot}
		for slot := q.slot - int64(q.known); slot <= q.slot; slot++ {
			j.Slots = append(j.Slots, q.slots[slot%quietSlots])
		}
		s.Senders = append(s.Senders, j)
	}
	data, err := json.Marshal(s)
	if err != nil {
		return nil // only a value that is no number can't be encoded, and savedAlert lets none through
	}
	return append(data, '\n')
}

// Restore takes over a snapshot, before the first step. Anything unexpected in it
// is an error that wraps ErrSnapshot and leaves the machine empty. Firing alerts
// fire on until a report proves that they are over. Pending ones go on waiting if
// the next report comes within the grace, and start waiting again if it does not. Alerts
// that the next report does not know any more are over.
func (m *Machine) Restore(data []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.last.IsZero() || !m.engineAt.IsZero() {
		return errors.New("restore alert states: the machine has run already")
	}
	var s snapshotJSON
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&s); err != nil {
		// The version decides what to say about fields that are not known.
		var v struct{ Version int }
		if json.Unmarshal(data, &v) == nil && v.Version > SnapshotVersion {
			return fmt.Errorf("%w: version %d, want at most %d", ErrSnapshot, v.Version, SnapshotVersion)
		}
		return fmt.Errorf("%w: %w", ErrSnapshot, err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: more after its end", ErrSnapshot)
	}
	if s.Version < 1 || s.Version > SnapshotVersion {
		return fmt.Errorf("%w: version %d, want at most %d", ErrSnapshot, s.Version, SnapshotVersion)
	}
	if s.Version < 3 {
		for i := range s.Active {
			s.Active[i].rename()
		}
		for i := range s.Resolved {
			s.Resolved[i].rename()
		}
	}
	kept := map[keptKey]*alert{}
	for i := range s.Active {
		key, a, err := s.Active[i].alert()
		if err == nil && kept[key] != nil {
			err = errors.New("it is there twice")
		}
		if err != nil {
			return fmt.Errorf("%w: active alert %d: %w", ErrSnapshot, i, err)
		}
		kept[key] = a
	}
	var resolved []Alert
	for i := range s.Resolved {
		a := s.Resolved[i]
		err := a.restore()
		if err == nil && (a.State != Resolved || a.ResolvedAt.IsZero()) {
			err = errors.New("it is not resolved")
		}
		if err == nil && len(resolved) > 0 && a.ResolvedAt.Before(resolved[len(resolved)-1].ResolvedAt) {
			err = errors.New("it is out of order")
		}
		if err != nil {
			return fmt.Errorf("%w: resolved alert %d: %w", ErrSnapshot, i, err)
		}
		resolved = append(resolved, a)
	}
	q := quiet{index: map[senderKey]*sender{}, seen: map[senderKey]uint64{}}
	for i, j := range s.Senders {
		if len(j.Slots) == 0 || len(j.Slots) > quietSlots || j.Slot < quietSlots || len(s.Senders) > maxSenders {
			return fmt.Errorf("%w: sender %d has an impossible history", ErrSnapshot, i)
		}
		x := &sender{service: j.Service, typ: j.Type, total: j.Total, changed: j.Changed, slot: j.Slot,
			known: len(j.Slots) - 1}
		for back, n := range j.Slots {
			x.slots[(j.Slot-int64(x.known)+int64(back))%quietSlots] = n
		}
		q.index[senderKey{j.Service, j.Type}] = x
	}
	q.sort()
	q.since = s.Watched
	limits, err := restoreBreaches(s.Breaches)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrSnapshot, err)
	}
	marks := map[string]marksJSON{}
	if s.Version < 5 { // only a page that fired is known: its conditions were met then, or held
		s.Marks = nil
		for key, a := range kept {
			if key.scope == scopeSLO && a.State == Firing {
				s.Marks = append(s.Marks, marksJSON{key.id, a.Group, map[string]mark{
					key.condition: {Proof: s.Time.UnixNano(), Short: s.Time.UnixNano()}}})
			}
		}
	}
	for _, j := range s.Marks {
		row := rowKey(j.ID, j.Group)
		if of := marks[row].Of; of != nil {
			maps.Copy(of, j.Of)
			continue
		}
		marks[row] = j
	}
	m.marks, m.breaches = marks, limits
	m.last, m.engineAt, m.kept, m.resolved, m.quiet = s.Time, s.EngineAt, kept, resolved, q
	m.sentBy = s.SentBy
	v := &View{Step: m.current.Load().Step + 1, Time: m.last, Resolved: resolved, SentBy: m.sentBy}
	for i := range s.Active {
		v.Active = append(v.Active, s.Active[i].Alert)
	}
	m.current.Store(v)
	return nil
}

// saveMarks lists what conditions remember, also of a snapshot whose rows are absent.
func (m *Machine) saveMarks() (out []marksJSON) {
	for _, row := range m.rows[scopeSLO].list {
		if row.begun == nil && row.met == nil {
			continue
		}
		j := marksJSON{row.id, row.group, map[string]mark{}}
		for k := range row.plan {
			x := mark{Proof: row.lastMet(k).Proof, Short: row.lastMet(k).Short}
			if row.begun != nil {
				x.Begun = row.begun[k]
			}
			if x != (mark{}) {
				j.Of[row.plan[k].key] = x
			}
		}
		out = append(out, j)
	}
	for _, key := range slices.Sorted(maps.Keys(m.marks)) {
		out = append(out, m.marks[key])
	}
	return out
}

// recall gives a new row what its conditions remembered in a snapshot.
func (m *Machine) recall(row *row) {
	key := rowKey(row.id, row.group)
	for k := range row.plan {
		x, ok := m.marks[key].Of[row.plan[k].key]
		if !ok {
			continue
		}
		row.meet(k, alerts.Met{Proof: x.Proof, Short: x.Short})
		if x.Begun != 0 {
			if row.begun == nil {
				row.begun = make([]int64, len(row.plan))
			}
			row.begun[k] = x.Begun
		}
	}
	delete(m.marks, key)
}

// save lists what is remembered of limits.
func (b breaches) save() map[string]breachesJSON {
	if len(b) == 0 {
		return nil
	}
	out := make(map[string]breachesJSON, len(b))
	for key, c := range b {
		j := breachesJSON{Since: c.since, Groups: make([]breachGroupJSON, 0, len(c.groups))}
		for _, name := range slices.Sorted(maps.Keys(c.groups)) {
			g := breachGroupJSON{Key: []byte(name)}
			for _, x := range c.groups[name].samples {
				g.Samples = append(g.Samples, [2]uint64{uint64(x.at.UnixNano()), x.critical})
			}
			j.Groups = append(j.Groups, g)
		}
		out[key] = j
	}
	return out
}

func restoreBreaches(saved map[string]breachesJSON) (breaches, error) {
	out := breaches{}
	for key, j := range saved {
		c := &breachCounts{since: j.Since, groups: make(map[string]*breachCount, len(j.Groups))}
		for _, g := range j.Groups {
			x := &breachCount{}
			for i, sample := range g.Samples {
				at := time.Unix(0, int64(sample[0])).UTC()
				if i > 0 && (!at.After(x.samples[i-1].at) || sample[1] < x.samples[i-1].critical) {
					return nil, fmt.Errorf("the breaches of %s are out of order", key)
				}
				x.samples = append(x.samples, breachSample{at, sample[1]})
			}
			if len(x.samples) == 0 {
				return nil, fmt.Errorf("a group of %s has no count of breaches", key)
			}
			c.groups[string(g.Key)] = x
		}
		out[key] = c
	}
	return out, nil
}

func (j *activeJSON) alert() (keptKey, *alert, error) {
	a := &j.Alert
	if err := a.restore(); err != nil {
		return keptKey{}, nil, err
	}
	sc := slices.Index(scopeNames[:], j.Scope)
	switch {
	case sc < 0:
		return keptKey{}, nil, fmt.Errorf("unknown scope %q", j.Scope)
	case a.State == Firing && a.FiredAt.IsZero(), a.State == Pending && !a.FiredAt.IsZero(),
		a.State != Firing && a.State != Pending:
		return keptKey{}, nil, fmt.Errorf("state %q does not fit its times", a.State)
	case a.ActiveSince.IsZero():
		return keptKey{}, nil, errors.New("active_since is missing")
	}
	return keptKey{scope(sc), j.ID, a.Group.Key(), j.Key}, &alert{Alert: *a, falseSince: j.FalseSince}, nil
}

// rename gives an alert of an older snapshot the present names of its labels. A label of its group keeps its name.
func (a *Alert) rename() {
	renamed := false
	for i := range a.Labels {
		l := &a.Labels[i]
		if at := slices.Index(a.GroupBy, l.Name); at >= 0 && at < len(a.Group) && a.Group[at] == l.Value {
			continue
		}
		if now := series.RenamedAlertLabel(l.Name); now != l.Name {
			l.Name, renamed = now, true
		}
	}
	if renamed {
		order.By(a.Labels, func(x, y *Label) int { return strings.Compare(x.Name, y.Name) })
	}
}

// restore fills in what follows from the labels of an alert from a snapshot.
func (a *Alert) restore() error {
	if !slices.IsSortedFunc(a.Labels, func(x, y Label) int { return strings.Compare(x.Name, y.Name) }) {
		return errors.New("its labels are not sorted")
	}
	a.Name, a.Severity = a.Label("alertname"), a.Label("severity")
	if a.Name == "" {
		return errors.New("it has no alertname")
	}
	a.Fingerprint = fingerprint(a.Labels)
	return nil
}
