package event

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"time"
)

// MergeStep is how close in time events must be to be merged, unless a shorter
// step is asked for: the width of the narrowest bucket that counts are kept in.
const MergeStep = 10 * time.Second

// MergeKey appends the key under which events may become one: service, type,
// outcome, severity, whether there are durations, weight, the values of the
// attributes, and the time floored to step (0 means MergeStep). attrs must be sorted and hold each
// attribute by which any consumer distinguishes events, in the same order for every event.
func MergeKey(dst []byte, v *View, attrs []string, step time.Duration) []byte {
	if step <= 0 {
		step = MergeStep
	}
	shape := byte(v.Outcome) << 1
	if v.measured() {
		shape |= 1
	}
	dst = append(dst, shape)
	dst = binary.AppendUvarint(dst, uint64(v.Weight))
	slot := v.Time / int64(step)
	if v.Time%int64(step) < 0 {
		slot--
	}
	dst = binary.AppendVarint(dst, slot)
	dst = appendText(dst, v.Service)
	dst = appendText(dst, v.Type)
	dst = appendText(dst, v.Severity)
	next := 0 // both lists rise by name
	for name, value := range v.Attrs {
		for next < len(attrs) && attrs[next] < string(name) {
			dst = append(dst, 0)
			next++
		}
		if next == len(attrs) {
			return dst
		}
		if attrs[next] == string(name) {
			dst = append(dst, 1)
			dst = appendText(dst, value)
			next++
		}
	}
	for ; next < len(attrs); next++ {
		dst = append(dst, 0)
	}
	return dst
}

// measured reports whether the event says how long it took.
func (v *View) measured() bool { return v.Duration >= 0 || v.durationCount > 0 }

// The attributes that a merged event has besides the chosen ones. A chosen attribute keeps its
// value, since a consumer distinguishes events by it.
const (
	attrAggregated  = "aggregated"      // "true"
	attrDurationMax = "duration_max_ms" // exact decimal milliseconds
	attrDurationMin = "duration_min_ms"
	attrDurationSum = "duration_sum_ms" // over all merged events
)

// Merger turns events with equal MergeKeys into one with exactly their counts: the sum of the
// counts and every duration, with the attributes by which they were grouped. Make one with
// NewMerger, or Reset a used one. It is not safe for concurrent use.
type Merger struct {
	attrs []string

	head     head[[]byte] // of the first; its texts lie in texts
	measured bool
	events   int
	pairs    []DurationCount // ascending by duration, each once
	chosen   []Attribute     // those of attrs that the first had, sorted by name
	texts    []byte
	fields   []fieldSum // summed up besides

	number []byte // scratch of summary
	added  []Attribute
}

// Reset discards the merged events and keeps the memory. The attributes to retain must be
// ascending.
func (m *Merger) Reset(attrs []string) {
	*m = Merger{
		attrs: attrs, pairs: m.pairs[:0], chosen: m.chosen[:0], texts: m.texts[:0], number: m.number, added: m.added,
		fields: m.fields[:0],
	}
}

// Events is how many events were added.
func (m *Merger) Events() int { return m.events }

// Add takes in another event of the same MergeKey; v's bytes are not kept. It
// reports false, and takes nothing, for an event that does not fit: its count
// would take the sum past 4294967295, its durations make more than 1000
// different ones, or it is of another kind than the first. Then Append the merged event, and Reset.
func (m *Merger) Add(v *View) bool {
	if m.events == 0 {
		m.begin(v)
	} else if !m.fits(v) {
		return false
	} else {
		m.head.count += v.Count
		m.head.time = max(m.head.time, v.Time)
	}
	m.events++
	if v.Duration >= 0 {
		m.addDuration(v.Duration, v.Count)
	}
	for d, n := range v.Durations {
		m.addDuration(d, n)
	}
	m.addFields(v)
	return true
}

func (m *Merger) begin(v *View) {
	m.measured = v.measured()
	m.head = head[[]byte]{
		outcome: v.Outcome, hasTime: true, time: v.Time, duration: NoDuration,
		count: v.Count, weight: v.Weight, pairs: m.measured,
	}
	// Slices of texts are cut when it has stopped growing.
	m.texts = append(m.texts[:0], v.Service...)
	m.texts = append(m.texts, v.Type...)
	m.texts = append(m.texts, v.Severity...)
	m.chosen = m.chosen[:0]
	next := 0
	for name, value := range v.Attrs {
		for next < len(m.attrs) && m.attrs[next] < string(name) {
			next++
		}
		if next == len(m.attrs) {
			break
		}
		if m.attrs[next] == string(name) {
			m.texts = append(append(m.texts, name...), value...)
			m.chosen = append(m.chosen, Attribute{Name: name, Value: value})
			next++
		}
	}
	rest := m.texts
	cut := func(like []byte) []byte {
		text := rest[:len(like):len(like)]
		rest = rest[len(like):]
		return text
	}
	m.head.service, m.head.typ, m.head.severity = cut(v.Service), cut(v.Type), cut(v.Severity)
	for i := range m.chosen {
		m.chosen[i].Name, m.chosen[i].Value = cut(m.chosen[i].Name), cut(m.chosen[i].Value)
	}
}

func (m *Merger) fits(v *View) bool {
	if v.measured() != m.measured || v.Outcome != m.head.outcome || v.Weight != m.head.weight ||
		uint64(m.head.count)+uint64(v.Count) > math.MaxUint32 {
		return false
	}
	if len(m.pairs)+max(v.durationCount, 1) <= maxPairs {
		return true // without a look at which of them are there already
	}
	more := 0
	if v.Duration >= 0 {
		more += m.missing(v.Duration)
	}
	for d := range v.Durations {
		more += m.missing(d)
	}
	return len(m.pairs)+more <= maxPairs
}

func (m *Merger) missing(d int64) int {
	if _, ok := m.find(d); ok {
		return 0
	}
	return 1
}

func (m *Merger) find(d int64) (int, bool) {
	if n := len(m.pairs); n > 0 && m.pairs[n-1].Duration < time.Duration(d) {
		return n, false
	}
	return slices.BinarySearchFunc(m.pairs, time.Duration(d), func(p DurationCount, d time.Duration) int {
		switch {
		case p.Duration < d:
			return -1
		case p.Duration > d:
			return 1
		}
		return 0
	})
}

func (m *Merger) addDuration(d int64, n uint32) {
	i, ok := m.find(d)
	if !ok {
		m.pairs = slices.Insert(m.pairs, i, DurationCount{Duration: time.Duration(d)})
	}
	m.pairs[i].Count += n
}

// Append appends the binary form of the merged event, whose time is the latest
// of all. id is given to it as one that the server assigned; "" gives none. A
// merger without events appends nothing.
func (m *Merger) Append(dst []byte, id string) []byte {
	if m.events == 0 {
		return dst
	}
	start := len(dst)
	h := m.head
	h.id, h.assigned = []byte(id), id != ""
	dst = h.appendBinary(dst)

	added := m.summary()
	dst = binary.AppendUvarint(dst, uint64(len(m.chosen)+len(added)))
	for _, c := range m.chosen {
		for len(added) > 0 && bytes.Compare(added[0].Name, c.Name) < 0 {
			dst = appendText(appendText(dst, added[0].Name), added[0].Value)
			added = added[1:]
		}
		dst = appendText(appendText(dst, c.Name), c.Value)
	}
	for _, a := range added {
		dst = appendText(appendText(dst, a.Name), a.Value)
	}
	if m.measured {
		dst = binary.AppendUvarint(dst, uint64(len(m.pairs)))
		for _, p := range m.pairs {
			dst = binary.AppendUvarint(dst, uint64(p.Duration))
			dst = binary.AppendUvarint(dst, uint64(p.Count))
		}
	}
	return closeBinary(dst, start)
}

// summary lists the attributes that describe a merged event to readers, sorted by name, without
// those that kept their value.
func (m *Merger) summary() []Attribute {
	m.number, m.added = m.number[:0], m.added[:0]
	add := func(name string, write func()) {
		if slices.Contains(m.attrs, name) {
			return
		}
		from := len(m.number)
		write()
		m.added = append(m.added, Attribute{Name: []byte(name), Value: m.number[from:len(m.number):len(m.number)]})
	}
	add(attrAggregated, func() { m.number = append(m.number, "true"...) })
	if n := len(m.pairs); n > 0 {
		add(attrDurationMax, func() { m.number = appendMillis(m.number, int64(m.pairs[n-1].Duration)) })
		add(attrDurationMin, func() { m.number = appendMillis(m.number, int64(m.pairs[0].Duration)) })
		add(attrDurationSum, m.appendSum)
	}
	for i := range m.fields {
		m.fields[i].summary(func(name string, write func([]byte) []byte) {
			add(name, func() { m.number = write(m.number) })
		})
	}
	if len(m.fields) > 0 { // each name once: of duplicates the first stays
		slices.SortStableFunc(m.added, func(a, b Attribute) int { return bytes.Compare(a.Name, b.Name) })
		m.added = slices.CompactFunc(m.added, func(a, b Attribute) bool { return bytes.Equal(a.Name, b.Name) })
	}
	return m.added
}

// appendSum appends the sum of all durations in exact decimal milliseconds. It
// may have more nanoseconds than 64 bits hold.
func (m *Merger) appendSum() {
	var sec, ns uint64
	for _, p := range m.pairs {
		hi, lo := bits.Mul64(uint64(p.Duration), uint64(p.Count))
		s, rest := bits.Div64(hi, lo, uint64(time.Second)) // fits: a duration is a year at most, a count 32 bits
		sec, ns = sec+s, ns+rest
	}
	sec, ns = sec+ns/uint64(time.Second), ns%uint64(time.Second)
	if sec == 0 {
		m.number = appendMillis(m.number, int64(ns))
		return
	}
	m.number = strconv.AppendUint(m.number, sec, 10)
	// A leading 1 keeps the zeros of the milliseconds below a second.
	at := len(m.number)
	m.number = appendMillis(m.number, int64(uint64(time.Second)+ns))
	m.number = slices.Delete(m.number, at, at+1)
}
