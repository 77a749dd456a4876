package fold

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/sloengine/sloengine/internal/binread"
)

// This file counts indicators from old records, so that a definition has the counts that it would have if it had been
// in force. A fold that knows nothing else reads the log from its oldest record on, and then takes the place of the
// generations in use.

// Lone counts some indicators of one service from records in the past. It has a Fold of its own, to which its caller
// passes the records, except those of configurations.
type Lone struct {
	Fold *Fold

	service string
	inds    []Indicator // by ID
	any     bool        // the service may have events of any type
	types   []string    // else those that the indicators may count
	absent  bool
}

// NewLone makes a Lone for indicators of a configuration, which must be of one service.
func NewLone(cfg *Config, ids []string) (*Lone, error) {
	f, err := New(Options{})
	if err != nil {
		return nil, err
	}
	l := &Lone{Fold: f}
	for i := range cfg.Indicators {
		ind := &cfg.Indicators[i]
		f.reach = max(f.reach, int64(keepOf(ind)))
		if slices.Contains(ids, ind.ID) {
			l.inds = append(l.inds, *ind)
			l.service = ind.Service
		}
	}
	if len(l.inds) == 0 || len(l.inds) != len(ids) ||
		slices.ContainsFunc(l.inds, func(ind Indicator) bool { return ind.Service != l.service }) {
		return nil, fmt.Errorf("indicators %q are not all in the configuration, of one service", ids)
	}
	slices.SortFunc(l.inds, func(a, b Indicator) int { return cmp.Compare(a.ID, b.ID) })
	return l, l.setTypes(cfg)
}

// Service is that of the indicators.
func (l *Lone) Service() string { return l.service }

// setTypes finds out which types of events the indicators may count by a configuration.
func (l *Lone) setTypes(cfg *Config) error {
	c, err := compile(l.config(Service{Name: l.service}))
	if err != nil {
		return err
	}
	i := slices.IndexFunc(cfg.Services, func(s Service) bool { return s.Name == l.service })
	if i < 0 {
		return fmt.Errorf("unknown service %q", l.service)
	}
	l.any = len(cfg.Services[i].Types) == 0
	for _, typ := range cfg.Services[i].Types {
		if slices.ContainsFunc(c.inds, func(ind *indicator) bool { return ind.mayTake(typ) }) {
			l.types = append(l.types, typ)
		}
	}
	return nil
}

func (l *Lone) config(s Service) *Config {
	return &Config{Version: ConfigVersion, Indicators: l.inds, Services: []Service{{Name: s.Name, Types: s.Types}}}
}

// Configure tells the configuration that took effect at a record time (Unix nanoseconds). Call it before the first
// record, and for each configuration record. A time in which the service, or a type of events that the indicators
// count, was unknown is unobserved: nobody knows what was refused.
func (l *Lone) Configure(then *Config, at int64) error {
	if _, err := compile(then); err != nil {
		if !l.absent {
			l.Fold.Advance(at, Tick)
		}
		return err // it did not take effect
	}
	i := slices.IndexFunc(then.Services, func(s Service) bool { return s.Name == l.service })
	absent := i < 0 || !l.admitted(&then.Services[i])
	now := Service{Name: l.service}
	if !absent {
		now = then.Services[i]
		if now.AdmitUnknown { // what nothing counted then is in the log, too
			now.Types = l.types
		}
	}
	mark := Tick
	switch {
	case absent && l.absent:
		return nil
	case absent:
		mark = Stop
	case l.absent:
		mark = Start
	}
	l.absent = absent
	if l.Fold.cfg == nil || !absent {
		if mark == Start {
			l.Fold.Advance(at, Start)
		}
		if err := l.Fold.SetConfig(l.config(now), at); err != nil {
			return err
		}
	}
	if mark == Stop {
		l.Fold.Advance(at, Stop)
	}
	return nil
}

// admitted reports whether a service had all events that the indicators may count.
func (l *Lone) admitted(s *Service) bool {
	return len(s.Types) == 0 || s.AdmitUnknown ||
		!l.any && !slices.ContainsFunc(l.types, func(typ string) bool { return !slices.Contains(s.Types, typ) })
}

// Absent reports whether the service, or a type that is needed, is unknown at this place of the log. Records then
// mean nothing to the Lone, apart from those that forget.
func (l *Lone) Absent() bool { return l.absent }

// Append encodes the Lone.
func (l *Lone) Append(b []byte) []byte {
	b = append(b, snapshotFormat)
	b = binary.AppendVarint(b, l.Fold.reach)
	b = binread.AppendBool(binread.AppendBool(b, l.absent), l.any)
	b = binread.AppendTexts(b, l.types)
	return l.Fold.appendParts(b)
}

// RestoreLone is the inverse of Append.
func RestoreLone(data []byte) (*Lone, error) {
	f, err := New(Options{})
	if err != nil {
		return nil, err
	}
	if len(data) == 0 || data[0] != snapshotFormat {
		return nil, fmt.Errorf("%w: unknown format", errSnapshot)
	}
	r := newReader(data[1:])
	l := &Lone{Fold: f}
	f.reach, l.absent, l.any, l.types = r.Varint(), r.Bool(), r.Bool(), r.Texts()
	if err := f.restoreParts(&r); err != nil {
		return nil, err
	}
	if f.cfg == nil || len(f.cfg.Indicators) == 0 {
		return nil, fmt.Errorf("%w: no indicators", errSnapshot)
	}
	l.inds, l.service = f.cfg.Indicators, f.cfg.Indicators[0].Service
	return l, nil
}

// TakeOver puts the counts of a Lone, which has read the same record last, in the place of those in use. Exported
// totals begin at zero. The Lone must not be used afterwards. If a definition is not the one in use, the error says so,
// and nothing has changed.
func (f *Fold) TakeOver(l *Lone) error {
	f.clock++
	sub := l.Fold
	if l.absent {
		return fmt.Errorf("service %q is unknown", l.service)
	}
	at := make([]int, len(sub.inds))
	for i, o := range sub.inds {
		at[i] = slices.IndexFunc(f.inds, func(ind *indicator) bool { return ind.spec.ID == o.spec.ID })
		if at[i] < 0 || !reflect.DeepEqual(f.inds[at[i]].spec, o.spec) {
			return fmt.Errorf("%s has another definition by now", o.spec.ID)
		}
	}
	f.plans.clear()
	sub.plans.clear()
	sub.moveTo(f.rec, Tick)
	cut, taken := map[moveKey]*era{}, map[*era]*era{}
	for i, o := range sub.inds {
		ind := f.inds[at[i]]
		gen, former := ind.gen, ind.former
		f.release(ind)
		ind.groups, ind.sorted, ind.dropped = map[string]*group{}, nil, nil
		if o.flight != nil {
			o.flight.number = 0 // it gets one of this fold
			o.flight.table.Renew(f.clock)
		}
		e := taken[o.era]
		if e == nil {
			e = f.adopt(o.era, sub.upOf(o.era))
			taken[o.era] = e
		}
		f.inherit(ind, o, cut)
		sub.moveReceived(ind, f)
		ind.gen, ind.former, ind.era = gen+1, former, e
		for _, g := range ind.sorted {
			clear(g.total)
			g.old = nil
		}
	}
	f.sweep()
	f.setServices()
	return nil
}

// adopt is an era of another fold, which was up in some spans. Where this one was up at the same times, it needs no
// list of them.
func (f *Fold) adopt(o *era, up []upSpan) *era {
	e := o.copied()
	if !slices.Equal(until(up, o.since, f.rec), until(f.upOf(o), o.since, f.rec)) {
		e.since, e.began, e.own = f.rec, o.since, slices.Clone(up)
	}
	e.forget(f.known)
	return e
}

// Config is what is counted; nil before the first SetConfig. It never changes.
func (f *Fold) Config() *Config { return f.cfg }

// Since is since when the counts of a generation in use are complete, in record time; false without one of the ID.
func (f *Fold) Since(id string) (time.Time, bool) {
	for _, ind := range f.inds {
		if ind.spec.ID == id {
			return unix(ind.era.start()), true
		}
	}
	return time.Time{}, false
}
