package event

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
)

// Bounds of the values that a merged event keeps of one field. Beyond them it only reports that
// there were more.
const (
	maxFieldTexts = 16  // distinct texts
	maxFieldText  = 128 // bytes of each
)

// fieldSum sums up one attribute over all merged events: its numbers, its texts, and the
// value of one of them as a sample.
type fieldSum struct {
	name          string
	sample        []byte // of the first that had it
	numbers       uint64 // how many were numbers
	min, max, sum float64
	texts         []string // others, each once, in the order in which they came
	more          bool     // texts that do not fit
}

// Fields has m sum up the attributes of these names, beginning with the next event. Other
// attributes are dropped from a merged event, unless a consumer distinguishes events by them.
func (m *Merger) Fields(names []string) {
	m.fields = slices.Grow(m.fields[:0], len(names))
	for _, name := range names {
		if !slices.Contains(m.attrs, name) { // it stays as it was
			m.fields = append(m.fields, fieldSum{name: name})
		}
	}
}

// addFields takes in the attributes of v, which counts n times.
func (m *Merger) addFields(v *View) {
	for i := range m.fields {
		f := &m.fields[i]
		value, ok := v.Attr(f.name)
		if !ok {
			continue
		}
		if f.sample == nil {
			f.sample = append([]byte{}, value[:min(len(value), maxFieldText)]...)
		}
		if x, err := strconv.ParseFloat(string(value), 64); err == nil && !math.IsNaN(x) &&
			!math.IsInf(x, 0) && plainNumber(value) {
			if f.numbers == 0 {
				f.min, f.max = x, x
			}
			f.min, f.max, f.sum = min(f.min, x), max(f.max, x), f.sum+x*float64(v.Count)
			f.numbers++
			continue
		}
		f.text(value)
	}
}

// plainNumber rejects the notations that only Go takes for a number: hexadecimal, underscores.
func plainNumber(value []byte) bool {
	for _, c := range value {
		if !isDigit(c) && c != '.' && c != '-' && c != '+' && c != 'e' && c != 'E' {
			return false
		}
	}
	return true
}

func (f *fieldSum) text(value []byte) {
	if len(value) > maxFieldText {
		f.more = true
		return
	}
	for _, t := range f.texts {
		if t == string(value) {
			return
		}
	}
	if len(f.texts) == maxFieldTexts {
		f.more = true
		return
	}
	f.texts = append(f.texts, string(value))
}

// summary calls add for every attribute that describes the field.
func (f *fieldSum) summary(add func(name string, write func(dst []byte) []byte)) {
	if f.sample == nil {
		return
	}
	number := func(suffix string, x float64) {
		add(f.name+suffix, func(dst []byte) []byte { return appendNumber(dst, x) })
	}
	if f.numbers > 0 {
		number("_max", f.max)
		number("_min", f.min)
	}
	add(f.name+"_sample", func(dst []byte) []byte { return append(dst, f.sample...) })
	if f.numbers > 0 && !math.IsInf(f.sum, 0) {
		number("_sum", f.sum)
	}
	if len(f.texts) > 0 {
		add(f.name+"_values", func(dst []byte) []byte {
			list, _ := json.Marshal(f.texts) // texts can always be encoded
			return append(dst, list...)
		})
	}
	if f.more {
		add(f.name+"_values_more", func(dst []byte) []byte { return append(dst, "true"...) })
	}
}

// appendNumber writes a number without an exponent as long as that is readable.
func appendNumber(dst []byte, x float64) []byte {
	format := byte('f')
	if a := math.Abs(x); a != 0 && (a < 1e-6 || a >= 1e21) {
		format = 'e'
	}
	return strconv.AppendFloat(dst, x, format, -1, 64)
}
