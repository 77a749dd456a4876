package fold

import (
	"encoding/binary"
	"fmt"

	"github.com/sloengine/sloengine/internal/binread"
	"github.com/sloengine/sloengine/slo/inflight"
)

// This file encodes work in flight: a head for each indicator in the state, and parts of many entries, of which a
// checkpoint writes those that changed.

// flightPart names a part of the work of a flight.
func flightPart(number uint64, part int) string { return fmt.Sprintf("inflight-%d-%d", number, part) }

// flightPartOf is the inverse.
func flightPartOf(name string) (number uint64, part int, ok bool) {
	n, _ := fmt.Sscanf(name, "inflight-%d-%d", &number, &part)
	return number, part, n == 2
}

// appendParts adds the parts that have work.
func (fl *flight) appendParts(parts []Part) []Part {
	for n := range fl.table.Parts() {
		version, used := fl.table.Part(n)
		if !used {
			continue
		}
		parts = append(parts, Part{Name: flightPart(fl.number, n), Version: version, Encode: func(dst []byte) []byte {
			return fl.table.AppendPart(binary.AppendUvarint(append(dst, snapshotFormat), version), n)
		}})
	}
	return parts
}

// readFlight reads a part into a table whose options are told later.
func (x *restoring) readFlight(number uint64, part int, r *reader) error {
	version := r.Uint()
	if r.Bad() {
		return r.done()
	}
	t := x.tables[number]
	if t == nil {
		var err error
		if t, err = inflight.New(inflight.Options{Within: 1, Max: 1}); err != nil {
			return err
		}
		if x.tables == nil {
			x.tables = map[uint64]*inflight.Table{}
		}
		x.tables[number] = t
	}
	data := r.Rest
	r.Rest = nil
	return t.RestorePart(part, version, data)
}

// appendFlights encodes what is not in parts.
func (f *Fold) appendFlights(b []byte) []byte {
	b = binary.AppendVarint(b, f.delay.by)
	b = binary.AppendVarint(b, f.delay.until)
	b = binary.AppendUvarint(b, f.lastFlight)
	for _, ind := range f.inds {
		fl := ind.flight
		if fl == nil {
			continue
		}
		b = binary.AppendUvarint(b, fl.number)
		b = binread.AppendTexts(b, fl.stages)
		for _, g := range ind.sorted {
			b = binary.AppendUvarint(b, uint64(g.number))
		}
		b = fl.table.AppendHead(b)
	}
	return b
}

// readFlights is the inverse of appendFlights, and puts the parts in their places.
func (f *Fold) readFlights(r *reader, x *restoring) error {
	f.delay = delay{r.Varint(), r.Varint()}
	f.lastFlight = r.Uint()
	for _, ind := range f.inds {
		fl := ind.flight
		if fl == nil {
			continue
		}
		fl.number = r.Uint()
		stages := r.Texts()
		if len(stages) == 0 || len(stages) > maxStages+2 || stages[0] != "" {
			return fmt.Errorf("%w: stages of %s", errSnapshot, ind.spec.ID)
		}
		fl.setStages(stages)
		for _, g := range ind.sorted {
			n := r.Uint()
			if n > maxColumns {
				return fmt.Errorf("%w: groups of %s", errSnapshot, ind.spec.ID)
			}
			g.number = uint32(n)
			fl.groups = append(fl.groups, make([]*group, max(0, int(n)+1-len(fl.groups)))...)
			if fl.groups[n] != nil {
				return fmt.Errorf("%w: groups of %s", errSnapshot, ind.spec.ID)
			}
			fl.groups[n] = g
		}
		if t := x.tables[fl.number]; t != nil {
			if err := t.Configure(ind.spec.Work.options()); err != nil {
				return fmt.Errorf("%w: %w", errSnapshot, err)
			}
			fl.table = t
			delete(x.tables, fl.number)
		}
		if r.Bad() {
			return r.done()
		}
		var err error
		if r.Rest, err = fl.table.RestoreHead(r.Rest); err != nil {
			return fmt.Errorf("%w: %w", errSnapshot, err)
		}
		if err := fl.table.FinishRestore(len(fl.groups), len(fl.stages)); err != nil {
			return fmt.Errorf("%w: %w", errSnapshot, err)
		}
	}
	if len(x.tables) > 0 {
		return fmt.Errorf("%w: work of no indicator", errSnapshot)
	}
	return nil
}
