package state

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/sloengine/sloengine/internal/order"
	"github.com/sloengine/sloengine/rules/series"
	"github.com/sloengine/sloengine/slo"
)

// SnapshotVersion grows with every change that an older reader would get wrong.
const SnapshotVersion = 4 // 2: alerts on the engine; 3: labels slo_tier, slo_long and so on; 4: who sends them

// unsent is the version of a snapshot in which the engine sends all alerts, for readers that know no others.
const unsent = 3

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
		Resolved: []Alert{}, Senders: []senderJSON{}, SentBy: m.sentBy}
	if len(s.SentBy) == 0 {
		s.Version = unsent
	}
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
	m.last, m.engineAt, m.kept, m.resolved, m.quiet = s.Time, s.EngineAt, kept, resolved, q
	m.sentBy = s.SentBy
	v := &View{Step: m.current.Load().Step + 1, Time: m.last, Resolved: resolved, SentBy: m.sentBy}
	for i := range s.Active {
		v.Active = append(v.Active, s.Active[i].Alert)
	}
	m.current.Store(v)
	return nil
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
