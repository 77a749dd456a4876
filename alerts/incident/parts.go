package incident

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// Format is the format of the parts.
const Format = 1

// partPrefix begins the names of the parts, one for each month with incidents.
const partPrefix = "incidents-"

// cursorPart is the part with what belongs to no month.
const cursorPart = partPrefix + "cursor"

// Part is one piece of the book that is saved separately. A part whose version is unchanged has the same bytes.
type Part struct {
	Name    string
	Version uint64
	Encode  func(dst []byte) []byte
}

type cursorJSON struct {
	Format  int       `json:"format"`
	Cursor  time.Time `json:"cursor"`
	Refused uint64    `json:"refused"`
}

type monthJSON struct {
	Format    int               `json:"format"`
	Month     string            `json:"month"`
	Version   uint64            `json:"version"`
	Next      int               `json:"next"`
	Incidents []json.RawMessage `json:"incidents"`
}

// Parts lists the parts of the book. A book that never had an incident has none.
func (b *Book) Parts() []Part {
	var out []Part
	if !b.cursor.IsZero() || b.refused > 0 {
		out = append(out, Part{cursorPart, uint64(b.cursor.UnixNano()) ^ b.refused<<40, b.encodeCursor})
	}
	for _, m := range b.months {
		out = append(out, Part{partPrefix + m.name, m.version, m.encode})
	}
	return out
}

// IsPart reports whether a part of a checkpoint is the book's.
func IsPart(name string) bool { return strings.HasPrefix(name, partPrefix) }

// PartLoss says for the operator what a part holds.
func PartLoss(name string) string {
	if name == cursorPart {
		return "up to when alerts have been compared with incidents; one that fired and ended since then opens none"
	}
	return "the incidents of " + strings.TrimPrefix(name, partPrefix)
}

func (b *Book) encodeCursor(dst []byte) []byte {
	data, err := json.Marshal(cursorJSON{Format, b.cursor, b.refused})
	if err != nil {
		panic(err) // two numbers and a time of this millennium
	}
	return append(dst, data...)
}

// encode encodes only the incidents that changed since the last time.
func (m *month) encode(dst []byte) []byte {
	j := monthJSON{Format: Format, Month: m.name, Version: m.version, Next: m.next,
		Incidents: make([]json.RawMessage, len(m.list))}
	encoded := make(map[*Incident][]byte, len(m.list))
	for k, inc := range m.list {
		data := m.encoded[inc]
		if data == nil {
			var err error
			if data, err = json.Marshal(inc); err != nil {
				panic(fmt.Sprintf("encode incident: %v", err)) // texts, numbers from texts, and times of this millennium
			}
		}
		encoded[inc], j.Incidents[k] = data, data
	}
	m.encoded = encoded
	data, err := json.Marshal(j)
	if err != nil {
		panic(fmt.Sprintf("encode incidents: %v", err))
	}
	return append(dst, data...)
}

// RestorePart loads one part into an empty book, in any order. FinishRestore follows the last one.
func (b *Book) RestorePart(name string, data []byte) error {
	fail := func(err error) error { return fmt.Errorf("part %s: %w", name, err) }
	if name == cursorPart {
		var j cursorJSON
		if err := strict(data, &j); err != nil {
			return fail(err)
		}
		if j.Format != Format {
			return fail(fmt.Errorf("format %d is unknown (want %d)", j.Format, Format))
		}
		b.cursor, b.refused = j.Cursor.UTC(), j.Refused
		return nil
	}
	var j monthJSON
	if err := strict(data, &j); err != nil {
		return fail(err)
	}
	if j.Format != Format || partPrefix+j.Month != name || j.Next < 1 {
		return fail(fmt.Errorf("format %d of month %q is unknown", j.Format, j.Month))
	}
	m := &month{name: j.Month, next: j.Next, version: j.Version}
	for k, raw := range j.Incidents {
		inc := &Incident{}
		if err := strict(raw, inc); err != nil {
			return fail(fmt.Errorf("incident %d: %w", k, err))
		}
		if inc.State == Resolved && inc.Resolved == nil || !strings.HasPrefix(inc.ID, "INC-"+j.Month+"-") {
			return fail(fmt.Errorf("incident %d: %q is not whole", k, inc.ID))
		}
		m.list = append(m.list, inc)
	}
	b.months = append(b.months, m)
	return nil
}

// FinishRestore says that all parts were given.
func (b *Book) FinishRestore() error {
	slices.SortFunc(b.months, func(x, y *month) int { return strings.Compare(x.name, y.name) })
	for k := 1; k < len(b.months); k++ {
		if b.months[k].name == b.months[k-1].name {
			return fmt.Errorf("two parts hold the incidents of %s", b.months[k].name)
		}
	}
	b.total()
	b.publish()
	return nil
}

func strict(data []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("more after its end")
	}
	return nil
}
