package redact

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sloengine/sloengine/ingest/event"
)

// maxScratch is the largest memory that is kept for the next call.
const maxScratch = 4 << 20

// Redactor applies rules to events. It is safe for concurrent use; nil is one
// without rules.
type Redactor struct {
	plans   plans
	works   sync.Pool
	metrics *Metrics
}

// New checks the rules. The error joins all that is wrong, each *FieldError after
// the number of its rule. metrics may be nil: counted, but not exported.
func New(rules []Rule, m *Metrics) (*Redactor, error) {
	if m == nil {
		m = NewMetrics(metrics.NewSet())
	}
	r := &Redactor{metrics: m, works: sync.Pool{New: func() any { return new(work) }}}
	r.plans.bySet = map[string]*plan{}
	var errs []error
	if len(rules) > maxRules {
		errs = append(errs, fmt.Errorf("redact: %d rules exceed the maximum of %d", len(rules), maxRules))
	}
	for i := range rules {
		c, bad := rules[i].compile()
		for _, err := range bad {
			errs = append(errs, fmt.Errorf("redact: rule %d: %w", i, err))
		}
		c.index = i
		r.plans.rules = append(r.plans.rules, c)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return r, nil
}

// Apply redacts the events of a batch within its own memory, and keeps the places of
// its items true; their keys and times do not change. An error means that the
// bytes are no events, and leaves the batch as it was.
func (r *Redactor) Apply(b *event.Batch) error {
	if r == nil || len(r.plans.rules) == 0 {
		return nil
	}
	w := r.works.Get().(*work)
	defer r.put(w)
	w.counts = [4]int{}
	w.out = w.out[:0]
	first, changed := -1, 0
	for i := range b.Events {
		raw := b.Event(i)
		from := len(w.out)
		out, hit, err := r.append(w, w.out, raw)
		if err != nil {
			return fmt.Errorf("redact event %d: %w", b.Events[i].Index, err)
		}
		if hit {
			changed++
			if first < 0 {
				first = i
			}
			w.out = out
		} else if first >= 0 {
			w.out = append(out[:from], raw...)
		}
	}
	if first < 0 {
		return nil
	}
	// The events before the first that changed stay where they are.
	at := b.Events[first].Start
	b.Buf = append(b.Buf[:at], w.out...)
	for i := first; i < len(b.Events); i++ {
		n := 4 + int(binary.LittleEndian.Uint32(b.Buf[at:]))
		b.Events[i].Start, b.Events[i].End = at, at+n
		at += n
	}
	r.count(w, changed)
	return nil
}

// Append appends the redacted form of one binary event, or the event itself if no rule
// is about it.
func (r *Redactor) Append(dst, raw []byte) ([]byte, error) {
	if r == nil || len(r.plans.rules) == 0 {
		return append(dst, raw...), nil
	}
	w := r.works.Get().(*work)
	defer r.put(w)
	w.counts = [4]int{}
	out, hit, err := r.append(w, dst, raw)
	if err != nil {
		return dst, fmt.Errorf("redact event: %w", err)
	}
	if !hit {
		return append(dst, raw...), nil
	}
	r.count(w, 1)
	return out, nil
}

// Concerns reports whether a rule is about an attribute of some event.
func (r *Redactor) Concerns(name string) bool {
	return r != nil && slices.ContainsFunc(r.plans.rules, func(c *compiled) bool { return matchAny(c.attributes, name) })
}

func (r *Redactor) put(w *work) {
	if cap(w.out) <= maxScratch {
		r.works.Put(w)
	}
}

func (r *Redactor) count(w *work, events int) {
	r.metrics.events.Add(events)
	for i, a := range Actions() {
		if w.counts[i] > 0 {
			r.metrics.values[a].Add(w.counts[i])
		}
	}
}

// append appends the redacted form of one event. hit is false if it stays as it is;
// then nothing was appended.
func (r *Redactor) append(w *work, dst, raw []byte) (out []byte, hit bool, err error) {
	var v event.View
	if err := v.ParseAll(raw); err != nil {
		return dst, false, err
	}
	p := r.plans.of(v.Type)
	if p == nil || !concerns(p, &v) {
		return dst, false, nil
	}
	from, ok := attributes(raw, &v)
	if !ok {
		return dst, false, fmt.Errorf("%w: its attributes are misplaced", event.ErrMalformed)
	}
	start := len(dst)
	number := uvarintLen(uint64(v.AttrCount()))
	dst = append(dst, raw[:from+number]...)
	kept, copied, at := v.AttrCount(), from+number, from+number
	for name, value := range v.Attrs {
		next := at + textLen(name) + textLen(value)
		if rules := p.of(name); len(rules) > 0 {
			value, remove, changed := w.redact(rules, value)
			hit = hit || changed
			if changed {
				dst = append(dst, raw[copied:at]...)
				copied = next
			}
			switch {
			case remove:
				kept--
			case changed:
				dst = appendText(appendText(dst, name), value)
			}
		}
		at = next
	}
	if !hit {
		return dst[:start], false, nil
	}
	dst = append(dst, raw[copied:]...)
	dst = setNumber(dst, start+from, number, kept)
	binary.LittleEndian.PutUint32(dst[start:], uint32(len(dst)-start-4))
	return dst, true, nil
}

// concerns reports whether a rule is about one of the attributes.
func concerns(p *plan, v *event.View) bool {
	for name := range v.Attrs {
		if len(p.of(name)) > 0 {
			return true
		}
	}
	return false
}

// attributes finds the number of attributes, which the attributes follow, then the
// durations. They are looked for from the end, so that new fields before them do no
// harm; the bytes are compared, so that a wrong place is noticed.
func attributes(raw []byte, v *event.View) (from int, ok bool) {
	to := len(raw)
	if n := v.DurationCount(); n > 0 {
		to -= uvarintLen(uint64(n))
		for d, count := range v.Durations {
			to -= uvarintLen(uint64(d)) + uvarintLen(uint64(count))
		}
	}
	from = to - uvarintLen(uint64(v.AttrCount()))
	for name, value := range v.Attrs {
		from -= textLen(name) + textLen(value)
	}
	if from < 4 {
		return 0, false
	}
	n, size := binary.Uvarint(raw[from:])
	ok = n == uint64(v.AttrCount()) && size == uvarintLen(n)
	at := from + size
	for name, value := range v.Attrs {
		for _, text := range [2][]byte{name, value} {
			at += textLen(text)
			ok = ok && string(raw[at-len(text):at]) == string(text)
		}
	}
	return from, ok
}

func uvarintLen(x uint64) int {
	n := 1
	for ; x >= 0x80; x >>= 7 {
		n++
	}
	return n
}

func textLen(text []byte) int { return uvarintLen(uint64(len(text))) + len(text) }

func appendText(dst, text []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(text))), text...)
}

// setNumber puts a smaller number in the place of the one of size bytes at dst[at:].
func setNumber(dst []byte, at, size, x int) []byte {
	var number [binary.MaxVarintLen64]byte
	n := binary.PutUvarint(number[:], uint64(x))
	copy(dst[at:], number[:n])
	if n == size {
		return dst
	}
	return append(dst[:at+n], dst[at+size:]...)
}
